"""Which NVTX ranges enclose a call: the ranges of each thread, cut into levels without overlap."""

import heapq
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Spans, Times, places
from nsyswrap.base.rows import taken
from nsyswrap.trace.tables import CodedIds, array, blocks

# Levels of a thread that are joined with calls. Ours: each level takes time and memory for every call. Programs that
# mark each module, operator and function of Python nest less deep; a recursion may nest thousands.
MOST_LEVELS = 128


class RangeNesting:
    """The ranges of each thread as levels, for finding those around calls.

    Args:
        ranges: The table of ranges. Ranges that end on another thread are left out, as in nsys's own reports.

    Attributes:
        left_out: Number of ranges that were left out so far because they lie deeper than ``MOST_LEVELS``.
    """

    def __init__(self, ranges: pd.DataFrame) -> None:
        self.left_out = 0
        self._ranges = ranges
        self._rows = np.flatnonzero(array(ranges, "end_thread") == 0)
        self._thread = array(ranges, "thread")[self._rows]
        self._levels: dict[int, list[Indices]] = {}

    def enclosing(self, thread: CodedIds, span_of: Callable[[Indices], Spans]) -> Iterator[tuple[Indices, Indices]]:
        """Yield, level by level, which range encloses each call on the call's own thread.

        Args:
            thread: Thread of each call, shape (n,).
            span_of: Returns start and end of some calls in ns; called once for each thread, so that not all are held.

        Yields:
            Indices of calls, and for each the row in the table of a range that contains the whole call. Each pair of a
            call and a range around it is yielded once.
        """
        for code in pd.unique(thread.codes).tolist():
            levels = self._levels_of(int(thread.ids[code]))
            if levels:
                calls = np.flatnonzero(thread.codes == code).astype(np.int32)
                for which, rows in _around(self._ranges, levels, span_of(calls)):
                    yield calls[which], rows

    def _levels_of(self, thread: int) -> list[Indices]:
        """Return the rows of each level of a thread, at most ``MOST_LEVELS`` from the outermost on."""
        if thread not in self._levels:
            mine = self._rows[self._thread == thread]
            levels = levels_of(array(self._ranges, "start")[mine], array(self._ranges, "end")[mine])
            self.left_out += sum(map(len, levels[MOST_LEVELS:]))
            self._levels[thread] = [mine[level] for level in levels[:MOST_LEVELS]]
        return self._levels[thread]


def _around(ranges: pd.DataFrame, levels: Sequence[Indices], calls: Spans) -> Iterator[tuple[Indices, Indices]]:
    """Yield, level by level, indices of calls of one thread, and for each the row of a range that contains it."""
    start, end = calls
    instants = np.flatnonzero(start == end)
    for rows in levels:
        begins, ends = array(ranges, "start")[rows], array(ranges, "end")[rows]
        for some in blocks(len(start)):
            at = places(begins, start[some]) - 1
            inside = np.flatnonzero((at >= 0) & (end[some] <= taken(ends, np.maximum(at, 0))))
            yield some.start + inside, taken(rows, taken(at, inside))
        # A call without length at the end of one range and the start of the next is in both.
        at = np.searchsorted(begins, start[instants])
        met = np.flatnonzero((at > 0) & (at < len(rows)))
        met = met[(ends[at[met] - 1] == start[instants[met]]) & (begins[at[met]] == start[instants[met]])]
        yield instants[met], rows[at[met] - 1]


def levels_of(start: Times, end: Times) -> list[Indices]:
    """Return the indices of the ranges of each level, by start; ranges of one level do not overlap.

    Where ranges nest, a level is a depth. Ranges that cross, as start-end ranges may, take the first free level. Ranges
    without length are left out: they contain no call.
    """
    order = np.flatnonzero(end > start)
    if not len(order):
        return []
    order = order[np.lexsort((-end[order], start[order]))]
    begins, ends = start[order], end[order]
    depth = np.arange(len(order)) - np.searchsorted(np.sort(ends), begins, side="right")
    by_depth = np.lexsort((begins, depth))
    neighbours = depth[by_depth][1:] == depth[by_depth][:-1]
    if np.any(neighbours & (begins[by_depth][1:] < ends[by_depth][:-1])):
        depth = _free_levels(begins, ends)
        by_depth = np.argsort(depth, kind="stable")
    first = np.flatnonzero(np.diff(depth[by_depth], prepend=-1))
    return np.split(order[by_depth], first[1:])


def _free_levels(start: Times, end: Times) -> Indices:
    """Return the lowest level that is free when each range begins; ranges are sorted by start."""
    taken: list[tuple[int, int]] = []
    free: list[int] = []
    levels = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while taken and taken[0][0] <= begins:
            heapq.heappush(free, heapq.heappop(taken)[1])
        level = heapq.heappop(free) if free else len(taken)
        heapq.heappush(taken, (ends, level))
        levels.append(level)
    return np.array(levels, np.intp)
