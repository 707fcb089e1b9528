"""Root cause: code is compiled or loaded inside the window.

A library that is open already can be opened again at each launch, and the handle of a loaded kernel looked up: PyTorch
does both for kernels that a program compiles itself. Neither loads code.
"""

import re

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.launch_pace import LATENCY_NS
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.rows import taken
from nsyswrap.rules import modules
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks

_LOADS = re.compile(r"cu(?:da)?(?:Library|Module)Load|cuLink|nvrtc|nvJitLink|cuFuncLoad|cu(?:da)?GraphInstantiate")
# The driver may load a kernel when its handle is first asked for. Source: captures of nsys 2023 and 2025. Such calls
# took 12 us to 8 ms there, all others about a microsecond, and a launch 5 to 10 us.
_LOOKUP = re.compile(r"cuKernelGetFunction")


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces in which code is loaded, and the CPU time before them in the same gap, which compiles it."""
    in_calls = idle.is_cause("module_load")
    loads, lookups = idle.is_named(_LOADS.match, in_calls), np.flatnonzero(idle.is_named(_LOOKUP.match, in_calls))
    if len(lookups):
        loads[lookups[idle.pieces.length_of(lookups) > _usual_launch_ns(idle)]] = True
    if not loads.any():
        return loads
    return loads | (idle.is_cause("cpu", "unknown", "lock", "file_io", "module_load") & idle.until_last(loads))


def _usual_launch_ns(idle: IdlePieces) -> float:
    """Return the median length of a launch call, in ns, at most ``LATENCY_NS``. A shorter call only looks something up.

    Code is copied to the GPU when it is loaded, which takes longer than to enqueue a kernel. Where most launches load
    code themselves, or none is known, the time that a launch usually takes counts.
    """
    launches, returned = idle.launches, array(idle.context.trace[tables.CALLS], "end")
    length = np.empty(len(launches.row), np.int64)
    for some in blocks(len(length)):
        np.subtract(
            taken(returned, taken(idle.context.operations.call, launches.row[some])),
            launches.began[some],
            out=length[some],
        )
    return min(float(np.median(length)), LATENCY_NS) if len(length) else LATENCY_NS


ROOT_CAUSE = RootCause(80, modules.IN_WINDOW, find, own_causes=("module_load",))
