"""NVTX ranges without a package: calls of the profiler's C interface through ctypes.

A profiler that records NVTX ranges names a library in ``NVTX_INJECTION64_PATH``. Every copy of the NVTX headers loads
it at its first call and passes it tables of function pointers; the library fills in those it implements. This module
does the same. So it does not need a CUDA build of torch or the Python package nvtx; nsys 2023.4.4 records only some
versions of that package. The tables also show whether a profiler is attached.

Source: NVIDIA/NVTX release-v3, ``nvtxDetail/nvtxTypes.h`` (tables and their numbers) and ``nvToolsExt.h`` (attributes).
"""

import ctypes
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

VARIABLE = "NVTX_INJECTION64_PATH"
DOMAIN = "nsyswrap"
# Versions of the nvtx package whose ranges nsys 2023.4.4 records; it does not record those of 0.2.12 to 0.2.14.
TESTED = frozenset({"0.2.11"})

# Numbers of modules, of their functions and of export tables, from nvtxTypes.h.
_CORE2 = 5
_PUSH, _POP, _CREATE_DOMAIN = 4, 5, 12
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


# A prepared call: the function and its arguments.
Prepared = tuple[Callable[..., object], tuple[object, ...]]


class NvtxCalls:
    """Ranges of the domain ``nsyswrap``, with one stack for each thread.

    Between two calls the program evicts our data from the CPU caches, so each memory access costs far more than in a
    tight loop. So everything is prepared in advance, including the arguments.

    Args:
        tables: Tables that a profiler has filled in.

    Raises:
        LookupError: No profiler records ranges.
    """

    def __init__(self, tables: Tables) -> None:
        core2 = tables.slots[_CORE2]
        if not (core2[_PUSH] and core2[_POP] and core2[_CREATE_DOMAIN]):
            raise LookupError("no profiler records NVTX ranges")
        self._tables = tables
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(core2[_CREATE_DOMAIN] or 0)
        domain = create(DOMAIN.encode())
        self._domain = ctypes.c_void_p.from_param(domain)
        self._addresses = core2[_PUSH] or 0, core2[_POP] or 0, domain or 0
        # PYFUNCTYPE keeps the GIL: the call is shorter than releasing it, which could switch to another thread.
        # No argument types, because ctypes would convert arguments at each call: they are C values already.
        call = ctypes.PYFUNCTYPE(None)
        self._push, self._pop = call(core2[_PUSH] or 0), call(core2[_POP] or 0)

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that opens a range with this text on the calling thread; it can be used many times.

        Args:
            name: The text; characters that are not ASCII are replaced.
            color: 0xRRGGBB.
        """
        size, text = ctypes.sizeof(_Attributes), name.encode("ascii", "replace")
        attributes = _Attributes(_NVTX_VERSION, size, 0, _ARGB, 0xFF000000 | color, 0, 0, 0, _ASCII, text)
        return self._push, (self._domain, ctypes.byref(attributes))

    def closer(self) -> Prepared:
        """Return a prepared call that closes the last opened range of the calling thread."""
        return self._pop, (self._domain,)

    def addresses(self) -> tuple[int, int, int]:
        """Return the addresses of the profiler's functions that open and close ranges, and of our domain."""
        return self._addresses


class PackageCalls:
    """The same ranges through the compiled calls of NVIDIA's ``nvtx`` package, if the program's Python has it.

    A call through ctypes takes several times as long, and a step has twelve calls.

    Args:
        package: The module ``nvtx``.
        compiled: Its compiled part.
    """

    def __init__(self, package: Any, compiled: Any) -> None:  # noqa: ANN401 - a module
        self._domain = package.get_domain(DOMAIN)
        self._push, self._pop = compiled.push_range, compiled.pop_range

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that opens a range with this text, as ``NvtxCalls`` does."""
        text = name.encode("ascii", "replace").decode()
        attributes = self._domain.get_event_attributes(message=text, color=0xFF000000 | color)
        return self._push, (attributes, self._domain.handle)

    def closer(self) -> Prepared:
        """Return a prepared call that closes the last opened range of the calling thread."""
        return self._pop, (self._domain.handle,)


def package_calls() -> PackageCalls | None:
    """Return the calls of the ``nvtx`` package, or None if it is missing, disabled, or not a tested version."""
    from importlib.metadata import version  # noqa: PLC0415 - a third of the imports of a recording, and seldom needed

    try:
        if version("nvtx") not in TESTED:
            return None
        package = import_module("nvtx")
        return PackageCalls(package, import_module("nvtx._lib.lib")) if package.enabled() else None
    except Exception:  # noqa: BLE001 - the package is optional
        return None


def connected(environ: Mapping[str, str], *, package: bool = True) -> NvtxCalls | PackageCalls:
    """Return the range calls that are connected to the profiler of this process.

    Args:
        environ: Environment of the process.
        package: Whether to prefer the calls of the ``nvtx`` package.

    Raises:
        LookupError: No profiler records ranges.
        OSError: The profiler's library cannot be loaded.
    """
    path = environ.get(VARIABLE)
    if not path:
        raise LookupError(f"no profiler records NVTX ranges: {VARIABLE} is not set")
    start = ctypes.CDLL(path).InitializeInjectionNvtx2
    # The package reads the profiler's path from the environment of the process.
    if package and path == os.environ.get(VARIABLE) and (found := package_calls()) is not None:
        return found
    tables = Tables()
    start.argtypes, start.restype = [_EXPORT_TABLE], ctypes.c_int
    if not start(tables.export):
        raise LookupError(f"{path} does not record NVTX ranges")
    return NvtxCalls(tables)
