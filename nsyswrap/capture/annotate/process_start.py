"""What a Python process of the profiled program does when it starts: wait for torch, and then mark its phases.

``injection`` writes the ``sitecustomize`` that calls ``start``. Every process with the same environment does it:
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
from typing import Any

from .import_hook import after_import
from .marker import Marker, Sink, warn
from .nvtx_calls import connected

# Where each process says what it marks; set by nsyswrap.
STATUS_VARIABLE = "NSYSWRAP_ANNOTATE"
CACHED_BATCHES_VARIABLE = "NSYSWRAP_CACHED_BATCHES"


def start(folder: str) -> None:
    """Wait for torch, and give the program the ``sitecustomize`` that it would have had.

    Args:
        folder: The folder of our own ``sitecustomize``, which the program need not see.
    """
    try:
        after_import("torch", _annotate)
    except Exception as error:  # noqa: BLE001 - the program runs without phases
        warn(f"no phases are marked: {type(error).__name__}: {error}")
    sys.path[:] = [place for place in sys.path if place != folder]
    chain("sitecustomize")


def chain(name: str) -> None:
    """Run the module of this name that comes next on the path, in the place of ours; where there is none, do nothing.

    What it raises is its own, as without us.
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


def _annotate(torch: ModuleType) -> None:
    """Mark the phases of this process from now on."""
    try:
        calls = connected(os.environ)
    except (LookupError, OSError, AttributeError) as error:
        answer(torch, os.environ, problem=str(error))
        calls = None
    try:
        _install(torch, calls, os.environ)
    except Exception as error:  # noqa: BLE001 - the program runs without phases
        warn(f"no phases are marked: {type(error).__name__}: {error}")


def _install(torch: Any, calls: "Sink | None", environ: Mapping[str, str]) -> None:  # noqa: ANN401
    """Replace the calls of torch: those of the loader by a replay where it is asked for, and all by marked ones."""
    from .torch_calls import patch  # noqa: PLC0415 - only where there is torch

    batches = int(environ.get(CACHED_BATCHES_VARIABLE, "0"))
    if batches:
        from .batch_cache import replay  # noqa: PLC0415 - only where it is asked for

        replay(torch, batches)
    if calls is None:
        return
    marker = Marker(calls)
    patch(torch, marker)
    atexit.register(marker.finish)
    os.register_at_fork(after_in_child=marker.forget)
    answer(torch, environ)


def answer(torch: Any, environ: Mapping[str, str], *, problem: str = "") -> None:  # noqa: ANN401
    """Write down that this process marks its phases, or why it does not."""
    folder = environ.get(STATUS_VARIABLE)
    if not folder:
        return
    said = {"pid": os.getpid(), "torch": str(getattr(torch, "__version__", "")), "problem": problem}
    try:
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            json.dump(said, file)
    except OSError as error:
        warn(f"cannot write to {folder}: {error.strerror}")
