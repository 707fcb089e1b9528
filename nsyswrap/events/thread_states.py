"""What a thread is doing at each time: the open call that explains an idle GPU, by the precedence of causes."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events import api_calls
from nsyswrap.events.api_calls import holds_host
from nsyswrap.events.operations import Operations
from nsyswrap.intervals import (
    NOTHING,
    Indices,
    Spans,
    Timeline,
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

NO_TIMES = np.empty(0, np.int64)
WAITS = (api_calls.LOCK_WAIT, api_calls.OTHER_WAIT, api_calls.PEER_THREAD_WAIT)


@dataclass(frozen=True)
class ThreadStates:
    """What the threads of a trace do inside a window; each is looked at once, whoever asks first.

    Attributes:
        trace: The tables of one export.
        operations: All that ran on the GPUs, for copies that block although their call is called asynchronous.
        window: Stretch of time; events outside are not looked at.
    """

    trace: Trace
    operations: Operations
    window: Window
    _looking: AbstractContextManager[object] = field(default_factory=RLock)
    _states: dict[int, Timeline] = field(default_factory=dict)
    _waits: dict[int, Spans] = field(default_factory=dict)
    _call_ns: dict[int, int] = field(default_factory=dict)
    _name_index: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each name index that was given out so far."""
        return tuple(self._name_index)

    def names_of(self, spec: TableSpec, rows: Indices) -> npt.NDArray[np.int32]:
        """Return the name index of some rows of a table of calls."""
        codes, ids = pd.factorize(self._column(spec, "name_id")[rows])
        texts = (api_calls.base_name(self.trace.text(int(i))) for i in ids)
        with self._looking:
            index = [self._name_index.setdefault(text, len(self._name_index)) for text in texts]
        found: npt.NDArray[np.int32] = np.array(index, np.int32)[codes]
        return found

    def of(self, thread: int) -> Timeline:
        """Return what a thread does: codes of kind and name; holes are times with no call of meaning open."""
        with self._looking:
            if thread not in self._states:
                whole = Timeline(NOTHING, np.empty(0, np.int32))
                for kind in range(api_calls.RUNNING):
                    whole = fill(whole, self._of_kind(thread, kind))
                self._states[thread] = whole
            return self._states[thread]

    def waits(self, thread: int) -> Spans:
        """Return when a thread only waits in the operating system, outside any call that explains the wait."""
        with self._looking:
            if thread not in self._waits:
                states = self.of(thread)
                waiting = np.isin(states.code // NAMES, WAITS)
                in_os = merge(states.spans.start[waiting], states.spans.end[waiting])
                in_calls = self._open(tables.CALLS, thread)
                self._waits[thread] = subtract(in_os, in_calls)
                # The spans are many, and needed here alone; of their length others ask too.
                self._call_ns[thread] = total(clip(in_calls, self.window.start_ns, self.window.end_ns))
            return self._waits[thread]

    def call_time(self, thread: int) -> int:
        """Return how long a thread has a CUDA call open inside the window, in ns."""
        self.waits(thread)
        return self._call_ns[thread]

    def alive(self, thread: int) -> tuple[int, int]:
        """Return from when to when a thread is seen in the capture; (0, 0) if never."""
        found = [
            (int(self._column(spec, "start")[rows[0]]), int(self._column(spec, "end")[rows].max()))
            for spec in (tables.CALLS, tables.OS_CALLS)
            if len(rows := np.flatnonzero(self._column(spec, "thread") == thread))
        ]
        if not found:
            return 0, 0
        return min(start for start, _ in found), max(end for _, end in found)

    def _of_kind(self, thread: int, kind: int) -> Timeline:
        if kind == api_calls.OFF_CPU:
            return self._off_cpu(thread)
        starts, ends, codes = [NO_TIMES], [NO_TIMES], [NO_TIMES]
        for spec, (rows, threads, kinds) in self._telling.items():
            mine = rows[(threads == thread) & (kinds == kind)]
            starts.append(self._column(spec, "start")[mine])
            ends.append(self._column(spec, "end")[mine])
            codes.append(self.names_of(spec, mine) + np.int64(kind * NAMES))
        return innermost(np.concatenate(starts), np.concatenate(ends), np.concatenate(codes))

    def _off_cpu(self, thread: int) -> Timeline:
        """Return when a thread is off the CPU of itself: one that is inside a call is off because of the call."""
        frame = self.trace[tables.SCHEDULING]
        mine = array(frame, "thread") == thread
        start, running = array(frame, "start")[mine], array(frame, "running")[mine]
        end = np.append(start[1:], self.window.end_ns) if len(start) else start
        spans = merge(start[~running], end[~running])
        if len(spans.start):
            spans = subtract(spans, union(self._open(tables.CALLS, thread), self._open(tables.OS_CALLS, thread)))
        return Timeline(spans, np.full(len(spans.start), api_calls.OFF_CPU * NAMES + NO_NAME, np.int32))

    def _open(self, spec: TableSpec, thread: int) -> Spans:
        """Return when a thread has a call of one table open, whatever it is."""
        rows = np.flatnonzero((self._column(spec, "thread") == thread) & self._touching(spec))
        return merge(self._column(spec, "start")[rows], self._column(spec, "end")[rows])

    def _column(self, spec: TableSpec, name: str) -> npt.NDArray[np.int64]:
        return array(self.trace[spec], name)

    def _touching(self, spec: TableSpec) -> npt.NDArray[np.bool_]:
        start, end = self._column(spec, "start"), self._column(spec, "end")
        return (start < self.window.end_ns) & (end > self.window.start_ns)

    @cached_property
    def _telling(self) -> Mapping[TableSpec, tuple[Indices, Times, npt.NDArray[np.int8]]]:
        """Return, for each table of calls, the rows inside the window that explain idle time: row, thread, kind."""
        holding, free = self._copying_calls()
        found = {}
        for spec, kind_of in KIND_OF.items():
            kinds = by_name(self.trace, spec, kind_of, np.int8)
            if spec == tables.CALLS:
                kinds[free[kinds[free] == api_calls.BLOCKING_COPY]] = NOTHING_TOLD
                kinds[holding] = api_calls.BLOCKING_COPY
            rows = np.flatnonzero((kinds >= 0) & self._touching(spec))
            found[spec] = rows, self._column(spec, "thread")[rows], kinds[rows]
        return found

    def _copying_calls(self) -> tuple[Indices, Indices]:
        """Return the calls of copies that hold the host, and those of copies that do not, whatever their names say."""
        rows = self.operations.from_table(tables.COPIES)
        call = self.operations.call[rows]
        holding = holds_host(self.trace, self.operations.row[rows], call)
        return call[holding], call[~holding & (call >= 0)]


def _kind_of(kind: Callable[[str], int | None]) -> Callable[[str], int]:
    """Return what tells a kind from a name as CUPTI writes it; -1 for one that explains nothing."""

    def told(name: str) -> int:
        found = kind(api_calls.base_name(name))
        return NOTHING_TOLD if found is None else found

    return told


NOTHING_TOLD = -1
KIND_OF: Mapping[TableSpec, Callable[[str], int]] = {
    tables.CALLS: _kind_of(api_calls.call_kind),
    tables.OS_CALLS: _kind_of(api_calls.os_call_kind),
    tables.OVERHEADS: _kind_of(api_calls.overhead_kind),
}
