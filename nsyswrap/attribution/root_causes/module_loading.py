"""Root cause: code is compiled or loaded inside the window.

A library that is open already can be opened again at each launch, and the handle of a loaded kernel looked up: PyTorch
does both for kernels that a program compiles itself. Neither loads code.
"""

import re

import numpy as np

from nsyswrap import tables
from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.tables import array

RULE = "modules/in_window"

_LOADS = re.compile(r"cu(?:da)?(?:Library|Module)Load|cuLink|nvrtc|nvJitLink|cuFuncLoad|cu(?:da)?GraphInstantiate")
# The driver may load a kernel when its handle is first asked for. Source: captures of nsys 2023 and 2025. Such calls
# took 12 us to 8 ms there, all others about a microsecond, and a launch 5 to 10 us.
_LOOKUP = re.compile(r"cuKernelGetFunction")


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces in which code is loaded, and the CPU time before them in the same gap, which compiles it."""
    loads = idle.is_cause("module_load")
    if loads.any():
        loads &= idle.is_named(_LOADS) | idle.is_named(_LOOKUP) & (idle.length > _usual_launch_ns(idle))
    if not loads.any():
        return loads
    return loads | (idle.is_cause("cpu", "unknown", "lock", "file_io", "module_load") & idle.until_last(loads))


def _usual_launch_ns(idle: IdlePieces) -> float:
    """Return the median length of a launch call, in ns; 0 where none is known. A shorter call only looks something up.

    Code is copied to the GPU when it is loaded, which takes longer than to enqueue a kernel.
    """
    call = idle.context.operations.call[idle.launches.row]
    calls = idle.context.trace[tables.CALLS]
    length = array(calls, "end")[call] - array(calls, "start")[call]
    return float(np.median(length)) if len(length) else 0.0
