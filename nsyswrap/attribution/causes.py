"""The cause of each idle nanosecond, found from what the launching thread did.

A gap ends with operation E. Call r of thread T launched it::

    GPU    ####|..................gap..................|EEEE
    T            host work     |---- r ----|
               |  segment A    | launch    | queued    |

Segment A is cut where the activity of T changes. Every piece has one cause and one phase. Source: the table of causes
in docs/sections/idle.md.

Where labels cut spans::

    spans     |-----------------|   |------|
    labels         |aaaaa|bbb|   |cccc|
    cut       |----|aaaaa|bbb|--|   |c|----|
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nsyswrap import rules
from nsyswrap.attribution.gaps import DeviceGaps, LaunchCalls
from nsyswrap.attribution.launch_pace import find_loading_launches
from nsyswrap.attribution.pieces import COLUMNS, Owners, Pieces, joined_in_order
from nsyswrap.base.intervals import Indices, LabelledSpans, Spans, Times, places, within
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events import api_calls
from nsyswrap.events.off_cpu import has_switches
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import NAME_BITS, NAMES, NO_NAME, WAITS, ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.helper_threads import has_loader
from nsyswrap.loop.phase_detection import BATCH, COPY, DATA, NO_PHASE
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks

Codes = npt.NDArray[np.int32]


CAUSES = tuple(rules.CAUSES)
CODE = {cause: code for code, cause in enumerate(CAUSES)}
_BY_STATE = {
    api_calls.PROFILER: "profiler",
    api_calls.MODULE_LOAD: "module_load",
    api_calls.ALLOCATION: "allocation",
    api_calls.BLOCKING_COPY: "blocking_copy",
    api_calls.SYNCHRONIZATION: "synchronization",
    api_calls.PEER_RANK_WAIT: "peer_wait",
    api_calls.LOCK_WAIT: "lock",
    api_calls.OTHER_WAIT: "cpu",
    api_calls.PEER_THREAD_WAIT: "unknown",
    api_calls.OFF_CPU: "off_cpu",
    api_calls.GARBAGE_COLLECTION: "garbage_collection",
    api_calls.FILE_IO: "file_io",
    api_calls.CHECKPOINT: "file_io",
    api_calls.TOKENIZER: "data_work",
    api_calls.PAGE_FAULT: "file_io",
    api_calls.UNTRACED_WAIT: "off_cpu",
    api_calls.RUNNING: "cpu",
}
_STATE_CAUSE = np.array([CODE[_BY_STATE[kind]] for kind in range(len(_BY_STATE))], np.int8)
# numpy releases Python's lock, so two threads can work at the same time.
_WORKERS = 2
_WAITING = np.isin(np.arange(len(_BY_STATE)), WAITS)


def cut(spans: Spans, labels: LabelledSpans, otherwise: int) -> tuple[Indices, Codes, Times, Times]:
    """Return the parts of some spans between the changes of their label.

    Returns:
        Four arrays with one row for each part, in order of time: index of its span, its label, start and end in ns.
    """
    count = len(spans.start)
    if not count:
        return np.empty(0, np.intp), np.empty(0, np.int32), spans.start, spans.end
    near = within(labels, int(spans.start[0]), int(spans.end[-1]))
    # The times at which the label changes, and the labels before, between and after them.
    edge = np.empty(2 * len(near.code), np.int64)
    edge[0::2], edge[1::2] = near.spans
    code = np.full(len(edge) + 1, otherwise, np.int32)
    code[1::2] = near.code
    # Where one span begins at the end of another, there is no time between them.
    real = np.append(edge[1:] > edge[:-1], True)[: len(edge)]
    edge, code = edge[real], np.append(code[:1], code[1:][real])
    # The last span that starts before an edge is cut there if it ends later.
    part = np.searchsorted(spans.start, edge, side="left") - 1
    inside = np.flatnonzero((part >= 0) & (edge < spans.end[part]))
    if not len(inside):
        return np.arange(count), code[places(edge, spans.start)], spans.start, spans.end
    place = part[inside]
    part = np.repeat(np.arange(count), 1 + np.bincount(place, minlength=count))
    start, end = spans.start[part], spans.end[part]
    place += np.arange(1, len(place) + 1)
    start[place] = end[place - 1] = edge[inside]
    return part, code[places(edge, start)], start, end


def find_causes(context: TraceContext, states: ThreadStates, found: DeviceGaps) -> Pieces:
    """Return the idle time of one device inside a window, each piece with its cause.

    Returns:
        Pieces in order of time, at least one for each gap; their lengths add up to the device's idle time exactly.
    """
    # A few gaps at a time, because the intermediate pieces need much memory.
    parts = list(blocks(len(found.ender)))
    apart = (api_calls.PAGE_FAULT_NAME, api_calls.UNTRACED_NAME)
    named = (
        states.os_calls(api_calls.OTHER_WAIT),
        np.array([at for at, name in enumerate(states.names) if name in apart], np.intp),
    )

    def pieces_of(block: slice) -> Pieces:
        some = _Explainer(context, states, found.of(block), block.start)
        return _merge_equal(_sort_by_start(some.pieces()), *named)

    with ThreadPoolExecutor(_WORKERS) as pool:
        return joined_in_order(pool.map(pieces_of, parts), len(parts))


@dataclass(frozen=True)
class _Explainer:
    """Finds the causes of some gaps of one device, thread by thread."""

    context: TraceContext
    states: ThreadStates
    found: DeviceGaps
    number: int

    def pieces(self) -> Iterator[Pieces]:
        """Yield the pieces of all gaps, unordered: each gap is cut into segment A, launch, queued and not traced."""
        spans, seen, threads = self.found.spans, self.found.not_traced_from, self.found.threads.tolist()
        call = self._calls
        begun = np.clip(call.start, spans.start, seen)
        returned = np.clip(call.end, begun, seen)
        for code, gap in _by_code(self.found.active_thread):
            yield from self._before_launch(
                threads[code], *_real(gap, Spans(taken(spans.start, gap), taken(begun, gap)))
            )
        for code, gap in _by_code(self.found.launcher):
            for cause, start, end in (
                ("launch", begun, returned),
                ("queued", returned, seen),
                ("not_traced", seen, spans.end),
            ):
                rows, segment = _real(gap, Spans(taken(start, gap), taken(end, gap)))
                if len(rows):
                    yield self._fixed(cause, threads[code], rows, segment)

    def _fixed(self, cause: str, thread: int, gap: Indices, spans: Spans) -> Pieces:
        """Return the pieces of segments whose cause does not depend on the thread's activity, cut by phase."""
        part, phase, start, end = cut(spans, self.context.phases.shown(thread), NO_PHASE)
        gap = taken(gap, part)
        names = np.full(len(gap), NO_NAME, np.int32) if cause == "not_traced" else taken(self._launch_names, gap)
        causes = np.full(len(gap), CODE[cause], np.int8)
        if cause == "launch":
            causes[taken(self._loads, gap)] = CODE["module_load"]
            # A thread can lose its core inside the call.
            part, code, start, end = self._states(thread, Spans(start, end))
            lost = code >> NAME_BITS == api_calls.OFF_CPU
            gap, phase, names, causes = (taken(each, part) for each in (gap, phase, names, causes))
            names[lost], causes[lost] = NO_NAME, CODE["off_cpu"]
        return self._pieces(Spans(start, end), gap, causes, phase, thread, names)

    def _before_launch(self, thread: int, gap: Indices, spans: Spans) -> Iterator[Pieces]:
        """Yield the pieces before the launch calls, with causes from what the thread did then."""
        part, code, start, end = self._states(thread, spans)
        awaited = self.context.phases.main_thread.get(thread & ~tables.THREAD_MASK, thread)
        handed = np.isin(code >> NAME_BITS, (api_calls.PEER_THREAD_WAIT, api_calls.UNTRACED_WAIT))
        if awaited == thread or not handed.any():
            yield self._by_state(thread, taken(gap, part), Spans(start, end), code)
            return
        # A launching thread that waits for another thread waits for the main thread: its activity is the cause.
        waits = Spans(start[handed], end[handed])
        then, its_code, its_start, its_end = self._states(awaited, waits)
        yield self._by_state(thread, gap[part[~handed]], Spans(start[~handed], end[~handed]), code[~handed])
        yield self._by_state(awaited, gap[part[handed][then]], Spans(its_start, its_end), its_code)

    def _states(self, thread: int, spans: Spans) -> tuple[Indices, npt.NDArray[np.int32], Times, Times]:
        """Cut spans where the thread's state changes: index of the span, state code, start, end."""
        return cut(spans, self.states.of(thread), api_calls.RUNNING * NAMES + NO_NAME)

    def _by_state(self, thread: int, gap: Indices, spans: Spans, code: npt.NDArray[np.int32]) -> Pieces:
        """Return pieces whose cause follows from the thread's state and phase."""
        part, phase, start, end = cut(spans, self.context.phases.shown(thread), NO_PHASE)
        code, gap = taken(code, part), taken(gap, part)
        cause = self._cause(thread, gap, code >> NAME_BITS, phase)
        return self._pieces(Spans(start, end), gap, cause, phase, thread, code & NO_NAME)

    def _cause(
        self, thread: int, gap: Indices, kind: npt.NDArray[np.int32], phase: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int8]:
        """Return the cause of each piece from the thread's state; waits in the data phase are data loader waits.

        Without a data phase, a wait in a gap that ends with the copy of a batch is one, where the process has a loader.
        """
        cause: npt.NDArray[np.int8] = taken(_STATE_CAUSE, kind)
        waiting, running = taken(_WAITING, kind), kind == api_calls.RUNNING
        process = thread & ~tables.THREAD_MASK
        if self.context.phases.marks(process, DATA):
            in_data = phase == self.context.phases.code(DATA)
            # Without traced system calls and without switches of cores, waiting and working look the same.
            trace = self.context.trace
            is_shown = tables.OS_CALLS.name not in trace.absent or has_switches(trace, thread)
            cause = np.where(in_data & running, np.int8(CODE["data_work" if is_shown else "unknown"]), cause)
            if not has_loader(trace, process):
                waiting = waiting & (kind != api_calls.UNTRACED_WAIT)
            return np.where(in_data & waiting, np.int8(CODE["data_wait"]), cause)
        if has_loader(self.context.trace, process):
            # A wait in another phase of the step is not a wait for a batch.
            outside = np.isin(phase, [NO_PHASE, *map(self.context.phases.code, (BATCH, COPY))])
            operations, copies = self.context.operations, self.context.trace[tables.COPIES]
            wanted = [kind for kind, label in self.context.trace.copy_kinds.items() if label == "Host-to-Device"]
            result = np.zeros(len(self.found.ender), bool)
            rows = np.flatnonzero(self.found.ender >= 0)
            is_copy = operations.table[self.found.ender[rows]] == SOURCES.index(tables.COPIES)
            rows = rows[is_copy]
            result[rows] = np.isin(array(copies, "copy_kind")[operations.row[self.found.ender[rows]]], wanted)
            before_batch = result[gap]
            return np.where(before_batch & outside & waiting, np.int8(CODE["data_wait"]), cause)
        return cause

    @cached_property
    def _calls(self) -> LaunchCalls:
        """Return the call that launched the end of each gap."""
        return self.found.calls(self.context)

    @cached_property
    def _launch_names(self) -> npt.NDArray[np.int32]:
        """Return the name index of the call that launched the end of each gap; NO_NAME where it is unknown."""
        call = self._calls.row
        names = np.full(len(call), NO_NAME, np.int32)
        known = call >= 0
        names[known] = self.states.names_of(tables.CALLS, taken(call, known))
        return names

    @cached_property
    def _loads(self) -> npt.NDArray[np.bool_]:
        """Return for each gap whether the call that launched its end loads the code of the kernel."""
        row, loading = self._calls.row, find_loading_launches(self.context)
        # Few launches load code.
        at = np.searchsorted(loading, (row.min(initial=0), row.max(initial=0) + 1))
        return np.isin(row, loading[slice(*at)])

    def _pieces(  # noqa: PLR0913, PLR0917 - one argument a field
        self,
        spans: Spans,
        gap: Indices,
        cause: npt.NDArray[np.int8],
        phase: npt.NDArray[np.int32],
        thread: int,
        name: npt.NDArray[np.int32],
    ) -> Pieces:
        threads = self.found.threads
        owner = np.full(len(gap), np.searchsorted(threads, thread), self.found.launcher.dtype)
        # One more than the last phase fits as well, for codes that count from "no phase".
        phases = phase.astype(np.min_scalar_type(-1 - len(self.context.phases.names)))
        return Pieces(*spans, (gap + self.number).astype(np.int32), cause, phases, owner, name, threads)


def _by_code(codes: Owners) -> Iterator[tuple[int, Indices]]:
    """Yield each code with its rows."""
    for code in tables.distinct(codes).tolist():
        yield code, np.flatnonzero(codes == code)


def _real(gap: Indices, spans: Spans) -> tuple[Indices, Spans]:
    """Return the segments that are not empty."""
    gap, start, end = chosen(spans.end > spans.start, gap, *spans)
    return gap, Spans(start, end)


def _sort_by_start(parts: Iterable[Pieces]) -> Pieces:
    """Return the pieces of all parts, sorted by start."""
    every = list(parts)
    order = np.argsort(np.concatenate([part.start for part in every]), kind="stable")
    columns = [taken(np.concatenate([getattr(part, name) for part in every]), order) for name in COLUMNS]
    return Pieces(*[*columns, every[0].threads])


def _merge_equal(pieces: Pieces, waits: Indices, unrecorded: Indices) -> Pieces:
    """Merge adjacent pieces of one gap with the same cause, phase and thread; the longest piece gives the call name.

    CPU time and waits for others, whose calls have the names ``waits``, stay apart: both have the cause "cpu". So do
    calls on files and page faults, which both have the cause "file_io" or "data_wait"; and waits for a core and those
    in calls that were not traced, which both have the cause "off_cpu". What is no recorded call has a name of
    ``unrecorded``.
    """
    apart = (np.isin(pieces.name, waits) & (pieces.cause == CODE["cpu"])) | np.isin(pieces.name, unrecorded)
    differs = np.ones(len(pieces.start), bool)
    differs[1:] = pieces.gap[1:] != pieces.gap[:-1]
    for each in (pieces.cause, pieces.phase, pieces.owner, apart):
        differs[1:] |= each[1:] != each[:-1]
    first = np.flatnonzero(differs)
    if len(first) == len(differs):
        return pieces
    count = np.diff(first, append=len(differs))
    found = pieces.of(first)
    found.end[:] = taken(pieces.end, first + count - 1)
    merged = np.flatnonzero(count > 1)
    first, count = first[merged], count[merged]
    # The rows of all groups of several pieces, one after another.
    begin = np.cumsum(count) - count
    rows = np.arange(int(count.sum())) + np.repeat(first - begin, count)
    length = pieces.end[rows] - pieces.start[rows]
    group = np.repeat(np.arange(len(count)), count)
    longest = np.flatnonzero(length == np.maximum.reduceat(length, begin)[group])
    group = group[longest]
    found.name[merged] = pieces.name[rows[longest[np.append(True, group[1:] != group[:-1])]]]
    return found
