"""Where in a large export the rows of a time are: the first and last times of each part of each table.

Rows of nsys are nearly in order of time, so few parts hold the rows of an interval. A part also has the lowest and the
highest correlation id of its rows: a call may be long before the operation that it launches.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Times
from nsyswrap.trace import tables
from nsyswrap.trace.connection import Export
from nsyswrap.trace.load import OPERATIONS, READERS
from nsyswrap.trace.read_table import Arrays, TablePart, TableReader
from nsyswrap.trace.schema import Source
from nsyswrap.trace.valid_rows import EVERY, possible

# A part and what is made of it take some tens of megabytes.
PART_ROWS = 1 << 17
# Columns that say where a row is. The kind tells ranges from other events of their table.
_WHERE = frozenset({"start", "end", "correlation_id", "kind"})
LIMITS = np.iinfo(np.int64)

Flags = npt.NDArray[np.bool_]
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
        low_id, high_id: Lowest and highest correlation id; of a part without any, the lowest is above the highest.
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

    def touching(self, start_ns: int, end_ns: int) -> Flags:
        """Return which parts may hold rows that touch an interval."""
        return (self.first_ns < end_ns) & (self.end_ns >= start_ns)

    def with_ids(self, low: int, high: int) -> Flags:
        """Return which parts may hold rows with correlation ids from a lowest to a highest."""
        return (self.low_id <= high) & (self.high_id >= low)

    def read(self, chosen: Flags) -> Iterator[Arrays]:
        """Yield the columns of some parts, in order; several threads read."""
        yield from read_ahead((self.reader, self.reader.parts[at]) for at in np.flatnonzero(chosen).tolist())

    def rows_before(self, at: Times) -> npt.NDArray[np.float64]:
        """Return about how many rows start before each time: those of a part are taken as evenly spread."""
        found = np.zeros(len(at))
        for rows, first, last in zip(self.rows.tolist(), self.first_ns.tolist(), self.last_ns.tolist(), strict=True):
            if first <= last:
                found += rows * np.clip((at - first) / (last - first + 1), 0.0, 1.0)
        return found


def index_of(export: Export, source: Source, progress: Progress) -> TableIndex:
    """Read the times and ids of a table, and return where its rows are.

    Raises:
        ExportError: The table is damaged.
    """
    whole = TableReader.in_parts(export, source, PART_ROWS)
    # SQL finds samples of counters by other columns.
    reader = whole if source.spec is tables.COUNTERS else whole.only(_WHERE)
    found = []
    for columns in read_ahead((reader, part) for part in reader.parts):
        rows = len(next(iter(columns.values())))
        times = LIMITS.max, LIMITS.min, LIMITS.min
        if "start" in columns:
            start, end = columns["start"], ends_of(columns)
            good = possible({"start": start, "end": end}, EVERY, is_operation=source.spec.name in OPERATIONS)
            if good.any():
                times = int(start[good].min()), int(start[good].max()), int(end[good].max())
        ids = columns.get("correlation_id", np.empty(0, np.int64))
        ids = ids[ids > 0]
        extent = (rows, *times, int(ids.min(initial=LIMITS.max)), int(ids.max(initial=0)))
        found.append(extent)
        progress(found[-1][0])
    return TableIndex(whole, *np.array(found, np.int64).reshape(-1, 6).T)


def ends_of(columns: Arrays) -> Times:
    """Return the end of each row: its start in a table without ends, the last possible time for an open range."""
    end = columns.get("end", columns["start"])
    return np.where(end == LIMITS.min, EVERY.high - 1, end) if "kind" in columns else end


def read_ahead(jobs: Iterable[tuple[TableReader, TablePart]]) -> Iterator[Arrays]:
    """Yield the columns of parts in order while other threads read the next ones; only few are in memory."""
    waiting = iter(jobs)
    with ThreadPoolExecutor(READERS) as pool:
        running = [pool.submit(reader.alone, part) for reader, part in islice(waiting, READERS)]
        while running:
            columns = running.pop(0).result()
            running += [pool.submit(reader.alone, part) for reader, part in islice(waiting, 1)]
            yield columns
