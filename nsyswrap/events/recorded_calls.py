"""The calls of each thread that nsys recorded, by kind, and what recording them cost.

::

    thread   |launch|  |event|  |push..........pop|  |launch|
    cost      ###       #        #              #     ###          by kind, as measured on the machine of the capture

Before each launch the framework makes many calls that nsys slows down without recording them, and how long they take
depends on the pace of the core. So what nsys adds to a launch is a share of the thread's work since the launch before::

    thread   |launch|....framework....|launch|..waits for the GPU..|....framework....|launch|
    work             |------------------------|                     |------------------------|
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Spans, Times, Window, covered
from nsyswrap.base.memo import memo
from nsyswrap.events.api_calls import calls_named
from nsyswrap.events.host_record import injected
from nsyswrap.events.kernel_names import KernelNames
from nsyswrap.events.operations import GRAPH_LAUNCHES, Operations
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.hardware import profiler_cost as kinds
from nsyswrap.hardware.profiler_cost import ProfilerCost
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, Trace, array, coded

Costs = npt.NDArray[np.float64]

# nsys itself makes this call before each launch, and records it: it is part of the cost of the launch. Source: captures
# of nsys 2025.3.1 of a program that does not make it.
OWN_CALLS = frozenset({"cuKernelGetName"})


@dataclass(frozen=True, slots=True)
class CallTimes:
    """The recorded calls of one kind on one thread.

    Attributes:
        kind: One of ``KINDS``. The begin and the end of a range count as half a range each.
        at: When each began, in ns, ascending; for the end of a range, the time of that end.
        number: How many calls of the kind each counts as, up to and including it; None where each counts as one.
        length: Recorded length of each in ns, where it tells what nsys added to it; else None.
        piece: From the end of the launch before to the end of each, where it is a launch; else None.
        work: How long the thread worked in that piece, without what nsys added to other calls in it, in ns.
    """

    kind: str
    at: Times
    number: Times | None = None
    length: Times | None = None
    piece: Spans | None = None
    work: Costs | None = None

    def count(self, start: Times, end: Times) -> Costs:
        """Return the number of calls that begin inside each interval."""
        first, last = (np.searchsorted(self.at, side) for side in (start, end))
        if self.number is not None:
            so_far = np.append(0, self.number)
            first, last = so_far[first], so_far[last]
        counts: Costs = np.maximum(last - first, 0) * self._share
        return counts

    @property
    def _share(self) -> float:
        """Return the part of a call that one counts as: the begin and the end of a range are half a range each."""
        return 0.5 if self.kind in {kinds.RANGE, kinds.MARK} else 1.0

    def added(self, start: Times, end: Times, costs: ProfilerCost) -> "AddedTime":
        """Return what nsys added to the calls that begin inside each interval, in ns."""
        cost, count = costs[self.kind], self.count(start, end)
        low, usual, high = (count * each for each in cost.added.in_order)
        nothing, alone = np.zeros(len(count)), count * cost.alone
        if self.length is not None and self.number is not None:
            usual = sums_inside(self.at, self.usual(costs), start, end)
            return AddedTime(low, usual, high, usual, nothing, alone)
        if self.work is not None and cost.slowdown is not None:
            usual, high = (sums_inside(self.at, self._of_work(each, costs), start, end) for each in cost.slowdown)
            return AddedTime(low, usual, high, usual, high, alone)
        return AddedTime(low, usual, high, nothing, nothing, alone)

    def usual(self, costs: ProfilerCost) -> Costs:
        """Return what nsys usually added to each call, in ns."""
        cost = costs[self.kind]
        if self.length is not None and self.number is not None:
            return _added_to_nodes(np.diff(self.number, prepend=0), self.length, costs)
        if self.work is not None and cost.slowdown is not None:
            return self._of_work(cost.slowdown[0], costs)
        return np.full(len(self.at), self._share * cost.added.point)

    def _of_work(self, slowdown: float, costs: ProfilerCost) -> Costs:
        """Return what nsys added to each launch, of the work before it, at a slowdown, in ns."""
        least, most = costs[self.kind].added.ends
        added: Costs = np.clip(
            (0 if self.work is None else self.work) * (1 - 1 / slowdown), least, most * costs.pace_range
        )
        return added


@dataclass(frozen=True, eq=False)
class RecordedCalls:
    """The recorded calls of some threads inside a window, with the measured cost of each kind.

    Attributes:
        cost: What nsys adds to a call; None where it was not measured.
        threads: The calls of each thread, by its global id; empty where the cost was not measured.
    """

    cost: ProfilerCost | None = None
    threads: Mapping[int, tuple[CallTimes, ...]] = field(default_factory=dict)

    def added(self, thread: int, start: Times, end: Times) -> "AddedTime":
        """Return what nsys added to a thread inside intervals, in ns."""
        costs, sums = self.cost or ProfilerCost(), np.zeros((len(AddedTime._fields), len(start)))
        for each in self.threads.get(thread, ()):
            sums += each.added(start, end, costs)
        return AddedTime(*sums)

    def usual(self, thread: int, start: Times, end: Times) -> Costs:
        """Return what nsys usually added to a thread inside intervals, in ns: ``added`` has it with its bounds."""
        return sums_inside(*self._together(thread), start, end)

    @memo
    def _together(self, thread: int) -> tuple[Times, Costs]:
        """Return when each call of a thread began, and what nsys usually added to it; each GPU needs them again."""
        return _together(self.threads.get(thread, ()), self.cost or ProfilerCost())


class AddedTime(NamedTuple):
    """What nsys added to a thread inside some intervals, in ns: arrays of one value an interval.

    Attributes:
        usual: The usual.
        shown: The part of the usual that the capture itself shows: it is as long as it was at the pace of the recorded
            run, and the rest as long as at the machine's usual pace.
        high_shown: The same part of the most.
        alone: How long the recorded calls take without nsys.
    """

    low: Costs
    usual: Costs
    high: Costs
    shown: Costs
    high_shown: Costs
    alone: Costs


NOT_MEASURED = RecordedCalls()


def find_recorded_calls(  # noqa: PLR0913, PLR0917 - what the calls and their work follow from
    trace: Trace,
    operations: Operations,
    names: KernelNames,
    window: Window,
    states: ThreadStates,
    cost: ProfilerCost,
) -> dict[int, tuple[CallTimes, ...]]:
    """Return the recorded calls of threads inside a window."""
    by_thread: dict[int, list[CallTimes]] = {int(each): [] for each in states.activity}
    for thread, times in (
        *_cuda_calls(trace, operations, names, window, by_thread),
        *_range_ends(trace, window, by_thread),
        *_os_calls(trace, window, by_thread),
    ):
        if len(times.at):
            by_thread[thread].append(times)
    return {thread: tuple(_with_work(each, cost, states.not_working(thread))) for thread, each in by_thread.items()}


def _with_work(calls: Sequence[CallTimes], cost: ProfilerCost, waiting: Spans) -> Iterator[CallTimes]:
    """Yield the calls of a thread, the launches with the thread's work before them."""
    at, usual = _together([each for each in calls if each.piece is None], cost)
    for each in calls:
        if each.piece is None:
            yield each
            continue
        start, end = each.piece
        added = sums_inside(at, usual, start, end)
        yield replace(each, work=np.maximum(end - start - covered(waiting, start, end) - added, 0.0))


def _together(calls: Sequence[CallTimes], cost: ProfilerCost) -> tuple[Times, Costs]:
    """Return when each of some calls began, ascending, and what nsys usually added to it, in ns."""
    at = np.concatenate([np.empty(0, np.int64), *(each.at for each in calls)])
    added = np.concatenate([np.empty(0), *(each.usual(cost) for each in calls)])
    order = np.argsort(at, kind="stable")
    return at[order], added[order]


def sums_inside(at: Times, each: Costs, start: Times, end: Times) -> Costs:
    """Return the sums of one number for each call over the calls that begin inside intervals."""
    so_far = np.append(0.0, np.cumsum(each))
    first, last = (so_far[np.searchsorted(at, side)] for side in (start, end))
    sums: Costs = np.maximum(last - first, 0)
    return sums


def _inside(trace: Trace, spec: TableSpec, window: Window) -> slice:
    """Return the rows of a table that begin in the window."""
    first, last = np.searchsorted(array(trace[spec], "start"), [window.start_ns, window.end_ns])
    return slice(int(first), int(last))


def _cuda_calls(
    trace: Trace, operations: Operations, names: KernelNames, window: Window, threads: Iterable[int]
) -> Iterator[tuple[int, CallTimes]]:
    """Yield the CUDA calls: launches, those of convolutions, launches of graphs, their nodes, and the rest."""
    calls, rows = trace[tables.CALLS], _inside(trace, tables.CALLS, window)
    thread, start, end = coded(calls, "thread")[rows], array(calls, "start")[rows], array(calls, "end")[rows]
    graph, own = (calls_named(trace, wanted.__contains__)[rows] for wanted in (GRAPH_LAUNCHES, OWN_CALLS))
    inside = np.flatnonzero((operations.call >= rows.start) & (operations.call < rows.stop))
    by_call = operations.call[inside] - rows.start
    launched = np.bincount(by_call, minlength=len(start))
    of_convolution = np.array([*(kinds.launch_kind(each) == kinds.CONVOLUTION_LAUNCH for each in names.kinds), False])
    convolution = np.zeros(len(start), bool)
    convolution[by_call[of_convolution[names.code[inside]]]] = True  # no kernel has the code -1: the last flag
    for each in threads:
        mine = thread == each
        any_launch, graphs = mine & (launched > 0), mine & graph
        launches = any_launch & ~graph
        # The work before the first launch of the window may have begun outside it.
        since = np.zeros(len(start), np.int64)
        since[any_launch] = np.append(start[any_launch][:1], np.maximum.accumulate(end[any_launch])[:-1])[
            : any_launch.sum()
        ]
        for kind, chosen in (
            (kinds.LAUNCH, launches & ~convolution),
            (kinds.CONVOLUTION_LAUNCH, launches & convolution),
        ):
            yield each, CallTimes(kind, start[chosen], piece=Spans(since[chosen], end[chosen]))
        yield each, CallTimes(kinds.CALL, start[mine & ~launches & ~graph & ~own])
        yield each, CallTimes(kinds.GRAPH_LAUNCH, start[graphs])
        yield each, CallTimes(kinds.GRAPH_NODE, start[graphs], np.cumsum(launched[graphs]), (end - start)[graphs])


def _added_to_nodes(number: Times, length: Times, cost: ProfilerCost) -> Costs:
    """Return what nsys added to the nodes of each launch of a graph, in ns.

    The call handles all nodes, and alone it takes hardly longer for many than for one. So its recorded length tells
    what nsys added, between the least that was measured and the most, at the slowest pace of the machine: the call may
    also wait until the GPU has room.
    """
    launch, node = cost[kinds.GRAPH_LAUNCH], cost[kinds.GRAPH_NODE]
    added = length - launch.alone - launch.added.point - number * node.alone
    bounded: Costs = np.clip(added, number * node.added.low, number * node.added.high * cost.pace_range)
    return bounded


def _range_ends(trace: Trace, window: Window, threads: Iterable[int]) -> Iterator[tuple[int, CallTimes]]:
    ranges = trace[tables.RANGES]
    marks = injected(ranges)
    thread, start, end = (array(ranges, name) for name in ("thread", "start", "end"))
    for each in threads:
        for kind, flags in ((kinds.RANGE, ~marks), (kinds.MARK, marks)):
            mine: Indices = np.flatnonzero(flags & (thread == each))
            at = np.sort(np.concatenate([start[mine], end[mine]]))
            yield each, CallTimes(kind, at[(at >= window.start_ns) & (at < window.end_ns)])


def _os_calls(trace: Trace, window: Window, threads: Iterable[int]) -> Iterator[tuple[int, CallTimes]]:
    """Yield the calls of the operating system."""
    calls, rows = trace[tables.OS_CALLS], _inside(trace, tables.OS_CALLS, window)
    thread, start = coded(calls, "thread")[rows], array(calls, "start")[rows]
    for each in threads:
        yield each, CallTimes(kinds.OS_CALL, start[thread == each])
