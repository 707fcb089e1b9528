"""Root cause: the GPU finishes each operation before the host has launched the next one."""

from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.rows import taken
from nsyswrap.rules import launches

# Where other causes make up this share of the idle time, fewer launches do not help. Source: ours, as LATE in
# launch_pace.
OTHER_CAUSES = ("data_wait", "data_work", "synchronization", "blocking_copy", "lock")
OTHER_SHARE = 0.30


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the CPU, launch and queued time of gaps that are no longer than the usual pace of launches explains."""
    by_cause = idle.pieces.sums(idle.pieces.cause, len(CAUSES))
    other = int(by_cause[[CAUSES.index(cause) for cause in OTHER_CAUSES]].sum())
    if other >= OTHER_SHARE * int(by_cause.sum()):
        return idle.none
    if idle.pace is None or not idle.pace.is_bound:
        return idle.none
    short = idle.gaps.spans.end - idle.gaps.spans.start <= idle.usual_gap_ns
    found: Mask = taken(short, idle.gap) & idle.is_cause("cpu", "launch", "queued")
    return found


ROOT_CAUSE = RootCause(140, launches.LAUNCH_BOUND, find, has_section=True)
