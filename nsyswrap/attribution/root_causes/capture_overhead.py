"""Root cause: the program writes so many NVTX ranges that recording them takes much of the host's time."""

from typing import NamedTuple

import numpy as np

from nsyswrap.attribution.idle_pieces import DATA_CAUSES, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.events.recorded_calls import Costs, sums_inside
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


class RangeEdges(NamedTuple):
    """The begins and ends of one thread's ranges, in order of time, and an upper bound of what recording each took."""

    at: Times
    spent_ns: Costs


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces in which recording the begins and ends of ranges takes much of the time."""
    marks_of = find_marks(idle.context, idle.window)
    if not marks_of:
        return idle.none
    spent = np.zeros(len(idle.pieces.start), np.float64)
    for thread, marks in marks_of.items():
        mine = np.flatnonzero(idle.pieces.is_thread(thread))
        spent[mine] = sums_inside(*marks, idle.pieces.start[mine], idle.pieces.end[mine])
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
            order = np.argsort(at, kind="stable")
            spent = np.full(len(at), measured or 0.0)
            if measured is None:
                # For begins and for ends, about the shortest time since the mark before.
                since, begins = np.diff(at[order], prepend=at.min()), order < int(mine.sum())
                for chosen in (begins, ~begins):
                    spent[chosen] = min(np.percentile(since[chosen], SHORTEST_PERCENTILE), LONGEST_MARK_NS)
            found[int(each)] = RangeEdges(at[order], spent)
    return found


ROOT_CAUSE = RootCause(10, capture.OVERHEAD, find)
