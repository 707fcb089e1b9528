"""What a thread is doing at each time: the open call that explains an idle GPU, by the precedence of causes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events import api_calls
from nsyswrap.events.api_calls import blocks_host
from nsyswrap.events.core_waits import Moments, find_core_waits
from nsyswrap.events.host_marks import find_marks
from nsyswrap.events.host_record import NO_RECORD, HostRecord
from nsyswrap.events.operations import Operations
from nsyswrap.intervals import (
    NOTHING,
    Indices,
    LabelledSpans,
    Spans,
    Times,
    Window,
    clip,
    fill,
    innermost,
    merge,
    subtract,
    total,
    union,
)
from nsyswrap.tables import TableSpec, Trace, array, by_name

# A state code is kind * NAMES + index of the call's name, so that evidence can name the call.
NAMES = 1 << 20
NO_NAME = NAMES - 1

WAITS = (api_calls.LOCK_WAIT, api_calls.OTHER_WAIT, api_calls.PEER_THREAD_WAIT, api_calls.FILE_IO)
# A thread in one of these waits is not ready, or is blocked in its call with or without a core.
_NOT_READY = (*WAITS, api_calls.BLOCKING_COPY, api_calls.SYNCHRONIZATION)
NO_STATES = LabelledSpans(NOTHING, np.empty(0, np.int32))


class ThreadActivity(NamedTuple):
    """What one thread does inside a window.

    Attributes:
        states: Codes of kind and name; between them no call is open that explains idle time.
        waits: When the thread only waits in the operating system, outside any CUDA call.
        call_ns: How long it has a CUDA call open inside the window.
        alive: When its first call in the capture starts and its last one ends, in ns; (0, 0) where it has none.
    """

    states: LabelledSpans
    waits: Spans
    call_ns: int
    alive: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ThreadStates:
    """What some threads of a trace do inside a window.

    Attributes:
        trace: The tables of one export.
        activity: What each thread does, by its global id.
        names: Name of each name index: the calls of the trace without their versions, in alphabetical order.
        name_index: Index into ``names`` of each string id that names a call.
    """

    trace: Trace
    activity: Mapping[int, ThreadActivity]
    names: tuple[str, ...]
    name_index: Mapping[int, int]

    def names_of(self, spec: TableSpec, rows: Indices) -> npt.NDArray[np.int32]:
        """Return the name index of some rows of a table of calls."""
        return _indices(array(self.trace[spec], "name_id")[rows], self.name_index)

    def of(self, thread: int) -> LabelledSpans:
        """Return what a thread does: codes of kind and name; between them no call is open that explains idle time."""
        return self.activity[thread].states

    def waits(self, thread: int) -> Spans:
        """Return when a thread only waits in the operating system, outside any CUDA call."""
        return self.activity[thread].waits

    def call_time(self, thread: int) -> int:
        """Return how long a thread has a CUDA call open inside the window, in ns."""
        return self.activity[thread].call_ns

    def alive(self, thread: int) -> tuple[int, int]:
        """Return when a thread's first call in the capture starts and its last one ends; (0, 0) where it has none."""
        return self.activity[thread].alive


def find_thread_states(
    trace: Trace, operations: Operations, window: Window, threads: Iterable[int], record: HostRecord = NO_RECORD
) -> ThreadStates:
    """Return what threads do inside a window.

    Args:
        trace: The tables of one export.
        operations: All that ran on the GPUs; they show which asynchronous copies block the host.
        window: Interval of time; events outside it are left out.
        threads: Global ids of the threads; a thread without events has no states.
        record: What was sampled of the host beside the capture.
    """
    marks = find_marks(trace)
    names, name_index = _names(trace, marks["text"])
    calls = _find_calls(trace, operations, window, name_index)
    sources = _Sources(trace, calls, marks, names, record)
    activity = {thread: _activity(sources, window, thread) for thread in sorted(set(threads))}
    return ThreadStates(trace, MappingProxyType(activity), names, MappingProxyType(name_index))


def _names(trace: Trace, marks: "pd.Series[str]") -> tuple[tuple[str, ...], dict[int, int]]:
    """Return the names of all calls and marks, and for each string id of a call the index of its name."""
    ids = np.concatenate([tables.used_ids(array(trace[spec], "name_id")) for spec in KIND_OF])
    base = {each: api_calls.base_name(trace.text(each)) for each in ids.tolist()}
    names = tuple(sorted({*base.values(), *marks.astype(str)}))
    index = {name: number for number, name in enumerate(names)}
    return names, {each: index[name] for each, name in base.items()}


def _indices(ids: Times, name_index: Mapping[int, int]) -> npt.NDArray[np.int32]:
    """Return the name index of each string id."""
    codes, distinct = pd.factorize(ids)
    found: npt.NDArray[np.int32] = np.array([name_index[each] for each in distinct.tolist()], np.int32)[codes]
    return found


class _Calls(NamedTuple):
    """One table of calls.

    Attributes:
        thread: Thread of each row of the table.
        start: Start of each row, ascending.
        end: End of each row.
        touching: Whether each row touches the window.
        explaining: Rows that touch the window and explain idle time.
        kind: Kind of call of each explaining row.
        code: State code of each explaining row.
    """

    thread: Times
    start: Times
    end: Times
    touching: npt.NDArray[np.bool_]
    explaining: Indices
    kind: npt.NDArray[np.int8]
    code: npt.NDArray[np.int32]


class _Sources(NamedTuple):
    """What the states of a thread follow from.

    Attributes:
        trace: The tables of one export.
        calls: Each table of calls.
        marks: Work of the host that nsyswrap marks.
        names: Name of each name index.
        record: What was sampled of the host.
    """

    trace: Trace
    calls: Mapping[TableSpec, _Calls]
    marks: pd.DataFrame
    names: tuple[str, ...]
    record: HostRecord


def _find_calls(
    trace: Trace, operations: Operations, window: Window, name_index: Mapping[int, int]
) -> dict[TableSpec, _Calls]:
    """Return each table of calls with the rows in it that explain idle time."""
    blocking, free = _copying_calls(trace, operations)
    found = {}
    for spec, kind_of in KIND_OF.items():
        frame = trace[spec]
        start, end = array(frame, "start"), array(frame, "end")
        kinds = by_name(trace, spec, kind_of, np.int8)
        if spec == tables.CALLS:
            kinds[free[kinds[free] == api_calls.BLOCKING_COPY]] = NO_KIND
            kinds[blocking] = api_calls.BLOCKING_COPY
        touching = (start < window.end_ns) & (end > window.start_ns)
        rows = np.flatnonzero((kinds != NO_KIND) & touching)
        names = _indices(array(frame, "name_id")[rows], name_index)
        code = kinds[rows].astype(np.int32) * np.int32(NAMES) + names
        found[spec] = _Calls(array(frame, "thread"), start, end, touching, rows, kinds[rows], code)
    return found


def _copying_calls(trace: Trace, operations: Operations) -> tuple[Indices, Indices]:
    """Return the calls of copies that block the host, and of copies that do not, whatever the names of the calls."""
    rows = operations.from_table(tables.COPIES)
    call = operations.call[rows]
    blocking = blocks_host(trace, operations.row[rows], call)
    return call[blocking], call[~blocking & (call >= 0)]


def _activity(sources: _Sources, window: Window, thread: int) -> ThreadActivity:
    """Return what one thread does inside a window."""
    calls = sources.calls
    rows = {spec: np.flatnonzero(calls[spec].thread == thread) for spec in (tables.CALLS, tables.OS_CALLS)}
    in_cuda, in_os = (_open(calls[spec], mine) for spec, mine in rows.items())
    opened = _call_states(calls.values(), thread)
    # Inside a call, the call is what takes the thread off the CPU.
    off_cpu = subtract(subtract(_off_cpu(sources.trace, window, thread), in_cuda), in_os)
    off_cpu = union(off_cpu, _without_core(sources.record, opened, (in_cuda, in_os), window, thread))
    explained = opened.code // NAMES < api_calls.OFF_CPU
    states = fill(_chosen(opened, explained), _constant(off_cpu, api_calls.OFF_CPU * NAMES + NO_NAME))
    states = fill(states, _mark_states(sources, thread, api_calls.GARBAGE_COLLECTION))
    states = fill(states, _chosen(opened, ~explained))
    for kind in (api_calls.CHECKPOINT, api_calls.TOKENIZER):
        states = fill(states, _mark_states(sources, thread, kind))
    waiting = np.isin(states.code // NAMES, WAITS)
    waits = subtract(merge(states.spans.start[waiting], states.spans.end[waiting]), in_cuda)
    call_ns = total(clip(in_cuda, window.start_ns, window.end_ns))
    return ThreadActivity(states, waits, call_ns, _alive((calls[spec], mine) for spec, mine in rows.items()))


def _chosen(states: LabelledSpans, mask: npt.NDArray[np.bool_]) -> LabelledSpans:
    return LabelledSpans(Spans(states.spans.start[mask], states.spans.end[mask]), states.code[mask])


def _constant(spans: Spans, code: int) -> LabelledSpans:
    return LabelledSpans(spans, np.full(len(spans.start), code, np.int32))


def _mark_states(sources: _Sources, thread: int, kind: int) -> LabelledSpans:
    """Return when marks of a kind are open on a thread, each with the name of its mark."""
    marks = sources.marks
    mine = np.flatnonzero((array(marks, "thread") == thread) & (array(marks, "kind") == kind))
    names = [sources.names.index(str(text)) for text in marks["text"].iloc[mine]]
    codes = kind * NAMES + np.array(names, np.int32)
    return innermost(array(marks, "start")[mine], array(marks, "end")[mine], codes)


def _without_core(
    record: HostRecord, opened: LabelledSpans, in_calls: tuple[Spans, Spans], window: Window, thread: int
) -> Spans:
    """Return when a thread was ready without a core, in a call or not, from its sampled run-queue time."""
    samples = record.of_thread(thread)
    if not len(samples.at):
        return NOTHING
    waiting = np.isin(opened.code // NAMES, _NOT_READY)
    edges = np.sort(np.concatenate([side for spans in in_calls for side in spans]))
    moments = Moments(edges, merge(opened.spans.start[waiting], opened.spans.end[waiting]))
    return find_core_waits(samples, moments, window.start_ns, window.end_ns)


def _open(calls: _Calls, rows: Indices) -> Spans:
    """Return when any of the chosen calls that touch the window is open."""
    rows = rows[calls.touching[rows]]
    return merge(calls.start[rows], calls.end[rows])


def _alive(parts: Iterable[tuple[_Calls, Indices]]) -> tuple[int, int]:
    """Return when the first of some calls starts and when the last one ends; (0, 0) where there are none."""
    found = [(int(calls.start[rows[0]]), int(calls.end[rows].max())) for calls, rows in parts if len(rows)]
    if not found:
        return 0, 0
    return min(start for start, _ in found), max(end for _, end in found)


def _call_states(parts: Iterable[_Calls], thread: int) -> LabelledSpans:
    """Return the open call of a thread that explains idle time: of several, the first in order of kind."""
    starts, ends, kinds, codes = [], [], [], []
    for calls in parts:
        mine = calls.thread[calls.explaining] == thread
        rows = calls.explaining[mine]
        starts.append(calls.start[rows])
        ends.append(calls.end[rows])
        kinds.append(calls.kind[mine])
        codes.append(calls.code[mine])
    start, end, kind, code = (np.concatenate(each) for each in (starts, ends, kinds, codes))
    states = NO_STATES
    for each in (*range(api_calls.OFF_CPU), api_calls.FILE_IO):
        of_kind = kind == each
        states = fill(states, innermost(start[of_kind], end[of_kind], code[of_kind]))
    return states


def _off_cpu(trace: Trace, window: Window, thread: int) -> Spans:
    """Return when a thread is off the CPU, in a call or not."""
    frame = trace[tables.SCHEDULING]
    mine = array(frame, "thread") == thread
    start, running = array(frame, "start")[mine], array(frame, "running")[mine]
    end = np.append(start[1:], window.end_ns) if len(start) else start
    return merge(start[~running], end[~running])


NO_KIND = -1


def _kind_of(kind: Callable[[str], int | None]) -> Callable[[str], int]:
    """Return a function from a call's name, as CUPTI writes it, to its kind; ``NO_KIND`` where it explains nothing."""

    def kind_of(name: str) -> int:
        found = kind(api_calls.base_name(name))
        return NO_KIND if found is None else found

    return kind_of


KIND_OF: Mapping[TableSpec, Callable[[str], int]] = {
    tables.CALLS: _kind_of(api_calls.call_kind),
    tables.OS_CALLS: _kind_of(api_calls.os_call_kind),
    tables.OVERHEADS: _kind_of(api_calls.overhead_kind),
}
