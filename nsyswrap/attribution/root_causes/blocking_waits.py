"""Root cause: the host waits for the GPU inside the step, so the GPU goes idle until the host launches again.

Each wait explains the gap that begins while the host waits. It also explains the gaps after that until the host is
ahead of the GPU again, up to the length of the wait: without the wait, later launches come earlier by at most that.
"""

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.events import api_calls
from nsyswrap.rules import synchronization

KINDS = (api_calls.SYNCHRONIZATION, api_calls.BLOCKING_COPY)


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside waits for the GPU, and the idle time that each wait causes after it."""
    waits = free & idle.is_cause("synchronization", "blocking_copy")
    begins = waits[idle.first]
    rest = free & ~waits & idle.is_cause(*GENERIC)
    return waits | idle.set_back(begins, idle.call_length(KINDS, begins), rest, waits)


ROOT_CAUSE = RootCause(120, synchronization.IN_STEP, find, own_causes=("synchronization", "blocking_copy"))
