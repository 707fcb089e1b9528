"""Which interval of a large capture is read in detail: as many measured steps in the middle as fit into memory."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nsyswrap.base.intervals import Times
from nsyswrap.trace import tables
from nsyswrap.trace.row_choice import BY_ID, WHOLE
from nsyswrap.trace.time_index import TableIndex

# What a process holds before it reads anything, and what the analysis takes for each row. Measured: an export of 2.3
# million operations, 4.9 million CUDA calls and 8.2 million OS calls takes at most 1.6 GB; see docs/performance.md.
BASE_BYTES = 350_000_000
ROW_BYTES = 100
# Rows whose analysis takes more: operations with their attribution, and texts.
_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("kernels", "copies", "memsets", "graphs"), 550),
    tables.RANGES.name: 300,
}
# No row takes more memory than so many times its bytes in the file: that of a kernel has at least 60 bytes.
PER_FILE_BYTE = 10
# Halvings of an interval without steps: a millionth of it is exact enough.
_HALVINGS = 20


class ReadInterval(NamedTuple):
    """An interval that is read.

    Attributes:
        start_ns, end_ns: What can be reported on.
        around_ns: What is read before and after it.
        is_wanted: Whether it is all that the user asked for.
    """

    start_ns: int
    end_ns: int
    around_ns: int
    is_wanted: bool


def bytes_of_rows(rows: Mapping[str, float]) -> int:
    """Return about how much memory the analysis of some rows takes, in bytes."""
    return BASE_BYTES + round(sum(count * _BYTES.get(name, ROW_BYTES) for name, count in rows.items()))


class IntervalSizes:
    """How much memory intervals of a capture take."""

    def __init__(self, indexes: Mapping[str, TableIndex]) -> None:
        self._indexes = indexes

    def needed_bytes(self, start_ns: int, end_ns: int) -> int:
        """Return about how much memory the rows take that start in an interval, and those that are read with them."""
        return bytes_of_rows({index.name: self._rows(index, start_ns, end_ns) for index in self._indexes.values()})

    def _rows(self, index: TableIndex, start_ns: int, end_ns: int) -> float:
        whole = float(index.rows.sum())
        if index.name in BY_ID:
            calls = self._indexes.get(tables.CALLS.name)
            count = int(calls.rows.sum()) if calls else 0
            return whole * self._rows(calls, start_ns, end_ns) / count if calls and count else 0.0
        if index.name in WHOLE or "start" not in index.reader.source.required:
            return whole
        before, until = index.rows_before(np.array([start_ns, end_ns])).tolist()
        return float(until - before)


def choose_steps(sizes: IntervalSizes, start: Times, end: Times, memory_bytes: int) -> ReadInterval:
    """Return the interval of as many steps around the middle one as fit into memory, at least one."""
    around = int((end - start).max())

    def interval(count: int) -> ReadInterval:
        first = (len(start) - count) // 2
        return ReadInterval(int(start[first]), int(end[first + count - 1]), around, count == len(start))

    def needed(count: int) -> int:
        chosen = interval(count)
        return sizes.needed_bytes(chosen.start_ns - around, chosen.end_ns + around)

    # How many of the counts from 2 on fit.
    return interval(1 + bisect_right(range(2, len(start) + 1), memory_bytes, key=needed))


def choose_time(sizes: IntervalSizes, start_ns: int, end_ns: int, memory_bytes: int, step_ns: int = 0) -> ReadInterval:
    """Return the longest part around the middle of an interval that fits into memory.

    Args:
        sizes: The capture.
        start_ns: Start of the interval.
        end_ns: Its end.
        memory_bytes: Memory that may be used.
        step_ns: The longest step, which may go on outside of the interval.
    """
    length = end_ns - start_ns

    def interval(part: int) -> ReadInterval:
        first = start_ns + (length - part) // 2
        return ReadInterval(first, first + part, max(part // 100, step_ns, 1), part == length)

    def fits(one: ReadInterval) -> bool:
        return sizes.needed_bytes(one.start_ns - one.around_ns, one.end_ns + one.around_ns) <= memory_bytes

    if fits(interval(length)):
        return interval(length)
    least, step = 1, length // 2
    for _ in range(_HALVINGS):
        if step and fits(interval(least + step)):
            least += step
        step //= 2
    return interval(least)
