"""Which NVTX ranges enclose a call: the ranges of each thread, cut into levels without overlap."""

import heapq
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.compiled.rows import taken
from nsyswrap.intervals import Indices, Spans, Times, places
from nsyswrap.tables import CodedIds, Trace, array, blocks


def enclosing(trace: Trace, thread: CodedIds, span_of: Callable[[Indices], Spans]) -> Iterator[tuple[Indices, Indices]]:
    """Yield, level by level, which range encloses each call on the call's own thread.

    Args:
        trace: The tables of one export.
        thread: Thread of each call, shape (n,).
        span_of: Returns start and end of some calls in ns; called once for each thread, so that not all are held.

    Yields:
        Indices of calls, and for each the row in ``trace[RANGES]`` of a range that contains the whole call. Each pair
        of a call and a range around it is yielded once. Ranges that end on another thread are left out, as in nsys's
        own reports.
    """
    ranges = trace[tables.RANGES]
    one_thread = np.flatnonzero(array(ranges, "end_thread") == 0)
    range_thread = array(ranges, "thread")[one_thread]
    for code in pd.unique(thread.codes).tolist():
        mine = one_thread[range_thread == thread.ids[code]]
        if len(mine):
            calls = np.flatnonzero(thread.codes == code).astype(np.int32)
            for which, rows in _around(ranges, mine, span_of(calls)):
                yield calls[which], rows


def _around(ranges: pd.DataFrame, mine: Indices, calls: Spans) -> Iterator[tuple[Indices, Indices]]:
    """Yield, level by level, indices of calls of one thread, and for each the row of a range that contains it.

    Args:
        ranges: The table of ranges.
        mine: Its rows that belong to the thread.
        calls: Start and end of each call in ns.
    """
    start, end = calls
    instants = np.flatnonzero(start == end)
    for level in levels_of(array(ranges, "start")[mine], array(ranges, "end")[mine]):
        rows = mine[level]
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
    order = order[np.lexsort((-end[order], start[order]))]
    begins, ends = start[order], end[order]
    depth = np.arange(len(order)) - np.searchsorted(np.sort(ends), begins, side="right")
    by_depth = np.lexsort((begins, depth))
    neighbours = depth[by_depth][1:] == depth[by_depth][:-1]
    if np.any(neighbours & (begins[by_depth][1:] < ends[by_depth][:-1])):
        depth = _free_levels(begins, ends)
    return [order[depth == level] for level in range(int(depth.max(initial=-1)) + 1)]


def _free_levels(start: Times, end: Times) -> Indices:
    """Return the lowest level that is free when each range begins; ranges are sorted by start."""
    taken: list[tuple[int, int]] = []
    free: list[int] = []
    found = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while taken and taken[0][0] <= begins:
            heapq.heappush(free, heapq.heappop(taken)[1])
        level = heapq.heappop(free) if free else len(taken)
        heapq.heappush(taken, (ends, level))
        found.append(level)
    return np.array(found, np.intp)
