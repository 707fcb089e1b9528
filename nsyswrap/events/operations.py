"""What ran on the GPUs: kernels, copies, memsets and graphs as one set of operations, each with its launch call."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, Window, clip, merge, places, subtract
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events.api_calls import calls_named
from nsyswrap.hardware.kernel_names.collectives import is_collective
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, Trace, array, blocks, coded

COMPUTE, COMMUNICATION, COPY, MEMSET = range(4)
KINDS = ("compute", "communication", "copy", "memset")

# Labels of copies of unified memory begin with this. Source: ENUM_CUDA_MEMCPY_OPER of nsys's exports, 2022 to 2025.
UNIFIED = "Unified "
GRAPH_LAUNCHES = frozenset({"cudaGraphLaunch", "cuGraphLaunch"})


class DeviceWork(NamedTuple):
    """The work of one device.

    Attributes:
        rows: Its rows of ``Operations``, ascending, int32.
        processes: The processes that ran something on it, ascending.
        first_ns: When its first operation starts, in ns since capture start.
        last_ns: When its last operation ends.
        busy: When it ran anything.
        exclusive: One set of spans for each of ``KINDS``; together disjoint, and together ``busy``.
    """

    rows: Indices
    processes: Times
    first_ns: int
    last_ns: int
    busy: Spans
    exclusive: tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of all devices, sorted by start, those that start together by end; arrays of equal length.

    Attributes:
        start: ns since capture start.
        end: ns since capture start.
        device_id: GPU it ran on, int32.
        kind: COMPUTE, COMMUNICATION, COPY or MEMSET, int8.
        call: Row in ``trace[CALLS]`` of the call that launched it, or -1, int32.
        table: Index into ``SOURCES`` of the table it comes from, int8.
        row: Its row in that table, int32.
        process: Global id of its process.
        stream: Number of its stream, int32; -1 where the export does not tell.
        migration: Whether it is a copy of unified memory that a page fault started: no host call launched it.
        by_device: The work of each device that ran something, by ascending device id.
        launching_threads: Global ids of the threads that launched an operation, ascending.
    """

    start: Times
    end: Times
    device_id: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    call: Indices
    table: npt.NDArray[np.int8]
    row: Indices
    process: Times
    stream: npt.NDArray[np.int32]
    migration: npt.NDArray[np.bool_]
    by_device: Mapping[int, DeviceWork]
    launching_threads: Times

    @property
    def devices(self) -> list[int]:
        """Return the ids of the devices that ran something, ascending."""
        return list(self.by_device)

    @property
    def has_kernels(self) -> bool:
        """Return whether a kernel, or a CUDA graph as a whole, ran: a GPU that only copied or filled did no work."""
        return bool((self.kind <= COMMUNICATION).any())

    def used_in(self, window: Window) -> list[int]:
        """Return the devices in use in a window: those whose first operation to last operation overlaps it.

        A device that ran something only before the window, such as a probe, is not in use. Where no device is in use,
        all are returned.
        """
        used = [
            device
            for device, work in self.by_device.items()
            if work.first_ns < window.end_ns and work.last_ns > window.start_ns
        ]
        return used or self.devices

    def on(self, device_id: int) -> Indices:
        """Return the rows of one device, ascending; none where the device ran nothing."""
        return self.by_device.get(device_id, NO_WORK).rows

    def processes_of(self, device_id: int) -> Times:
        """Return the processes that ran something on a device, by global id, ascending."""
        return self.by_device.get(device_id, NO_WORK).processes

    def busy(self, device_id: int) -> Spans:
        """Return when the device ran anything."""
        return self.by_device.get(device_id, NO_WORK).busy

    def exclusive(self, device_id: int, window: Window) -> list[Spans]:
        """Return the spans of the window that belong to each kind.

        Where operations overlap, a nanosecond belongs to the first of compute, communication, copy, memset.

        Returns:
            One set of spans for each of ``KINDS``; together disjoint.
        """
        whole = self.by_device.get(device_id, NO_WORK).exclusive
        return [clip(spans, window.start_ns, window.end_ns) for spans in whole]

    @property
    def orphaned(self) -> npt.NDArray[np.bool_]:
        """Return whether each operation had a launch call that the capture does not hold."""
        return (self.call < 0) & ~self.migration

    def from_table(self, spec: TableSpec) -> Indices:
        """Return the operations that come from one table, int32."""
        return np.flatnonzero(self.table == SOURCES.index(spec)).astype(np.int32)


SOURCES = (tables.KERNELS, tables.COPIES, tables.MEMSETS, tables.GRAPHS)
_KINDS_OF = {tables.COPIES: COPY, tables.MEMSETS: MEMSET, tables.GRAPHS: COMPUTE}
NO_WORK = DeviceWork(np.empty(0, np.int32), np.empty(0, np.int64), 0, 0, NOTHING, (NOTHING,) * len(KINDS))


def find_operations(trace: Trace) -> Operations:
    """Return all operations of a trace, joined to their launches on process and correlation id."""
    sources = [spec for spec in SOURCES if len(trace[spec])]
    order, start = _order(trace, sources)

    def ordered(columns: Iterable[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *columns], dtype=dtype)[order]

    def column(name: str, dtype: type[np.integer[Any]] = np.int64) -> npt.NDArray[Any]:
        columns = [array(trace[spec], name) for spec in sources]
        if columns and all((values == columns[0][0]).all() for values in columns):
            # All rows have the same value and share its memory.
            return np.broadcast_to(columns[0][0].astype(dtype), len(order))
        return ordered(columns, dtype)

    process, device_id = column("process"), column("device_id", np.int32)
    kind = ordered((_kinds(trace, spec) for spec in sources), np.int8)
    call = launch_calls(trace, process, column("correlation_id"))
    end = column("end")
    by_device, devices = {}, tables.distinct(device_id).tolist()
    for device in devices:
        rows = np.flatnonzero(device_id == device).astype(np.int32)
        mine = slice(None) if len(devices) == 1 else rows
        by_device[device] = _work(rows, tables.distinct(process[mine]), start[mine], end[mine], kind[mine])
    return Operations(
        start=start,
        end=end,
        device_id=device_id,
        kind=kind,
        call=call,
        table=ordered((np.full(len(trace[spec]), SOURCES.index(spec), np.int8) for spec in sources), np.int8),
        row=ordered((np.arange(len(trace[spec]), dtype=np.int32) for spec in sources), np.int32),
        process=process,
        stream=column("stream", np.int32),
        migration=ordered((_unified(trace, spec) for spec in sources), np.bool_) & (call < 0),
        by_device=MappingProxyType(by_device),
        launching_threads=_launching_threads(trace, call),
    )


def _work(rows: Indices, processes: Times, start: Times, end: Times, kind: npt.NDArray[np.int8]) -> DeviceWork:
    exclusive = tuple(exclusive_by_kind(start, end, kind))
    return DeviceWork(rows, processes, int(start[0]), int(end.max()), merge(start, end), exclusive)


def exclusive_by_kind(start: Times, end: Times, kind: npt.NDArray[np.signedinteger[Any]]) -> Iterator[Spans]:
    """Yield the spans of each of ``KINDS`` that none before it covers, from start, end and kind of some operations."""
    before: list[Spans] = []
    for each in range(len(KINDS)):
        spans = merge(*chosen(kind == each, start, end))
        before.append(spans)
        for covering in before[:-1]:
            spans = subtract(spans, covering)
        yield spans


def _order(trace: Trace, sources: Sequence[TableSpec]) -> tuple[Indices, Times]:
    """Return the order by start, and the starts in it.

    Equal starts are ordered by content, since an export does not define an order.
    """
    start = np.concatenate([np.empty(0, np.int64), *(array(trace[spec], "start") for spec in sources)])
    order = np.argsort(start, kind="stable")
    start = start[order]
    same = start[1:] == start[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        rows = order[tied]
        table = np.repeat(np.arange(len(sources)), [len(trace[spec]) for spec in sources])[rows]
        names = ("correlation_id", "process", "device_id", "end")
        *keys, end = (np.concatenate([array(trace[spec], name) for spec in sources])[rows] for name in names)
        order[tied] = rows[np.lexsort([*keys, table, end, start[tied]])]
    return order, start


def _kinds(trace: Trace, spec: TableSpec) -> npt.NDArray[np.int8]:
    if spec is tables.KERNELS:
        return np.where(tables.rows_named(trace, spec, is_collective), np.int8(COMMUNICATION), np.int8(COMPUTE))
    return np.full(len(trace[spec]), _KINDS_OF[spec], np.int8)


def _unified(trace: Trace, spec: TableSpec) -> npt.NDArray[np.bool_]:
    """Return which rows of a table are copies of unified memory."""
    if spec is not tables.COPIES:
        return np.zeros(len(trace[spec]), bool)
    kinds = [key for key, label in trace.copy_kinds.items() if label.startswith(UNIFIED)]
    return np.isin(array(trace[spec], "copy_kind"), kinds)


def launch_calls(trace: Trace, process: Times, correlation_id: Times) -> Indices:
    """Return the row in ``trace[CALLS]`` of the call with the same process and correlation id, or -1.

    Correlation ids are unique within a process only. Of several calls with one id, the last to start is returned.
    """
    calls = trace[tables.CALLS]
    thread, ids = coded(calls, "thread"), array(calls, "correlation_id")
    processes, owner = pd.unique(process), tables.process_of(thread.ids)
    if len(processes) == 1 and (owner == processes[0]).all() and len(ids) and ids.min() > 0:
        return _lookup(ids, None, correlation_id)
    call = np.full(len(process), -1, np.int32)
    for each in processes:
        wanted = np.flatnonzero(process == each)
        rows = np.flatnonzero(thread.among(owner == each) & (ids > 0))
        if len(rows):
            call[wanted] = _lookup(ids[rows], rows, correlation_id[wanted])
    return call


def _lookup(ids: Times, rows: Indices | None, wanted: Times) -> Indices:
    """Return the row of each wanted id, or -1: through a table where ids are dense, else by binary search."""
    low, high = int(ids.min()), int(ids.max())
    result = np.full(len(wanted), -1, np.int32)
    if high - low < 2 * len(ids) + 1024:
        table = np.full(high - low + 1, -1, np.int32)
        for block in blocks(len(ids)):
            table[ids[block] - low] = np.arange(block.start, block.stop) if rows is None else rows[block]
        for block in blocks(len(wanted)):
            some = wanted[block]
            inside = (some >= low) & (some <= high)
            result[block][inside] = table[some[inside] - low]
        return result
    inside = (wanted >= low) & (wanted <= high)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    at = places(ordered, wanted) - 1
    hit = inside & (ordered[np.maximum(at, 0)] == wanted)
    found = order[at[hit]]
    result[hit] = found if rows is None else rows[found]
    return result


@memo
def launch_rows(trace: Trace) -> Indices:
    """Return the rows of ``trace[CALLS]`` that launch a CUDA graph."""
    return np.flatnonzero(calls_named(trace, GRAPH_LAUNCHES.__contains__))


def _launching_threads(trace: Trace, call: Indices) -> Times:
    """Return the global ids of the threads that made some calls, ascending; a row of -1 is no call."""
    thread = coded(trace[tables.CALLS], "thread")
    launched = np.zeros(len(thread.ids), bool)
    for some in blocks(len(call)):
        rows = call[some]
        launched[taken(thread.codes, taken(rows, rows >= 0))] = True
    return thread.ids[launched]
