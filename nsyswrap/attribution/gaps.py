"""The gaps of one device: the operation that ends each, the call that launched it, and the thread that explains it.

::

    GPU    ####|..................gap..................|EEEE
    T            host work     |---- r ----|

E is the operation that ends the gap, r the call that launched it, T the thread that made the call.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nsyswrap.attribution.pieces import Owners
from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, Window, clip, covered, gaps, places
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import Operations, launch_rows
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks, coded

# T explains the gap unless it waited for more than this share of the time before r. Source: definitions of the
# root-cause rule, section "three segments".
ONLY_WAITED = 0.5
# An idle GPU begins an operation sooner after its launch. Source: ours, five times ``LATENCY_NS`` of launches.
QUEUED_NS = 100_000
EARLIEST = np.iinfo(np.int64).min
LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DeviceGaps:
    """The gaps of one device inside a window, in order of time: arrays of equal length.

    Attributes:
        spans: The gaps.
        ender: The operation E that ends each; where a migration of unified memory ends it, the first operation that the
            host launched after it; -1 for the last gap, where nothing follows.
        threads: Global ids of the threads that may explain a gap, ascending. Where no thread is known, the id of the
            process counts as one, whose thread number is 0.
        launcher: Index into ``threads`` of T; for the last gap the thread that launched last.
        active_thread: Index of the thread whose activity before r explains the gap: T, or a busier one where T only
            waited.
        not_traced_from: Start of the part of the gap in which work may have run that the capture does not show, in ns;
            the gap's end where there is no such part.
    """

    spans: Spans
    ender: Indices
    threads: Times
    launcher: Owners
    active_thread: Owners
    not_traced_from: Times

    def of(self, chosen: slice) -> "DeviceGaps":
        """Return a slice of the gaps."""
        start, end = (side[chosen] for side in self.spans)
        columns = (each[chosen] for each in (self.launcher, self.active_thread, self.not_traced_from))
        return DeviceGaps(Spans(start, end), self.ender[chosen], self.threads, *columns)

    def calls(self, context: TraceContext) -> "LaunchCalls":
        """Return the call r of each gap."""
        calls = context.trace[tables.CALLS]
        row = np.where(self.ender >= 0, taken(context.operations.call, self.ender), -1)
        known = np.flatnonzero(row >= 0)
        start, end = self.spans.end.copy(), self.spans.end.copy()
        of_known = taken(row, known)
        start[known], end[known] = (taken(array(calls, side), of_known) for side in ("start", "end"))
        return LaunchCalls(row, start, end)


class LaunchCalls(NamedTuple):
    """The calls that launched the operations that end some gaps: arrays of equal length.

    Attributes:
        row: Row in ``trace[CALLS]``; -1 where it is unknown.
        start: When it began, in ns; the gap's end where it is unknown.
        end: When it returned.
    """

    row: Indices
    start: Times
    end: Times


def find_gaps(context: TraceContext, states: ThreadStates, device_id: int, window: Window) -> DeviceGaps:
    """Return the gaps of one device inside a window."""
    operations = context.operations
    spans = gaps(operations.busy(device_id), window.start_ns, window.end_ns)
    # A page access starts a migration of unified memory, not a launch. So the operation after the migration explains
    # the idle time before it. All operations count where the host launched none.
    mine = operations.on(device_id)
    launched = taken(mine, ~taken(operations.migration, mine))
    mine = launched if len(launched) else mine
    ender = _enders(operations, mine, spans)
    threads = np.union1d(
        operations.launching_threads, np.array([*operations.processes_of(device_id), *states.activity], np.int64)
    )
    launcher, active = (np.empty(len(ender), np.min_scalar_type(-len(threads))) for _ in range(2))
    found = DeviceGaps(spans, ender, threads, launcher, active, spans.end)
    not_traced = _NotTraced(context, mine)
    parts = [np.empty(0, np.int64)]
    for block in blocks(len(ender)):
        some = found.of(block)
        # No operation follows the last gap: the thread that launched last explains it.
        source = np.where(some.ender >= 0, some.ender, mine[-1])
        by_call = taken(operations.call, source)
        launcher = operations.process[source]
        launcher[by_call >= 0] = coded(context.trace[tables.CALLS], "thread")[by_call[by_call >= 0]]
        some.launcher[:] = np.searchsorted(threads, launcher)
        some.active_thread[:] = _active_threads(context, states, some)
        parts.append(np.where(by_call >= 0, not_traced.since(some.spans, operations.process[source]), some.spans.start))
    since = np.concatenate(parts)
    if (first := _queued_from_the_start(context, mine)) >= 0:
        since[ender == first] = spans.start[ender == first]
    # Where all is traced, both columns share their memory.
    return found if np.array_equal(since, spans.end) else replace(found, not_traced_from=since)


def _enders(operations: Operations, mine: Indices, spans: Spans) -> Indices:
    """Return the first operation that takes time at or after the end of each gap; -1 where there is none."""
    real = taken(mine, taken(operations.end, mine) > taken(operations.start, mine))
    if not len(real):
        return np.full(len(spans.end), -1, np.int32)
    at = places(taken(operations.start, real), spans.end, side="left")
    found = np.where(at < len(real), taken(real, np.minimum(at, len(real) - 1)), -1)
    return found.astype(np.int32)


def _queued_from_the_start(context: TraceContext, mine: Indices) -> int:
    """Return the first operation of a device, where it waited in a queue for work that was launched earlier; else -1.

    A recording may begin when the program has launched work that has not run yet. That work has no row, so the GPU
    seems to be idle until the first operation of the recording.
    """
    operations, first = context.operations, int(mine[0])
    call = int(operations.call[first])
    if call < 0:
        return -1
    returned = int(array(context.trace[tables.CALLS], "end")[call])
    return first if operations.start[first] - returned > QUEUED_NS else -1


class _NotTraced:
    """When each gap may start to contain work of its process that the capture does not show.

    Such work is a CUDA graph without any row in the capture, or a kernel or copy without its row. It may have been
    launched while the operation before the gap still ran. It was not launched before that operation: then it would have
    run first.
    """

    def __init__(self, context: TraceContext, mine: Indices) -> None:
        self.context, self.mine, self.opaque = context, mine, _opaque_launches(context)
        self.start = context.operations.start[mine] if self.opaque else NOTHING.start

    def since(self, spans: Spans, process: Times) -> Times:
        """Return when such work may begin in each gap of these processes, in ns; the gap's end where there is none."""
        not_traced = spans.end.copy()
        if not self.opaque:
            return not_traced
        before = np.searchsorted(self.start, spans.start, side="left") - 1
        call = np.where(before >= 0, self.context.operations.call[self.mine[np.maximum(before, 0)]], -1)
        since = np.where(before >= 0, spans.start, EARLIEST)
        since[call >= 0] = array(self.context.trace[tables.CALLS], "start")[call[call >= 0]]
        for each, launches in self.opaque.items():
            of_process = process == each
            first = np.searchsorted(launches, since[of_process], side="right")
            launched = np.append(launches, LATEST)[first]
            not_traced[of_process] = np.clip(launched, spans.start[of_process], spans.end[of_process])
        return not_traced


@memo
def _opaque_launches(context: TraceContext) -> dict[int, Times]:
    """Return when work without any record was launched, by process, in ns, ascending."""
    calls, graphs, lost = context.trace[tables.CALLS], launch_rows(context.trace), context.unrecorded_launches
    unrecorded = np.concatenate([each.rows for each in lost.each])
    if not (len(graphs) or len(unrecorded)):
        return {}
    is_launch = np.zeros(len(calls), bool)
    is_launch[graphs] = True
    shown = context.operations.call
    is_launch[shown[shown >= 0]] = False
    is_launch[unrecorded] = True
    start = array(calls, "start")[is_launch]
    process = tables.process_of(coded(calls, "thread")[is_launch])
    return {int(each): start[process == each] for each in tables.distinct(process)}


def _active_threads(context: TraceContext, states: ThreadStates, some: DeviceGaps) -> Owners:
    """Return the thread that explains each gap: the launcher, or a busier thread where the launcher only waited.

    The busier one is typically the main thread, for which autograd's thread waits.
    """
    active, threads, start = some.launcher.copy(), some.threads.tolist(), some.spans.start
    # The part of each gap before the launch call; may be empty.
    end = np.clip(some.calls(context).start, start, some.spans.end)
    low, high = int(start[0]), int(end.max())
    for code in tables.distinct(some.launcher).tolist():
        each = threads[code]
        mine = np.flatnonzero((some.launcher == code) & (end > start))
        wait = covered(clip(states.waits(each), low, high), start[mine], end[mine])
        idle = mine[wait > ONLY_WAITED * (end - start)[mine]]
        least = ONLY_WAITED * (end - start)[idle]
        for other in _other_launchers(context, each) if len(idle) else ():
            born, died = states.alive(other)
            waited = covered(clip(states.waits(other), low, high), start[idle], end[idle])
            better = (waited < least) & (born <= start[idle]) & (died >= end[idle])
            active[idle[better]] = threads.index(other)
            least = np.where(better, waited, least)
    return active


def _other_launchers(context: TraceContext, thread: int) -> list[int]:
    """Return the other threads of a thread's process that launched an operation, the main thread first.

    This excludes pollers and watchdogs. The main thread comes first, so it is preferred on ties.
    """
    process = thread & ~tables.THREAD_MASK
    main = context.phases.main_thread.get(process)
    launchers = context.operations.launching_threads
    others = launchers[(tables.process_of(launchers) == process) & (launchers != thread)]
    return sorted(others.tolist(), key=lambda each: (each != main, each))
