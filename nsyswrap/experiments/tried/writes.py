"""Ends a program before it overwrites a file that was there before it, and notes which files it makes.

Python tells an audit hook of each file before it is opened, renamed or removed. Files of libraries that open them in C,
without Python, are not seen; torch.save is one of these and is watched itself.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR
# What the system, Python and compilers keep for themselves.
_OWN = ("/dev/", "/proc/", "/sys/")
_OWN_PARTS = ("/nsyswrap-", "/__pycache__/", "/.cache/", "/.triton/", "/.nv/")


class WriteGuard:
    """Looks at each file that a process opens for writing, renames or removes.

    Args:
        overwrites: Called with the path of a file that was there before and is about to be changed.
        makes: Called with the path of a file that is new, once for each path.
        own: Files of an earlier run of the program.
    """

    def __init__(
        self, overwrites: Callable[[str], object], makes: Callable[[str], object], own: Iterable[str] = ()
    ) -> None:
        self._overwrites, self._makes = overwrites, makes
        self._began = time.time()
        self._temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
        self._made = set(own)

    def begin(self) -> None:
        """Look at all files from now on; a hook cannot be removed."""
        sys.addaudithook(self._audit)

    def watch_torch(self, torch: Any) -> None:
        """Look at the files of ``torch.save``, too."""
        save = torch.save

        def looked_at(obj: Any, f: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(f, str | os.PathLike):
                self._look(os.fspath(f))
            return save(obj, f, *rest, **named)

        torch.save = looked_at

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _mode, flags = arguments
            if isinstance(path, str | bytes | os.PathLike) and isinstance(flags, int) and flags & _WRITES:
                self._look(os.fspath(path))
        elif event == "os.rename":
            self._look(arguments[1])
        elif event in {"os.remove", "os.truncate", "os.rmdir"}:
            self._look(arguments[0])

    def _look(self, path: Any) -> None:
        """Look at a file that is about to be written; one that is newer than this process is its own."""
        if isinstance(path, int):
            return
        path = os.path.realpath(os.fsdecode(path))
        if path.startswith((*_OWN, self._temporary)) or any(part in path for part in _OWN_PARTS):
            return
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError:
            if path not in self._made:
                self._made.add(path)
                self._makes(path)
            return
        # A file system keeps times to some ms only.
        if found.st_ctime < self._began - 0.1 and path not in self._made:
            self._overwrites(path)
