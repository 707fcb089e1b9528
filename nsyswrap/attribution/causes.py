"""The cause of each idle nanosecond, found from what the launching thread did.

A gap ends with operation E. Call r of thread T launched it::

    GPU    ####|..................gap..................|EEEE
    T            host work     |---- r ----|
               |  segment A    | launch    | queued    |

Segment A is cut where the activity of T changes. Every piece has one cause and one phase. Source: the table of causes
in docs/sections/idle.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap import tables
from nsyswrap.attribution.gaps import DeviceGaps
from nsyswrap.attribution.pieces import Pieces, joined_in_order
from nsyswrap.events import api_calls
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import NAMES, NO_NAME, WAITS, ThreadStates
from nsyswrap.intervals import NOTHING, Indices, LabelledSpans, Spans, Times, fill, overlay, within
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import BATCH, COPY, DATA, NO_PHASE
from nsyswrap.tables import Trace, array, blocks

CAUSES = (
    "not_traced",
    "queued",
    "launch",
    "profiler",
    "module_load",
    "allocation",
    "blocking_copy",
    "synchronization",
    "data_wait",
    "data_work",
    "lock",
    "off_cpu",
    "garbage_collection",
    "file_io",
    "cpu",
    "unknown",
)
CODE = {cause: code for code, cause in enumerate(CAUSES)}

_BY_STATE = {
    api_calls.PROFILER: "profiler",
    api_calls.MODULE_LOAD: "module_load",
    api_calls.ALLOCATION: "allocation",
    api_calls.BLOCKING_COPY: "blocking_copy",
    api_calls.SYNCHRONIZATION: "synchronization",
    api_calls.LOCK_WAIT: "lock",
    api_calls.OTHER_WAIT: "cpu",
    api_calls.PEER_THREAD_WAIT: "unknown",
    api_calls.OFF_CPU: "off_cpu",
    api_calls.GARBAGE_COLLECTION: "garbage_collection",
    api_calls.FILE_IO: "file_io",
    api_calls.CHECKPOINT: "file_io",
    api_calls.TOKENIZER: "data_work",
    api_calls.RUNNING: "cpu",
}
_STATE_CAUSE = np.array([CODE[_BY_STATE[kind]] for kind in range(len(_BY_STATE))], np.int8)
_WAITING = np.isin(np.arange(len(_BY_STATE)), WAITS)

EMPTY = LabelledSpans(NOTHING, np.empty(0, np.int32))


def find_causes(context: TraceContext, states: ThreadStates, found: DeviceGaps) -> Pieces:
    """Return the idle time of one device inside a window, each piece with its cause.

    Args:
        context: The trace, its operations and its phases.
        states: What the threads do inside the window.
        found: The gaps of the device.

    Returns:
        Pieces in order of time, at least one for each gap; their lengths add up to the device's idle time exactly.
    """
    # A few gaps at a time, because the intermediate pieces need much memory.
    return joined_in_order(
        _merge_equal(_sort_by_start(_Explainer(context, states, found.of(block), block.start).pieces()))
        for block in blocks(len(found.ender))
    )


@dataclass(frozen=True)
class _Explainer:
    """Finds the causes of some gaps of one device, thread by thread.

    Attributes:
        context: The trace, its operations and its phases.
        states: What the threads do inside the window.
        found: The gaps.
        number: Index of the first of them among all gaps of the device.
    """

    context: TraceContext
    states: ThreadStates
    found: DeviceGaps
    number: int

    def pieces(self) -> list[Pieces]:
        """Return the pieces of all gaps, unordered: each gap is cut into segment A, launch, queued and not traced."""
        spans, seen = self.found.spans, self.found.not_traced_from
        begun = np.clip(self.found.call_start, spans.start, seen)
        returned = np.clip(self.found.call_end, begun, seen)
        before = [
            piece
            for thread, gap in _by_thread(self.found.active_thread)
            for piece in self._before_launch(thread, gap, Spans(spans.start[gap], begun[gap]))
        ]
        after = [
            self._fixed(cause, thread, gap, Spans(start[gap], end[gap]))
            for thread, gap in _by_thread(self.found.launcher)
            for cause, start, end in (
                ("launch", begun, returned),
                ("queued", returned, seen),
                ("not_traced", seen, spans.end),
            )
        ]
        return before + after

    def _fixed(self, cause: str, thread: int, gap: Indices, spans: Spans) -> Pieces:
        """Return the pieces of segments whose cause does not depend on the thread's activity, cut by phase."""
        gap, spans = _real(gap, spans)
        part, phase, start, end = _cut(spans, self.context.phases.shown(thread), NO_PHASE)
        gap = gap[part]
        names = self._launch_names(gap) if cause != "not_traced" else np.full(len(gap), NO_NAME, np.int32)
        causes = np.full(len(gap), CODE[cause], np.int8)
        if cause == "launch" and len(gap):
            # A thread can lose its core inside the call.
            part, code, start, end = self._states(thread, Spans(start, end))
            lost = code // NAMES == api_calls.OFF_CPU
            gap, phase, names = gap[part], phase[part], np.where(lost, np.int32(NO_NAME), names[part])
            causes = np.where(lost, np.int8(CODE["off_cpu"]), np.int8(CODE[cause]))
        return self._pieces(Spans(start, end), gap, causes, phase, thread, names)

    def _before_launch(self, thread: int, gap: Indices, spans: Spans) -> list[Pieces]:
        """Return the pieces before the launch calls, with causes from what the thread did then."""
        gap, spans = _real(gap, spans)
        if not len(gap):
            return []
        part, code, start, end = self._states(thread, spans)
        awaited = self.context.phases.main_thread.get(thread & ~tables.THREAD_MASK, thread)
        handed = (code // NAMES == api_calls.PEER_THREAD_WAIT) & (awaited != thread)
        waits = Spans(start[handed], end[handed])
        # A launching thread that waits for another thread waits for the main thread: its activity is the cause.
        then, its_code, its_start, its_end = self._states(awaited, waits)
        return [
            self._by_state(thread, gap[part[~handed]], Spans(start[~handed], end[~handed]), code[~handed]),
            self._by_state(awaited, gap[part[handed][then]], Spans(its_start, its_end), its_code),
        ]

    def _states(self, thread: int, spans: Spans) -> tuple[Indices, npt.NDArray[np.int32], Times, Times]:
        """Cut spans where the thread's state changes: index of the span, state code, start, end."""
        return _cut(spans, self.states.of(thread), api_calls.RUNNING * NAMES + NO_NAME)

    def _by_state(self, thread: int, gap: Indices, spans: Spans, code: npt.NDArray[np.int32]) -> Pieces:
        """Return pieces whose cause follows from the thread's state and phase."""
        part, phase, start, end = _cut(spans, self.context.phases.shown(thread), NO_PHASE)
        code, gap = code[part], gap[part]
        cause = self._cause(thread, gap, code // NAMES, phase)
        return self._pieces(Spans(start, end), gap, cause, phase, thread, code % NAMES)

    def _cause(
        self, thread: int, gap: Indices, kind: npt.NDArray[np.int32], phase: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int8]:
        """Return the cause of each piece from the thread's state; waits in the data phase are data loader waits.

        Without a data phase, a wait in a gap that ends with the copy of a batch is one, where the process has a loader.
        """
        cause: npt.NDArray[np.int8] = _STATE_CAUSE[kind]
        waiting, running = _WAITING[kind], kind == api_calls.RUNNING
        process = thread & ~tables.THREAD_MASK
        if self.context.phases.marks(process, DATA):
            in_data = phase == self.context.phases.code(DATA)
            # Without traced system calls, waiting and working look the same.
            traced = tables.OS_CALLS.name not in self.context.trace.absent
            working = np.int8(CODE["data_work" if traced else "unknown"])
            cause = np.where(in_data & running, working, cause)
            return np.where(in_data & waiting, np.int8(CODE["data_wait"]), cause)
        if has_loader(self.context.trace, process):
            # A wait in another phase of the step is not a wait for a batch.
            outside = np.isin(phase, [NO_PHASE, *map(self.context.phases.code, (BATCH, COPY))])
            before_batch = _ends_with_batch(self.context, self.found)[gap]
            return np.where(before_batch & outside & waiting, np.int8(CODE["data_wait"]), cause)
        return cause

    def _launch_names(self, gap: Indices) -> npt.NDArray[np.int32]:
        call = self.found.call[gap]
        names = np.full(len(call), NO_NAME, np.int32)
        known = call >= 0
        names[known] = self.states.names_of(tables.CALLS, call[known])
        return names

    def _pieces(  # noqa: PLR0913, PLR0917 - one argument a field
        self,
        spans: Spans,
        gap: Indices,
        cause: npt.NDArray[np.integer[Any]],
        phase: npt.NDArray[np.int32],
        thread: int,
        name: npt.NDArray[np.int32],
    ) -> Pieces:
        threads = np.full(len(gap), thread, np.int64)
        return Pieces(spans.start, spans.end, gap + self.number, cause.astype(np.int8), phase, threads, name)


def _by_thread(threads: Times) -> Iterator[tuple[int, Indices]]:
    """Yield each thread with the indices of its gaps."""
    for thread in tables.distinct(threads):
        yield int(thread), np.flatnonzero(threads == thread)


def _real(gap: Indices, spans: Spans) -> tuple[Indices, Spans]:
    """Return the segments that are not empty."""
    real = spans.end > spans.start
    return gap[real], Spans(spans.start[real], spans.end[real])


def _sort_by_start(parts: Iterable[Pieces]) -> Pieces:
    """Return the pieces of all parts, sorted by start."""
    whole = joined_in_order(parts)
    return whole.of(np.argsort(whole.start, kind="stable"))


def has_loader(trace: Trace, process: int) -> bool:
    """Return whether the process has threads that pin or fetch batches, or child processes that load them."""
    threads = trace[tables.THREADS]
    mine = tables.process_of(array(threads, "thread")) == process
    names = set(threads["name"][mine].astype(str))
    every = set(threads["name"].astype(str))
    return bool(names & {"pt_data_pin", "pt_data_prefetch"} or "pt_data_worker" in every)


def _ends_with_batch(context: TraceContext, found: DeviceGaps) -> npt.NDArray[np.bool_]:
    """Return which gaps end with a copy from the host to a device."""
    operations, copies = context.operations, context.trace[tables.COPIES]
    wanted = [kind for kind, label in context.trace.copy_kinds.items() if label == "Host-to-Device"]
    result = np.zeros(len(found.ender), bool)
    rows = np.flatnonzero(found.ender >= 0)
    is_copy = operations.table[found.ender[rows]] == SOURCES.index(tables.COPIES)
    rows = rows[is_copy]
    result[rows] = np.isin(array(copies, "copy_kind")[operations.row[found.ender[rows]]], wanted)
    return result


def _cut(spans: Spans, labels: LabelledSpans, otherwise: int) -> tuple[Indices, npt.NDArray[np.int32], Times, Times]:
    """Cut spans where their label changes: index of the span, label, start, end; ``otherwise`` is the default label."""
    if not len(spans.start):
        return np.empty(0, np.intp), np.empty(0, np.int32), spans.start, spans.end
    low, high = int(spans.start[0]), int(spans.end[-1])
    rest = LabelledSpans(Spans(np.array([low]), np.array([high])), np.array([otherwise], np.int32))
    whole = fill(within(labels, low, high), rest)
    part, other, start, end = overlay(spans, whole.spans)
    return part, whole.code[other], start, end


def _merge_equal(pieces: Pieces) -> Pieces:
    """Merge adjacent pieces of one gap with the same cause, phase and thread; the longest piece gives the call name."""
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
    is_longest = np.flatnonzero(length == np.maximum.reduceat(length, first)[group])
    its_group = group[is_longest]
    longest = is_longest[np.append(True, its_group[1:] != its_group[:-1])]
    return Pieces(
        pieces.start[first],
        pieces.end[last],
        pieces.gap[first],
        pieces.cause[first],
        pieces.phase[first],
        pieces.thread[first],
        pieces.name[longest],
    )
