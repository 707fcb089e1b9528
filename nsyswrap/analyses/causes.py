"""Why the GPU was idle: each idle nanosecond gets the first cause that holds, from the thread that fed the GPU.

A gap ends with an operation E, launched by the call r of thread T::

    GPU    ####|..................gap..................|EEEE
    T            host work     |---- r ----|
               |  segment A    | launch    | queued    |

Segment A is cut where what T does changes; every piece has one cause and one phase. Source: the table of causes
in docs/analyses/idle.md.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses import call_kinds
from nsyswrap.analyses.annotations import DATA, NO_PHASE
from nsyswrap.analyses.base import Study
from nsyswrap.analyses.operations import SOURCES, Operations
from nsyswrap.analyses.thread_states import NAMES, ThreadStates
from nsyswrap.intervals import NOTHING, Indices, Spans, Timeline, Times, Window, covered, fill, gaps, overlay
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
EMPTY = Timeline(NOTHING, np.empty(0, np.int32))
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
    explainer = _Explainer(study, states, _gaps(study, states, device_id, window))
    return _joined(_ordered(explainer.pieces()))


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
    begins: Times = np.clip(launched, spans.start, spans.end)
    return begins


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


@dataclass(frozen=True)
class _Explainer:
    """Explains the gaps of one device, thread by thread."""

    study: Study
    states: ThreadStates
    found: _Gaps

    def pieces(self) -> list[Pieces]:
        """Return the pieces of all gaps, in no order."""
        return [
            piece
            for thread in np.unique(self.found.thread)
            for piece in self._of_thread(int(thread), np.flatnonzero(self.found.thread == thread))
        ]

    def _of_thread(self, thread: int, mine: Indices) -> list[Pieces]:
        """Cut the gaps one thread is asked about into A, launch, queued and blind, and explain each."""
        start, end = self.found.spans.start[mine], self.found.spans.end[mine]
        seen = self.found.blind_from[mine]
        begun = np.clip(self.found.call_start[mine], start, seen)
        returned = np.clip(self.found.call_end[mine], begun, seen)
        return [
            self._before_launch(thread, mine, Spans(start, begun)),
            self._fixed("launch", thread, mine, Spans(begun, returned)),
            self._fixed("queued", thread, mine, Spans(returned, seen)),
            self._fixed("blind", thread, mine, Spans(seen, end)),
        ]

    def _fixed(self, cause: str, thread: int, gap: Indices, spans: Spans) -> Pieces:
        """Return segments that have one cause whatever the thread does; they still have a phase."""
        gap, spans = _real(gap, spans)
        part, start, end, phase = _with_phase(spans, self._phases(thread))
        gap = gap[part]
        names = self._launch_names(gap) if cause != "blind" else np.full(len(gap), NO_NAME, np.int32)
        return _pieces(Spans(start, end), gap, np.full(len(gap), CODE[cause]), phase, thread, names)

    def _before_launch(self, thread: int, gap: Indices, spans: Spans) -> Pieces:
        """Explain the time before the launch call by what the thread did then."""
        gap, spans = _real(gap, spans)
        if not len(gap) or thread == NOBODY:
            nothing = np.full(len(gap), NO_NAME, np.int32)
            return _pieces(spans, gap, np.full(len(gap), CODE["unknown"]), nothing * 0 + NO_PHASE, thread, nothing)
        whole = Spans(spans.start[:1], spans.end[-1:])
        running = Timeline(whole, np.array([call_kinds.RUNNING * NAMES + NO_NAME], np.int32))
        state = fill(self.states.of(thread), running)
        part, other, start, end = overlay(spans, state.spans)
        again, start, end, phase = _with_phase(Spans(start, end), self._phases(thread))
        code = state.code[other[again]]
        gap = gap[part[again]]
        cause = self._cause(thread, gap, code // NAMES, phase)
        return _pieces(Spans(start, end), gap, cause, phase, thread, code % NAMES)

    def _cause(
        self, thread: int, gap: Indices, kind: npt.NDArray[np.int32], phase: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int8]:
        """Return the cause of each piece from what the thread does; in the data phase, or before a batch, from that."""
        cause: npt.NDArray[np.int8] = _STATE_CAUSE[kind]
        waiting, running = _WAITING[kind], kind == call_kinds.RUNNING
        process = thread & ~tables.THREAD_MASK
        if self.study.phases.has_any(process):
            in_data = phase == self.study.phases.code(DATA)
            # Without traced system calls a wait cannot be told from work.
            traced = tables.OS_CALLS.name not in self.study.trace.absent
            working = np.int8(CODE["input_work" if traced else "unknown"])
            cause = np.where(in_data & running, working, cause)
            return np.where(in_data & waiting, np.int8(CODE["input_wait"]), cause)
        if has_loader(self.study, process):
            before_batch = _ends_with_batch(self.study, self.found)[gap]
            return np.where(before_batch & waiting, np.int8(CODE["input_wait"]), cause)
        return cause

    def _phases(self, thread: int) -> Timeline:
        return EMPTY if thread == NOBODY else self.study.phases.shown(thread)

    def _launch_names(self, gap: Indices) -> npt.NDArray[np.int32]:
        call = self.found.call[gap]
        names = np.full(len(call), NO_NAME, np.int32)
        known = call >= 0
        names[known] = self.states.call_names[call[known]]
        return names


def _real(gap: Indices, spans: Spans) -> tuple[Indices, Spans]:
    """Drop empty segments."""
    real = spans.end > spans.start
    return gap[real], Spans(spans.start[real], spans.end[real])


def _pieces(  # noqa: PLR0913, PLR0917 - one argument a field
    spans: Spans,
    gap: Indices,
    cause: npt.NDArray[np.integer[Any]],
    phase: npt.NDArray[np.int32],
    thread: int,
    name: npt.NDArray[np.int32],
) -> Pieces:
    threads = np.full(len(gap), thread, np.int64)
    return Pieces(spans.start, spans.end, gap, cause.astype(np.int8), phase, threads, name)


def _ordered(parts: list[Pieces]) -> Pieces:
    """Put pieces one behind another in order of time."""
    if not parts:
        return _pieces(NOTHING, np.empty(0, np.intp), np.empty(0, np.int8), EMPTY.code, 0, EMPTY.code)
    order = np.argsort(np.concatenate([part.start for part in parts]), kind="stable")
    return Pieces(*(np.concatenate([getattr(part, each.name) for part in parts])[order] for each in fields(Pieces)))


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
