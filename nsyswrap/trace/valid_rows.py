"""Which rows of a table are valid, and their order."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

FARTHEST = np.int64(1 << 61)  # no valid time is 70 years from 1970, or from the start of its capture
# No event is 52 days from the middle of its capture. Sums of such times over 1,000 GPUs or threads fit into int64.
LONGEST = np.int64(1 << 52)
# More bytes than any memory has, and small enough that sums cannot overflow.
MOST_BYTES = np.int64(1 << 48)
# Rows that are sorted at a time where events are nearly in order.
BLOCK = 1 << 14


class Bounds(NamedTuple):
    """The bounds of valid times: later than ``low`` and earlier than ``high``, in ns since capture start."""

    low: int
    high: int


EVERY = Bounds(-int(FARTHEST), int(FARTHEST))


def find_bounds(arrays: Mapping[str, Arrays]) -> Bounds:
    """Return the bounds of valid times. A capture that is longer than any may be has events with wrong times.

    They are far from the others, so the middle of the largest table is where the capture is.
    """
    starts = [columns["start"] for columns in arrays.values() if "start" in columns and len(columns["start"])]
    ends = [columns["end"] for columns in arrays.values() if "end" in columns and len(columns["end"])]
    if not starts:
        return EVERY
    first = min(int(each.min()) for each in starts)
    last = max(int(each.max()) for each in (*starts, *ends))
    if first > -FARTHEST and last < FARTHEST and last - first <= LONGEST:
        return EVERY
    largest = max(starts, key=len)
    middle = int(np.partition(largest, len(largest) // 2)[len(largest) // 2])
    return Bounds(max(middle - int(LONGEST), EVERY.low), min(middle + int(LONGEST), EVERY.high))


# Why rows are left out, as the end of "1 row of copies"; the first for all but the others.
_OF_TIMES, _OF_SIZE, _OF_DEVICE = (
    " without a start, or with an end before the start",
    " of an impossible size",
    " on no GPU",
)


def keep_possible(columns: Arrays, bounds: Bounds, *, is_operation: bool) -> dict[str, int]:
    """Drop invalid rows, sort the others by start, and return how many were dropped by reason, in words."""
    if "start" not in columns:
        return {}
    wrong = _wrong(columns, bounds, is_operation=is_operation)
    dropped = {reason: int(np.count_nonzero(rows)) for reason, rows in wrong.items() if rows.any()}
    if dropped:
        good = ~np.logical_or.reduce(list(wrong.values()))
        for name in columns:
            kept: Any = columns[name][good]
            if isinstance(kept, pd.Categorical):
                kept = kept.remove_unused_categories()
            columns[name] = kept
    _sort_by_start(columns)
    _order_ties(columns)
    return dropped


def possible(columns: Arrays, bounds: Bounds, *, is_operation: bool) -> npt.NDArray[np.bool_]:
    """Return which rows of a table are valid."""
    good: npt.NDArray[np.bool_] = ~np.logical_or.reduce(
        list(_wrong(columns, bounds, is_operation=is_operation).values())
    )
    return good


def _wrong(columns: Arrays, bounds: Bounds, *, is_operation: bool) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which rows of a table are not valid, by reason; a row has one reason."""
    start = columns["start"]
    end = columns.get("end", start)
    bad = np.zeros(len(start), bool) if end is start else end < start
    # Check the whole column first: in a valid export nothing is out of bounds.
    if len(start) and (start.min() <= bounds.low or end.max() >= bounds.high):
        bad |= (start <= bounds.low) | (end >= bounds.high)
    if is_operation:
        # CUPTI writes start 0 and end 0 for an operation without times.
        bad |= (start == 0) & (end == 0)
    found = {_OF_TIMES: bad}
    for reason, column, most in ((_OF_SIZE, "bytes", MOST_BYTES), (_OF_DEVICE, "device_id", None)):
        values = columns.get(column)
        if values is not None and len(values) and (values.min() < 0 or (most is not None and values.max() >= most)):
            outside = values < 0 if most is None else (values < 0) | (values >= most)
            found[reason] = outside & ~np.logical_or.reduce(list(found.values()))
    return found


def _sort_by_start(columns: Arrays) -> None:
    """Sort the rows of a table by start, in place: rows of equal start keep their order."""
    start = columns["start"]
    for rows in _unsorted_parts(start):
        order = np.argsort(start[rows], kind="stable")
        for values in columns.values():
            values[rows] = values[rows][order]


def _unsorted_parts(start: Array) -> Iterator[slice]:
    """Yield the smallest groups of blocks of rows that are not sorted; no row has to leave its group.

    Threads write their events in turns, so rows are only a little out of order.
    """
    firsts = np.arange(0, len(start), BLOCK)
    if not len(firsts):
        return
    highest = np.maximum.accumulate(np.maximum.reduceat(start, firsts))
    lowest = np.minimum.accumulate(np.minimum.reduceat(start, firsts)[::-1])[::-1]
    begins = firsts[np.append(True, highest[:-1] <= lowest[1:])].tolist()
    for first, last in itertools.pairwise([*begins, len(start)]):
        part = start[first:last]
        if np.any(part[1:] < part[:-1]):
            yield slice(first, last)


def _order_ties(columns: Arrays) -> None:
    """Sort rows of equal start by their other columns, since an export does not define an order of rows."""
    start = columns["start"]
    same = start[1:] == start[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(tied):
        return
    names = sorted(columns, key=lambda name: (name != "start", name != "end"))
    rows = pd.DataFrame({name: columns[name][tied] for name in names}, index=tied).sort_values(names).index.to_numpy()
    moved = rows != tied
    for name in columns:
        columns[name][tied[moved]] = columns[name][rows[moved]]
