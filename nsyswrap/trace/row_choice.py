"""The rows of an export that an interval of time needs, read from the parts that may hold them.

Around the interval this reads what its rows refer to::

    calls        |launch| ..................... before the interval, of an operation in it
    operations                  [   interval   ] ........|kernel| launched in it, run after it
    scheduling   |last change of each thread before it|

Rows of nsys are nearly in order of time, so few parts hold the rows of an interval. A part also has the lowest and the
highest correlation id of its rows: a call may be long before the operation that it launches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

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


CALLS = tables.CALLS.name
# Joined to calls by correlation id; their rows have no times.
BY_ID = (tables.EVENT_RECORDS.name, tables.EVENT_WAITS.name)
# Read whole: how much memory is in use, and the most of it in the capture, are sums of all rows.
WHOLE = (tables.MEMORY.name,)
# Correlation ids have 32 bits; the process comes above them.
_ID_BITS = 40
_NO_IDS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One table of an export and where its rows are.

    Attributes:
        rows: Rows of each part, shape (parts,); impossible ones count, too.
        first_ns, last_ns: First and last start of the possible rows of each part; of a part without any, the first is
            later than the last.
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


class LaunchIds(NamedTuple):
    """Pairs of process and correlation id.

    Attributes:
        processes: Global ids, ascending.
        keys: A number for each pair, ascending.
    """

    processes: Times
    keys: Times

    @classmethod
    def of(cls, process: Times, ids: Times) -> "LaunchIds":
        """Return the pairs of some rows; those without an id are left out."""
        processes = tables.distinct(process[ids > 0])
        found = cls(processes, np.empty(0, np.int64))
        return found._replace(keys=tables.distinct(found._keys(process, ids)[ids > 0]))

    def _keys(self, process: Times, ids: Times) -> Times:
        return (np.searchsorted(self.processes, process) << np.int64(_ID_BITS)) + ids

    def holds(self, process: Times, ids: Times) -> Flags:
        """Return whether each row has one of the pairs."""
        if not len(self.keys):
            return np.zeros(len(ids), bool)
        at = np.minimum(np.searchsorted(self.processes, process), len(self.processes) - 1)
        keys = self._keys(process, ids)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: Flags = (self.processes[at] == process) & (ids > 0) & (self.keys[place] == keys)
        return found

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the lowest and the highest id; an empty range without pairs."""
        ids = self.keys & np.int64((1 << _ID_BITS) - 1)
        return (int(ids.min()), int(ids.max())) if len(ids) else (1, 0)


def _pairs(columns: Arrays) -> tuple[Times, Times]:
    """Return process and correlation id of each row."""
    process = columns["process"] if "process" in columns else tables.process_of(columns["thread"])
    return process, columns["correlation_id"]


class RowChoice:
    """Reads the rows that an interval needs."""

    def __init__(self, indexes: Mapping[str, TableIndex], start_ns: int, end_ns: int, progress: Progress) -> None:
        self.indexes = indexes
        self.interval = start_ns, end_ns
        self._progress = progress

    def read(self) -> dict[str, Arrays]:
        """Return the columns of each table.

        Raises:
            ExportError: A table is damaged.
        """
        found = {name: self._of_table(name) for name in self.indexes if name not in {CALLS, *OPERATIONS, *BY_ID}}
        calls = self._chosen(CALLS, self._touching) if CALLS in self.indexes else None
        launched = LaunchIds.of(*(_pairs(calls) if calls else (_NO_IDS, _NO_IDS)))
        for name in OPERATIONS:
            if name in self.indexes:
                found[name] = self._with_launches(name, launched, self._touching)
        if calls is None:
            return found
        pairs = [_pairs(found[name]) for name in OPERATIONS if name in found]
        needed = (
            LaunchIds.of(*(np.concatenate([_NO_IDS, *each]) for each in zip(*pairs, strict=True)))
            if pairs
            else launched
        )
        earlier = self._with_launches(CALLS, needed, None, but=self._touching)
        found[CALLS] = {name: np.concatenate([calls[name], earlier[name]]) for name in calls}
        known = LaunchIds.of(*_pairs(found[CALLS]))
        return found | {name: self._with_launches(name, known, None) for name in BY_ID if name in self.indexes}

    def _of_table(self, name: str) -> Arrays:
        index = self.indexes[name]
        if name == tables.SCHEDULING.name:
            return _joined(index, [self._last_states(index), self._chosen(name, self._touching)])
        if "start" in index.reader.source.required and name not in WHOLE:
            return self._chosen(name, self._touching)
        return _joined(index, list(index.read(np.ones(len(index.rows), bool))))

    def _touching(self, columns: Arrays) -> Flags:
        found: Flags = (columns["start"] < self.interval[1]) & (ends_of(columns) >= self.interval[0])
        return found

    def _chosen(self, name: str, choose: Callable[[Arrays], Flags]) -> Arrays:
        index = self.indexes[name]
        return self._rows(index, index.touching(*self.interval), choose)

    def _with_launches(
        self,
        name: str,
        launches: LaunchIds,
        choose: Callable[[Arrays], Flags] | None,
        but: Callable[[Arrays], Flags] | None = None,
    ) -> Arrays:
        """Return the rows that have one of the launches, and those that are chosen; none that ``but`` chooses."""
        index = self.indexes[name]
        parts = index.with_ids(*launches.bounds)
        if choose:
            parts = parts | index.touching(*self.interval)

        def wanted(columns: Arrays) -> Flags:
            found = launches.holds(*_pairs(columns))
            if choose:
                found |= choose(columns)
            return found & ~but(columns) if but else found

        return self._rows(index, parts, wanted)

    def _rows(self, index: TableIndex, parts: Flags, choose: Callable[[Arrays], Flags]) -> Arrays:
        found = []
        for columns in index.read(parts):
            rows = np.flatnonzero(choose(columns))
            found.append({name: values[rows] for name, values in columns.items()})
            self._progress(len(columns[next(iter(columns))]))
        return _joined(index, found)

    def _last_states(self, index: TableIndex) -> Arrays:
        """Return the last change of each thread before the interval: it tells the state of the thread at its start."""
        last = _joined(index, [])
        for columns in index.read(index.first_ns < self.interval[0]):
            both = {name: np.concatenate([last[name], values]) for name, values in columns.items()}
            rows = np.flatnonzero(both["start"] < self.interval[0])
            order = rows[np.lexsort([both["start"][rows], both["thread"][rows]])]
            thread = both["thread"][order]
            ends = np.append(thread[1:] != thread[:-1], np.ones(min(len(thread), 1), bool))
            last = {name: values[order[ends]] for name, values in both.items()}
            self._progress(len(columns["start"]))
        return last


def _joined(index: TableIndex, parts: list[Arrays]) -> Arrays:
    """Return the rows of several parts as one table, which has no rows without parts."""
    if not parts:
        return index.reader.nothing()
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
