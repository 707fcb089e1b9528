"""The tables of a trace: the columns of each, what they hold, and the trace itself.

``trace`` makes an export conform to these contracts; everything above reads only the trace. Rows are sorted by start,
since newer versions of nsys do not define an order. Times are int64 ns since capture start. A process is identified by
its nsys ``globalPid``, a thread by its ``globalTid``: 64-bit ids in which bits 0 to 23 are the thread, bits 24 to 47
the process and the higher bits the machine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.excerpt import Excerpt
from nsyswrap.base.rows import taken
from nsyswrap.model import Capture, Gpu, Session

Ids = npt.NDArray[np.int64]

# Above this a table with one entry for each possible key would be too large.
DENSE_IDS = 1 << 22
# Keys of several columns stay below this, so that one more column cannot overflow 64 bits.
MOST_KEYS = 1 << 60

# NVTX domain of the ranges that nsyswrap itself puts into a program. Source: nsyswrap/capture/annotate/nvtx_calls.py.
OWN_DOMAIN = "nsyswrap"

THREAD_BITS = 24
THREAD_MASK = (1 << THREAD_BITS) - 1


# How a kernel was launched: blocks in the grid, threads in a block, registers of a thread, shared memory of a block,
# and the shared memory that the driver reserved on each multiprocessor.
_SMALL = ("block_threads", "registers", "shared_bytes", "shared_executed_bytes")
LAUNCH = {"grid_blocks": "int64", **dict.fromkeys(_SMALL, "int32")}
# Columns of numbers that repeat: ids of a thread or of a text, and launches.
_REPEATED = {"thread": "int64", "name_id": "int64", **LAUNCH}


@dataclass(frozen=True, slots=True, eq=False)
class TableSpec:
    """The contract of one table of a trace: column name to dtype.

    Attributes:
        name: Key in ``Trace.frames``.
        columns: dtype of each column; "category" for texts and numbers that repeat.
        missing: Value that replaces NULL, for columns in which the export may have one.
    """

    name: str
    columns: Mapping[str, str]
    missing: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def coded(self) -> Mapping[str, str]:
        """Return the columns of numbers that repeat, which are held as codes, with the dtype of the numbers."""
        return {name: dtype for name, dtype in _REPEATED.items() if self.columns.get(name) == "category"}

    def empty(self) -> pd.DataFrame:
        """Return the table without rows."""
        return _empty(self).copy(deep=False)


@cache
def _empty(spec: TableSpec) -> pd.DataFrame:
    """Return the table without rows, made once: an export lacks about ten tables, and each takes as long as a read."""
    ids = pd.Series([], dtype="int64").astype("category")
    return pd.DataFrame(
        {name: ids if name in spec.coded else pd.Series([], dtype=dtype) for name, dtype in spec.columns.items()}
    )


_OPERATION = {
    "start": "int64",
    "end": "int64",
    "device_id": "int32",
    "process": "int64",
    "correlation_id": "int64",
    "stream": "int32",
}
# Operations of one stream run one after another. Stream numbers come from the driver and are never negative. An
# operation on no device is left out.
_NO_STREAM = {"stream": -1, "device_id": -1}

KERNELS = TableSpec(
    "kernels",
    _OPERATION | {"name_id": "category", "graph_node_id": "int64"} | dict.fromkeys(LAUNCH, "category"),
    # A kernel has at least one block, thread and register, so 0 can mean that the export has no value.
    _NO_STREAM | {"graph_node_id": 0} | dict.fromkeys(LAUNCH, 0),
)
COPIES = TableSpec(
    "copies",
    _OPERATION
    | {
        "bytes": "int64",
        "copy_kind": "int32",
        "source_kind": "int32",
        "target_kind": "int32",
        "migration_cause": "int32",  # why pages of unified memory moved; -1 where no page did, or it is unknown
    },
    _NO_STREAM | {"copy_kind": 0, "source_kind": -1, "target_kind": -1, "migration_cause": -1},
)
MEMSETS = TableSpec(
    "memsets", _OPERATION | {"bytes": "int64", "memory_kind": "int32"}, _NO_STREAM | {"memory_kind": -1}
)
GRAPHS = TableSpec("graphs", _OPERATION, _NO_STREAM)
CALLS = TableSpec(
    "calls",
    {"start": "int64", "end": "int64", "thread": "category", "correlation_id": "int64", "name_id": "category"},
    {"correlation_id": 0},
)
# Threads and names repeat millions of times, so these tables hold codes of them.
_OS_CALL = {"start": "int64", "end": "int64", "thread": "category", "name_id": "category"}
OS_CALLS = TableSpec("os_calls", _OS_CALL)
OVERHEADS = TableSpec("overheads", _OS_CALL)
# Calls of MPI and UCX, and what the runtime of OpenACC did.
LIBRARY_CALLS = TableSpec("library_calls", _OS_CALL)
RANGES = TableSpec(
    "ranges",
    {
        "start": "int64",
        "end": "int64",
        "thread": "int64",
        "end_thread": "int64",
        "kind": "int32",
        "text": "category",
        "domain": "category",
        "open": "bool",  # never closed; its end is then that of the capture
    },
    {"end_thread": 0, "text": "", "domain": ""},
)
SCHEDULING = TableSpec("scheduling", {"start": "int64", "thread": "int64", "running": "bool"})
MEMORY = TableSpec(
    "memory",
    {
        "start": "int64",
        "process": "int64",
        "device_id": "int32",
        "bytes": "int64",
        "memory_kind": "int32",
        "operation": "int32",
        "pool": "int64",
    },
    {"pool": 0, "device_id": -1},
)
# Page faults of managed memory: groups of faults that a GPU waited for, and single faults of the CPU.
GPU_PAGE_FAULTS = TableSpec(
    "gpu_page_faults",
    {"start": "int64", "end": "int64", "process": "int64", "device_id": "int32", "count": "int64"},
    {"count": 1, "device_id": -1},
)
CPU_PAGE_FAULTS = TableSpec("cpu_page_faults", {"start": "int64", "process": "int64"})
# CUDA events: which call recorded an event after the work already in a stream, and which call waited for an event.
EVENT_RECORDS = TableSpec(
    "event_records",
    {"process": "int64", "correlation_id": "int64", "device_id": "int32", "stream": "int32", "event_id": "int64"},
    _NO_STREAM,
)
# What CUPTI writes for no stream, device or event: all bits of an unsigned number of 32 bits. A wait of the host has no
# stream. Numbers of 32 bits with this value are read as missing. Unknown correlation ids and nodes of graphs are 0.
# Source: cupti_activity.h of CUDA 12.9, CUPTI_INVALID_STREAM_ID, CUPTI_UNIFIED_MEMORY_CPU_DEVICE_ID and
# CUPTI_SYNCHRONIZATION_INVALID_VALUE.
NO_ID = 0xFFFF_FFFF
EVENT_WAITS = TableSpec(
    "event_waits", {"process": "int64", "correlation_id": "int64", "stream": "int64", "event_id": "int64"}
)
COUNTERS = TableSpec("counters", {"start": "int64", "device_id": "int32", "counter": "int32", "value": "int64"})
# The calls of NCCL whose payload nsys recorded: communicator, rank and size. Numbers that a call does not state are -1.
# A communicator's id is an unsigned number of 64 bits, stored in the same bits.
NCCL_CALLS = TableSpec(
    "nccl_calls",
    {
        "start": "int64",
        "end": "int64",
        "thread": "int64",
        "name": "category",
        "communicator": "int64",
        "bytes": "int64",
        "rank": "int32",
        "rank_count": "int32",
        "device": "int32",
        "peer": "int32",
    },
)
MPI_RANKS = TableSpec("mpi_ranks", {"thread": "int64", "rank": "int32"})
SAMPLES = TableSpec("samples", {"start": "int64", "thread": "int64", "stack": "int32"})
PROCESSES = TableSpec("processes", {"process": "int64", "name": "category"}, {"name": ""})
THREADS = TableSpec("threads", {"thread": "int64", "name": "category"}, {"name": ""})
DIAGNOSTICS = TableSpec(
    "diagnostics", {"process": "int64", "severity": "int32", "text": "category"}, {"process": 0, "text": ""}
)

SPECS: tuple[TableSpec, ...] = (
    KERNELS,
    COPIES,
    MEMSETS,
    GRAPHS,
    CALLS,
    OS_CALLS,
    OVERHEADS,
    LIBRARY_CALLS,
    RANGES,
    SCHEDULING,
    MEMORY,
    GPU_PAGE_FAULTS,
    CPU_PAGE_FAULTS,
    EVENT_RECORDS,
    EVENT_WAITS,
    COUNTERS,
    NCCL_CALLS,
    MPI_RANKS,
    SAMPLES,
    PROCESSES,
    THREADS,
    DIAGNOSTICS,
)


class Frame(NamedTuple):
    """One frame of a sampled stack: function, file and line."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, eq=False)
class Trace:
    """The typed tables of one export.

    Attributes:
        session: How the capture was made.
        gpus: GPUs in the export, by device id.
        frames: One frame for each of ``SPECS``, sorted by start; empty where the export has none.
        strings: Text of each string id that the tables use.
        copy_kinds: Label of each copy kind, from the export or else the labels of nsys: {1: "Host-to-Device"}.
        memory_kinds: Label of each memory kind: {0: "Pageable", 1: "Pinned"}.
        absent: Names of tables that the export does not have.
        event_counts: Rows in the export by family ("CUDA", "NVTX"), to compare with the counts that nsys reports.
        dropped: Rows left out because they are invalid, by what they are, such as "copies of an impossible size".
        counter_names: Name of each counter code, without the unit; values are per cent.
        stacks: Stack of each stack code of the samples, innermost frame first; never empty.
        gpu_numbers: GPUs that the export names for each (process number, CUDA ordinal), ascending; more than one where
            the export contradicts itself. None where it has no such table.
        epoch_ns: Time 0 in ns since 1970, UTC; 0 where nsys exported times as UTC already. None if unknown.
        gpu_uuids: UUID of each GPU, by device id, as far as the export has it.
        excerpt: Which part of the capture the tables hold; None where they hold all of it.
        xray: The X-ray step, where they hold a part and it was read apart from that.
    """

    capture: Capture
    session: Session
    gpus: tuple[Gpu, ...]
    frames: Mapping[str, pd.DataFrame]
    strings: Mapping[int, str]
    copy_kinds: Mapping[int, str]
    memory_kinds: Mapping[int, str]
    absent: frozenset[str]
    event_counts: Mapping[str, int]
    dropped: Mapping[str, int] = field(default_factory=dict)
    counter_names: tuple[str, ...] = ()
    stacks: tuple[tuple[Frame, ...], ...] = ()
    gpu_numbers: Mapping[tuple[int, int], tuple[int, ...]] | None = None
    epoch_ns: int | None = None
    gpu_uuids: Mapping[int, str] = field(default_factory=dict)
    excerpt: Excerpt | None = None
    xray: "Trace | None" = None

    def __getitem__(self, spec: TableSpec) -> pd.DataFrame:
        """Return the table with this contract."""
        return self.frames[spec.name]

    def text(self, string_id: int) -> str:
        """Return the text of a string id; an id the export lacks reads "[id 17]"."""
        return self.strings.get(string_id, f"[id {string_id}]")


def rows_where(column: "pd.Series[Any]", wanted: Callable[[str], object]) -> npt.NDArray[np.bool_]:
    """Return which rows of a column of texts have one that is wanted; ``wanted`` is called once for each text."""
    flags = np.array([*(bool(wanted(str(text))) for text in column.cat.categories), False], np.bool_)
    return flags[column.cat.codes.to_numpy()]


def by_name(
    trace: Trace, spec: TableSpec, meaning: Callable[[str], int], dtype: type[np.integer[Any]]
) -> npt.NDArray[Any]:
    """Return, for each row of a table, the number that its name maps to.

    Args:
        trace: The tables of one export.
        spec: A table with the column ``name_id``.
        meaning: Function from a name to its number; called once for each name.
        dtype: Type of the numbers.
    """
    found: npt.NDArray[Any] = taken(numbers_by_name(trace, spec, meaning, dtype), coded(trace[spec], "name_id").codes)
    return found


def rows_named(trace: Trace, spec: TableSpec, wanted: Callable[[str], object]) -> npt.NDArray[np.bool_]:
    """Return which rows of a table have a name that is wanted; ``wanted`` is called once for each name."""
    found: npt.NDArray[np.bool_] = by_name(trace, spec, lambda name: bool(wanted(name)), np.int8) > 0
    return found


def numbers_by_name(
    trace: Trace, spec: TableSpec, meaning: Callable[[str], int], dtype: type[np.integer[Any]]
) -> npt.NDArray[Any]:
    """Return the number of each code of the names of a table; the arguments are those of ``by_name``."""
    return np.array([meaning(trace.text(each)) for each in coded(trace[spec], "name_id").ids.tolist()], dtype)


def array(frame: pd.DataFrame, column: str) -> npt.NDArray[Any]:
    """Return a column as a numpy array, without a copy where pandas can avoid it; with one for ids that are codes."""
    values: npt.NDArray[Any] = frame[column].to_numpy()
    return values


@dataclass(frozen=True, slots=True)
class CodedIds:
    """A column of ids that repeat, such as threads: an array of few bytes a row.

    Attributes:
        codes: The code of each row, an index into ``ids``.
        ids: The ids, int64, ascending; not all of them need to occur.
    """

    codes: npt.NDArray[np.signedinteger[Any]]
    ids: npt.NDArray[np.int64]

    def __getitem__(self, rows: npt.NDArray[Any] | slice) -> npt.NDArray[np.int64]:
        """Return the ids of some rows."""
        found: npt.NDArray[np.int64] = taken(self.ids, taken(self.codes, rows))
        return found

    def places(self) -> dict[int, slice]:
        """Return the rows from the first to the last one of each id that occurs."""
        first, last = np.full(len(self.ids), -1, np.int64), np.full(len(self.ids), -1, np.int64)
        for some in blocks(len(self.codes)):
            last[self.codes[some]] = np.arange(some.start, some.stop)
        for some in reversed([*blocks(len(self.codes))]):
            first[self.codes[some][::-1]] = np.arange(some.start, some.stop)[::-1]
        present = np.flatnonzero(first >= 0)
        bounds = zip(self.ids[present].tolist(), first[present].tolist(), (last[present] + 1).tolist(), strict=True)
        return {each: slice(begin, end) for each, begin, end in bounds}

    def by_id(self) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
        """Yield each id that occurs, with its rows."""
        for code in distinct(self.codes).tolist():
            yield int(self.ids[code]), np.flatnonzero(self.codes == code)

    def only(self, rows: npt.NDArray[Any]) -> "CodedIds":
        """Return some rows as codes of the same ids."""
        return CodedIds(taken(self.codes, rows), self.ids)

    def equal(self, wanted: int, rows: npt.NDArray[Any] | slice = slice(None)) -> npt.NDArray[np.bool_]:
        """Return which of some rows have an id."""
        return self.among(self.ids == wanted, rows)

    def among(
        self, chosen: npt.NDArray[np.bool_], rows: npt.NDArray[Any] | slice = slice(None)
    ) -> npt.NDArray[np.bool_]:
        """Return which of some rows have one of the ids that are chosen by a mask."""
        codes, wanted = taken(self.codes, rows), np.flatnonzero(chosen)
        if not len(wanted):
            return np.zeros(len(codes), bool)
        found: npt.NDArray[np.bool_] = codes == wanted[0] if len(wanted) == 1 else taken(chosen, codes)
        return found


def coded(frame: pd.DataFrame, column: str) -> CodedIds:
    """Return a column of ids as codes, without a copy where the table holds them so."""
    values = frame[column]
    held = values.array if isinstance(values.dtype, pd.CategoricalDtype) else pd.Categorical(values)
    return CodedIds(held.codes, held.categories.to_numpy(np.int64))


def is_constant(values: npt.NDArray[Any]) -> bool:
    """Return whether there is a value, and all rows have it. They may share the memory of one."""
    if not len(values) or values[0] != values[-1]:
        return False
    return not values.strides[0] or bool((values == values[0]).all())


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct values, ascending; fast for many rows with few values, such as threads."""
    return values[:1].copy() if is_constant(values) else np.sort(pd.unique(values))


def groups(columns: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the group of each row, and the first row of each group; the rows of a group are equal in all columns.

    Args:
        columns: At least one, of equal length.
    """
    # A column with one value tells no rows apart.
    first_column, *others = [each for each in columns if not is_constant(each)] or columns[:1]
    codes, count = _numbered(first_column)
    for column in others:
        other, size = _numbered(column)
        if count * size > MOST_KEYS:
            codes, unique = pd.factorize(codes)
            count = len(unique)
        codes *= size
        codes += other
        count *= size
    codes, _ = pd.factorize(codes)
    first = np.empty(int(codes.max(initial=-1)) + 1, np.intp)
    for some in reversed([*blocks(len(codes))]):
        first[codes[some][::-1]] = np.arange(some.start, some.stop)[::-1]
    return codes, first


def _numbered(column: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], int]:
    """Return a number from 0 for each distinct value of a column, and one more than the largest; not all need occur."""
    if not len(column) or column.dtype.itemsize > np.dtype(np.int16).itemsize:
        codes, unique = pd.factorize(column)
        return codes, len(unique)
    # Values of a byte or two are numbers already.
    low = int(column.min())
    return column.astype(np.intp) - low, int(column.max()) - low + 1


def process_of(thread: Ids) -> Ids:
    """Return the process of each thread: its global id without the thread's bits."""
    return thread & ~np.int64(THREAD_MASK)


def pid(global_id: int) -> int:
    """Return the process number in a global process or thread id."""
    return (global_id >> THREAD_BITS) & THREAD_MASK


def tid(global_id: int) -> int:
    """Return the thread number in a global thread id."""
    return global_id & THREAD_MASK


def pid_column(global_ids: Ids) -> Ids:
    """Return the process number of each global process or thread id."""
    return (global_ids >> THREAD_BITS) & np.int64(THREAD_MASK)


def tid_column(global_ids: Ids) -> Ids:
    """Return the thread number of each global thread id."""
    return global_ids & np.int64(THREAD_MASK)


# Rows that are worked on at a time, so that intermediate arrays stay small.
BLOCK = 1 << 17


def blocks(length: int) -> Iterator[slice]:
    """Yield slices that cover ``length`` rows, in order."""
    for first in range(0, length, BLOCK):
        yield slice(first, min(first + BLOCK, length))
