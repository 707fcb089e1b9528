"""Why the GPU was idle: each idle nanosecond gets the first cause that holds, from the thread that fed the GPU.

A gap ends with an operation E, launched by the call r of thread T::

    GPU    ####|..................gap..................|EEEE
    T            host work     |---- r ----|
               |  segment A    | launch    | queued    |

Segment A is cut where what T does changes; every piece has one cause and one phase. Source: the table of causes
in docs/analyses/idle.md.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses import call_kinds
from nsyswrap.analyses.annotations import DATA, NO_PHASE
from nsyswrap.analyses.base import Study
from nsyswrap.analyses.operations import SOURCES, Operations
from nsyswrap.analyses.thread_states import NAMES, ThreadStates
from nsyswrap.intervals import Indices, Spans, Timeline, Times, Window, covered, fill, gaps, overlay
from nsyswrap.tables import array

CAUSES = (
    "blind",
    "queued",
    "launch",
    "profiler",
    "module_load",
    "allocation",
    "blocking_copy",
    "synchronization",
    "input_wait",
    "input_work",
    "peer_wait",
    "lock",
    "descheduled",
    "host",
    "unknown",
)
CODE = {cause: code for code, cause in enumerate(CAUSES)}

_BY_STATE = {
    call_kinds.PROFILER: "profiler",
    call_kinds.MODULE_LOAD: "module_load",
    call_kinds.ALLOCATION: "allocation",
    call_kinds.BLOCKING_COPY: "blocking_copy",
    call_kinds.SYNCHRONIZATION: "synchronization",
    call_kinds.LOCK_WAIT: "lock",
    call_kinds.OTHER_WAIT: "host",
    call_kinds.PEER_THREAD_WAIT: "unknown",
    call_kinds.OFF_CPU: "descheduled",
    call_kinds.RUNNING: "host",
}
_STATE_CAUSE = np.array([CODE[_BY_STATE[kind]] for kind in range(len(_BY_STATE))], np.int8)
_WAITING = np.isin(
    np.arange(len(_BY_STATE)), (call_kinds.LOCK_WAIT, call_kinds.OTHER_WAIT, call_kinds.PEER_THREAD_WAIT)
)

NO_NAME = NAMES - 1
NOBODY = np.int64(-1)
# T is taken to feed the GPU unless it only waited: more than this share of segment A. Source: definitions of the
# root-cause rule, section "three segments".
ONLY_WAITED = 0.5


@dataclass(frozen=True)
class Pieces:
    """Idle time of one device cut where cause or phase changes; arrays of equal length, sorted by time.

    Attributes:
        start: ns since capture start.
        end: ns since capture start.
        gap: Index of the gap each piece is part of.
        cause: Index into ``CAUSES``, int8.
        phase: Phase code, int32; -1 for none.
        thread: Global id of the thread that was looked at; -1 for none.
        name: Index into ``ThreadStates.names`` of the call that explains it; NO_NAME for none.
    """

    start: Times
    end: Times
    gap: Indices
    cause: npt.NDArray[np.int8]
    phase: npt.NDArray[np.int32]
    thread: Times
    name: npt.NDArray[np.int32]


@dataclass(frozen=True)
class _Gaps:
    """The gaps of one device with what ended each: arrays of equal length."""

    spans: Spans
    ender: Indices
    call: Indices
    thread: Times
    call_start: Times
    call_end: Times
    blind_from: Times


class _Collector:
    """Gathers pieces from segments, thread by thread."""

    def __init__(self) -> None:
        self.parts: list[tuple[npt.NDArray[np.int64], ...]] = []

    def add(
        self, start: Times, end: Times, gap: Indices, cause: Times, phase: Times, thread: Times, name: Times
    ) -> None:
        self.parts.append((start, end, gap, cause, phase, thread, name))

    def pieces(self) -> Pieces:
        if not self.parts:
            self.parts.append(tuple(np.empty(0, np.int64) for _ in range(7)))
        start, end, gap, cause, phase, thread, name = (np.concatenate(each) for each in zip(*self.parts, strict=True))
        order = np.argsort(start, kind="stable")
        return Pieces(
            start[order],
            end[order],
            gap[order].astype(np.intp),
            cause[order].astype(np.int8),
            phase[order].astype(np.int32),
            thread[order],
            name[order].astype(np.int32),
        )


def explain(study: Study, states: ThreadStates, device_id: int, window: Window) -> Pieces:
    """Return the idle time of one device inside a window, each piece with its cause.

    Args:
        study: The trace and what is known of its operations and phases.
        states: What its threads do inside the window.
        device_id: The GPU.
        window: Stretch of time.

    Returns:
        Pieces whose lengths add up to the device's idle time exactly.
    """
    found = _gaps(study, states, device_id, window)
    collect = _Collector()
    for thread in np.unique(found.thread):
        mine = np.flatnonzero(found.thread == thread)
        _explain_thread(study, states, found, mine, int(thread), collect)
    return _joined(collect.pieces())


def _gaps(study: Study, states: ThreadStates, device_id: int, window: Window) -> _Gaps:
    operations = study.operations
    mine = operations.on(device_id)
    spans = gaps(operations.busy(device_id), window.start_ns, window.end_ns)
    starts = operations.start[mine]
    at = np.searchsorted(starts, spans.end, side="left")
    ender = np.where(at < len(mine), mine[np.minimum(at, len(mine) - 1)], -1)
    calls = study.trace[tables.CALLS]
    call = np.where(ender >= 0, operations.call[ender], -1)
    known = call >= 0
    start, end = spans.end.copy(), spans.end.copy()
    start[known] = array(calls, "start")[call[known]]
    end[known] = array(calls, "end")[call[known]]
    thread = np.full(len(call), NOBODY)
    thread[known] = array(calls, "thread")[call[known]]
    # Nothing follows the last gap: whoever launched last is asked what it did instead.
    last = operations.call[mine[-1]] if len(mine) else -1
    if last >= 0:
        thread[ender < 0] = array(calls, "thread")[last]
    blind_from = _blind_from(study, operations, mine, spans)
    blind_from[(ender >= 0) & ~known] = spans.start[(ender >= 0) & ~known]
    if last < 0:
        blind_from[ender < 0] = spans.start[ender < 0]
    found = _Gaps(spans, ender, call, thread, start, end, blind_from)
    return _moved(study, states, found)


def _blind_from(study: Study, operations: Operations, mine: Indices, spans: Spans) -> Times:
    """Return from when on each gap may hold work the capture does not show: a graph traced neither way."""
    blind = spans.end.copy()
    opaque = _opaque_launches(study)
    if not len(opaque):
        return blind
    # The graph may have been launched while the operation before the gap was still running.
    before = np.searchsorted(operations.start[mine], spans.start, side="left") - 1
    call = np.where(before >= 0, operations.call[mine[np.maximum(before, 0)]], -1)
    since = np.where(call >= 0, array(study.trace[tables.CALLS], "start")[call], spans.start)
    first = np.searchsorted(opaque, since, side="right")
    launched = np.append(opaque, np.iinfo(np.int64).max)[first]
    return np.minimum(np.maximum(launched, spans.start), spans.end)


def _opaque_launches(study: Study) -> Times:
    """Return when CUDA graphs were launched of which no operation is in the capture, ascending."""
    calls = study.trace[tables.CALLS]
    codes, ids = pd.factorize(array(calls, "name_id"))
    launches = [call_kinds.base_name(study.trace.text(int(i))) in {"cudaGraphLaunch", "cuGraphLaunch"} for i in ids]
    if not any(launches):
        return np.empty(0, np.int64)
    is_launch = np.array(launches)[codes]
    shown = study.operations.call
    is_launch[shown[shown >= 0]] = False
    start: Times = array(calls, "start")[is_launch]
    return start


def _moved(study: Study, states: ThreadStates, found: _Gaps) -> _Gaps:
    """Ask another thread of the process where T only waited: typically autograd's, waiting for the main thread."""
    start, end = found.spans.start, np.clip(found.call_start, found.spans.start, found.spans.end)
    length = end - start
    thread = found.thread.copy()
    launchers = _launching_threads(study)
    for each in np.unique(found.thread[found.thread != NOBODY]):
        mine = np.flatnonzero((found.thread == each) & (length > 0))
        wait = covered(states.waits(int(each)), start[mine], end[mine])
        idle = mine[wait > ONLY_WAITED * length[mine]]
        least = ONLY_WAITED * length[idle]
        process = int(each) & ~tables.THREAD_MASK
        main = study.phases.main_thread.get(process)
        # The main thread is asked first: of equally busy threads the first one asked is taken.
        others = sorted((t for t in launchers.get(process, []) if t != each), key=lambda t: (t != main, t))
        for other in others:
            born, died = states.alive(other)
            waited = covered(states.waits(other), start[idle], end[idle])
            better = (waited < least) & (born <= start[idle]) & (died >= end[idle])
            thread[idle[better]] = other
            least = np.where(better, waited, least)
    return _Gaps(found.spans, found.ender, found.call, thread, found.call_start, found.call_end, found.blind_from)


def _launching_threads(study: Study) -> dict[int, list[int]]:
    """Return the threads of each process that launched an operation; pollers and watchdogs never do."""
    call = study.operations.call
    threads = pd.unique(array(study.trace[tables.CALLS], "thread")[call[call >= 0]])
    found: dict[int, list[int]] = {}
    for thread in threads:
        found.setdefault(int(thread) & ~tables.THREAD_MASK, []).append(int(thread))
    return found


def _explain_thread(
    study: Study, states: ThreadStates, found: _Gaps, mine: Indices, thread: int, collect: _Collector
) -> None:
    """Cut the gaps that one thread is asked about into blind, A, launch and queued, and explain each."""
    start, end = found.spans.start[mine], found.spans.end[mine]
    seen = found.blind_from[mine]
    begun = np.clip(found.call_start[mine], start, seen)
    returned = np.clip(found.call_end[mine], begun, seen)
    phases = (
        study.phases.shown(thread) if thread != NOBODY else Timeline(Spans(start[:0], end[:0]), np.empty(0, np.int32))
    )
    names = _call_names(study, states, found.call[mine])
    for cause, low, high in (("blind", seen, end), ("launch", begun, returned), ("queued", returned, seen)):
        real = high > low
        whole = Spans(low[real], high[real])
        part, piece_start, piece_end, phase = _with_phase(whole, phases)
        gap = mine[real][part]
        fixed = np.full(len(gap), CODE[cause])
        name = names[real][part] if cause != "blind" else np.full(len(gap), NO_NAME)
        collect.add(piece_start, piece_end, gap, fixed, phase, np.full(len(gap), thread), name)
    real = begun > start
    _explain_host(study, states, Spans(start[real], begun[real]), mine[real], found, thread, phases, collect)


def _explain_host(  # noqa: PLR0913 - one caller; the alternatives hide the same values in a bag
    study: Study,
    states: ThreadStates,
    spans: Spans,
    gap: Indices,
    found: _Gaps,
    thread: int,
    phases: Timeline,
    collect: _Collector,
) -> None:
    """Explain the time before the launch call by what the thread did then."""
    if not len(spans.start) or thread == NOBODY:
        collect.add(*_unexplained(spans, gap))
        return
    low, high = int(spans.start[0]), int(spans.end[-1])
    running = np.int32(call_kinds.RUNNING * NAMES + NO_NAME)
    state = fill(states.of(thread), Timeline(Spans(np.array([low]), np.array([high])), np.array([running])))
    part, other, start, end = overlay(spans, state.spans)
    code = state.code[other]
    again, start, end, phase = _with_phase(Spans(start, end), phases)
    part, code = part[again], code[again]
    kind, name = code // NAMES, code % NAMES
    cause = _cause(study, kind, phase, gap[part], found, thread)
    collect.add(start, end, gap[part], cause, phase, np.full(len(start), thread), name)


def _cause(
    study: Study, kind: npt.NDArray[np.int32], phase: npt.NDArray[np.int32], gap: Indices, found: _Gaps, thread: int
) -> npt.NDArray[np.int8]:
    """Return the cause of each piece: by what the thread does, and in the data phase, or before a batch, by that."""
    cause = _STATE_CAUSE[kind]
    waiting, running = _WAITING[kind], kind == call_kinds.RUNNING
    process = thread & ~tables.THREAD_MASK
    if study.phases.has_any(process):
        in_data = phase == study.phases.code(DATA)
        told = not {tables.OS_CALLS.name} & study.trace.absent
        working = np.int8(CODE["input_work"] if told else CODE["unknown"])
        return np.where(in_data & waiting, np.int8(CODE["input_wait"]), np.where(in_data & running, working, cause))
    if has_loader(study, process):
        before_batch = _ends_with_batch(study, found)[gap]
        return np.where(before_batch & waiting, np.int8(CODE["input_wait"]), cause)
    return cause


def has_loader(study: Study, process: int) -> bool:
    """Return whether the process has threads that pin or fetch batches, or child processes that load them."""
    threads = study.trace[tables.THREADS]
    mine = tables.process_of(array(threads, "thread")) == process
    names = set(threads["name"][mine].astype(str))
    every = set(threads["name"].astype(str))
    return bool(names & {"pt_data_pin", "pt_data_prefetch"} or "pt_data_worker" in every)


def _ends_with_batch(study: Study, found: _Gaps) -> npt.NDArray[np.bool_]:
    """Return which gaps end with a copy from the host to a device."""
    operations, copies = study.operations, study.trace[tables.COPIES]
    wanted = [kind for kind, label in study.trace.copy_kinds.items() if label == "Host-to-Device"]
    result = np.zeros(len(found.ender), bool)
    rows = np.flatnonzero(found.ender >= 0)
    is_copy = operations.table[found.ender[rows]] == SOURCES.index(tables.COPIES)
    rows = rows[is_copy]
    result[rows] = np.isin(array(copies, "copy_kind")[operations.row[found.ender[rows]]], wanted)
    return result


def _unexplained(spans: Spans, gap: Indices) -> tuple[Times, ...]:
    rows = len(spans.start)
    fill_with = (CODE["unknown"], NO_PHASE, NOBODY, NO_NAME)
    return spans.start, spans.end, gap, *(np.full(rows, value, np.int64) for value in fill_with)


def _call_names(study: Study, states: ThreadStates, call: Indices) -> npt.NDArray[np.int32]:
    names = np.full(len(call), NO_NAME, np.int32)
    known = call >= 0
    names[known] = states.call_names[call[known]]
    return names


def _with_phase(spans: Spans, phases: Timeline) -> tuple[Indices, Times, Times, npt.NDArray[np.int32]]:
    """Cut spans where the phase changes: index of the span, start, end, phase code (-1 for none)."""
    if not len(spans.start):
        return np.empty(0, np.intp), spans.start, spans.end, np.empty(0, np.int32)
    low, high = int(spans.start.min()), int(spans.end.max())
    outside = Timeline(Spans(np.array([low]), np.array([high])), np.array([NO_PHASE], np.int32))
    whole = fill(phases, outside)
    part, other, start, end = overlay(spans, whole.spans)
    return part, start, end, whole.code[other]


def _joined(pieces: Pieces) -> Pieces:
    """Join neighbours of one gap with the same cause and phase; the longest one's evidence stands for them."""
    if not len(pieces.start):
        return pieces
    same = (
        (pieces.gap[1:] == pieces.gap[:-1])
        & (pieces.cause[1:] == pieces.cause[:-1])
        & (pieces.phase[1:] == pieces.phase[:-1])
        & (pieces.thread[1:] == pieces.thread[:-1])
    )
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    last = np.append(first[1:] - 1, len(pieces.start) - 1)
    length = pieces.end - pieces.start
    group = np.repeat(np.arange(len(first)), last - first + 1)
    longest = np.lexsort((-length, group))[first]
    return Pieces(
        pieces.start[first],
        pieces.end[last],
        pieces.gap[first],
        pieces.cause[first],
        pieces.phase[first],
        pieces.thread[first],
        pieces.name[longest],
    )
