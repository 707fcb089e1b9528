"""An export that does not fit into memory: where its rows are, and traces of some of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import tables
from nsyswrap.trace.connection import Export
from nsyswrap.trace.load import RowsRead, load_export, sources_of
from nsyswrap.trace.read_table import Arrays, texts_of
from nsyswrap.trace.row_choice import LIMITS, RowChoice, TableIndex, ends_of, index_of
from nsyswrap.trace.schema import Source
from nsyswrap.trace.tables import Trace
from nsyswrap.trace.valid_rows import EVERY, find_bounds

# All times that are possible.
_ALWAYS = int(EVERY.low), int(EVERY.high)

Progress = Callable[[str, int, int], None]
"""Called with what is done, the number of rows that are done, and the number of all."""


class RowCounter:
    """Adds up rows, and shows how many are done."""

    def __init__(self, progress: Progress, what: str, every: int) -> None:
        self._progress, self._what, self._every, self._done = progress, what, every, 0

    def __call__(self, rows: int) -> None:
        """Add rows that are done."""
        self._done += rows
        self._progress(self._what, min(self._done, self._every), self._every)


@dataclass(frozen=True, slots=True)
class LargeExport:
    """A large export and where its rows are."""

    export: Export
    environ: Mapping[str, str]
    unread: frozenset[str]
    progress: Progress
    indexes: Mapping[str, TableIndex]

    @classmethod
    def of(
        cls, export: Export, environ: Mapping[str, str], unread: frozenset[str], progress: Progress
    ) -> "LargeExport":
        """Find where the rows of an export are.

        Raises:
            ExportError: Times are wrong.
        """
        sources = sources_of(export, unread)
        count = RowCounter(progress, "finding", sum(len(export.row_numbers(each.table)) for each in sources))
        found = cls(
            export, environ, unread, progress, {each.spec.name: index_of(export, each, count) for each in sources}
        )
        if find_bounds(found._extents()) != EVERY:
            raise ExportError(
                f"{export.path.name}: some of its times are more than 52 days from the others",
                hint="export it afresh; or give more memory, with which all is read and such rows are left out",
            )
        return found

    def extent(self) -> tuple[int, int]:
        """Return the start of the first event and the end of the last, without ranges, in ns."""
        known = self._extents().values()
        first = min(int(each["start"].min(initial=LIMITS.max)) for each in known)
        return first, max(int(each["end"].max(initial=LIMITS.min)) for each in known)

    def _extents(self) -> dict[str, Arrays]:
        """Return the first and last times of the parts of each table; none of ranges, which may stay open."""
        known = {
            name: (index.first_ns <= index.last_ns) & (name != tables.RANGES.name)
            for name, index in self.indexes.items()
        }
        return {
            name: {"start": index.first_ns[known[name]], "end": index.end_ns[known[name]]}
            for name, index in self.indexes.items()
        }

    def ranges(self, are_wanted: Callable[[Iterable[str]], Collection[str]]) -> Arrays:
        """Return the ranges of all of the capture with texts that are wanted; their texts are not cleaned yet."""
        index = self.indexes[tables.RANGES.name]
        known = texts_of(self.export)
        registered = set(are_wanted(known.values()))
        ids = [key for key, text in known.items() if text in registered]
        found = [index.reader.nothing()]
        for columns in index.read(np.ones(len(index.rows), bool)):
            texts = columns["text"].tolist()
            wanted = set(are_wanted(set(texts)))
            rows = np.isin(columns["text_id"], ids) | np.fromiter((each in wanted for each in texts), bool, len(texts))
            found.append({name: values[rows] for name, values in columns.items()})
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    def trace_of_ranges(self, ranges: Arrays, others: Collection[str]) -> Trace:
        """Return the trace of some ranges."""

        def reading(_export: Export, _sources: Sequence[Source]) -> RowsRead:
            small = {name: self.indexes[name] for name in others if name in self.indexes}
            found = RowChoice(small, *_ALWAYS, lambda _rows: None).read()
            # Copies, since what is read changes them.
            own = {name: values.copy() for name, values in ranges.items()}
            return RowsRead(found | {tables.RANGES.name: own}, {}, max(self.extent()[1], 0))

        unread = self.unread | (frozenset(self.indexes) - {tables.RANGES.name, *others})
        return load_export(self.export.path, self.environ, unread, reading)

    def trace_between(self, start_ns: int, end_ns: int, ranges: Arrays | None) -> Trace:
        """Return the trace of the rows that an interval needs."""
        counts = {name: int(index.rows.sum()) for name, index in self.indexes.items()}
        if tables.RANGES.name in counts:
            # nsys counts other events of this table, too.
            counts[tables.RANGES.name] = self.export.row_count(self.indexes[tables.RANGES.name].reader.source.table)

        def reading(_export: Export, _sources: Sequence[Source]) -> RowsRead:
            rows = sum(int(each.rows[each.touching(start_ns, end_ns)].sum()) for each in self.indexes.values())
            arrays = RowChoice(self.indexes, start_ns, end_ns, RowCounter(self.progress, "reading", rows)).read()
            if ranges is not None:
                inside = arrays[tables.RANGES.name]
                outside = (ranges["start"] >= end_ns) | (ends_of(ranges) < start_ns)
                arrays[tables.RANGES.name] = {
                    name: np.concatenate([values, ranges[name][outside]]) for name, values in inside.items()
                }
            return RowsRead(arrays, counts, max(self.extent()[1], 0))

        return load_export(self.export.path, self.environ, self.unread, reading)
