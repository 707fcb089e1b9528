"""The compiled functions, where they have been built: found in the user's cache when they are first needed."""

import atexit
import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from nsyswrap.compiled.build import COMPILER_VARIABLE, FLAGS, Build, begin_build, is_trusted
from nsyswrap.user_folder import user_folder

SOURCES = tuple(Path(__file__).with_name(name) for name in ("functions.c", "times.c", "rows.c"))
# "0" in this variable means that numpy does the work.
VARIABLE = "NSYSWRAP_COMPILED"
MOST_PARTS = 4
# What a function returns where the caller has to do its work in another way.
UNUSUAL = -1


class Target(ctypes.Structure):
    """A column that ``decode_rows`` writes: ``Target`` of functions.c.

    Attributes:
        out: Address of its first row.
        missing: Value of NULL.
        item_bytes: 8 or 4 for whole numbers, 1 for bool.
        may_miss: Whether it may have NULL.
        operation: 0 for one column, 1 for a product of columns, 2 for a sum.
        part_count: Number of columns.
        parts: Their numbers, from 0.
    """

    _fields_ = (
        ("out", ctypes.c_void_p),
        ("missing", ctypes.c_int64),
        ("item_bytes", ctypes.c_int32),
        ("may_miss", ctypes.c_int32),
        ("operation", ctypes.c_int32),
        ("part_count", ctypes.c_int32),
        ("parts", ctypes.c_int32 * MOST_PARTS),
    )


# p: address of an array, i: whole number. Each function returns an int64.
_ARGUMENTS = {
    "decode_rows": "pipiiipii",
    "code_ids": "pipppipp",
    "place_times": "pipiip",
    "cover_times": "pppippip",
    "overlap_spans": "ppippippppi",
    "choose_values": "pipipi",
    "mark_ranges": "ppipi",
    "take_values": "piipiip",
    "group_values": "pipiipipi",
    "middle_values": "piip",
    "order_of": "ppi",
    "merge_in_order": "ppipp",
    "cut_spans": "ppipppiippppi",
}
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64}


def loaded(path: Path) -> ctypes.CDLL | None:
    """Return the library in a file; None where somebody else may have written it, or it cannot be loaded."""
    if not is_trusted(path):
        return None
    try:
        found = ctypes.CDLL(str(path))
        for name, arguments in _ARGUMENTS.items():
            function = getattr(found, name)
            function.argtypes = [_TYPES[each] for each in arguments]
            function.restype = ctypes.c_int64
    except (OSError, AttributeError):
        return None
    return found


def library_path(environ: Mapping[str, str]) -> Path:
    """Return where the library is: its name changes with its source, its compiler and the machine.

    Args:
        environ: The environment, which names the compiler and the folder of the cache.
    """
    machine = (os.uname().machine, getattr(sys.implementation, "_multiarch", ""), str(sys.maxsize), sys.byteorder)
    parts = (
        *(each.read_text(encoding="utf-8") for each in SOURCES),
        environ.get(COMPILER_VARIABLE, ""),
        *FLAGS,
        *machine,
    )
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return user_folder(environ, "XDG_CACHE_HOME", ".cache") / "nsyswrap" / "compiled" / f"{key}.so"


class Library:
    """The compiled functions of this process, which are looked for once.

    Args:
        environ: The environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._found: ctypes.CDLL | None = None
        self._build: Build | None = None
        self._is_known = False

    def functions(self) -> ctypes.CDLL | None:
        """Return the functions; None where they are not built, or not yet."""
        if self._is_known:
            return self._found
        with self._lock:
            if not self._is_known and not (self._build and self._build.is_running()):
                self._found = self._loaded()
                self._is_known = True
        return self._found

    def is_building(self) -> bool:
        """Return whether the compiler runs, so that ``functions`` may have them later."""
        return self._build is not None and not self._is_known

    def build(self) -> None:
        """Start to build the functions where they are missing; ``functions`` has them when the compiler has ended."""
        if self.functions() is not None or self._is_off():
            return
        with self._lock:
            if self._build is None:
                self._build = begin_build(SOURCES, library_path(self._environ), self._environ)
                self._is_known = self._build is None
                if self._build is not None:
                    atexit.register(self._build.stop)

    def _loaded(self) -> ctypes.CDLL | None:
        try:
            return None if self._is_off() else loaded(library_path(self._environ))
        except OSError:
            return None

    def _is_off(self) -> bool:
        return self._environ.get(VARIABLE) == "0" or os.name != "posix"


LIBRARY = Library(os.environ)
