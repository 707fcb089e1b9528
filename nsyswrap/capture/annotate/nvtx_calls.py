"""NVTX ranges without a package: calls of the profiler's C interface through ctypes.

A profiler that records NVTX ranges names a library in ``NVTX_INJECTION64_PATH``. Every copy of the NVTX headers loads
it at its first call and passes it tables of function pointers; the library fills in those it implements. This module
does the same. So it does not need a CUDA build of torch or the Python package nvtx; nsys 2023.4.4 records only some
versions of that package. The tables also show whether a profiler is attached.

The ranges are started and ended by number, not pushed and popped: a call that an exception ended leaves a range without
an end, and no other range ends in its place.

Source: NVIDIA/NVTX release-v3, ``nvtxDetail/nvtxTypes.h`` (tables and their numbers) and ``nvToolsExt.h`` (attributes).
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, count
from typing import Any, Protocol

VARIABLE = "NVTX_INJECTION64_PATH"
DOMAIN = "nsyswrap"
# The colour of steps.
GRAY = 0x7F7F7F
# What makes a text is in the caches of the CPU only for the first of several.
STEPS_AT_A_TIME = 32

# Numbers of modules, of their functions and of export tables, from nvtxTypes.h.
_CORE2 = 5
_START, _END, _CREATE_DOMAIN = 2, 3, 12
_TABLE_SIZES = {1: 16, 2: 15, 3: 15, 4: 7, _CORE2: 16, 6: 7}
_CALLBACKS, _VERSION_INFO = 1, 3
_NVTX_VERSION = 3

_ARGB = 1
_ASCII = 1

_MODULE_TABLE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)
)
_EXPORT_TABLE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
_SET_VERSION = ctypes.CFUNCTYPE(None, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("module_table", _MODULE_TABLE))


class _VersionInfo(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("set_version", _SET_VERSION),
    )


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    )


class _Number(ctypes.c_uint64):
    """The number of a range. ctypes keeps values of its subclasses as they are; 0 is false, as of any number."""


class Sink(Protocol):
    """Takes ranges: the profiler, the clock of a run without one, or a test.

    Attributes:
        domain: The domain of the ranges, which each call takes: a call that adds it would be one more for each mark.
    """

    domain: Any

    def described(self, text: str, color: int) -> Any:  # noqa: ANN401 - only the sink itself reads it
        """Return what ``start`` needs of a range with a text and a colour (0xRRGGBB); it can be used many times."""

    def start(self, domain: Any, described: Any, /) -> int:  # noqa: ANN401
        """Start a range on the calling thread, and return its number."""

    def steps(self) -> Iterator[Any]:
        """Yield what ``start`` needs of the steps of a thread: step 0, step 1 and so on, without end."""

    def end(self, domain: Any, number: int, /) -> None:  # noqa: ANN401
        """End the range with a number."""

    def close(self, domain: Any, number: int, /) -> None:  # noqa: ANN401
        """End the range that is recorded: the profiler may need long for that, and other threads run meanwhile."""


class Tables:
    """The tables that a profiler fills in; they live as long as the process.

    Attributes:
        slots: For each module number, the function pointers; None where the profiler sets none.
    """

    def __init__(self) -> None:
        self.slots = {module: (ctypes.c_void_p * size)() for module, size in _TABLE_SIZES.items()}
        step = ctypes.sizeof(ctypes.c_void_p)
        self._places = {
            module: (ctypes.c_void_p * len(slots))(*(ctypes.addressof(slots) + step * n for n in range(len(slots))))
            for module, slots in self.slots.items()
        }
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _MODULE_TABLE(self._module_table))
        self._version = _VersionInfo(ctypes.sizeof(_VersionInfo), _NVTX_VERSION, 0, _SET_VERSION(lambda _version: None))
        self.export = _EXPORT_TABLE(self._export_table)

    def _export_table(self, number: int) -> "int | None":
        if number == _CALLBACKS:
            return ctypes.addressof(self._callbacks)
        return ctypes.addressof(self._version) if number == _VERSION_INFO else None

    def _module_table(self, module: int, table, size) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001 - pointers
        if module not in self._places:
            return 0
        if table:
            table[0] = ctypes.addressof(self._places[module])
        if size:
            size[0] = len(self._places[module])
        return 1


class NvtxCalls:
    """Ranges of the domain ``nsyswrap`` in the profiler of this process.

    Attributes:
        start: Starts a range that ``described`` describes on the calling thread, and returns its number.
        close: The same, while other threads run.

    Raises:
        LookupError: No profiler records ranges.
    """

    def __init__(self, tables: Tables) -> None:
        core2 = tables.slots[_CORE2]
        if not (core2[_START] and core2[_END] and core2[_CREATE_DOMAIN]):
            raise LookupError("no profiler records NVTX ranges")
        self._tables = tables
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(core2[_CREATE_DOMAIN] or 0)
        self.domain = ctypes.c_void_p.from_param(create(DOMAIN.encode()))
        # PYFUNCTYPE keeps the GIL: the call is shorter than releasing it, which could switch to another thread.
        # Arguments that are C values already are passed as they are, so no types are set for them.
        self.start: Callable[[Any, Any], int] = ctypes.PYFUNCTYPE(_Number)(core2[_START] or 0)
        self.end: Callable[[Any, int], None] = ctypes.PYFUNCTYPE(None)(core2[_END] or 0)
        self.close: Callable[[Any, int], None] = ctypes.CFUNCTYPE(None)(core2[_END] or 0)

    def described(self, text: str, color: int) -> Any:  # noqa: ANN401 - a pointer
        """Return the attributes of ranges with a text, in which characters that are not ASCII are replaced."""
        size, message = ctypes.sizeof(_Attributes), text.encode("ascii", "replace")
        return ctypes.byref(_Attributes(_NVTX_VERSION, size, 0, _ARGB, 0xFF000000 | color, 0, 0, 0, _ASCII, message))

    def steps(self) -> Iterator[Any]:
        """Yield the attributes of step 0, step 1 and so on, which are made for many steps at a time."""
        return chain.from_iterable(map(self._some_steps, count(0, STEPS_AT_A_TIME)))

    def _some_steps(self, first: int) -> "list[Any]":
        return [self.described(f"step {number}", GRAY) for number in range(first, first + STEPS_AT_A_TIME)]


def connected(environ: Mapping[str, str]) -> NvtxCalls:
    """Return the range calls that are connected to the profiler of this process.

    Raises:
        LookupError: No profiler records ranges.
        OSError: The profiler's library cannot be loaded.
    """
    path = environ.get(VARIABLE)
    if not path:
        raise LookupError(f"no profiler records NVTX ranges: {VARIABLE} is not set")
    start = ctypes.CDLL(path).InitializeInjectionNvtx2
    tables = Tables()
    start.argtypes, start.restype = [_EXPORT_TABLE], ctypes.c_int
    if not start(tables.export):
        raise LookupError(f"{path} does not record NVTX ranges")
    return NvtxCalls(tables)
