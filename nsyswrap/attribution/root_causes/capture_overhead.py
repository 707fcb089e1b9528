"""Root cause: the program writes so many NVTX ranges that recording them takes a good part of the host's time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap import tables
from nsyswrap.attribution.idle_pieces import DATA_CAUSES, IdlePieces, Mask
from nsyswrap.intervals import Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.tables import array

RULE = "capture/overhead"
# Fewer begins and ends in a step than this are its phases, and their cost does not matter. Source: ours.
MANY_MARKS = 40
# CPU time of which more than this part goes into marks is there for the profiler. Source: ours.
OVERHEAD_SHARE = 0.25
# A mark cannot cost more than the time since the one before it on its thread. The shortest such times of a capture hold
# little else; the very shortest may be a slip of the clock.
SHORTEST_PERCENTILE = 5


@dataclass(frozen=True, slots=True)
class Marks:
    """The begins and ends of one thread's ranges, in order of time.

    Attributes:
        at: When, in ns, ascending.
        cost_ns: At most what they cost up to and including each, in ns, shape (marks,).
    """

    at: Times
    cost_ns: npt.NDArray[np.float64]

    def cost_inside(self, start: Times, end: Times) -> npt.NDArray[np.float64]:
        """Return at most what the marks inside some intervals cost, in ns."""
        low, high = (np.searchsorted(self.at, side) for side in (start, end))
        so_far = np.append(0.0, self.cost_ns)
        found: npt.NDArray[np.float64] = so_far[high] - so_far[low]
        return found


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces in which the begins and ends of ranges alone take much of the time."""
    cost = np.zeros(len(idle.pieces.start), np.float64)
    for thread, marks in find_marks(idle.context, idle.window).items():
        mine = np.flatnonzero(idle.pieces.thread == thread)
        cost[mine] = marks.cost_inside(idle.pieces.start[mine], idle.pieces.end[mine])
    much = (cost > 0) & (cost >= OVERHEAD_SHARE * idle.length)
    return idle.is_cause("cpu", "launch", *DATA_CAUSES) & much


def find_marks(context: TraceContext, window: Window) -> dict[int, Marks]:
    """Return the marks of each thread that makes many in a step, or in the window where there are no steps."""
    ranges = context.trace[tables.RANGES]
    own = ~of_library(ranges)
    thread, start, end = (array(ranges, name)[own] for name in ("thread", "start", "end"))
    steps = max(context.steps.measured_count, 1)
    found = {}
    for each in tables.distinct(thread).tolist():
        mine = thread == each
        at = np.concatenate([start[mine], end[mine]])
        inside = int(((at >= window.start_ns) & (at < window.end_ns)).sum())
        if inside >= MANY_MARKS * steps:
            found[int(each)] = _marks(at, np.repeat([True, False], int(mine.sum())))
    return found


def _marks(at: Times, begins: Mask) -> Marks:
    """Return marks with their cost: of begins and of ends, the shortest time since the mark before."""
    order = np.argsort(at, kind="stable")
    at, begins = at[order], begins[order]
    since = np.diff(at, prepend=at[0])
    cost = np.zeros(len(at), np.float64)
    for chosen in (begins, ~begins):
        if chosen.any():
            cost[chosen] = np.percentile(since[chosen], SHORTEST_PERCENTILE)
    return Marks(at, np.cumsum(cost))
