"""Root cause: the host waits for the GPU inside the step, so that the GPU goes idle until the host launches again.

Each wait is paired with the idle time that it causes: the gap that begins while the host waits, and the gaps behind it
until the host is ahead of the GPU again, up to the length of the wait. Without the wait the host would have come to
these launches earlier by no more than that.
"""

import numpy as np

from nsyswrap import tables
from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.events import api_calls
from nsyswrap.events.thread_states import NAMES
from nsyswrap.intervals import Spans, Times, containing

RULE = "synchronization/in_step"


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces inside waits for the GPU, and the idle time that each wait causes behind it."""
    waits = free & idle.is_cause("synchronization", "blocking_copy")
    drained = waits[idle.first]
    rest = free & ~waits & idle.is_cause(*GENERIC)
    return waits | idle.set_back(drained, _length_of_wait(idle, drained), rest)


def _length_of_wait(idle: IdlePieces, drained: Mask) -> Times:
    """Return how long the wait lasts in which each chosen gap begins, in ns, inside the window; 0 for other gaps."""
    found = np.zeros(len(drained), np.int64)
    thread, start = idle.pieces.thread[idle.first], idle.gaps.start
    for each in tables.distinct(thread[drained]).tolist():
        spans, code = idle.states.of(each)
        kind = code // NAMES
        waiting = np.isin(kind, (api_calls.SYNCHRONIZATION, api_calls.BLOCKING_COPY))
        low = np.maximum(spans.start[waiting], idle.window.start_ns)
        high = np.minimum(spans.end[waiting], idle.window.end_ns)
        mine = np.flatnonzero(drained & (thread == each))
        at = containing(Spans(low, high), start[mine])
        found[mine[at >= 0]] = (high - low)[at[at >= 0]]
    return found
