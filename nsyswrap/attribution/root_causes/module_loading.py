"""Root cause: code is compiled or loaded inside the window."""

import re

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask

RULE = "modules/in_window"

_LOADS = re.compile(
    r"cu(?:da)?(?:Library|Module)Load|cuLink|nvrtc|nvJitLink|cuKernelGetFunction|cuFuncLoad|dlm?open|cudaGraphInstantiate"
    r"|cuGraphInstantiate"
)


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces in which code is loaded, and the CPU time before them in the same gap, which compiles it."""
    loads = idle.is_cause("module_load")
    if loads.any():
        loads &= idle.is_named(_LOADS)
    if not loads.any():
        return loads
    return loads | (idle.is_cause("cpu", "unknown", "lock", "file_io", "module_load") & idle.until_last(loads))
