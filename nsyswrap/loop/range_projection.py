"""The GPU work launched inside NVTX ranges: number of operations, envelope and union, by name of range."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.base.row_sums import text_column
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import Operations
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import BLOCK, array

# Sums of shifted times must stay below this.
LARGEST = 1 << 62
OF_ONE_THREAD = ("count", "range_ns", "envelope_ns", "busy_ns", "operation_count")
COLUMNS = (*OF_ONE_THREAD, "envelope_any_thread_ns", "busy_any_thread_ns", "operation_count_any_thread")
NO_SUMS = (0,) * len(OF_ONE_THREAD)


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
    rows = key >> bits
    key &= (1 << bits) - 1
    which = key
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])) if len(rows) else np.empty(0, np.intp)
    envelope, busy = _envelope_and_union(context.operations, which, first)
    of_range = rows[first]
    codes, unique = pd.factorize(names[of_range])
    sums = np.zeros((len(unique), len(NO_SUMS)), np.int64)
    length = array(ranges, "end")[of_range] - array(ranges, "start")[of_range]
    for column, values in enumerate((1, length, envelope, busy, np.diff(np.append(first, len(rows))))):
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
