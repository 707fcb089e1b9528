"""Where in a large export the rows of a time are: the first and last times of each part of each table.

Rows of nsys are nearly in order of time, so few parts hold the rows of an interval. A part also has the lowest and the
highest correlation id of its rows: calls are long before the operations that they launch.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from nsyswrap import tables
from nsyswrap.db.connection import Export
from nsyswrap.db.load import OPERATIONS, READERS
from nsyswrap.db.read_table import Arrays, Part, TableReader
from nsyswrap.db.schema import Source
from nsyswrap.db.valid_rows import EVERY, possible
from nsyswrap.intervals import Indices, Times

# Few enough that a part and what is made of it take some tens of megabytes.
PART_ROWS = 1 << 17
# Columns that say where a row is. The kind of a range is read since other events of its table are left out.
_WHERE = ("start", "end", "correlation_id", "kind")
NEVER = np.iinfo(np.int64)

Progress = Callable[[int], None]
"""Called with a number of rows that were read."""


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One table of an export and where its rows are.

    Attributes:
        reader: Reads its parts.
        rows: Rows of each part, shape (parts,); impossible ones count, too.
        first_ns, last_ns: First and last start of the possible rows of each part; of a part without any, the first is
            later than the last.
        end_ns: Last end.
        low_id, high_id: Lowest and highest correlation id; 0 where rows have none.
    """

    reader: TableReader
    rows: Times
    first_ns: Times
    last_ns: Times
    end_ns: Times
    low_id: Times
    high_id: Times

    @property
    def name(self) -> str:
        """Return the name of the table in a trace."""
        return self.reader.source.spec.name

    @property
    def has_times(self) -> bool:
        """Return whether its rows have times."""
        return "start" in self.reader.source.required

    def touching(self, start_ns: int, end_ns: int) -> npt.NDArray[np.bool_]:
        """Return which parts may hold rows that touch an interval."""
        return (self.first_ns < end_ns) & (self.end_ns >= start_ns)

    def with_ids(self, low: int, high: int) -> npt.NDArray[np.bool_]:
        """Return which parts may hold rows with correlation ids in a range."""
        return (self.low_id <= high) & (self.high_id >= low) & (self.high_id > 0)

    def read(self, chosen: npt.NDArray[np.bool_]) -> Iterator[Arrays]:
        """Yield the columns of some parts, in order; several threads read."""
        parts = [self.reader.parts[at] for at in np.flatnonzero(chosen).tolist()]
        yield from _read_ahead(self.reader, parts)

    def rows_before(self, at: Times) -> npt.NDArray[np.float64]:
        """Return about how many rows start before each time: rows of a part are taken as evenly spread."""
        found = np.zeros(len(at))
        for rows, first, last in zip(self.rows.tolist(), self.first_ns.tolist(), self.last_ns.tolist(), strict=True):
            if first <= last:
                found += rows * np.clip((at - first) / (last - first + 1), 0.0, 1.0)
        return found


def index_of(export: Export, source: Source, progress: Progress) -> TableIndex:
    """Read the times and ids of a table, and return where its rows are.

    Args:
        export: The export.
        source: The table.
        progress: Called for each part.

    Raises:
        ExportError: The table is damaged.
    """
    whole = TableReader.in_parts(export, source, PART_ROWS)
    reader = TableReader.in_parts(export, _where(source), PART_ROWS)
    found = []
    for columns in _read_ahead(reader, reader.parts):
        found.append(_extent(columns, is_operation=source.spec.name in OPERATIONS))
        progress(found[-1][0])
    extents = np.array(found, np.int64).reshape(-1, 6).T
    return TableIndex(whole, *extents)


def _where(source: Source) -> Source:
    """Return the source of a table with the columns that say where a row is; samples of counters are found by SQL."""
    if source.spec is tables.COUNTERS:
        return source
    required = {ours: theirs for ours, theirs in source.required.items() if ours in _WHERE}
    optional = {ours: theirs for ours, theirs in source.optional.items() if ours in _WHERE}
    # A table without times and ids: any column tells its rows.
    return replace(source, required=required or dict(source.required), optional=optional)


def _extent(columns: Arrays, *, is_operation: bool) -> tuple[int, ...]:
    """Return the number of rows of a part, and its first start, last start, last end, lowest and highest id."""
    rows = len(next(iter(columns.values())))
    times = _possible_times(columns, is_operation=is_operation)
    ids = columns.get("correlation_id", np.empty(0, np.int64))
    ids = ids[ids > 0]
    of_times = (NEVER.max, NEVER.min, NEVER.min)
    if len(times[0]):
        of_times = int(times[0].min()), int(times[0].max()), int(times[1].max())
    return rows, *of_times, int(ids.min(initial=NEVER.max)), int(ids.max(initial=0))


def _possible_times(columns: Arrays, *, is_operation: bool) -> tuple[Times, Times]:
    """Return the starts and ends of the possible rows; a row without an end may be open up to the end of the capture."""
    if "start" not in columns:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start, end = columns["start"], columns.get("end", columns["start"])
    if "kind" in columns:
        end = np.where(end == NEVER.min, EVERY.high - 1, end)
    good = possible({"start": start, "end": end}, EVERY, is_operation=is_operation)
    return start[good], end[good]


def _read_ahead(reader: TableReader, parts: Iterable[Part]) -> Iterator[Arrays]:
    """Yield the columns of parts in order, while other threads read the next ones; few are in memory."""
    waiting = iter(parts)
    with ThreadPoolExecutor(READERS) as pool:
        running = [pool.submit(reader.alone, part) for part in islice(waiting, READERS)]
        while running:
            columns = running.pop(0).result()
            running += [pool.submit(reader.alone, part) for part in islice(waiting, 1)]
            yield columns


def joined(parts: list[Arrays], like: Callable[[], Arrays]) -> Arrays:
    """Return the columns of several parts as those of one; of no parts, the columns of none."""
    if not parts:
        return like()
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def rows_with(columns: Arrays, rows: Indices | npt.NDArray[np.bool_]) -> Arrays:
    """Return some rows of all columns."""
    return {name: values[rows] for name, values in columns.items()}
