"""Root cause: the program writes so many NVTX ranges that recording them takes a good part of the host's time."""

import numpy as np

from nsyswrap import tables
from nsyswrap.attribution.idle_pieces import DATA_CAUSES, IdlePieces, Mask
from nsyswrap.intervals import Times
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.tables import array

RULE = "capture/overhead"
# Fewer begins and ends than this are the phases of a step, and their cost does not matter. Source: ours.
MANY_MARKS = 20
# CPU time of which more than this part goes into marks is there for the profiler. Source: ours.
OVERHEAD_SHARE = 0.25
# One mark cannot cost more than the time to the next one of its thread. The shortest such times of a capture hold
# little else; the very shortest may be a slip of the clock.
SHORTEST_PERCENTILE = 1


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces in which the begins and ends of ranges alone take much of the time."""
    written = np.zeros(len(free), np.float64)
    marks = mark_times(idle.context)
    for thread in np.intersect1d(idle.pieces.thread, list(marks)).tolist():
        at = marks[thread]
        mine = np.flatnonzero(idle.pieces.thread == thread)
        low, high = (np.searchsorted(at, side[mine]) for side in (idle.pieces.start, idle.pieces.end))
        count = high - low
        written[mine] = np.where(count >= MANY_MARKS, count * mark_cost_ns(at), 0)
    much = (written > 0) & (written >= OVERHEAD_SHARE * idle.length)
    return idle.is_cause("cpu", *DATA_CAUSES) & much


def mark_times(context: TraceContext) -> dict[int, Times]:
    """Return when each thread began or ended a range of the program's own, in ns, ascending, by thread."""
    ranges = context.trace[tables.RANGES]
    own = ~of_library(ranges)
    thread, start, end = (array(ranges, name)[own] for name in ("thread", "start", "end"))
    found = {}
    for each in tables.distinct(thread).tolist():
        mine = thread == each
        found[int(each)] = np.sort(np.concatenate([start[mine], end[mine]]))
    return found


def mark_cost_ns(at: Times) -> float:
    """Return at most what one mark of a thread costs, in ns: the shortest times from one mark to the next.

    Args:
        at: When the marks of the thread were made, ascending; at least two.
    """
    return float(np.percentile(np.diff(at), SHORTEST_PERCENTILE)) if len(at) > 1 else 0.0
