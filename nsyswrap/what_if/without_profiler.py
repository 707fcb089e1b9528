"""The run without the profiler: the simulation with what nsys added to the recorded calls taken out.

Each node of the host loses the measured cost of the calls that its thread made in it, never more than its own work
allows: its calls take at least as long as alone. Operations that wait in a queue follow each other more closely.
Where the recorded gap between them is shorter than what recording adds, as in CUDA graphs, the rest is part of their
recorded lengths: the measurement is of the time from one kernel to the next.

The pace of a core changes, on a shared machine also because of others. A run without the profiler has slow steps as
well, so the work of each thread stays at its recorded pace. Alone it may also run as in its fastest steps all the time:
that is the lower bound. A core may even be slow from the first recorded step to the last. The measurement of the cost
shows how much the pace of this machine changes. For the lower bound a thread may be faster by as much of that as its
own steps do not show::

    machine, while the cost was measured  |--- fastest ------------------------ slowest ---|
    steps of the thread                                      |-- fastest -- slowest --|
    for the lower bound                   |<-- as much faster, at most

Processes of a data loader launch nothing that would show their pace. Where their batches set the pace of the run, they
come as recorded, and for the lower bound as much faster as the machine may be.

The kernels take as long as in the sample, and for the bounds as long as in the fastest and in the slowest steps, at a
clock that is a step higher or lower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nsyswrap.base.interval import Interval, around
from nsyswrap.base.intervals import Times, Window, covered
from nsyswrap.events.operations import COMPUTE, launch_rows
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.hardware.profiler_cost import GRAPH_OPERATION, OPERATION, ProfilerCost
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.machine_pace import UNKNOWN_PACE, ThreadPace, find_paces, kernel_factors
from nsyswrap.what_if.simulate import Simulation
from nsyswrap.what_if.simulated_steps import simulated_steps, typical_steps

NONE = Change()


@dataclass(frozen=True, slots=True)
class WithoutProfiler:
    """The run without the profiler: lengths as shares of those as recorded.

    The estimate is at the threads' recorded pace, with the usual cost and the kernels of the sample, and at most 1. The
    lower end is at the pace of the fastest steps, with the most that a call may cost; or at the fastest pace of the
    machine, with the usual cost. The upper end is at the recorded pace, with the kernels of the slowest steps and the
    least cost: above 1 where the kernels may take longer in another run.

    Attributes:
        run: Of the length of the sample.
        step: Of the median length of its typical steps; that of the run where the sample has no steps.
        slowdown: How much slower the slowest thread was in the sample than in its fastest steps.
        machine: How much the pace of the machine changed while the cost was measured.
    """

    run: Interval[float]
    step: Interval[float]
    slowdown: float = 1.0
    machine: float = 1.0


def without_profiler(simulation: Simulation, calls: RecordedCalls, window: Window) -> WithoutProfiler | None:
    """Return how long the run takes without the profiler; None where the simulation or the cost is not known.

    Args:
        simulation: The run as it was.
        calls: The recorded calls of its threads, with their cost.
        window: The window that was simulated.
    """
    if calls.cost is None or not simulation.predicts or not simulation.simulated_ns:
        return None
    paces = find_paces(simulation.context, window, simulation.sample)
    fastest, slowest = kernel_factors(simulation.context, window, simulation.sample)
    operations = simulation.context.operations
    kernels = np.flatnonzero(operations.kind == COMPUTE)
    works = _host_work(simulation, calls, paces)
    most = Change(loader_factor=1 / calls.cost.pace_range)
    sooner = _operation_costs(simulation.context, calls.cost)
    runs = [
        simulation.graph.run(replace(change, host_work=work, sooner_ns=less, operations=kernels, factor=factor))
        for change, work, less, factor in zip((NONE, NONE, most), works, sooner, (slowest, 1.0, fastest), strict=True)
    ]
    run = _shares([simulation.length_of(each) for each in runs], simulation.simulated_ns)
    typical = typical_steps(simulation, window)
    recorded, *steps = (
        float(np.median(simulated_steps(simulation, each)[typical])) if len(typical) else 0.0
        for each in (simulation.graph.run(), *runs)
    )
    step = _shares(steps, recorded) if recorded > 0 else run
    slowdown = max((each.slowdown for each in paces.values()), default=1.0)
    return WithoutProfiler(run, step, slowdown, calls.cost.pace_range)


def _shares(lengths: Sequence[float], recorded: float) -> Interval[float]:
    """Return the shares of the lengths with the least, the usual and the most cost, in order."""
    high, usual, low = (each / recorded for each in lengths)
    return around(min(usual, 1.0), low, high)


def _operation_costs(context: TraceContext, cost: ProfilerCost) -> list[npt.NDArray[np.float64]]:
    """Return the least, the usual and the most that recording adds to each operation, in ns."""
    alone, node = cost[OPERATION], cost[GRAPH_OPERATION]
    pairs = zip(node.added.in_order, alone.added.in_order, strict=True)
    return [np.where(in_graphs(context), *pair) for pair in pairs]


def in_graphs(context: TraceContext) -> npt.NDArray[np.bool_]:
    """Return which operations were launched by a graph and recorded one by one."""
    operations = context.operations
    found = np.isin(operations.call, launch_rows(context.trace))
    found[operations.from_table(tables.GRAPHS)] = False
    return found


def _host_work(simulation: Simulation, calls: RecordedCalls, paces: Mapping[int, ThreadPace]) -> list[Times]:
    """Return the host's own work in each node without the least, the usual and the most that nsys may have added.

    The least and the usual are taken from the work as recorded, the most from the work at the fastest pace. The work
    without the most is that at the fastest pace of the machine, without the usual cost, where that is less. Waits in
    the operating system have no pace.
    """
    graph, machine = simulation.graph, calls.cost.pace_range if calls.cost is not None else 1.0
    found = [graph.own.copy() for _ in range(3)]
    for thread in simulation.threads:
        mine = np.flatnonzero((graph.thread == thread) & (graph.work_end > graph.work_start))
        start, end, own = graph.work_start[mine], graph.work_end[mine], graph.own[mine]
        added, waited = calls.added(thread, start, end), covered(simulation.states.waits(thread), start, end)
        pace, floor = paces.get(thread, UNKNOWN_PACE), np.minimum(own, added.alone)
        fast = own - np.maximum(own - waited, 0) * (1 - 1 / pace.slowdown)
        fastest = np.maximum(fast - (added.usual - added.shown) - added.shown / pace.slowdown, floor)
        most = added.high - added.high_shown + added.high_shown / pace.slowdown
        # What the machine may be faster than the thread's fastest steps.
        unseen = max(machine / pace.shown, 1.0)
        fastest -= np.maximum(fastest - waited, 0) * (1 - 1 / unseen)
        lengths = (
            np.maximum(own - added.low, floor),
            np.maximum(own - added.usual, floor),
            np.minimum(np.maximum(fast - most, floor), fastest),
        )
        for work, length in zip(found, lengths, strict=True):
            work[mine] = np.rint(length).astype(np.int64)
    return found
