"""Reads an export with bounded memory: all of it where it fits, else a part in detail and the ledger of all.

The path of a large export::

    times and ids of all rows --> where rows are            time_index
    ranges --> measured steps --> the interval              interval_choice
    operations in order of time --> ledgers of all          whole_ledger
    rows of the interval, and what they refer to --> trace  row_choice
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nsyswrap import tables
from nsyswrap.db import queries, schema
from nsyswrap.db.connection import Export, opened
from nsyswrap.db.load import OPERATIONS, RowsRead, load_export, sources_of
from nsyswrap.db.read_table import Arrays, cut_text
from nsyswrap.db.schema import Source
from nsyswrap.db.valid_rows import EVERY, find_bounds
from nsyswrap.errors import ExportError
from nsyswrap.events.operations import SOURCES
from nsyswrap.excerpt import Excerpt
from nsyswrap.intervals import Window
from nsyswrap.large.interval_choice import (
    BASE_BYTES,
    PER_FILE_BYTE,
    Interval,
    Sizes,
    bytes_of_rows,
    choose_steps,
    choose_time,
)
from nsyswrap.large.row_choice import RowChoice
from nsyswrap.large.time_index import LIMITS, TableIndex, ends_of, index_of
from nsyswrap.large.whole_ledger import Sweep, Swept, extent_of_operations, whole_ledgers
from nsyswrap.loop.step_detection import Steps, find_steps, step_matcher
from nsyswrap.patterns import time_limit
from nsyswrap.tables import Trace

# Texts of ranges that decide which ranges of ours are steps.
_PASSES = ("forward", "backward")
# What a table without a time says about all of a capture.
_FOR_STEPS = frozenset({tables.RANGES.name, tables.THREADS.name, tables.DIAGNOSTICS.name})

Progress = Callable[[str, int, int], None]
"""Called with what is done, the number of rows that are done, and the number of all."""


class Request(NamedTuple):
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


def load_within(path: Path, request: Request) -> Trace:
    """Read an export into a trace: all of it where its analysis fits into memory, else a part of it.

    Args:
        path: A ``.sqlite`` export.
        request: What is wanted.

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
        return _LargeExport.of(path, export, request, needed).trace()


def _is_small(path: Path, memory_bytes: int) -> bool:
    """Return whether a file fits whatever it holds; then its tables need not be looked at first."""
    try:
        return BASE_BYTES + PER_FILE_BYTE * path.stat().st_size <= memory_bytes
    except OSError:
        return True


@dataclass(frozen=True, slots=True)
class _LargeExport:
    """A large export and where its rows are."""

    path: Path
    export: Export
    request: Request
    needed_bytes: int
    indexes: Mapping[str, TableIndex]

    @classmethod
    def of(cls, path: Path, export: Export, request: Request, needed_bytes: int) -> "_LargeExport":
        """Find where the rows of an export are.

        Raises:
            ExportError: Times are wrong.
        """
        sources = sources_of(export, request.unread)
        count = _Counter(request.progress, "finding", sum(len(export.row_numbers(each.table)) for each in sources))
        indexes = {each.spec.name: index_of(export, each, count) for each in sources}
        known = {name: _extents(index) for name, index in indexes.items()}
        if find_bounds(known) != EVERY:
            raise ExportError(
                f"{path.name}: some of its times are more than 52 days from the others",
                hint="export it afresh; or give more memory, with which all is read and such rows are left out",
            )
        return cls(path, export, request, needed_bytes, indexes)

    def trace(self) -> Trace:
        """Return the trace of the part that fits."""
        every = extent_of_operations(self.indexes)
        if every is None:
            return load_export(self.path, self.request.environ, self.request.unread)
        steps = self._step_ranges()
        measured = None if steps is None else steps.found.measured_window()
        chosen = self._interval(every, steps.found if steps and measured else None)
        operations = [self.indexes[name] for name in OPERATIONS if name in self.indexes]
        count = _Counter(self.request.progress, "adding up", sum(int(each.rows.sum()) for each in operations))
        own = steps.found.windows_of(measured) if steps and measured else {}
        sweep = Sweep(every, own, (chosen.start_ns, chosen.end_ns))
        swept = whole_ledgers(self.export, self.indexes, sweep, count)
        return self._read(chosen, swept, steps.ranges if steps else None)

    def _interval(self, every: tuple[int, int], steps: Steps | None) -> Interval:
        """Return what is read in detail."""
        sizes, memory, given = Sizes(self.indexes), self.request.memory_bytes, self.request.window
        longest = 0 if steps is None else int((steps.measured["end"] - steps.measured["start"]).max())
        if given is not None:
            first, last = self._extent()
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

    def _step_ranges(self) -> "_StepRanges | None":
        """Return the steps that ranges name; None where there are none."""
        index = self.indexes.get(tables.RANGES.name)
        if index is None or self.request.has_step_kernel:
            return None
        ranges = _possible_steps(self.export, index, self.request.step_pattern)

        def reading(_export: Export, sources: Sequence[Source]) -> RowsRead:
            small = {each.spec.name for each in sources} - {tables.RANGES.name}
            choice = RowChoice({name: self.indexes[name] for name in small}, *_ALWAYS, _nothing)
            # Copies, since what is read changes them.
            own = {name: values.copy() for name, values in ranges.items()}
            return RowsRead(choice.read() | {tables.RANGES.name: own}, {}, max(self._extent()[1], 0))

        unread = self.request.unread | (frozenset(self.indexes) - _FOR_STEPS)
        found = find_steps(load_export(self.path, self.request.environ, unread, reading), self.request.step_pattern)
        return _StepRanges(found, ranges)

    def _read(self, chosen: Interval, swept: Swept, steps: Arrays | None) -> Trace:
        """Return the trace of an interval."""
        trace = self._read_between(*self._around(chosen, swept), steps)
        excerpt = Excerpt(
            start_ns=chosen.start_ns,
            end_ns=chosen.end_ns,
            extent=self._extent(),
            is_wanted=chosen.is_wanted,
            read_count=sum(_count(trace, spec, chosen) for spec in SOURCES),
            operation_count=sum(each.operation_count for each in swept.ledgers if not each.of_steps),
            needed_bytes=self.needed_bytes,
            memory_bytes=self.request.memory_bytes,
            ledgers=swept.ledgers,
        )
        return replace(trace, excerpt=excerpt)

    def _around(self, chosen: Interval, swept: Swept) -> tuple[int, int]:
        """Return the interval with what is around it.

        The next operation of each GPU on either side belongs to it, as far as the memory allows: it ends the gap at the
        edge.
        """
        sizes = Sizes(self.indexes)
        start, end = chosen.start_ns - chosen.around_ns, chosen.end_ns + chosen.around_ns
        for before in sorted(swept.before_ns, reverse=True):
            if sizes.needed_bytes(min(before, start), end) <= self.request.memory_bytes:
                start = min(before, start)
        for after in sorted(swept.after_ns):
            if sizes.needed_bytes(start, max(after + 1, end)) <= self.request.memory_bytes:
                end = max(after + 1, end)
        return start, end

    def _read_between(self, start_ns: int, end_ns: int, steps: Arrays | None) -> Trace:
        """Return the trace of the rows that an interval needs, with the steps of all of the capture."""
        counts = {name: int(index.rows.sum()) for name, index in self.indexes.items()}
        if tables.RANGES.name in counts:
            # nsys counts other events of this table, too.
            counts[tables.RANGES.name] = self.export.row_count(self.indexes[tables.RANGES.name].reader.source.table)

        def reading(_export: Export, _sources: Sequence[Source]) -> RowsRead:
            interval = start_ns, end_ns
            rows = sum(int(each.rows[each.touching(*interval)].sum()) for each in self.indexes.values())
            arrays = RowChoice(self.indexes, *interval, _Counter(self.request.progress, "reading", rows)).read()
            if steps is not None:
                arrays[tables.RANGES.name] = _with_steps(arrays[tables.RANGES.name], steps, interval)
            return RowsRead(arrays, counts, max(self._extent()[1], 0))

        return load_export(self.path, self.request.environ, self.request.unread, reading)

    def _extent(self) -> tuple[int, int]:
        """Return the start of the first event and the end of the last, without ranges, in ns."""
        known = [_extents(index) for index in self.indexes.values()]
        first = min(int(each["start"].min(initial=LIMITS.max)) for each in known)
        return first, max(int(each["end"].max(initial=LIMITS.min)) for each in known)


class _StepRanges(NamedTuple):
    """The steps that ranges name, and the ranges that may be steps."""

    found: Steps
    ranges: Arrays


class _Counter:
    """Adds up rows, and shows how many are done."""

    def __init__(self, progress: Progress, what: str, every: int) -> None:
        self._progress, self._what, self._every, self._done = progress, what, every, 0

    def __call__(self, rows: int) -> None:
        self._done += rows
        self._progress(self._what, min(self._done, self._every), self._every)


# All times that are possible.
_ALWAYS = int(EVERY.low), int(EVERY.high)


def _nothing(_rows: int) -> None:
    """Show no progress: small tables are read at once."""


def _extents(index: TableIndex) -> Arrays:
    """Return the first and last times of the parts of a table that have any; none of ranges, which may stay open."""
    known = index.first_ns <= index.last_ns
    if index.name == tables.RANGES.name:
        known = np.zeros(len(known), bool)
    return {"start": index.first_ns[known], "end": index.end_ns[known]}


def _possible_steps(export: Export, index: TableIndex, pattern: str) -> Arrays:
    """Return the ranges whose texts name steps, or passes of a step, of all the capture."""
    matcher = step_matcher(pattern)

    def are_wanted(texts: Iterable[str]) -> set[str]:
        with time_limit("--step-range", matcher.pattern):
            return {text for text in texts if text in _PASSES or matcher.search(text)}

    known = _strings(export)
    registered = are_wanted(known.values())
    ids = [key for key, text in known.items() if text in registered]
    found = [index.reader.nothing()]
    for columns in index.read(np.ones(len(index.rows), bool)):
        texts = columns["text"].tolist()
        wanted = are_wanted(set(texts))
        rows = np.isin(columns["text_id"], ids) | np.fromiter((each in wanted for each in texts), bool, len(texts))
        found.append({name: values[rows] for name, values in columns.items()})
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _strings(export: Export) -> dict[int, str]:
    """Return the texts of the export by their ids."""
    if not export.has(schema.STRINGS, "id", "value"):
        return {}
    rows = export.rows(queries.pairs(schema.STRINGS, "id", "value"))
    return {key: cut_text(str(text)) for key, text in rows if text is not None}


def _with_steps(ranges: Arrays, steps: Arrays, interval: tuple[int, int]) -> Arrays:
    """Return the ranges of an interval, and the steps outside of it."""
    outside = (steps["start"] >= interval[1]) | (ends_of(steps) < interval[0])
    return {name: np.concatenate([values, steps[name][outside]]) for name, values in ranges.items()}


def _count(trace: Trace, spec: tables.TableSpec, chosen: Interval) -> int:
    """Return how many operations of a table run in an interval."""
    start, end = (tables.array(trace[spec], name) for name in ("start", "end"))
    return int(np.count_nonzero((start < chosen.end_ns) & (end > chosen.start_ns)))
