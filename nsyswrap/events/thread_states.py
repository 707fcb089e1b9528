"""What a thread is doing at each time: the open call that explains an idle GPU, by the precedence of causes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import (
    NOTHING,
    Indices,
    LabelledSpans,
    Spans,
    Times,
    Window,
    covered,
    fill,
    in_order,
    innermost,
    merge,
    subtract,
    union,
)
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events import api_calls
from nsyswrap.events.api_calls import blocks_host
from nsyswrap.events.coded_calls import NO_CODE, CodedCalls, Rows, blocks_of, joined, lifetime, open_spans
from nsyswrap.events.host_record import NO_RECORD, NO_SAMPLES, HostRecord, find_marks
from nsyswrap.events.off_cpu import Moments, find_core_waits, find_fault_waits, find_off_cpu
from nsyswrap.events.operations import Operations
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, Trace, array, coded, numbers_by_name

# A state code is kind * NAMES + index of the call's name, so that evidence can name the call.
NAME_BITS = 20
NAMES = 1 << NAME_BITS
NO_NAME = NAMES - 1
_WAITING_CALLS = (api_calls.LOCK_WAIT, api_calls.OTHER_WAIT, api_calls.PEER_THREAD_WAIT, api_calls.FILE_IO)
WAITS = (*_WAITING_CALLS, api_calls.PAGE_FAULT, api_calls.UNTRACED_WAIT)
# A thread in one of these waits is not ready, or is blocked in its call with or without a core.
_NOT_READY = (*_WAITING_CALLS, api_calls.BLOCKING_COPY, api_calls.SYNCHRONIZATION, api_calls.PEER_RANK_WAIT)
NO_STATES = LabelledSpans(NOTHING, np.empty(0, np.int32))


class ThreadActivity(NamedTuple):
    """What one thread does inside a window.

    Attributes:
        states: Codes of kind and name; between them no call is open that explains idle time.
        waits: When the thread only waits in the operating system, outside any CUDA call.
        in_cuda: When it has a CUDA call open.
        alive: When its first call in the capture starts and its last one ends, in ns; (0, 0) where it has none.
    """

    states: LabelledSpans
    waits: Spans
    in_cuda: Spans
    alive: tuple[int, int]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
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
        return _indices(coded(self.trace[spec], "name_id")[rows], self.name_index)

    @memo
    def os_calls(self, kind: int) -> Indices:
        """Return the name indices of the calls of the operating system of a kind, ascending."""
        return np.array([at for at, name in enumerate(self.names) if api_calls.os_call_kind(name) == kind], np.intp)

    def of(self, thread: int) -> LabelledSpans:
        """Return what a thread does: codes of kind and name; between them no call is open that explains idle time."""
        return self.activity[thread].states

    def waits(self, thread: int) -> Spans:
        """Return when a thread only waits in the operating system, outside any CUDA call."""
        return self.activity[thread].waits

    def not_working(self, thread: int) -> Spans:
        """Return when a thread waits: in the operating system, or in a CUDA call for the GPU."""
        states = self.of(thread)
        waiting = np.isin(states.code // NAMES, (api_calls.BLOCKING_COPY, api_calls.SYNCHRONIZATION))
        for_gpu = Spans(states.spans.start[waiting], states.spans.end[waiting])
        return union(self.waits(thread), for_gpu)

    def in_cuda(self, thread: int) -> Spans:
        """Return when a thread has a CUDA call open."""
        return self.activity[thread].in_cuda

    def alive(self, thread: int) -> tuple[int, int]:
        """Return when a thread's first call in the capture starts and its last one ends; (0, 0) where it has none."""
        return self.activity[thread].alive


def find_thread_states(  # noqa: PLR0913, PLR0917 - what the states follow from
    trace: Trace,
    operations: Operations,
    window: Window,
    threads: Iterable[int],
    record: HostRecord = NO_RECORD,
    helped: Mapping[int, Spans] = MappingProxyType({}),
) -> ThreadStates:
    """Return what threads do inside a window.

    Args:
        trace: The tables of one export.
        operations: All that ran on the GPUs; they show which asynchronous copies block the host.
        window: Interval of time; events outside it are left out.
        threads: Global ids of the threads; a thread without events has no states.
        record: What was sampled of the host beside the capture.
        helped: When a thread waits for threads that work for it: that counts as its own work.
    """
    marks = find_marks(trace)
    names, name_index = _names(trace, marks["text"], record)
    calls = {}
    for spec, kind_of in KIND_OF.items():
        numbers = numbers_by_name(trace, spec, _code_of(kind_of, names), np.int32)
        changed, codes = np.empty(0, np.intp), np.empty(0, np.int32)
        if spec == tables.CALLS:
            changed, codes = _changed_codes(trace, operations, numbers, name_index)
        calls[spec] = CodedCalls(trace[spec], numbers, changed, codes, window)
    sources = _Sources(trace, calls, marks, frozenset(array(marks, "thread").tolist()), names, record, helped)
    activity = {thread: _activity(sources, window, thread) for thread in sorted(set(threads))}
    return ThreadStates(trace, MappingProxyType(activity), names, MappingProxyType(name_index))


def _names(trace: Trace, marks: "pd.Series[str]", record: HostRecord) -> tuple[tuple[str, ...], dict[int, int]]:
    """Return the names of all calls and marks, and for each string id of a call the index of its name."""
    ids = np.concatenate([coded(trace[spec], "name_id").ids for spec in KIND_OF])
    base = {each: api_calls.base_name(trace.text(each)) for each in ids.tolist()}
    unrecorded = {api_calls.PAGE_FAULT_NAME} if record.processes else set()
    if tables.OS_CALLS.name in trace.absent and len(trace[tables.SCHEDULING]):
        unrecorded.add(api_calls.UNTRACED_NAME)
    names = tuple(sorted({*base.values(), *marks.astype(str), *unrecorded}))
    index = {name: number for number, name in enumerate(names)}
    return names, {each: index[name] for each, name in base.items()}


def _indices(ids: Times, name_index: Mapping[int, int]) -> npt.NDArray[np.int32]:
    """Return the name index of each string id."""
    codes, distinct = pd.factorize(ids)
    indices: npt.NDArray[np.int32] = np.array([name_index[each] for each in distinct.tolist()], np.int32)[codes]
    return indices


class _Sources(NamedTuple):
    """What the states of a thread follow from."""

    trace: Trace
    calls: Mapping[TableSpec, CodedCalls]
    marks: pd.DataFrame
    marked: frozenset[int]
    names: tuple[str, ...]
    record: HostRecord
    helped: Mapping[int, Spans]


def _changed_codes(
    trace: Trace, operations: Operations, numbers: npt.NDArray[np.int32], name_index: Mapping[int, int]
) -> tuple[Indices, npt.NDArray[np.int32]]:
    """Return the calls of copies whose state does not follow from their name, ascending, and the state code of each."""
    ids = coded(trace[tables.CALLS], "name_id")
    copies = operations.from_table(tables.COPIES)
    call = operations.call[copies]
    blocks = blocks_host(trace, operations.row[copies], call)
    blocking, free = call[blocks], call[~blocks & (call >= 0)]
    free = free[numbers[ids.codes[free]] >> NAME_BITS == api_calls.BLOCKING_COPY]
    copying = np.int32(api_calls.BLOCKING_COPY * NAMES) + _indices(ids[blocking], name_index)
    # Where one call makes several copies, one that blocks comes first.
    rows = np.concatenate([blocking, free])
    codes = np.concatenate([copying, np.full(len(free), NO_CODE, np.int32)])
    changed, first = np.unique(rows, return_index=True)
    return changed, codes[first]


def _code_of(kind_of: Callable[[str], int | None], names: tuple[str, ...]) -> Callable[[str], int]:
    """Return a function from a call's name, as CUPTI writes it, to its state code."""
    index = {name: number for number, name in enumerate(names)}

    def code_of(name: str) -> int:
        base = api_calls.base_name(name)
        kind = kind_of(base)
        return NO_CODE if kind is None else kind * NAMES + index[base]

    return code_of


def _activity(sources: _Sources, window: Window, thread: int) -> ThreadActivity:
    calls = sources.calls
    in_cuda = open_spans(calls[tables.CALLS], thread)
    opened = _call_states(calls.values(), thread)
    off_cpu, faulting, untraced = find_off_cpu(sources.trace, window, thread), NOTHING, NOTHING
    if len(off_cpu.start) or len(sources.record.of_thread(thread).at):
        in_os = union(open_spans(calls[tables.OS_CALLS], thread), open_spans(calls[tables.LIBRARY_CALLS], thread))
        in_calls = union(in_cuda, in_os)
        # Inside a call, the call is what takes the thread off the CPU.
        off_cpu = subtract(off_cpu, in_calls)
        edges = np.sort(np.concatenate([*in_cuda, *in_os]))
        moments = Moments(edges, merge(*chosen(_is_kind(opened, _NOT_READY), *opened.spans)))
        samples = sources.record.of_thread(thread)
        without_core = find_core_waits(samples, moments, window.start_ns, window.end_ns)
        faults = sources.record.processes.get(tables.pid(thread), NO_SAMPLES)
        faulting = find_fault_waits(samples, faults, moments, union(without_core, off_cpu, in_calls), window)
        if tables.OS_CALLS.name in sources.trace.absent:
            # A wait in a call would look like a page fault, and takes the thread off its core as well.
            off_cpu, faulting, untraced = without_core, NOTHING, off_cpu
        else:
            off_cpu = union(off_cpu, without_core)
    opened = _without_helped(opened, sources.helped.get(thread, NOTHING))
    states = _with_unrecorded(sources, opened, (off_cpu, faulting, untraced), thread)
    waiting = _is_kind(states, WAITS)
    waits = subtract(merge(*chosen(waiting, *states.spans)), in_cuda)
    alive = lifetime((calls[spec] for spec in (tables.CALLS, tables.OS_CALLS)), thread)
    return ThreadActivity(states, waits, in_cuda, alive)


def _without_helped(opened: LabelledSpans, helped: Spans) -> LabelledSpans:
    """Return the open calls of a thread without its waits for threads that work for it."""
    if not len(helped.start):
        return opened
    inside = covered(helped, *opened.spans) == opened.spans.end - opened.spans.start
    return _chosen(opened, ~(inside & _is_kind(opened, (api_calls.LOCK_WAIT, api_calls.PEER_THREAD_WAIT))))


def _with_unrecorded(
    sources: _Sources, opened: LabelledSpans, unrecorded: tuple[Spans, Spans, Spans], thread: int
) -> LabelledSpans:
    """Return the states of a thread: its calls, and what nsys does not record as a call, in the order of kinds.

    The latter is when it had no core, when it waited for pages of memory, and when it was off its core for a reason
    that was not traced.
    """
    off_cpu, faulting, untraced = unrecorded
    collecting = _mark_states(sources, thread, api_calls.GARBAGE_COLLECTION)
    states = opened
    if len(off_cpu.start) or len(faulting.start) or len(collecting.code):
        explained = opened.code >> NAME_BITS < api_calls.OFF_CPU
        states = fill(_chosen(opened, explained), _constant(off_cpu, api_calls.OFF_CPU * NAMES + NO_NAME))
        if len(faulting.start):
            name = sources.names.index(api_calls.PAGE_FAULT_NAME)
            states = fill(states, _constant(faulting, api_calls.PAGE_FAULT * NAMES + name))
        states = fill(fill(states, collecting), _chosen(opened, ~explained))
    if len(untraced.start):
        name = sources.names.index(api_calls.UNTRACED_NAME)
        states = fill(states, _constant(untraced, api_calls.UNTRACED_WAIT * NAMES + name))
    for kind in (api_calls.CHECKPOINT, api_calls.TOKENIZER):
        states = fill(states, _mark_states(sources, thread, kind))
    return states


def _is_kind(states: LabelledSpans, kinds: Sequence[int]) -> Rows:
    wanted = np.isin(np.arange(api_calls.RUNNING + 1), kinds)
    is_wanted: Rows = taken(wanted, states.code >> NAME_BITS)
    return is_wanted


def _chosen(states: LabelledSpans, mask: npt.NDArray[np.bool_]) -> LabelledSpans:
    start, end, code = chosen(mask, *states.spans, states.code)
    return LabelledSpans(Spans(start, end), code)


def _constant(spans: Spans, code: int) -> LabelledSpans:
    return LabelledSpans(spans, np.full(len(spans.start), code, np.int32))


def _mark_states(sources: _Sources, thread: int, kind: int) -> LabelledSpans:
    """Return when marks of a kind are open on a thread, each with the name of its mark."""
    if thread not in sources.marked:
        return NO_STATES
    marks = sources.marks
    mine = np.flatnonzero((array(marks, "thread") == thread) & (array(marks, "kind") == kind))
    names = [sources.names.index(str(text)) for text in marks["text"].iloc[mine]]
    codes = kind * NAMES + np.array(names, np.int32)
    return innermost(array(marks, "start")[mine], array(marks, "end")[mine], codes)


def _call_states(every: Iterable[CodedCalls], thread: int) -> LabelledSpans:
    """Return the open call of a thread that explains idle time: of several, the first in order of kind.

    Most calls are alone, so only those that overlap another one are put in layers.
    """
    parts: list[Sequence[npt.NDArray[Any]]] = [(*NOTHING, np.empty(0, np.int32))]
    for calls in every:
        for some, mine in blocks_of(calls, thread):
            code = calls.code(some)
            parts.append(chosen(mine & (code != NO_CODE), calls.start[some], calls.end[some], code))
    start, end, code = joined(parts)
    del parts
    start, end, code = chosen(end > start, start, end, code)
    order = np.argsort(start, kind="stable")
    start, end, code = (taken(column, order) for column in (start, end, code))
    reach = np.maximum.accumulate(end)
    apart = start[1:] >= reach[:-1]
    alone = (np.append(True, apart) & np.append(apart, True))[: len(start)]
    states = _in_layers(*chosen(~alone, start, end, code))
    start, end, code = chosen(alone, start, end, code)
    single = LabelledSpans(Spans(start, end), code)
    return in_order(single, states) if len(states.code) else single


def _in_layers(start: Times, end: Times, code: npt.NDArray[np.int32]) -> LabelledSpans:
    """Return some calls as states: at each time the first in order of kind, of one kind the innermost."""
    kind = (code >> NAME_BITS).astype(np.int8)
    states = NO_STATES
    for each in (*range(api_calls.OFF_CPU), api_calls.FILE_IO):
        of_kind = kind == each
        if of_kind.any():
            states = fill(states, innermost(*chosen(of_kind, start, end, code)))
    return states


KIND_OF: Mapping[TableSpec, Callable[[str], int | None]] = {
    tables.CALLS: api_calls.call_kind,
    tables.OS_CALLS: api_calls.os_call_kind,
    tables.OVERHEADS: api_calls.overhead_kind,
    tables.LIBRARY_CALLS: api_calls.library_call_kind,
}
