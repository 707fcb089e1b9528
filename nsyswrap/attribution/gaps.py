"""The gaps of one device: the operation that ends each, the call that launched it, and the thread that explains it.

::

    GPU    ####|..................gap..................|EEEE
    T            host work     |---- r ----|

E is the operation that ends the gap, r the call that launched it, T the thread that made the call.
"""

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.events import api_calls
from nsyswrap.events.operations import GRAPH_LAUNCHES, Operations, launching_threads
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.intervals import Indices, Spans, Times, Window, covered, gaps
from nsyswrap.loop.context import TraceContext
from nsyswrap.tables import array

# T explains the gap unless it waited for more than this share of the time before r. Source: definitions of the
# root-cause rule, section "three segments".
ONLY_WAITED = 0.5
EARLIEST = np.iinfo(np.int64).min
LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DeviceGaps:
    """The gaps of one device inside a window, in order of time: arrays of equal length.

    Attributes:
        spans: The gaps.
        ender: The operation E that ends each; where a migration of unified memory ends it, the first operation that the
            host launched after it; -1 for the last gap, where nothing follows.
        call: Row in ``trace[CALLS]`` of r; -1 where it is unknown.
        launcher: Global id of T; for the last gap the thread that launched last; where no thread is known, the id of
            the process, whose thread number is 0.
        active_thread: The thread whose activity before r explains the gap: T, or a busier one where T only waited.
        call_start: When r began, in ns; the gap's end where r is unknown.
        call_end: When r returned.
        not_traced_from: Start of the part of the gap in which work may have run that the capture does not show, in ns;
            the gap's end where there is no such part.
    """

    spans: Spans
    ender: Indices
    call: Indices
    launcher: Times
    active_thread: Times
    call_start: Times
    call_end: Times
    not_traced_from: Times

    def of(self, chosen: slice) -> "DeviceGaps":
        """Return a slice of the gaps."""
        start, end = (side[chosen] for side in self.spans)
        rest = (getattr(self, each.name)[chosen] for each in fields(self)[1:])
        return DeviceGaps(Spans(start, end), *rest)


def find_gaps(context: TraceContext, states: ThreadStates, device_id: int, window: Window) -> DeviceGaps:
    """Return the gaps of one device inside a window.

    Args:
        context: The trace, its operations and its phases.
        states: What its threads do inside the window.
        device_id: The GPU; it ran at least one operation.
        window: Interval of time.
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    spans = gaps(operations.busy(device_id), window.start_ns, window.end_ns)
    mine = _launched_by_host(operations, operations.on(device_id))
    ender = _enders(operations, mine, spans)
    call = np.where(ender >= 0, operations.call[ender], -1)
    known = call >= 0
    call_start, call_end = spans.end.copy(), spans.end.copy()
    call_start[known] = array(calls, "start")[call[known]]
    call_end[known] = array(calls, "end")[call[known]]
    # No operation follows the last gap: the thread that launched last explains it.
    source = np.where(ender >= 0, ender, mine[-1])
    by_call = operations.call[source]
    launcher = operations.process[source]
    launcher[by_call >= 0] = array(calls, "thread")[by_call[by_call >= 0]]
    not_traced = _not_traced_from(context, mine, spans, operations.process[source])
    not_traced = np.where(by_call >= 0, not_traced, spans.start)
    before = Spans(spans.start, np.clip(call_start, spans.start, spans.end))
    active = _active_threads(context, states, launcher, before)
    return DeviceGaps(spans, ender, call, launcher, active, call_start, call_end, not_traced)


def _launched_by_host(operations: Operations, mine: Indices) -> Indices:
    """Return the operations that the host launched; all operations where it launched none.

    A page access starts a migration of unified memory, not a launch. So the operation after the migration explains the
    idle time before it.
    """
    found = mine[~operations.migration[mine]]
    return found if len(found) else mine


def _enders(operations: Operations, mine: Indices, spans: Spans) -> Indices:
    """Return the first operation that takes time at or after the end of each gap; -1 where there is none."""
    real = mine[operations.end[mine] > operations.start[mine]]
    if not len(real):
        return np.full(len(spans.end), -1, np.intp)
    at = np.searchsorted(operations.start[real], spans.end, side="left")
    found: Indices = np.where(at < len(real), real[np.minimum(at, len(real) - 1)], -1)
    return found


def _not_traced_from(context: TraceContext, mine: Indices, spans: Spans, process: Times) -> Times:
    """Return when each gap may start to contain work of its process that the capture does not show, in ns.

    Such work is a CUDA graph without any row in the capture. It may have been launched while the operation before the
    gap still ran. It was not launched before that operation: then it would have run first.
    """
    not_traced = spans.end.copy()
    opaque = _opaque_launches(context)
    if not opaque:
        return not_traced
    operations = context.operations
    before = np.searchsorted(operations.start[mine], spans.start, side="left") - 1
    call = np.where(before >= 0, operations.call[mine[np.maximum(before, 0)]], -1)
    since = np.where(before >= 0, spans.start, EARLIEST)
    since[call >= 0] = array(context.trace[tables.CALLS], "start")[call[call >= 0]]
    for each, launches in opaque.items():
        of_process = process == each
        first = np.searchsorted(launches, since[of_process], side="right")
        launched = np.append(launches, LATEST)[first]
        not_traced[of_process] = np.clip(launched, spans.start[of_process], spans.end[of_process])
    return not_traced


def _opaque_launches(context: TraceContext) -> dict[int, Times]:
    """Return the launch times of CUDA graphs without any operation in the capture, by process, in ns, ascending."""
    calls = context.trace[tables.CALLS]
    codes, ids = pd.factorize(array(calls, "name_id"))
    launches = [api_calls.base_name(context.trace.text(int(i))) in GRAPH_LAUNCHES for i in ids]
    if not any(launches):
        return {}
    is_launch = np.array(launches)[codes]
    shown = context.operations.call
    is_launch[shown[shown >= 0]] = False
    start = array(calls, "start")[is_launch]
    process = tables.process_of(array(calls, "thread")[is_launch])
    return {int(each): start[process == each] for each in tables.distinct(process)}


def _active_threads(context: TraceContext, states: ThreadStates, launcher: Times, before: Spans) -> Times:
    """Return the thread that explains each gap: the launcher, or a busier thread where the launcher only waited.

    The busier one is typically the main thread, for which autograd's thread waits.

    Args:
        context: The trace and its operations and phases.
        states: What the threads do.
        launcher: Thread that launched what ends each gap.
        before: The part of each gap before the launch call; may be empty.
    """
    active = launcher.copy()
    length = before.end - before.start
    launchers = _launching_threads(context)
    for each in tables.distinct(launcher):
        mine = np.flatnonzero((launcher == each) & (length > 0))
        wait = covered(states.waits(int(each)), before.start[mine], before.end[mine])
        idle = mine[wait > ONLY_WAITED * length[mine]]
        least = ONLY_WAITED * length[idle]
        process = int(each) & ~tables.THREAD_MASK
        main = context.phases.main_thread.get(process)
        # The main thread comes first, so it is preferred on ties.
        others = sorted((t for t in launchers.get(process, []) if t != each), key=lambda t: (t != main, t))
        for other in others:
            born, died = states.alive(other)
            waited = covered(states.waits(other), before.start[idle], before.end[idle])
            better = (waited < least) & (born <= before.start[idle]) & (died >= before.end[idle])
            active[idle[better]] = other
            least = np.where(better, waited, least)
    return active


def _launching_threads(context: TraceContext) -> dict[int, list[int]]:
    """Return the threads of each process that launched an operation, which excludes pollers and watchdogs."""
    found: dict[int, list[int]] = {}
    for thread in launching_threads(context.trace, context.operations).tolist():
        found.setdefault(thread & ~tables.THREAD_MASK, []).append(thread)
    return found
