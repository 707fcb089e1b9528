"""What a thread is doing at each time: the open call that explains an idle GPU, by the precedence of causes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses import call_kinds
from nsyswrap.analyses.operations import Operations
from nsyswrap.intervals import NOTHING, Indices, Spans, Timeline, Window, fill, innermost, merge, subtract, union
from nsyswrap.tables import TableSpec, Trace, array

# A state code is kind * NAMES + index of the call's name, so that evidence can name the call.
NAMES = 1 << 20

NO_TIMES = np.empty(0, np.int64)
WAITS = (call_kinds.LOCK_WAIT, call_kinds.OTHER_WAIT, call_kinds.PEER_THREAD_WAIT)


@dataclass(frozen=True)
class ThreadStates:
    """What the threads of a trace do inside a window.

    Attributes:
        trace: The tables of one export.
        operations: All that ran on the GPUs, for copies that block although their call is called asynchronous.
        window: Stretch of time; events outside are not looked at.
    """

    trace: Trace
    operations: Operations
    window: Window
    _states: dict[int, Timeline] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the name of each name index."""
        return tuple(self._name_index)

    @cached_property
    def _name_index(self) -> dict[str, int]:
        ids = [i for spec in (tables.CALLS, tables.OS_CALLS, tables.OVERHEADS) for i in _unique(self.trace, spec)]
        texts = dict.fromkeys(call_kinds.base_name(self.trace.text(i)) for i in ids)
        return {text: index for index, text in enumerate(texts)}

    @property
    def call_names(self) -> npt.NDArray[np.int32]:
        """Return the name index of each row of ``trace[CALLS]``."""
        return self._name_codes[tables.CALLS.name]

    def of(self, thread: int) -> Timeline:
        """Return what a thread does: codes of kind and name; holes are times with no call of meaning open."""
        if thread not in self._states:
            whole = Timeline(NOTHING, np.empty(0, np.int32))
            for kind in range(call_kinds.RUNNING):
                whole = fill(whole, self._of_kind(thread, kind))
            self._states[thread] = whole
        return self._states[thread]

    def waits(self, thread: int) -> Spans:
        """Return when a thread only waits in the operating system, outside any call that explains the wait."""
        states = self.of(thread)
        kind = states.code // NAMES
        waiting = np.isin(kind, WAITS)
        in_os = merge(states.spans.start[waiting], states.spans.end[waiting])
        return subtract(in_os, self._open(tables.CALLS, thread))

    def alive(self, thread: int) -> tuple[int, int]:
        """Return from when to when a thread is seen in the capture; (0, 0) if never."""
        found = [
            (int(self._column(spec, "start")[rows[0]]), int(self._column(spec, "end")[rows].max()))
            for spec in (tables.CALLS, tables.OS_CALLS)
            if len(rows := self._all_rows[spec.name].get(thread, np.empty(0, np.intp)))
        ]
        if not found:
            return 0, 0
        return min(start for start, _ in found), max(end for _, end in found)

    def _of_kind(self, thread: int, kind: int) -> Timeline:
        if kind == call_kinds.OFF_CPU:
            return self._off_cpu(thread)
        parts = []
        for spec, kinds in self._kinds.items():
            if not np.any(kinds == kind):
                continue
            rows = self._rows(spec, thread)
            parts.append(self._named_spans(spec, rows[kinds[rows] == kind]))
        start, end, name = (np.concatenate(each) for each in zip(*parts, strict=True)) if parts else [NO_TIMES] * 3
        return innermost(start, end, name + kind * NAMES)

    def _named_spans(self, spec: str, rows: Indices) -> tuple[npt.NDArray[np.int64], ...]:
        frame = self.trace.frames[spec]
        codes = self._name_codes[spec][rows]
        return array(frame, "start")[rows], array(frame, "end")[rows], codes.astype(np.int64)

    def _off_cpu(self, thread: int) -> Timeline:
        """Return when a thread is off the CPU of itself: one that is inside a call is off because of the call."""
        frame = self.trace[tables.SCHEDULING]
        mine = array(frame, "thread") == thread
        start, running = array(frame, "start")[mine], array(frame, "running")[mine]
        end = np.append(start[1:], self.window.end_ns) if len(start) else start
        spans = merge(start[~running], end[~running])
        if len(spans.start):
            spans = subtract(spans, union(self._open(tables.CALLS, thread), self._open(tables.OS_CALLS, thread)))
        return Timeline(spans, np.full(len(spans.start), call_kinds.OFF_CPU * NAMES, np.int32))

    def _open(self, spec: TableSpec, thread: int) -> Spans:
        """Return when a thread has a call of one table open, whatever it is."""
        rows = self._rows(spec.name, thread)
        return merge(self._column(spec, "start")[rows], self._column(spec, "end")[rows])

    def _column(self, spec: TableSpec, name: str) -> npt.NDArray[np.int64]:
        return array(self.trace[spec], name)

    def _rows(self, spec: str, thread: int) -> Indices:
        """Return the rows of a thread that touch the window."""
        rows = self._all_rows[spec].get(thread, np.empty(0, np.intp))
        frame = self.trace.frames[spec]
        touching = (array(frame, "start")[rows] < self.window.end_ns) & (
            array(frame, "end")[rows] > self.window.start_ns
        )
        return rows[touching]

    @cached_property
    def _all_rows(self) -> dict[str, dict[int, Indices]]:
        """Return, for each table, the rows of each thread that may matter."""
        found = {}
        for spec in (tables.CALLS, tables.OS_CALLS, tables.OVERHEADS):
            codes, threads = pd.factorize(array(self.trace[spec], "thread"))
            order = np.argsort(codes.astype(np.int32), kind="stable")
            bounds = np.searchsorted(codes[order], np.arange(len(threads) + 1))
            found[spec.name] = {
                int(each): order[bounds[index] : bounds[index + 1]] for index, each in enumerate(threads)
            }
        return found

    @cached_property
    def _kinds(self) -> Mapping[str, npt.NDArray[np.int8]]:
        calls = self._by_name(tables.CALLS, call_kinds.call_kind)
        calls[self._blocking_calls()] = call_kinds.BLOCKING_COPY
        return {
            tables.CALLS.name: calls,
            tables.OS_CALLS.name: self._by_name(tables.OS_CALLS, call_kinds.os_call_kind),
            tables.OVERHEADS.name: self._by_name(tables.OVERHEADS, call_kinds.overhead_kind),
        }

    def _by_name(self, spec: TableSpec, kind_of: Callable[[str], int | None]) -> npt.NDArray[np.int8]:
        codes, ids = pd.factorize(array(self.trace[spec], "name_id"))
        kinds = [kind_of(call_kinds.base_name(self.trace.text(int(i)))) for i in ids]
        return np.array([-1 if kind is None else kind for kind in kinds], np.int8)[codes]

    @cached_property
    def _name_codes(self) -> Mapping[str, npt.NDArray[np.int32]]:
        found = {}
        for spec in (tables.CALLS, tables.OS_CALLS, tables.OVERHEADS):
            codes, ids = pd.factorize(array(self.trace[spec], "name_id"))
            index = [self._name_index[call_kinds.base_name(self.trace.text(int(i)))] for i in ids]
            found[spec.name] = np.array(index, np.int32)[codes]
        return found

    def _blocking_calls(self) -> Indices:
        """Return the calls that copy from or to pageable memory: these block, whatever their name says.

        Source: CUDA's page on API synchronization behaviour; pageable copies are staged before the call returns.
        """
        copies = self.trace[tables.COPIES]
        pageable = [kind for kind, label in self.trace.memory_kinds.items() if label == "Pageable"]
        rows = self.operations.from_table(tables.COPIES)
        origin = self.operations.row[rows]
        staged = np.isin(array(copies, "source_kind")[origin], pageable) | np.isin(
            array(copies, "target_kind")[origin], pageable
        )
        call = self.operations.call[rows][staged]
        call = call[call >= 0]
        # A copy inside a CUDA graph belongs to the graph's launch, which does not wait for it.
        copying = self._by_name(
            tables.CALLS, lambda name: call_kinds.BLOCKING_COPY if call_kinds.is_copy(name) else None
        )
        found: Indices = call[copying[call] == call_kinds.BLOCKING_COPY]
        return found


def _unique(trace: Trace, spec: TableSpec) -> list[int]:
    return [int(i) for i in pd.unique(array(trace[spec], "name_id"))]
