"""The run without the profiler: the simulation with what nsys added to the recorded calls taken out.

Each node of the host loses the measured cost of the calls that its thread made in it, never more than its own work
allows: its calls take at least as long as alone. Operations that wait in a queue follow each other more closely.

The pace of a machine changes, perhaps because threads of nsys write what was recorded. So the work of the host is that
of the fastest steps, except for the upper bound, for which it is as recorded.
"""

from dataclasses import dataclass

import numpy as np

from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.hardware.profiler_cost import OPERATION
from nsyswrap.intervals import Times, Window, covered
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.machine_pace import slowdown
from nsyswrap.what_if.simulate import Simulation


@dataclass(frozen=True, slots=True)
class WithoutProfiler:
    """The length of a sample without the profiler, as shares of its length as recorded.

    Attributes:
        low_share: At the pace of the fastest steps, with the most that a call may cost.
        share: At that pace, with the usual cost.
        high_share: At the pace of the recording, with the least.
        slowdown: How much slower the machine was in the sample than in the fastest steps.
    """

    low_share: float
    share: float
    high_share: float
    slowdown: float = 1.0


def without_profiler(simulation: Simulation, calls: RecordedCalls, window: Window) -> WithoutProfiler | None:
    """Return how long the run takes without the profiler; None where the simulation or the cost is not known.

    Args:
        simulation: The run as it was.
        calls: The recorded calls of its threads, with their cost.
        window: The window that was simulated.
    """
    if calls.cost is None or not simulation.predicts or not simulation.simulated_ns:
        return None
    pace, operation = slowdown(simulation.context, window, simulation.sample), calls.cost[OPERATION]
    gaps = (operation.low, operation.usual, operation.high)
    lengths = [
        simulation.length(Change(host_work=work, gap_ns=gap))
        for work, gap in zip(_host_work(simulation, calls, pace), gaps, strict=True)
    ]
    low, usual, high = sorted(min(each / simulation.simulated_ns, 1.0) for each in lengths)
    return WithoutProfiler(low, usual, high, pace)


def _host_work(simulation: Simulation, calls: RecordedCalls, pace: float) -> list[Times]:
    """Return the host's own work in each node without the least, the usual and the most that nsys may have added.

    The least is taken from the work as recorded; the usual and the most from the work at the fastest pace. Waits in the
    operating system have no pace.
    """
    graph = simulation.graph
    found = [graph.own.copy() for _ in range(3)]
    for thread in simulation.threads:
        mine = np.flatnonzero((graph.thread == thread) & (graph.work_end > graph.work_start))
        start, end, own = graph.work_start[mine], graph.work_end[mine], graph.own[mine]
        added, waited = calls.added(thread, start, end), covered(simulation.states.waits(thread), start, end)
        fast = own - np.maximum(own - waited, 0) * (1 - 1 / pace)
        floor = np.minimum(own, added.alone)
        costs = ((own, added.low), (fast, added.usual), (fast, added.high))
        for work, (whole, cost) in zip(found, costs, strict=True):
            work[mine] = np.rint(np.maximum(whole - cost, floor)).astype(np.int64)
    return found
