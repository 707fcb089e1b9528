"""Root cause: the GPU finishes each operation before the host has launched the next one."""

import numpy as np

from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.launch_pace import find_pace, usual_gap_ns

RULE = "launches/launch_bound"

# Where the host waits for something else this much of the idle time, more launches at once would not help it. Source:
# ours, as LATE in launch_pace.
OTHER_CAUSES = ("data_wait", "data_work", "synchronization", "blocking_copy", "lock")
OTHER_SHARE = 0.30


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the CPU and launch time of gaps that last no longer than launches usually are apart."""
    by_cause = np.bincount(idle.pieces.cause, idle.length, len(CAUSES))
    other = sum(float(by_cause[CAUSES.index(cause)]) for cause in OTHER_CAUSES)
    if other >= OTHER_SHARE * by_cause.sum():
        return idle.none
    pace = find_pace(idle.context, idle.device_id, idle.window)
    if pace is None or not pace.is_bound:
        return idle.none
    short = idle.gaps.end - idle.gaps.start <= usual_gap_ns(idle.context, idle.device_id, idle.window)
    found: Mask = short[idle.gap] & idle.is_cause("cpu", "launch", "queued")
    return found
