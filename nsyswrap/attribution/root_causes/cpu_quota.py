"""Root cause: the program used up the CPU quota of its container, so its threads were stopped."""

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import Times
from nsyswrap.events.host_record import HostRecord
from nsyswrap.rules import host


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the longest waits for a core where threads were stopped for the quota, in all as long as these stops."""
    rows = np.flatnonzero(free & idle.is_cause("off_cpu"))
    found = idle.none
    if not len(rows):
        return found
    found[rows] = is_stop(idle.context.settings.host, idle.pieces.start[rows], idle.pieces.length_of(rows))
    return found


def is_stop(record: HostRecord, start: Times, length: Times) -> Mask:
    """Return which waits for a core are stops for the quota: the longest ones, as long as the kernel counted."""
    found, at = np.zeros(len(start), bool), record.throttled.at
    if len(at) < 2 or not len(start):  # noqa: PLR2004 - a difference needs two samples
        return found
    stopped, sample = np.diff(record.throttled.values["ns"]), np.searchsorted(at, start, side="right") - 1
    left = 0
    # The kernel counts a stop when it is over, so what is too long for an interval began in the one before it.
    for number in range(len(stopped))[::-1]:
        left += int(stopped[number])
        rows = np.flatnonzero(sample == number)
        rows = rows[np.argsort(-length[rows], kind="stable")]
        before = np.cumsum(length[rows]) - length[rows]
        chosen = rows[before + length[rows] // 2 <= left] if left else rows[:0]
        found[chosen] = True
        left = max(left - int(length[chosen].sum()), 0) if len(rows) else 0
    return found


ROOT_CAUSE = RootCause(30, host.CPU_QUOTA, find)
