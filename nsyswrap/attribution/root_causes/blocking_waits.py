"""Root cause: the host waits for the GPU inside the step, so that the GPU goes idle until the host launches again.

Each wait is paired with the idle time that it causes: the gap that begins while the host waits, and the gaps behind it
until the host is ahead of the GPU again, up to the length of the wait. Without the wait the host would have come to
these launches earlier by no more than that.
"""

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.events import api_calls

RULE = "synchronization/in_step"
KINDS = (api_calls.SYNCHRONIZATION, api_calls.BLOCKING_COPY)


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside waits for the GPU, and the idle time that each wait causes behind it."""
    waits = free & idle.is_cause("synchronization", "blocking_copy")
    begins = waits[idle.first]
    rest = free & ~waits & idle.is_cause(*GENERIC)
    return waits | idle.set_back(begins, idle.call_length(KINDS, begins), rest)
