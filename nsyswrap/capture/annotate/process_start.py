"""The start of a Python process of the profiled program: wait for torch, then mark its phases.

``injection`` writes the ``sitecustomize`` that calls ``start``. Every process with the same environment runs it:
children, spawned workers, ranks of torchrun.
"""

import atexit
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .compiled import loaded, marker_of
from .import_hook import after_import
from .marker import Marker, Sink, warn
from .nvtx_calls import NvtxCalls, connected

if TYPE_CHECKING:
    from .step_clock import StepClock

# The folder of the status files, the number of batches to cache, and "0" to mark no phases; set by nsyswrap.
STATUS_VARIABLE = "NSYSWRAP_ANNOTATE"
CACHED_BATCHES_VARIABLE = "NSYSWRAP_CACHED_BATCHES"
HOST_ONLY_VARIABLE = "NSYSWRAP_HOST_MARKS_ONLY"
MARKS_VARIABLE = "NSYSWRAP_MARKS"
# The path of the compiled marker, if nsyswrap could compile it.
COMPILED_VARIABLE = "NSYSWRAP_COMPILED_MARKER"
# In a run without a profiler: the folder for the times of ranges, and the pattern of the texts to time.
CLOCK_VARIABLE = "NSYSWRAP_STEP_CLOCK"
TIMED_TEXT_VARIABLE = "NSYSWRAP_TIMED_TEXT"


def start(folder: str) -> None:
    """Mark phases after the import of torch, and run the ``sitecustomize`` that ours hides.

    Args:
        folder: The folder of our own ``sitecustomize``, which is removed from the path.
    """
    try:
        clock = _step_clock(os.environ)
        if os.environ.get(MARKS_VARIABLE) != "0":
            after_import("torch", lambda torch: _annotate(torch, clock))
    except Exception as error:  # noqa: BLE001 - the program runs without phases
        warn(f"no phases are marked: {type(error).__name__}: {error}")
    sys.path[:] = [place for place in sys.path if place != folder]
    run_hidden_module("sitecustomize")


def run_hidden_module(name: str) -> None:
    """Import the next module of this name on the path in place of ours; do nothing if there is none.

    Its exceptions are not caught, as without nsyswrap.
    """
    ours = sys.modules.pop(name, None)
    spec = PathFinder.find_spec(name, sys.path)
    if spec is None or spec.loader is None:
        if ours is not None:
            sys.modules[name] = ours
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _step_clock(environ: Mapping[str, str]) -> "StepClock | None":
    """Start and return the clock that times the ranges of this process; None where a profiler records them."""
    folder = environ.get(CLOCK_VARIABLE)
    if not folder:
        return None
    from .step_clock import StepClock, watch_nvtx, watch_torch  # noqa: PLC0415 - only in a run without a profiler

    clock = StepClock(environ.get(TIMED_TEXT_VARIABLE, ""))
    after_import("torch.cuda.nvtx", lambda nvtx: watch_torch(nvtx, clock))
    after_import("nvtx", lambda nvtx: watch_nvtx(nvtx, clock))
    atexit.register(clock.write, folder)
    os.register_at_fork(after_in_child=clock.reset)
    return clock


def _annotate(torch: ModuleType, clock: "StepClock | None" = None) -> None:
    """Start marking the phases of this process, for a profiler or for a clock."""
    calls: Sink | None
    compiled: ModuleType | None = None
    try:
        compiled = None if clock else loaded(os.environ.get(COMPILED_VARIABLE, ""))
        calls = clock or connected(os.environ, package=compiled is None)
    except (LookupError, OSError, AttributeError) as error:
        write_status(torch, os.environ, problem=str(error))
        calls = None
    try:
        _install(torch, calls, os.environ, compiled)
    except Exception as error:  # noqa: BLE001 - the program runs without phases
        warn(f"no phases are marked: {type(error).__name__}: {error}")


def _install(
    torch: Any,  # noqa: ANN401
    calls: "Sink | None",
    environ: Mapping[str, str],
    compiled: ModuleType | None = None,
) -> None:
    """Patch torch: cache batches if requested, and mark phases if there is a profiler."""
    from .host_marks import mark_host  # noqa: PLC0415 - only if torch is imported
    from .torch_calls import patch, patches_of  # noqa: PLC0415

    batches = int(environ.get(CACHED_BATCHES_VARIABLE, "0"))
    if batches:
        from .batch_cache import cache_batches  # noqa: PLC0415 - rarely used

        cache_batches(torch, batches)
    if calls is None:
        return
    if environ.get(HOST_ONLY_VARIABLE):
        mark_host(torch, calls, patches_of(torch))
        return
    marker = marker_of(compiled, calls) if compiled and isinstance(calls, NvtxCalls) else Marker(calls)
    mark_host(torch, calls, patch(torch, marker))
    atexit.register(marker.finish)
    os.register_at_fork(after_in_child=marker.reset)
    write_status(torch, environ, compiled=not isinstance(marker, Marker))


def write_status(
    torch: Any,  # noqa: ANN401
    environ: Mapping[str, str],
    *,
    problem: str = "",
    compiled: bool = False,
) -> None:
    """Write the status file of this process: whether it marks its phases and in compiled code, or why not."""
    folder = environ.get(STATUS_VARIABLE)
    if not folder:
        return
    status: dict[str, object] = {
        "pid": os.getpid(),
        "torch": str(getattr(torch, "__version__", "")),
        "problem": problem,
    }
    status |= {"compiled": compiled}
    try:
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            json.dump(status, file)
    except OSError as error:
        warn(f"cannot write to {folder}: {error.strerror}")
