"""What stands behind the causes of idle time: each idle nanosecond belongs to one finding, the nearest to the root.

A cause says what the host did while the GPU was idle. Often that has a reason of its own: host code runs between two
launches because the host was held by a copy until the GPU had nothing left; a step waits for data because its loader
processes have just been started. Such a root claims pieces of idle time, whole, and what no root claims stays with its
cause. The roots are asked in the order of ``ROOTS``, so no nanosecond stands in two findings::

    GPU    ####|..............gap...............|####
    T      .item()  |  host work  |   launch    |
    cause  synchro. |    host     |   launch    |
    root   |-------- synchronization -----------|
"""

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution import loader_starts
from nsyswrap.attribution.causes import CAUSES, CODE, Pieces, explain
from nsyswrap.attribution.idle_sums import IdleSums, sum_idle
from nsyswrap.attribution.step_outliers import cost_of, is_outlier, longest_in, unexplained
from nsyswrap.events import api_calls
from nsyswrap.events.thread_states import NAMES as STATE_NAMES
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.intervals import Indices, Spans, Times, Window, containing
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.sections import launch_bound, optimizer_kernels
from nsyswrap.sections.copies import find_copies
from nsyswrap.sections.copies_findings import staging
from nsyswrap.sections.idle_findings import NOTE_SHARE, most_sampled
from nsyswrap.sections.idle_lines import idle_lines
from nsyswrap.tables import array

if TYPE_CHECKING:
    from collections.abc import Callable

Mask = npt.NDArray[np.bool_]

OVERHEAD, MODULES, CHURN, WORKER_START, PAGEABLE, IN_STEP, OPTIMIZER, LAUNCH_BOUND, UNEVEN, BETWEEN = (
    "capture/overhead",
    "modules/in_window",
    "memory/churn",
    "data/worker_start",
    "copies/pageable",
    "synchronization/in_step",
    "optimizer/many_kernels",
    "launches/launch_bound",
    "steps/uneven",
    "gpu/between_operations",
)
ROOTS = (OVERHEAD, MODULES, CHURN, WORKER_START, PAGEABLE, IN_STEP, OPTIMIZER, LAUNCH_BOUND, UNEVEN, BETWEEN)
# Causes and roots as one numbering: a cause keeps its code, roots come after.
NAMES = (*CAUSES, *ROOTS)

# Roots that are calls of some kind, and the causes of the idle time in these calls themselves.
OF_CALLS = {
    MODULES: ("module_load",),
    CHURN: ("allocation",),
    PAGEABLE: ("blocking_copy", "launch"),
    IN_STEP: ("synchronization", "blocking_copy"),
}

# Causes that say no more than that the host had not come to the launch: what a root may have made of it.
GENERIC = ("cpu", "launch", "queued", "unknown", "lock", "off_cpu")
INPUT = ("data_wait", "data_work")

# What writing down the begin or the end of a range takes the host, the call from Python included. Source: 2000 ranges
# of workloads/faults/many_ranges.py lengthen a step by 1.27 ms on an H200 machine with nsys 2025.3.2.
RANGE_NS = 300
# Fewer begins and ends than this are the phases of a step, and what they cost is not worth a word. Source: ours.
MANY_RANGES = 20
# Host code that spends more than this part of its time on that is there for the profiler.
OVERHEAD_SHARE = 0.25
# A warmed-up step allocates nothing; more than one step in ten is no accident. Source: ours, as in ``memory``.
CHURN_SHARE = 0.10
# Gaps longer than this have another reason than that one launch comes after another. Source: the root-cause rule that
# was tried on 14 captures.
LAUNCH_GAP_NS = 200_000
# From one operation to the next that was launched in time, the GPU itself needs 1 to 3 us. Source: the medians of
# queued gaps in the captures of workloads/faults.
NEXT_NS = 5_000

_LOADS = re.compile(
    r"cu(?:da)?(?:Library|Module)Load|cuLink|nvrtc|nvJitLink|cuKernelGetFunction|cuFuncLoad|dlm?open|cudaGraphInstantiate"
    r"|cuGraphInstantiate"
)
_ALLOCATES = re.compile(r"Async")


@dataclass(frozen=True, slots=True)
class Explained:
    """The idle time of one device, each piece with its cause and with the finding it belongs to.

    Attributes:
        pieces: The idle time.
        finding: Index into ``NAMES`` of each piece: its root, or its cause where it has none.
    """

    pieces: Pieces
    finding: npt.NDArray[np.int8]


def explain_roots(context: TraceContext, states: ThreadStates, device_id: int, window: Window) -> Explained:
    """Return the idle time of one device inside a window with causes and roots.

    Args:
        context: The trace and what is known of its operations and phases.
        states: What its threads do inside the window.
        device_id: The GPU.
        window: Stretch of time.
    """
    with context.explaining:
        pieces = explain(context, states, device_id, window)
        finding = _Roots(context, states, device_id, window, pieces).of_pieces()
        spans = Spans(pieces.start, pieces.end)
        context.claims[device_id, window] = sum_idle(spans, finding, len(NAMES), context.steps)
        context.root_lines[device_id, window] = _lines(context, pieces, finding, device_id)
    return Explained(pieces, finding)


def _lines(context: TraceContext, pieces: Pieces, finding: npt.NDArray[np.int8], device_id: int) -> pd.DataFrame:
    """Return the sampled lines by finding: where that is a kind of call, of the call, not of what comes behind it."""
    every = idle_lines(context, replace(pieces, cause=finding), device_id, NAMES)
    if not len(every):
        return every
    kept = np.ones(len(finding), bool)
    for root, causes in OF_CALLS.items():
        kept &= (finding != NAMES.index(root)) | np.isin(pieces.cause, [CODE[cause] for cause in causes])
    calls = Pieces(*(getattr(pieces, each.name)[kept] for each in fields(Pieces)))
    told = idle_lines(context, replace(calls, cause=finding[kept]), device_id, NAMES)
    return pd.concat([told, every[~every["cause"].isin(told["cause"])]], ignore_index=True)


def claims(context: TraceContext, device_id: int, window: Window) -> IdleSums:
    """Return the idle time of one device by ``NAMES``, of a window and of each step; worked out once."""
    with context.explaining:
        if (device_id, window) not in context.claims:
            explain_roots(context, context.states(window), device_id, window)
        return context.claims[device_id, window]


def claimed(context: TraceContext, device_id: int, window: Window, root: str) -> int:
    """Return the idle time that a root claims on one device, in ns."""
    return int(claims(context, device_id, window).total[NAMES.index(root)])


def sampled_lines(context: TraceContext, device_id: int, window: Window, root: str) -> tuple[str, ...]:
    """Return the line of Python with most samples in what a root claims, as evidence; nothing without samples."""
    claims(context, device_id, window)
    lines = context.root_lines[device_id, window]
    return most_sampled(lines[lines["cause"] == root])


def specific(sums: IdleSums) -> Times:
    """Return the idle time of each step that a finding of its own counts, the unevenness of steps itself aside."""
    rest = {*GENERIC, "not_traced", UNEVEN}
    found: Times = sums.of_steps[[code for code, name in enumerate(NAMES) if name not in rest]].sum(axis=0)
    return found


@dataclass(frozen=True)
class _Roots:
    """Asks each root which pieces are its own."""

    context: TraceContext
    states: ThreadStates
    device_id: int
    window: Window
    pieces: Pieces

    def of_pieces(self) -> npt.NDArray[np.int8]:
        """Return the index into ``NAMES`` of each piece."""
        finding = self.pieces.cause.astype(np.int8, copy=True)
        if not len(finding):
            return finding
        free = np.ones(len(finding), bool)
        asked: tuple[tuple[str, Callable[[Mask], Mask]], ...] = (
            (OVERHEAD, self._overhead),
            (MODULES, self._modules),
            (CHURN, self._churn),
            (WORKER_START, self._worker_start),
            (PAGEABLE, self._pageable),
            (IN_STEP, self._in_step),
            (OPTIMIZER, self._optimizer),
            (LAUNCH_BOUND, self._launch_bound),
            (UNEVEN, self._uneven),
            (BETWEEN, self._between),
        )
        for root, claim in asked:
            mine = free & claim(free)
            finding[mine] = NAMES.index(root)
            free &= ~mine
        return finding

    # What the roots look at.

    def _is(self, *causes: str) -> Mask:
        wanted = np.zeros(len(CODE), bool)
        wanted[[CODE[cause] for cause in causes]] = True
        found: Mask = wanted[self.pieces.cause]
        return found

    @cached_property
    def _length(self) -> Times:
        return self.pieces.end - self.pieces.start

    @cached_property
    def _gap(self) -> Indices:
        """Return the gap of each piece, counted from 0."""
        return (np.cumsum(np.append(True, self.pieces.gap[1:] != self.pieces.gap[:-1])) - 1).astype(np.intp)

    @cached_property
    def _first(self) -> Indices:
        """Return the first piece of each gap."""
        return np.flatnonzero(np.append(True, self._gap[1:] != self._gap[:-1]))

    @cached_property
    def _gaps(self) -> Spans:
        """Return the gaps."""
        last = np.append(self._first[1:], len(self._gap)) - 1
        return Spans(self.pieces.start[self._first], self.pieces.end[last])

    def _named(self, pattern: re.Pattern[str]) -> Mask:
        """Return the pieces whose call has a name that the pattern finds."""
        wanted = [index for index, name in enumerate(self.states.names) if pattern.match(name)]
        found: Mask = np.isin(self.pieces.name, wanted)
        return found

    def _from_first(self, chosen: Mask) -> Mask:
        """Return the pieces that are, or lie behind, the first chosen one of their gap."""
        so_far = np.cumsum(chosen)
        before: Times = (so_far - chosen)[self._first]
        found: Mask = so_far > before[self._gap]
        return found

    def _until_last(self, chosen: Mask) -> Mask:
        """Return the pieces that are, or lie before, the last chosen one of their gap."""
        backwards = np.cumsum(chosen[::-1])[::-1]
        last = np.append(self._first[1:], len(self._gap)) - 1
        behind: Times = (backwards - chosen)[last]
        found: Mask = backwards > behind[self._gap]
        return found

    # The roots.

    def _overhead(self, free: Mask) -> Mask:
        """The host writes ranges down: their begins and ends alone take a good part of the piece."""
        ranges = self.context.trace[tables.RANGES]
        own = ~of_library(ranges)
        thread = array(ranges, "thread")[own]
        written = np.zeros(len(free), np.int64)
        for each in np.intersect1d(self.pieces.thread, thread):
            of_ranges = thread == each
            at = np.concatenate([array(ranges, side)[own][of_ranges] for side in ("start", "end")])
            at.sort()
            mine = np.flatnonzero(self.pieces.thread == each)
            low, high = (np.searchsorted(at, side[mine]) for side in (self.pieces.start, self.pieces.end))
            written[mine] = high - low
        much = (written >= MANY_RANGES) & (written * RANGE_NS >= OVERHEAD_SHARE * self._length)
        return self._is("cpu", *INPUT) & much

    def _modules(self, _free: Mask) -> Mask:
        """Code is loaded; host code before that, in the same gap, compiled it."""
        loads = self._is("module_load") & self._named(_LOADS)
        return loads | (self._is("cpu", "unknown", "lock", "module_load") & self._until_last(loads))

    def _churn(self, free: Mask) -> Mask:
        """Memory is asked for and given back step after step; with it goes what lies between such calls."""
        chosen = self._is("allocation") & free
        steps = self.context.steps.measured_inside(self.window)
        if not len(steps) or not chosen.any():
            return np.zeros(len(free), bool)
        start, end = array(steps, "start"), array(steps, "end")
        order = np.argsort(start, kind="stable")
        step = containing(Spans(start[order], end[order]), self._allocations())
        if len(np.unique(step[step >= 0])) <= CHURN_SHARE * len(steps):
            return np.zeros(len(free), bool)
        between = self._from_first(chosen) & self._until_last(chosen) & self._is(*GENERIC, "synchronization")
        held = np.zeros(len(self._first), bool)
        held[self._gap[chosen]] = True
        behind = self._soon_after(held) & ~held
        return chosen | between | (free & behind[self._gap] & self._is(*GENERIC))

    def _allocations(self) -> Times:
        """Return when calls that allocate or release began, of any thread."""
        calls = self.context.trace[tables.CALLS]
        kinds = tables.by_name(self.context.trace, tables.CALLS, _allocates, np.int8)
        found: Times = array(calls, "start")[kinds > 0]
        return found

    def _worker_start(self, free: Mask) -> Mask:
        """Loader processes are started in this gap, and again in another step."""
        starts = loader_starts.find_starts(self.context, self.window)
        found = np.zeros(len(self._first), bool)
        where = containing(self._gaps, starts)
        found[where[where >= 0]] = True
        return free & found[self._gap] & self._is(*INPUT, "cpu", "unknown", "lock", "off_cpu")

    def _pageable(self, _free: Mask) -> Mask:
        """A copy of pageable memory to the GPU holds the host, from its call on."""
        held = staging(self.context, find_copies(self.context, self.window), self.device_id, self.window)
        return self._is("blocking_copy", "launch") & (containing(held, self.pieces.start) >= 0)

    def _in_step(self, free: Mask) -> Mask:
        """The host waited until the GPU had nothing left: then the GPU waits until the host has launched again.

        Without the wait the host would have gone on: it can win no more than it waited. So the shortest gaps count,
        as many as there was waiting for; one in which the host does something long has another reason.
        """
        waits = free & self._is("synchronization", "blocking_copy")
        drained = waits[self._first]
        length = np.where(drained, self._gaps.end - self._gaps.start, np.iinfo(np.int64).max)
        order = np.argsort(length, kind="stable")[: int(drained.sum())]
        within = np.cumsum(length[order]) <= self._waited()
        chosen = np.zeros(len(self._first), bool)
        chosen[order[within]] = True
        return waits | (free & self._soon_after(chosen)[self._gap] & self._is(*GENERIC))

    def _soon_after(self, chosen: Mask) -> Mask:
        """Return these gaps, and those soon after one of them: the host has to get ahead of the GPU again."""
        ends = self._gaps.end[chosen]
        if not len(ends):
            return chosen
        last = np.searchsorted(ends, self._gaps.start, side="right") - 1
        since = self._gaps.start - ends[np.maximum(last, 0)]
        short = self._gaps.end - self._gaps.start < LAUNCH_GAP_NS
        return chosen | ((last >= 0) & (since < LAUNCH_GAP_NS) & short)

    def _waited(self) -> int:
        """Return how long the threads that feed the GPU stood in waits, busy GPU or not."""
        found = 0
        for thread in tables.distinct(self.pieces.thread).tolist():
            spans, code = self.states.of(thread)
            kinds = code // STATE_NAMES
            waits = np.isin(kinds, (api_calls.SYNCHRONIZATION, api_calls.BLOCKING_COPY))
            low = np.maximum(spans.start[waits], self.window.start_ns)
            high = np.minimum(spans.end[waits], self.window.end_ns)
            found += int(np.maximum(high - low, 0).sum())
        return found

    def _optimizer(self, free: Mask) -> Mask:
        """The optimizer launches very many short kernels in each step; its gaps are those that one of them ends."""
        if not optimizer_kernels.is_many(self.context, self.device_id, self.window):
            return np.zeros(len(free), bool)
        operations = self.context.operations
        mine = operations.on(self.device_id)
        at = np.searchsorted(operations.start[mine], self._gaps.end, side="left")
        ender = mine[np.minimum(at, len(mine) - 1)]
        phase = self.context.phase_of_operations[ender]
        ends: Mask = (at < len(mine)) & (phase == self.context.phases.code(optimizer_kernels.PHASE))
        return ends[self._gap] & self._is(*GENERIC)

    def _launch_bound(self, free: Mask) -> Mask:
        """Launches come one after another, each later than the GPU is ready for it."""
        sums = np.bincount(self.pieces.cause, weights=self._length, minlength=len(CAUSES)).astype(np.int64)
        between = int(self._length[free & self._is(*launch_bound.BETWEEN_LAUNCHES)].sum())
        idle = dict(zip(CAUSES, sums.tolist(), strict=True))
        if not launch_bound.is_bound(self.context, self.device_id, self.window, idle, between):
            return np.zeros(len(free), bool)
        short = (self._gaps.end - self._gaps.start) < LAUNCH_GAP_NS
        found: Mask = short[self._gap] & self._is("cpu", "launch", "queued")
        return found

    def _uneven(self, free: Mask) -> Mask:
        """Host code of the few steps that take longer than the others, as much as they take more."""
        found = np.zeros(len(free), bool)
        generic, blind = free & self._is(*GENERIC), self._is("not_traced")
        for process, steps in self.context.steps.measured_inside(self.window).groupby("process"):
            spans = Spans(array(steps, "start"), array(steps, "end"))
            length = spans.end - spans.start
            if not is_outlier(length).any():
                continue
            step = containing(spans, self.pieces.start)
            told = (step >= 0) & ~generic & ~blind
            left = unexplained(length, np.bincount(step[told], self._length[told], len(length)).astype(np.int64))
            if cost_of(length, left) < NOTE_SHARE * self.window.length_ns:
                continue
            mine = np.flatnonzero(generic & (tables.process_of(self.pieces.thread) == int(str(process))))
            found[mine] |= longest_in(spans, left, self.pieces.start[mine], self._length[mine])
        return found

    def _between(self, _free: Mask) -> Mask:
        """The GPU goes from one operation to the next, launched long before."""
        short = self._gaps.end - self._gaps.start < NEXT_NS
        return short[self._gap] & self._is("queued")


def _allocates(name: str) -> int:
    """Return 1 for a call that allocates or releases and is not ordered in a stream, as a pool's are; else 0."""
    base = api_calls.base_name(name)
    return int(api_calls.call_kind(base) == api_calls.ALLOCATION and not _ALLOCATES.search(base))
