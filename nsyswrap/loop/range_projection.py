"""What NVTX ranges put on the GPU: number of operations, envelope and union, by name of range."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.operations import Operations
from nsyswrap.intervals import Indices, Times
from nsyswrap.loop.context import TraceContext
from nsyswrap.tables import BLOCK, array

# Sums of shifted times must stay below this.
LARGEST = 1 << 62


class Pairs(NamedTuple):
    """Operations and ranges that belong together: row in ``Operations`` and row in ``trace[RANGES]``."""

    operation: Indices
    range: Indices


def projection(context: TraceContext, names: pd.Index, own: Pairs, handed: Pairs) -> pd.DataFrame:
    """Return the projection of each range, added up by name.

    Args:
        context: The trace and its operations.
        names: Name of each range.
        own: Operations with the ranges around their launch, on one thread.
        handed: The same for operations that another thread launched for the range's.

    Returns:
        By name: ``count`` and ``range_ns`` of the ranges whose own thread launched something, and of what was launched
        ``envelope_ns``, ``busy_ns`` and ``operation_count``, once for the own thread and once for any thread.
    """
    every = Pairs(*(np.concatenate(pair) for pair in zip(own, handed, strict=True)))
    any_thread = _by_name(context, names, every)
    return _joined(_by_name(context, names, own), any_thread)


def _joined(one_thread: pd.DataFrame, any_thread: pd.DataFrame) -> pd.DataFrame:
    renamed = any_thread.drop(columns=["count", "range_ns"]).rename(
        columns={
            "envelope_ns": "envelope_any_thread_ns",
            "busy_ns": "busy_any_thread_ns",
            "operation_count": "operation_count_any_thread",
        }
    )
    merged = renamed.merge(one_thread, how="left", on="name")
    numbers = [column for column in merged.columns if column != "name"]
    merged[numbers] = merged[numbers].fillna(0).astype(np.int64)
    ordered = merged[[*one_thread.columns, *renamed.columns[1:]]]
    keys = ["envelope_ns", "envelope_any_thread_ns", "name"]
    return ordered.sort_values(keys, ascending=[False, False, True], ignore_index=True)


def _by_name(context: TraceContext, names: pd.Index, pairs: Pairs) -> pd.DataFrame:
    """Return the projection of ranges by name, of one set of pairs."""
    ranges = context.trace[tables.RANGES]
    rows, which = _grouped(pairs, len(context.operations.start))
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])) if len(rows) else np.empty(0, np.intp)
    envelope, busy = _envelope_and_union(context.operations, which, first)
    of_range = rows[first]
    frame = pd.DataFrame(
        {
            "name": names[of_range],
            "count": 1,
            "range_ns": array(ranges, "end")[of_range] - array(ranges, "start")[of_range],
            "envelope_ns": envelope,
            "busy_ns": busy,
            "operation_count": np.diff(np.append(first, len(rows))),
        }
    )
    return frame.groupby("name", as_index=False, sort=False).sum()


def _grouped(pairs: Pairs, operation_count: int) -> tuple[Indices, Indices]:
    """Return ranges and operations of the pairs by range, then by start: operations are numbered in that order."""
    key = pairs.range * operation_count
    key += pairs.operation
    # Runs of these keys are in order already, and a stable sort only merges them.
    key.sort(kind="stable")
    rows = key // max(operation_count, 1)
    key -= rows * operation_count
    return rows, key


def _envelope_and_union(operations: Operations, which: Indices, first: Indices) -> tuple[Times, Times]:
    """Return how long each group of operations lasts, from its first start to its last end, and its union.

    Args:
        operations: All that ran on the GPUs.
        which: Operations, those of a group one behind another, by start.
        first: Where in ``which`` each group begins.
    """
    envelope, busy = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    bounds = np.append(first, len(which))
    group = 0
    while group < len(first):
        # As many groups as fill a block, and one at least.
        until = max(int(np.searchsorted(bounds, bounds[group] + BLOCK, side="right")) - 1, group + 1)
        mine = which[bounds[group] : bounds[until]]
        start, end, at = operations.start[mine], operations.end[mine], first[group:until] - bounds[group]
        envelope[group:until] = np.maximum.reduceat(end, at) - start[at]
        busy[group:until] = _union_by_group(start, end, at)
        group = until
    return envelope, busy


def _union_by_group(start: Times, end: Times, first: Indices) -> Times:
    """Return the length of the union of each group of intervals; groups lie one behind another, sorted by start."""
    # Groups are set apart by more than any of them lasts, so that a running maximum cannot cross a border.
    apart = int(end.max()) - int(start.min()) + 1
    bounds = np.append(first, len(start))
    found = []
    most = max(LARGEST // apart, 1)
    for begin in range(0, len(first), most):
        some = bounds[begin : begin + most + 1]
        rows = slice(int(some[0]), int(some[-1]))
        found.append(_some_unions(start[rows], end[rows], some - some[0], apart))
    return np.concatenate(found)


def _some_unions(start: Times, end: Times, bounds: Indices, apart: int) -> Times:
    shift = np.repeat(np.arange(len(bounds) - 1) * apart - int(start.min()), np.diff(bounds))
    low = start + shift
    shift += end
    reach = np.maximum.accumulate(shift)
    np.maximum(low[1:], reach[:-1], out=low[1:])
    fresh = np.subtract(shift, low, out=low)
    return np.add.reduceat(np.maximum(fresh, 0, out=fresh), bounds[:-1])
