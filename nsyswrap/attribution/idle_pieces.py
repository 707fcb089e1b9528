"""The idle time of one device as the rules for root causes read it: pieces, their gaps, and masks over them.

::

    GPU     ####|.............gap 0.............|####|.....gap 1.....|####
    pieces      | 0: wait | 1: cpu | 2: launch  |    | 3: cpu | 4: ..|
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.causes import CODE
from nsyswrap.attribution.gaps import DeviceGaps
from nsyswrap.attribution.launch_pace import LaunchTimes, Pace, find_pace, usual_gap_at
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.base.intervals import Indices, Spans, Times, Window, containing, covered, label_at, places
from nsyswrap.base.rows import taken
from nsyswrap.events import api_calls
from nsyswrap.events.host_record import find_marks, spans_of
from nsyswrap.events.thread_states import NAME_BITS, ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.helper_threads import has_loader
from nsyswrap.loop.phase_detection import DATA, NO_PHASE, Phases
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, blocks, coded

# How the parent of loader processes waits for a batch in the data phase: on a pipe, or for the memory of a tensor.
_FROM_OTHERS = re.compile(r"p?poll|p?select|epoll_p?wait|recvmsg")


Mask = npt.NDArray[np.bool_]
# These causes only say that the host had not launched the next operation yet. A root cause may explain why.
GENERIC = ("cpu", "launch", "queued", "unknown", "lock")
DATA_CAUSES = ("data_wait", "data_work")


def has_loader_processes(trace: Trace, phases: Phases, process: int) -> bool:
    """Return whether a process has a loader beside its main thread: by thread names, or by how it waits for batches."""
    if has_loader(trace, process):
        return True
    in_data, calls = phases.code(DATA), trace[tables.OS_CALLS]
    if in_data == NO_PHASE:
        return False
    waits = tables.rows_named(trace, tables.OS_CALLS, _FROM_OTHERS.fullmatch)
    # Threads of the CUDA driver poll all the time.
    main = phases.main_thread.get(process, process)
    threads, start = coded(calls, "thread"), array(calls, "start")
    for some in blocks(len(calls)):
        rows = np.flatnonzero(waits[some] & threads.equal(main, some))
        if (label_at(phases.own(main), start[some][rows], NO_PHASE) == in_data).any():
            return True
    return False


@dataclass(frozen=True)
class IdlePieces:
    """The pieces of one device's idle time; at least one."""

    context: TraceContext
    states: ThreadStates
    device_id: int
    window: Window
    gaps: DeviceGaps
    pieces: Pieces
    copies: pd.DataFrame
    launches: LaunchTimes

    @property
    def none(self) -> Mask:
        """Return a mask with no piece chosen."""
        return np.zeros(len(self.pieces.start), bool)

    @property
    def length(self) -> Times:
        """Return the length of each piece, in ns."""
        return self.pieces.length

    @property
    def gap(self) -> "npt.NDArray[np.int32]":
        """Return the gap of each piece, counted from 0."""
        return self.pieces.gap

    @cached_property
    def first(self) -> Indices:
        """Return the first piece of each gap, int32."""
        return np.flatnonzero(np.append(True, self.gap[1:] != self.gap[:-1])).astype(np.int32)

    def process_at(self, rows: Indices) -> Times:
        """Return the process of the thread of each piece in ``rows``."""
        return taken(tables.process_of(self.pieces.threads), taken(self.pieces.owner, rows))

    def of_processes(self, processes: Iterable[int]) -> Mask:
        """Return the pieces that threads of these processes explain."""
        wanted = np.isin(tables.process_of(self.pieces.threads), list(processes))
        found: Mask = taken(wanted, self.pieces.owner)
        return found

    @cached_property
    def pace(self) -> Pace | None:
        """Return the pace of launches on the device; None where too few launches are known."""
        return find_pace(self.context, self.launches, self.device_id)

    @cached_property
    def usual_gap_ns(self) -> float:
        """Return how long a gap may last between launches at their usual pace, in ns."""
        return usual_gap_at(self.pace)

    def is_cause(self, *causes: str) -> Mask:
        """Return the pieces that have one of these causes."""
        found, codes = self.none, [CODE[cause] for cause in causes]
        for some in blocks(len(found)):
            cause, mask = self.pieces.cause[some], found[some]
            for code in codes:
                mask |= cause == code
        return found

    def is_named(self, wanted: Callable[[str], object], among: Mask) -> Mask:
        """Return the pieces among some that are explained by a call whose name is wanted."""
        found, rows = self.none, np.flatnonzero(among)
        names = [index for index, name in enumerate(self.states.names) if wanted(name)]
        found[rows] = np.isin(self.pieces.name[rows], names)
        return found

    def in_os_call(self, kind: int, among: Mask) -> Mask:
        """Return the pieces among some that are explained by a call of the operating system of this kind."""
        return self.is_named(lambda name: api_calls.os_call_kind(name) == kind, among)

    def is_marked(self, *kinds: int) -> Mask:
        """Return the pieces that lie mostly inside marks of nsyswrap of these kinds, on their own thread."""
        marks, found = find_marks(self.context.trace), self.none
        for each in tables.distinct(array(marks, "thread")).tolist():
            mine = np.flatnonzero(self.pieces.is_thread(each))
            inside = covered(spans_of(marks, each, kinds), self.pieces.start[mine], self.pieces.end[mine])
            found[mine] = 2 * inside > self.pieces.length_of(mine)
        return found

    def has_loader(self) -> Mask:
        """Return the pieces in processes that get their batches from loader threads or processes."""
        trace, phases = self.context.trace, self.context.phases
        processes = tables.distinct(tables.process_of(self.pieces.threads)).tolist()
        return self.of_processes(each for each in processes if has_loader_processes(trace, phases, each))

    def any_in_gap(self, chosen: Mask) -> Mask:
        """Return which gaps contain a chosen piece."""
        found = np.zeros(len(self.first), bool)
        found[taken(self.gap, chosen)] = True
        return found

    def from_first(self, chosen: Mask) -> Mask:
        """Return the pieces at or after the first chosen one of their gap."""
        rows = np.flatnonzero(chosen)
        gap = taken(self.gap, rows)
        opens = np.append(True, gap[1:] != gap[:-1])[: len(rows)]
        # One past the last piece of these gaps.
        opened = gap[opens]
        end = np.full(len(opened), len(self.gap), np.intp)
        inner = opened + 1 < len(self.first)
        end[inner] = self.first[opened[inner] + 1]
        return _in_ranges(rows[opens], end, len(self.gap))

    def until_last(self, chosen: Mask) -> Mask:
        """Return the pieces at or before the last chosen one of their gap."""
        rows = np.flatnonzero(chosen)
        gap = taken(self.gap, rows)
        closes = np.append(gap[1:] != gap[:-1], True)[: len(rows)]
        return _in_ranges(self.first[gap[closes]], rows[closes] + 1, len(self.gap))

    def set_back(self, delayed: Mask, delay: Times, free: Mask, inside: Mask) -> Mask:
        """Return the idle time that delays of the host cause, in the gap of each delay and in the gaps after it.

        When the GPU goes idle during a delay, all later launches are late by the length of the delay. So the delay
        explains the gap that begins during it and the gaps after that, up to the sum of the delays so far, until the
        host is well ahead of the GPU again.

        ::

            host    |---- delay ----| launch     launch    launch
            GPU     ####|....gap....#####|..gap..####|.gap.#####
            pieces       |explained  |   |explained| not explained: longer than the delay

        Args:
            delayed: Which gaps begin during a delay.
            delay: Length of the delay of each gap, in ns; read where ``delayed``.
            free: The pieces that no other root cause explains yet.
            inside: The pieces during the delays, which are a part of the time that these explain.
        """
        wanted = free | inside
        explained = self.none
        late = np.flatnonzero(delayed & (delay > 0))
        process = self.process_at(self.first[late])
        for each in tables.distinct(process).tolist():
            mine = late[process == each]
            explained |= self._explained_by(mine, delay[mine], each, wanted)
        return explained & free

    def _explained_by(self, late: Indices, delay: Times, process: int, wanted: Mask) -> Mask:
        """Return the wanted pieces that the delays of one process explain.

        A spell is the time between two moments at which the host has caught up. The idle time from its first delayed
        gap on is explained up to the sum of its delays so far. A piece counts if half of it is below that.
        """
        start = self.gaps.spans.start
        spell_of = np.searchsorted(self._caught_up, start[late], side="right")
        last = np.append(self._caught_up, np.iinfo(np.int64).max)[spell_of]
        stop = np.minimum(np.searchsorted(start, last, side="left"), np.append(late[1:], len(self.first)))
        delayed_ns = _running_sum(delay, spell_of)
        found, last_spell, so_far = self.none, -1, 0
        for some in blocks(len(found)):
            gap = self.gap[some]
            low, high = int(gap[0]), int(gap[-1]) + 1
            if np.searchsorted(stop, low, side="right") >= np.searchsorted(late, high, side="left"):
                continue
            every = np.arange(low, high)
            before = places(late, every) - 1
            in_spell = (before >= 0) & (every < stop[before])
            in_spell &= self.process_at(self.first[low:high]) == process
            rows = np.flatnonzero(wanted[some] & taken(in_spell, gap - low))
            if not len(rows):
                continue
            before = before[gap[rows] - low]
            spell, length = spell_of[before], self.pieces.end[some][rows] - self.pieces.start[some][rows]
            used = _running_sum(length, spell)
            used[: np.searchsorted(spell, last_spell, side="right")] += so_far
            last_spell, so_far = int(spell[-1]), int(used[-1])
            found[some][rows] = used - length + length // 2 <= delayed_ns[before]
        return found

    def call_length(self, kinds: tuple[int, ...], chosen: Mask) -> Times:
        """Return the length of the call in which each chosen gap begins, in ns inside the window; 0 for other gaps.

        Args:
            kinds: Kinds of the call, as ``api_calls`` has them.
            chosen: Which gaps to look at.
        """
        found, start = np.zeros(len(self.first), np.int64), self.gaps.spans.start
        wanted = np.isin(np.arange(api_calls.RUNNING + 1), kinds)
        rows = np.flatnonzero(chosen)
        thread = self.pieces.threads[self.pieces.owner[self.first[rows]]]
        for each in tables.distinct(thread).tolist():
            spans, code = self.states.of(each)
            low, high = (taken(side, taken(wanted, code >> NAME_BITS)) for side in spans)
            low, high = np.maximum(low, self.window.start_ns), np.minimum(high, self.window.end_ns)
            mine = rows[thread == each]
            at = containing(Spans(low, high), start[mine])
            found[mine[at >= 0]] = (high - low)[at[at >= 0]]
        return found

    @cached_property
    def _caught_up(self) -> Times:
        """Return when the operations began that were launched well before they began, in ns, ascending."""
        operations, returned = self.context.operations, array(self.context.trace[tables.CALLS], "end")
        mine = operations.on(self.device_id)
        found = [np.empty(0, np.int64)]
        for some in blocks(len(mine)):
            rows = mine[some]
            rows = taken(rows, taken(operations.call, rows) >= 0)
            start, ended = taken(operations.start, rows), taken(returned, taken(operations.call, rows))
            found.append(taken(start, start - ended > self.usual_gap_ns))
        return np.concatenate(found)


def _in_ranges(begin: Indices, end: Indices, count: int) -> Mask:
    """Return which of ``count`` rows are in ranges from ``begin`` up to ``end``, which do not overlap or are empty."""
    change = np.zeros(count + 1, np.int8)
    change[begin] += 1
    change[end] -= 1
    return np.cumsum(change[:-1], dtype=np.int8).view(np.bool_)


def _running_sum(values: Times, group: Indices) -> Times:
    """Return the running sum of the values in each group, each value included; the values are ordered by group."""
    so_far: Times = np.cumsum(values)
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
    before = so_far[first] - values[first]
    so_far -= np.repeat(before, np.diff(np.append(first, len(group))))
    return so_far
