"""The start of a Python process of the profiled program: mark its collections, wait for torch, then mark its calls.

``injection`` writes the ``sitecustomize`` that calls ``start``. Every process with the same environment runs it:
children, spawned workers, ranks of torchrun.
"""

# ruff: noqa: ANN401, PLC0415 - torch is not imported here, and a process that does not import torch has hardly more modules than without marks

import os
import sys

from .stderr import warn, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from .marks import Marks
    from .monitoring import Monitor
    from .nvtx_calls import Sink

# The folder of the status files, the number of batches to cache, and "0" to mark nothing; set by nsyswrap.
STATUS_VARIABLE = "NSYSWRAP_ANNOTATE"
CACHED_BATCHES_VARIABLE = "NSYSWRAP_CACHED_BATCHES"
MARKS_VARIABLE = "NSYSWRAP_MARKS"
# In a run without a profiler: the folder for the times of ranges. The pattern of the texts of the program's own steps.
CLOCK_VARIABLE = "NSYSWRAP_STEP_CLOCK"
STEP_TEXT_VARIABLE = "NSYSWRAP_STEP_TEXT"
# Which steps are recorded, for a ``Schedule``; not set where the whole program is recorded.
STEPS_VARIABLE = "NSYSWRAP_STEPS"
# "1" for an X-ray step after the recorded ones.
XRAY_VARIABLE = "NSYSWRAP_XRAY"
# Folder of a package, and its module whose function ``start`` observes this process: `try` and `verify` set it.
OBSERVER_VARIABLE = "NSYSWRAP_OBSERVER"


def start(folder: str) -> None:
    """Mark calls after the import of torch, and run the ``sitecustomize`` that ours hides.

    The folder is that of our own ``sitecustomize``, which is removed from the path.
    """
    try:
        observer = os.environ.get(OBSERVER_VARIABLE)
        clock = _observe(*observer.split(os.pathsep)) if observer else _step_clock()
        batches = int(os.environ.get(CACHED_BATCHES_VARIABLE, "0"))
        if batches:
            _after_import("torch", lambda torch: _cache_batches(torch, batches))
        if os.environ.get(MARKS_VARIABLE) != "0":
            monitor = None
            if hasattr(sys, "monitoring"):
                from . import monitoring

                try:
                    monitor = monitoring.Monitor()
                except LookupError as error:
                    write_status("", problem=str(error))
            wait = _after_import if monitor is None else monitor.after_import
            wait("torch", lambda torch: _mark_torch(torch, clock, monitor))
    except Exception as error:  # noqa: BLE001 - the program runs without marks
        warn(f"nothing is marked: {type(error).__name__}: {error}")
    sys.path[:] = [place for place in sys.path if place != folder]
    for place in (folder, os.path.dirname(__file__)):  # noqa: PTH120 - pathlib would be one more module
        sys.path_importer_cache.pop(place, None)
    # The next one on the path runs in place of ours; its exceptions are not caught, as without nsyswrap.
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _step_clock() -> "Sink | None":
    """Start and return what takes the ranges of this process; None where a profiler records them."""
    folder = os.environ.get(CLOCK_VARIABLE)
    if not folder:
        return None
    import atexit

    from .step_clock import StepClock, watch_nvtx, watch_torch

    clock = StepClock(os.environ.get(STEP_TEXT_VARIABLE, ""))
    _after_import("torch.cuda.nvtx", lambda nvtx: watch_torch(nvtx, clock))
    _after_import("nvtx", lambda nvtx: watch_nvtx(nvtx, clock))
    atexit.register(clock.write, folder)
    os.register_at_fork(after_in_child=clock.reset)
    return clock


def _observe(package: str, module: str) -> "Sink | None":
    """Start the observer, and return what takes the ranges of this process; it is loaded by path, as the marks are."""
    import importlib

    name = "_nsyswrap_observer"
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [package]
    sink: Sink | None = importlib.import_module(f"{name}.{module}").start(_after_import)
    return sink


def _cache_batches(torch: "ModuleType", batches: int) -> None:
    from .batch_cache import cache_batches

    cache_batches(torch, batches)


def _after_import(name: str, then: "Callable[[ModuleType], object]") -> None:
    from .import_hook import after_import

    after_import(name, then)


def _mark_torch(torch: "Any", clock: "Sink | None", monitor: "Monitor | None") -> None:
    """Mark the calls of torch, and of the libraries that are imported later."""
    from .marks import Marks
    from .nvtx_calls import connected
    from .torch_marks import WATCHED, mark_collections, mark_optimizers, watch_calls, watch_optimizers

    version = str(getattr(torch, "__version__", ""))
    try:
        sink: Sink = clock or connected(os.environ)
        if monitor is None:
            marks = Marks(sink)
            mark_optimizers(torch, marks)
        else:
            marks = Marks(sink, torch.is_grad_enabled, monitor.note_import)
            monitor.on_calls(marks.started, marks.returned)
            watch_optimizers(monitor, marks)
            for name in dict.fromkeys(each.module for each in WATCHED):
                monitor.after_import(name, lambda module: watch_calls(monitor, marks, module))
            if STEPS_VARIABLE in os.environ or OBSERVER_VARIABLE in os.environ:
                _watch_own_ranges(torch, monitor, marks)
    except (LookupError, OSError, AttributeError) as error:
        write_status(version, problem=str(error))
    except Exception as error:  # noqa: BLE001 - the program runs without marks
        warn(f"nothing is marked: {type(error).__name__}: {error}")
    else:
        os.register_at_fork(after_in_child=marks.reset)
        mark_collections(marks)
        write_status(version)
        # For the steps that a program marks itself.
        sys.modules[__name__.rpartition(".")[0]].loop_marks = marks  # type: ignore[attr-defined]
        if STEPS_VARIABLE in os.environ and clock is None:
            import atexit

            from .recording import CudaEvents, Recording, Schedule, rank_of_process
            from .torch_marks import skip_frames
            from .xray import XRay
            from .xray_sites import Sites

            schedule, folder = Schedule(os.environ[STEPS_VARIABLE]), os.environ[STATUS_VARIABLE]
            path = os.path.join(folder, str(os.getpid()))  # noqa: PTH118 - see recording
            xray = XRay(torch, sink, path, rank_of_process()) if os.environ.get(XRAY_VARIABLE) == "1" else None
            recording = Recording(
                marks, sink, schedule, folder, CudaEvents(torch), sees_data=(monitor is not None), xray=xray
            )
            skip_frames(torch, Recording, CudaEvents, Schedule, XRay, Sites)
            atexit.register(recording.finish)
            os.register_at_fork(after_in_child=recording.leave)


def _watch_own_ranges(torch: "Any", monitor: "Monitor", marks: "Marks") -> None:
    """See the steps that the program marks itself."""
    from .own_ranges import MODULES, OwnRanges
    from .torch_marks import skip_frames

    own = OwnRanges(marks, os.environ[STEP_TEXT_VARIABLE])
    skip_frames(torch, OwnRanges)
    for name in MODULES:
        monitor.after_import(name, lambda module: own.watch(monitor, module))


def write_status(torch: str, problem: str = "") -> None:
    """Write the status file of this process: whether its calls are marked, or why not."""
    folder = os.environ.get(STATUS_VARIABLE)
    if folder:
        path = os.path.join(folder, f"{os.getpid()}.json")  # noqa: PTH118
        write_whole(path, {"pid": os.getpid(), "torch": torch, "problem": problem})
