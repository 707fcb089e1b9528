"""Loads the compiled marker in a process of the program, if nsyswrap could compile it and this Python can load it."""

from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

from .marker import COLORS, GRAY, Marker, warn
from .nvtx_calls import NvtxCalls

MODULE = "compiled_marker"


def loaded(path: str) -> ModuleType | None:
    """Return the compiled module at a path; None without one, or if this Python cannot load it.

    Python older than 3.10, free-threaded Python and that of another machine cannot.
    """
    if not path:
        return None
    try:
        loader = ExtensionFileLoader(MODULE, path)
        spec = spec_from_loader(MODULE, loader)
        module = module_from_spec(spec) if spec else None
        if module is not None:
            loader.exec_module(module)
    except Exception:  # noqa: BLE001 - marks in Python do the same
        return None
    return module


def marker_of(module: ModuleType, calls: NvtxCalls) -> Marker:
    """Return the compiled marker, which has the methods of ``Marker``.

    Args:
        module: The compiled module.
        calls: Calls that are connected to the profiler; the marker calls the profiler itself, at the same addresses.
    """
    found: Marker = module.Marker(*calls.addresses(), tuple(COLORS.items()), GRAY, _warn)
    return found


def _warn(error: object) -> None:
    warn(f"no more phases are marked: {type(error).__name__}: {error}")
