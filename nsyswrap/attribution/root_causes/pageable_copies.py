"""Root cause: a copy of pageable memory blocks the host while the driver stages the data."""

import numpy as np

from nsyswrap.attribution.copy_table import staging
from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import containing
from nsyswrap.events import api_calls
from nsyswrap.rules import copies


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside calls that stage pageable memory of this GPU, and the idle time that they cause."""
    held = staging(idle.context, idle.copies, idle.device_id, idle.window)
    rows = np.flatnonzero(free & idle.is_cause("blocking_copy", "launch"))
    inside = idle.none
    inside[rows] = containing(held, idle.pieces.start[rows]) >= 0
    begins = (inside & idle.is_cause("blocking_copy"))[idle.first]
    rest = free & ~inside & idle.is_cause(*GENERIC)
    return inside | idle.set_back(begins, idle.call_length((api_calls.BLOCKING_COPY,), begins), rest, inside)


ROOT_CAUSE = RootCause(110, copies.PAGEABLE, find, own_causes=("blocking_copy", "launch"), has_section=True)
