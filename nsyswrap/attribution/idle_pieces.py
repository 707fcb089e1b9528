"""The idle time of one device as the rules for root causes read it: pieces, their gaps, and masks over them.

::

    GPU     ####|.............gap 0.............|####|.....gap 1.....|####
    pieces      | 0: wait | 1: cpu | 2: launch  |    | 3: cpu | 4: ..|
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.causes import CODE
from nsyswrap.attribution.gaps import DeviceGaps
from nsyswrap.attribution.launch_pace import LaunchTimes, Pace, find_pace, usual_gap_at
from nsyswrap.attribution.loader_processes import has_loader_processes
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.events import api_calls
from nsyswrap.events.host_marks import find_marks, spans_of
from nsyswrap.events.thread_states import NAMES, ThreadStates
from nsyswrap.intervals import Indices, Spans, Times, Window, containing, covered
from nsyswrap.loop.context import TraceContext
from nsyswrap.tables import array

Mask = npt.NDArray[np.bool_]

# These causes only say that the host had not launched the next operation yet. A root cause may explain why.
GENERIC = ("cpu", "launch", "queued", "unknown", "lock")
DATA_CAUSES = ("data_wait", "data_work")


@dataclass(frozen=True)
class IdlePieces:
    """The pieces of one device's idle time; at least one.

    Attributes:
        context: The trace, its events and its loop.
        states: What the threads do inside the window.
        device_id: The GPU.
        window: Interval of time.
        gaps: Its gaps, with the operation that ends each.
        pieces: Its idle time with causes, at least one piece for each gap.
        copies: The copies of the window on all devices, as ``find_copies`` returns them.
        launches: The operations of the window on all devices whose launch is known.
    """

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

    @cached_property
    def length(self) -> Times:
        """Return the length of each piece, in ns."""
        return self.pieces.length

    @property
    def gap(self) -> Indices:
        """Return the gap of each piece, counted from 0."""
        return self.pieces.gap

    @cached_property
    def first(self) -> Indices:
        """Return the first piece of each gap."""
        return np.flatnonzero(np.append(True, self.gap[1:] != self.gap[:-1]))

    @cached_property
    def process(self) -> Times:
        """Return the process of each piece's thread."""
        return tables.process_of(self.pieces.thread)

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
        wanted = np.zeros(len(CODE), bool)
        wanted[[CODE[cause] for cause in causes]] = True
        found: Mask = wanted[self.pieces.cause]
        return found

    def is_named(self, pattern: re.Pattern[str]) -> Mask:
        """Return the pieces explained by a call whose name begins with the pattern."""
        wanted = [index for index, name in enumerate(self.states.names) if pattern.match(name)]
        found: Mask = np.isin(self.pieces.name, wanted)
        return found

    def is_file_call(self) -> Mask:
        """Return the pieces explained by a call on files."""
        wanted = [
            index for index, name in enumerate(self.states.names) if api_calls.os_call_kind(name) == api_calls.FILE_IO
        ]
        found: Mask = np.isin(self.pieces.name, wanted)
        return found

    def is_marked(self, *kinds: int) -> Mask:
        """Return the pieces that lie mostly inside marks of nsyswrap of some kinds, on their own thread."""
        marks, found = find_marks(self.context.trace), self.none
        for each in tables.distinct(array(marks, "thread")).tolist():
            mine = np.flatnonzero(self.pieces.thread == each)
            inside = covered(spans_of(marks, each, kinds), self.pieces.start[mine], self.pieces.end[mine])
            found[mine] = 2 * inside > self.length[mine]
        return found

    def has_loader(self) -> Mask:
        """Return the pieces in processes that get their batches from loader threads or processes."""
        trace, phases = self.context.trace, self.context.phases
        loading = [each for each in tables.distinct(self.process).tolist() if has_loader_processes(trace, phases, each)]
        found: Mask = np.isin(self.process, loading)
        return found

    def any_in_gap(self, chosen: Mask) -> Mask:
        """Return which gaps contain a chosen piece."""
        found = np.zeros(len(self.first), bool)
        found[self.gap[chosen]] = True
        return found

    def from_first(self, chosen: Mask) -> Mask:
        """Return the pieces at or after the first chosen one of their gap."""
        so_far = np.cumsum(chosen)
        before: Times = (so_far - chosen)[self.first]
        found: Mask = so_far > before[self.gap]
        return found

    def until_last(self, chosen: Mask) -> Mask:
        """Return the pieces at or before the last chosen one of their gap."""
        backwards = np.cumsum(chosen[::-1])[::-1]
        last = np.append(self.first[1:], len(self.gap)) - 1
        behind: Times = (backwards - chosen)[last]
        found: Mask = backwards > behind[self.gap]
        return found

    def set_back(self, delayed: Mask, delay: Times, free: Mask, inside: Mask | None = None) -> Mask:
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
            inside: The pieces during the delays, which are a part of the time that these explain; None for none.
        """
        wanted = free if inside is None else free | inside
        process, caught_up = self.process[self.first], self._caught_up()
        explained = self.none
        for each in tables.distinct(process[delayed]):
            own = np.flatnonzero(process == each)
            # Where the host catches up between two gaps, the delays before no longer count.
            spell = np.cumsum(np.diff(caught_up[own], prepend=0) > 0).astype(np.intp)
            set_back = _running_sum(np.where(delayed[own], delay[own], 0), spell)
            budget = np.zeros(len(self.first), np.int64)
            group = np.full(len(self.first), -1, np.intp)
            budget[own], group[own] = set_back, spell
            rows = np.flatnonzero(wanted & (budget[self.gap] > 0))
            before = _running_sum(self.length[rows], group[self.gap[rows]]) - self.length[rows]
            explained[rows[before + self.length[rows] // 2 <= budget[self.gap[rows]]]] = True
        return explained & free

    def call_length(self, kinds: tuple[int, ...], chosen: Mask) -> Times:
        """Return the length of the call in which each chosen gap begins, in ns inside the window; 0 for other gaps.

        Args:
            kinds: Kinds of the call, as ``api_calls`` has them.
            chosen: Which gaps to look at.
        """
        found = np.zeros(len(self.first), np.int64)
        thread, start = self.pieces.thread[self.first], self.gaps.spans.start
        for each in tables.distinct(thread[chosen]).tolist():
            spans, code = self.states.of(each)
            wanted = np.isin(code // NAMES, kinds)
            low = np.maximum(spans.start[wanted], self.window.start_ns)
            high = np.minimum(spans.end[wanted], self.window.end_ns)
            mine = np.flatnonzero(chosen & (thread == each))
            at = containing(Spans(low, high), start[mine])
            found[mine[at >= 0]] = (high - low)[at[at >= 0]]
        return found

    def _caught_up(self) -> Indices:
        """Return how many operations before each gap were launched well before they began."""
        operations, calls = self.context.operations, self.context.trace[tables.CALLS]
        mine = operations.on(self.device_id)
        mine = mine[operations.call[mine] >= 0]
        lead = operations.start[mine] - array(calls, "end")[operations.call[mine]]
        ahead = operations.start[mine[lead > self.usual_gap_ns]]
        found: Indices = np.searchsorted(ahead, self.gaps.spans.start, side="right")
        return found


def _running_sum(values: Times, group: Indices) -> Times:
    """Return the running sum of the values in each group, each value included; the values are ordered by group."""
    so_far: Times = np.cumsum(values)
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
    before = (so_far - values)[first]
    found: Times = so_far - np.repeat(before, np.diff(np.append(first, len(group))))
    return found
