"""Root cause: the program writes so many NVTX ranges that recording them takes much of the host's time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.attribution.idle_pieces import DATA_CAUSES, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.hardware.profiler_cost import RANGE
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.rules import capture
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

# Fewer begins and ends in a step than this are its phases, and their time does not matter. Source: ours.
MANY_MARKS = 40
# Where marks take more than this share of CPU time, the profiler causes that CPU time. Source: ours.
OVERHEAD_SHARE = 0.25
# A mark takes at most the time since the mark before it on its thread. The shortest such times are little more than the
# mark itself; the very shortest may be clock errors.
SHORTEST_PERCENTILE = 5
# However far apart marks are, none takes longer than this. Source: docs/overhead.md; twice the longest time measured.
LONGEST_MARK_NS = 3_000


@dataclass(frozen=True, slots=True)
class RangeEdges:
    """The begins and ends of one thread's ranges, in order of time.

    Attributes:
        at: Time of each, in ns, ascending.
        total_ns: Upper bound of the time that recording took up to and including each, in ns, shape (marks,).
    """

    at: Times
    total_ns: npt.NDArray[np.float64]

    def time_inside(self, start: Times, end: Times) -> npt.NDArray[np.float64]:
        """Return an upper bound of the time that marks take inside each interval, in ns."""
        low, high = (np.searchsorted(self.at, side) for side in (start, end))
        so_far = np.append(0.0, self.total_ns)
        found: npt.NDArray[np.float64] = so_far[high] - so_far[low]
        return found


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces in which recording the begins and ends of ranges takes much of the time."""
    marks_of = find_marks(idle.context, idle.window)
    if not marks_of:
        return idle.none
    spent = np.zeros(len(idle.pieces.start), np.float64)
    for thread, marks in marks_of.items():
        mine = np.flatnonzero(idle.pieces.is_thread(thread))
        spent[mine] = marks.time_inside(idle.pieces.start[mine], idle.pieces.end[mine])
    # The profiler's time in a piece is a separate piece right after it; the marks of both count together.
    profiler = idle.is_cause("profiler")
    whole: Indices = np.cumsum(~profiler) - int(not profiler[0])
    time, length = (np.bincount(whole, each)[whole] for each in (spent, idle.length))
    much = (time > 0) & (time >= OVERHEAD_SHARE * length)
    return idle.is_cause("cpu", "launch", "profiler", *DATA_CAUSES) & much


@memo
def find_marks(context: TraceContext, window: Window) -> dict[int, RangeEdges]:
    """Return the marks of each thread with many marks a step; without steps, with many marks in the window.

    The time of a mark is as measured on the machine of the capture; without a measurement it follows from the marks.
    """
    cost = context.settings.profiler_cost
    measured = None if cost is None else cost[RANGE].added.point / 2
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
            begins = np.repeat([True, False], int(mine.sum()))
            found[int(each)] = _marks(at, begins) if measured is None else _measured_marks(at, measured)
    return found


def _measured_marks(at: Times, cost_ns: float) -> RangeEdges:
    """Return marks that each take the measured time."""
    return RangeEdges(np.sort(at, kind="stable"), np.cumsum(np.full(len(at), cost_ns, np.float64)))


def _marks(at: Times, begins: Mask) -> RangeEdges:
    """Return marks with their time: for begins and for ends, about the shortest time since the mark before."""
    order = np.argsort(at, kind="stable")
    at, begins = at[order], begins[order]
    since = np.diff(at, prepend=at[0])
    spent = np.zeros(len(at), np.float64)
    for chosen in (begins, ~begins):
        if chosen.any():
            spent[chosen] = min(np.percentile(since[chosen], SHORTEST_PERCENTILE), LONGEST_MARK_NS)
    return RangeEdges(at, np.cumsum(spent))


ROOT_CAUSE = RootCause(10, capture.OVERHEAD, find)
