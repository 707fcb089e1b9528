"""Root cause: the program used up the CPU quota of its container, so its threads were stopped."""

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.events.host_record import HostRecord
from nsyswrap.intervals import NOTHING, Spans, covered, merge

RULE = "host/cpu_quota"


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the time without a core between samples in which threads were stopped for the quota."""
    stopped = throttled_spans(idle.context.settings.host)
    waits = free & idle.is_cause("off_cpu")
    if not len(stopped.start) or not waits.any():
        return idle.none
    inside = covered(stopped, idle.pieces.start, idle.pieces.end)
    found: Mask = waits & (2 * inside > idle.length)
    return found


def throttled_spans(record: HostRecord) -> Spans:
    """Return the intervals between samples in which threads were stopped for the quota."""
    at = record.throttled.at
    if len(at) < 2:  # noqa: PLR2004 - a difference needs two samples
        return NOTHING
    grew = np.diff(record.throttled.values["ns"]) > 0
    # The kernel counts a stop when it is over, which may be one sample after it began.
    began = np.append(grew[1:], False)
    return merge(at[:-1][grew | began], at[1:][grew | began])
