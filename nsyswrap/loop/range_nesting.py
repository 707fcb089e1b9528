"""Which NVTX ranges enclose a call: the ranges of each thread, cut into levels without overlap."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Spans, Times, places
from nsyswrap.base.row_sums import text_column
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import Operations
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import BLOCK, CodedIds, array, blocks

# Levels of a thread that are joined with calls. Ours: each level takes time and memory for every call. Programs that
# mark each module, operator and function of Python nest less deep; a recursion may nest thousands.
MOST_LEVELS = 128


# Sums of shifted times must stay below this.
LARGEST = 1 << 62
OF_ONE_THREAD = ("count", "range_ns", "envelope_ns", "busy_ns", "operation_count")
COLUMNS = (*OF_ONE_THREAD, "envelope_any_thread_ns", "busy_any_thread_ns", "operation_count_any_thread")
NO_SUMS = (0,) * len(OF_ONE_THREAD)


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


class Pairs(NamedTuple):
    """Operations and the ranges they were launched in: rows in ``Operations`` and in ``trace[RANGES]``, int32."""

    operation: Indices
    range: Indices


def projection(context: TraceContext, names: pd.Index, own: Pairs, handed: Pairs) -> pd.DataFrame:
    """Return the projections of ranges on the GPU, summed by name.

    Args:
        context: The trace and its operations.
        names: Name of each range.
        own: Operations with the ranges around their launch, where both are on one thread.
        handed: Those that another thread launched on behalf of the range's thread.

    Returns:
        By name: ``count`` and ``range_ns`` of the ranges whose own thread launched operations; ``envelope_ns``,
        ``busy_ns`` and ``operation_count`` of these operations, and of those launched by any thread.
    """
    one_thread = _by_name(context, names, own)
    any_thread = _by_name(context, names, handed, own) if len(handed.range) else one_thread
    # Whoever launched in a range of its own thread is among those that launched in it.
    sums = {name: (*one_thread.get(name, NO_SUMS), *whole[2:]) for name, whole in any_thread.items()}
    order = sorted(sums, key=lambda name: (-sums[name][2], -sums[name][5], name))
    numbers = np.array([sums[name] for name in order], np.int64).reshape(len(order), len(COLUMNS))
    return pd.DataFrame({"name": text_column(order), **dict(zip(COLUMNS, numbers.T.copy(), strict=True))})


def _by_name(context: TraceContext, names: pd.Index, *parts: Pairs) -> dict[str, tuple[int, ...]]:
    """Return the projections of some sets of pairs together, summed by name: the first of ``COLUMNS``."""
    ranges = context.trace[tables.RANGES]
    # The ranges and operations of the pairs, sorted by range, then by start of the operation. Shifts take a tenth of
    # the time of divisions.
    bits = len(context.operations.start).bit_length()
    key = np.concatenate([pairs.range for pairs in parts], dtype=np.int64)
    key <<= bits
    key |= np.concatenate([pairs.operation for pairs in parts])
    # The keys consist of sorted runs, which a stable sort only has to merge.
    key.sort(kind="stable")
    opens = np.ones(len(key), bool)
    for some in blocks(len(key)):
        opens[some][1:] = (key[some][1:] ^ key[some][:-1]) >> bits
        opens[some.start] = not some.start or key[some.start] >> bits != key[some.start - 1] >> bits
    first = np.flatnonzero(opens)
    of_range = key[first] >> bits
    key &= (1 << bits) - 1
    envelope, busy = _envelope_and_union(context.operations, key, first)
    codes, unique = pd.factorize(names[of_range])
    sums = np.zeros((len(unique), len(NO_SUMS)), np.int64)
    length = array(ranges, "end")[of_range] - array(ranges, "start")[of_range]
    for column, values in enumerate((1, length, envelope, busy, np.diff(np.append(first, len(key))))):
        np.add.at(sums[:, column], codes, values)
    return dict(zip(unique, map(tuple, sums.tolist()), strict=True))


def _envelope_and_union(operations: Operations, which: Indices, first: Indices) -> tuple[Times, Times]:
    """Return the time from the first start to the last end of each group of operations, and the length of its union.

    Args:
        operations: All that ran on the GPUs.
        which: Operations, group after group, each sorted by start.
        first: Where in ``which`` each group begins.
    """
    envelope, busy = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    bounds = np.append(first, len(which))
    group = 0
    while group < len(first):
        # As many groups as fit into a block, at least one.
        until = max(int(np.searchsorted(bounds, bounds[group] + BLOCK, side="right")) - 1, group + 1)
        mine = which[bounds[group] : bounds[until]]
        start, end, at = taken(operations.start, mine), taken(operations.end, mine), first[group:until] - bounds[group]
        envelope[group:until] = np.maximum.reduceat(end, at) - start[at]
        busy[group:until] = _union_by_group(start, end, at)
        group = until
    return envelope, busy


def _union_by_group(start: Times, end: Times, first: Indices) -> Times:
    """Return the length of the union of each group of intervals; the groups follow each other, sorted by start."""
    # Each group is shifted beyond the end of the one before, so that a running maximum does not cross groups.
    apart = int(end.max()) - int(start.min()) + 1
    bounds = np.append(first, len(start))
    unions = []
    most = max(LARGEST // apart, 1)
    for begin in range(0, len(first), most):
        some = bounds[begin : begin + most + 1]
        rows = slice(int(some[0]), int(some[-1]))
        shift = np.repeat(np.arange(len(some) - 1) * apart - int(start[rows].min()), np.diff(some))
        low = start[rows] + shift
        shift += end[rows]
        reach = np.maximum.accumulate(shift)
        np.maximum(low[1:], reach[:-1], out=low[1:])
        fresh = np.subtract(shift, low, out=low)
        unions.append(np.add.reduceat(np.maximum(fresh, 0, out=fresh), some[:-1] - some[0]))
    return np.concatenate(unions)
