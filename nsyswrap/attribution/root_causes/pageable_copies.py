"""Root cause: a copy of pageable memory to the GPU holds the host while the driver stages the data."""

from nsyswrap.attribution.copy_table import find_copies, staging
from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.intervals import containing

RULE = "copies/pageable"


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces inside calls that stage pageable memory for this GPU."""
    held = staging(idle.context, find_copies(idle.context, idle.window), idle.device_id, idle.window)
    return idle.is_cause("blocking_copy", "launch") & (containing(held, idle.pieces.start) >= 0)
