"""Reads an export with bounded memory: all of it where it fits, else a part in detail and the ledger of all.

The path of a large export::

    times and ids of all rows --> where rows are            trace.large_export
    ranges --> measured steps --> the interval              choose_steps
    operations in order of time --> ledgers of all          whole_ledger
    rows of the interval, and what they refer to --> trace  trace.large_export
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nsyswrap.base.excerpt import Excerpt
from nsyswrap.base.intervals import Times, Window
from nsyswrap.base.patterns import time_limit
from nsyswrap.events.operations import SOURCES
from nsyswrap.loop.step_detection import Steps, find_steps, step_matcher
from nsyswrap.loop.whole_ledger import LedgerSweep, Swept, extent_of_operations, whole_ledgers
from nsyswrap.loop.xray_step import TEXT as XRAY
from nsyswrap.loop.xray_step import without_xray
from nsyswrap.trace import tables
from nsyswrap.trace.connection import opened
from nsyswrap.trace.large_export import LargeExport, Progress, RowCounter
from nsyswrap.trace.load import OPERATIONS, load_export, sources_of
from nsyswrap.trace.read_table import Arrays
from nsyswrap.trace.row_choice import BY_ID, WHOLE, TableIndex
from nsyswrap.trace.tables import Trace

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


# Texts of ranges that decide which ranges of ours are steps.
_PASSES = ("forward", "backward")
# The part of the memory that an X-ray step may take: the rest is for the steps that are measured. Ours.
_MOST_FOR_XRAY = 0.5
# What a table without a time says about all of a capture.
_FOR_STEPS = (tables.THREADS.name, tables.DIAGNOSTICS.name)


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

    def needed(part: int) -> int:
        chosen = interval(part)
        return sizes.needed_bytes(chosen.start_ns - chosen.around_ns, chosen.end_ns + chosen.around_ns)

    # How many of the lengths from 2 ns on fit.
    return interval(1 + bisect_right(range(2, length + 1), memory_bytes, key=needed))


class ReadRequest(NamedTuple):
    """What is wanted of a large export.

    Attributes:
        memory_bytes: Memory that reading and analyzing may take.
        window: The interval that the user gives; None for steps or, without steps, all.
        wants_all: Whether the window is that of all operations.
        step_pattern: Regular expression of the ranges that are steps; empty for the usual spellings.
        has_step_kernel: Whether kernels begin the steps, and not ranges.
        environ: The environment of this process, whose secrets are removed from texts.
        unread: Names of tables that are not read.
        progress: Shows how much is read.
    """

    memory_bytes: int
    window: Window | None = None
    wants_all: bool = False
    step_pattern: str = ""
    has_step_kernel: bool = False
    environ: Mapping[str, str] = {}
    unread: frozenset[str] = frozenset()
    progress: Progress = lambda _what, _done, _all: None


def load_within(path: Path, request: ReadRequest) -> Trace:
    """Read an export into a trace: all of it where its analysis fits into memory, else a part of it.

    Returns:
        Its tables; ``excerpt`` says which part they hold.

    Raises:
        ExportError: As ``load_export``; or times of a large export are wrong.
        UsageError: The pattern of steps is no regular expression.
    """
    if _is_small(path, request.memory_bytes):
        return load_export(path, request.environ, request.unread)
    with opened(path) as export:
        sources = sources_of(export, request.unread)
        sizes = {each.spec.name: float(len(export.row_numbers(each.table))) for each in sources}
        needed = bytes_of_rows(sizes)
        if needed <= request.memory_bytes or not any(sizes.get(name) for name in OPERATIONS):
            return load_export(path, request.environ, request.unread)
        large = LargeExport.of(export, request.environ, request.unread, request.progress)
        return _LargeCapture(large, request, needed).trace()


def _is_small(path: Path, memory_bytes: int) -> bool:
    """Return whether a file fits whatever it holds; then its tables need not be looked at first."""
    try:
        return BASE_BYTES + PER_FILE_BYTE * path.stat().st_size <= memory_bytes
    except OSError:
        return True


@dataclass(frozen=True, slots=True)
class _LargeCapture:
    """A large export and what is wanted of it."""

    large: LargeExport
    request: ReadRequest
    needed_bytes: int

    def trace(self) -> Trace:
        """Return the trace of the part that fits."""
        every = extent_of_operations(self.large.indexes)
        if every is None:
            return load_export(self.large.export.path, self.request.environ, self.request.unread)
        steps, ranges, observed_ns = self._step_ranges()
        measured = None if steps is None else steps.measured_window()
        memory, xray = self.request.memory_bytes, self._xray(observed_ns)
        if xray is not None:
            memory -= bytes_of_rows({name: float(len(frame)) for name, frame in xray.frames.items()}) - BASE_BYTES
        chosen = self._interval(every, steps if measured else None, memory)
        operations = [self.large.indexes[name] for name in OPERATIONS if name in self.large.indexes]
        count = RowCounter(self.request.progress, "adding up", sum(int(each.rows.sum()) for each in operations))
        own = steps.windows_of(measured) if steps and measured else {}
        sweep = LedgerSweep(every, own, (chosen.start_ns, chosen.end_ns))
        swept = whole_ledgers(self.large.export, self.large.indexes, sweep, count)
        return replace(self._read(chosen, swept, ranges, memory), xray=xray)

    def _xray(self, start_ns: int | None) -> Trace | None:
        """Return the X-ray step, with which the recording ends; None where there is none, or too little memory."""
        if start_ns is None:
            return None
        end_ns = self.large.extent()[1]
        needed = IntervalSizes(self.large.indexes).needed_bytes(start_ns, end_ns) - BASE_BYTES
        if needed > _MOST_FOR_XRAY * (self.request.memory_bytes - BASE_BYTES):
            return None
        return without_xray(self.large.trace_between(start_ns, end_ns, None))[1]

    def _interval(self, every: tuple[int, int], steps: Steps | None, memory: int) -> ReadInterval:
        """Return what is read in detail."""
        sizes, given = IntervalSizes(self.large.indexes), self.request.window
        longest = 0 if steps is None else int((steps.measured["end"] - steps.measured["start"]).max())
        if given is not None:
            first, last = self.large.extent()
            start, end = max(given.start_ns, first), min(given.end_ns, last)
            return choose_time(
                sizes, *((start, end) if start < end else (given.start_ns, given.end_ns)), memory, longest
            )
        if steps is None or self.request.wants_all:
            return choose_time(sizes, *every, memory, longest)
        # Ranks take the same steps at the same time: those of the one with the most steps stand for all.
        process = steps.measured["process"].value_counts().sort_index().idxmax()
        own = steps.measured[steps.measured["process"] == process]
        return choose_steps(sizes, tables.array(own, "start"), tables.array(own, "end"), memory)

    def _step_ranges(self) -> tuple[Steps | None, Arrays | None, int | None]:
        """Return the steps that ranges name, the ranges that may be steps, and the start of the X-ray step.

        Each is None where there is none.
        """
        if tables.RANGES.name not in self.large.indexes or self.request.has_step_kernel:
            return None, None, None
        matcher = step_matcher(self.request.step_pattern)

        def are_wanted(texts: Iterable[str]) -> set[str]:
            with time_limit("--step-range", matcher.pattern):
                return {text for text in texts if text in {*_PASSES, XRAY} or matcher.search(text)}

        ranges = self.large.ranges(are_wanted)
        trace, xray = without_xray(self.large.trace_of_ranges(ranges, _FOR_STEPS))
        observed_ns = None if xray is None else int(tables.array(xray[tables.RANGES], "start").min())
        return find_steps(trace, self.request.step_pattern), ranges, observed_ns

    def _read(self, chosen: ReadInterval, swept: Swept, ranges: Arrays | None, memory: int) -> Trace:
        """Return the trace of an interval."""
        trace = self.large.trace_between(*self._around(chosen, swept, memory), ranges)
        excerpt = Excerpt(
            start_ns=chosen.start_ns,
            end_ns=chosen.end_ns,
            extent=self.large.extent(),
            is_wanted=chosen.is_wanted,
            read_count=sum(_count(trace, spec, chosen) for spec in SOURCES),
            operation_count=sum(each.operation_count for each in swept.ledgers if not each.of_steps),
            needed_bytes=self.needed_bytes,
            memory_bytes=self.request.memory_bytes,
            ledgers=swept.ledgers,
        )
        return replace(trace, excerpt=excerpt)

    def _around(self, chosen: ReadInterval, swept: Swept, memory: int) -> tuple[int, int]:
        """Return the interval with what is around it.

        The next operation of each GPU on either side belongs to it, as far as the memory allows: it ends the gap at the
        edge.
        """
        sizes = IntervalSizes(self.large.indexes)
        start, end = chosen.start_ns - chosen.around_ns, chosen.end_ns + chosen.around_ns
        for before in sorted(swept.before_ns, reverse=True):
            if sizes.needed_bytes(min(before, start), end) <= memory:
                start = min(before, start)
        for after in sorted(swept.after_ns):
            if sizes.needed_bytes(start, max(after + 1, end)) <= memory:
                end = max(after + 1, end)
        return start, end


def _count(trace: Trace, spec: tables.TableSpec, chosen: ReadInterval) -> int:
    """Return how many operations of a table run in an interval."""
    start, end = (tables.array(trace[spec], name) for name in ("start", "end"))
    return int(np.count_nonzero((start < chosen.end_ns) & (end > chosen.start_ns)))
