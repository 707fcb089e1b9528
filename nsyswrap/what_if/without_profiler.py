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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.base.interval import Interval, around
from nsyswrap.base.intervals import Times, Window, covered
from nsyswrap.base.memo import memo
from nsyswrap.events.operations import COMPUTE, launch_rows
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.hardware.profiler_cost import GRAPH_OPERATION, OPERATION, ProfilerCost
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.what_if.dependency_graph import Change, DependencyGraph
from nsyswrap.what_if.machine_pace import UNKNOWN_PACE, find_paces, kernel_factors
from nsyswrap.what_if.simulate import Simulation
from nsyswrap.what_if.simulated_steps import simulated_steps, typical_steps

# Names of extents: how much of the profiler's cost is taken out of a run.
SLOWEST, RECORDED, LEAST, USUAL, MOST, FASTEST = range(6)


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


@memo
def without_profiler(simulation: Simulation, calls: RecordedCalls, window: Window) -> WithoutProfiler | None:
    """Return how long the run takes without the profiler; None where the simulation or the cost is not known."""
    if calls.cost is None or not simulation.predicts or not simulation.simulated_ns:
        return None
    fastest, slowest = kernel_factors(simulation.context, window, simulation.sample)
    operations = simulation.context.operations
    kernels = np.flatnonzero(operations.kind == COMPUTE)
    extents = find_extents(simulation, calls, window)
    runs = [
        extents.run(simulation, extent, Change(operations=kernels, factor=factor))
        for extent, factor in ((LEAST, slowest), (USUAL, 1.0), (FASTEST, fastest))
    ]
    run = _shares([simulation.length_of(each) for each in runs], simulation.simulated_ns)
    typical = typical_steps(simulation, window)
    recorded, *steps = (
        float(np.median(simulated_steps(simulation, each)[typical])) if len(typical) else 0.0
        for each in (simulation.graph.run(), *runs)
    )
    step = _shares(steps, recorded) if recorded > 0 else run
    paces = find_paces(simulation.context, window, simulation.sample).values()
    slowdown = max((each.slowdown for each in paces), default=1.0)
    return WithoutProfiler(run, step, slowdown, calls.cost.pace_range)


def _shares(lengths: Sequence[float], recorded: float) -> Interval[float]:
    """Return the shares of the lengths with the least, the usual and the most cost, in order."""
    high, usual, low = (each / recorded for each in lengths)
    return around(min(usual, 1.0), low, high)


def in_graphs(context: TraceContext) -> npt.NDArray[np.bool_]:
    """Return which operations were launched by a graph and recorded one by one."""
    operations = context.operations
    found = np.isin(operations.call, launch_rows(context.trace))
    found[operations.from_table(tables.GRAPHS)] = False
    return found


@dataclass(frozen=True, eq=False)
class Extents:
    """The run with more and more of the profiler's cost taken out, from its slowest pace to its fastest.

    ::

        SLOWEST     RECORDED     LEAST     USUAL     MOST     FASTEST
           |-- pace ---|---------- cost of each call ---|---- pace ---|

    An extent is a number from ``SLOWEST`` to ``FASTEST``: between two of these names, times are between theirs.

    Attributes:
        work: The host's own work in each node at each of the names, in ns, shape (6, nodes); it never rises.
        sooner: How much sooner an operation of a queue ends after the one before it, in ns: launched alone, and in a
            graph, shape (2, 6).
        in_graph: Whether each operation of the context was launched in a graph.
        loader: Factor for the pace of a data loader at each of them.
    """

    work: Times
    sooner: npt.NDArray[np.float64]
    in_graph: npt.NDArray[np.bool_]
    loader: npt.NDArray[np.float64]

    def change(self, extent: float) -> Change:
        """Return what happens to operations and loaders at an extent."""
        alone, in_graph = (_at(each, extent) for each in self.sooner)
        return Change(sooner_ns=np.where(self.in_graph, in_graph, alone), loader_factor=float(_at(self.loader, extent)))

    def host_work(self, extent: float) -> Times:
        """Return the host's own work in each node at an extent, in ns."""
        work: Times = np.rint(_at(self.work, extent)).astype(np.int64)
        return work

    def graph(self, simulation: Simulation, extent: float) -> DependencyGraph:
        """Return the graph of a run at an extent; ``change`` is not in it."""
        return replace(simulation.graph, own=self.host_work(extent))

    def with_data(self, share: npt.NDArray[np.float64], factor: float) -> "Extents":
        """Return the run in which the loading of data takes so many times as long.

        Args:
            share: The share of each node's work in which data is loaded, or waited for.
            factor: The factor, also for the pace of a data loader.
        """
        work: Times = np.rint(self.work * (1 + (factor - 1) * share)).astype(np.int64)
        return replace(self, work=work, loader=self.loader * factor)

    def run(self, simulation: Simulation, extent: float, *others: Change) -> Times:
        """Return when each node happens at an extent, with other changes, in ns since the start of the sample."""
        return self.graph(simulation, extent).run(self.change(extent), *others)


def _at(values: npt.NDArray[Any], extent: float) -> npt.NDArray[np.float64]:
    """Return the values at an extent, of those at each of the names."""
    first = min(int(extent), FASTEST - 1)
    share = extent - first
    found: npt.NDArray[np.float64] = values[first] * (1 - share) + values[first + 1] * share
    return found


@memo
def find_extents(simulation: Simulation, calls: RecordedCalls, window: Window) -> Extents:
    """Return the run with more and more of the profiler's cost taken out.

    The least, the usual and the most cost are taken from the work as recorded. The work at the fastest pace is that
    without the most cost at the fastest pace of the steps; or without the usual cost at the fastest pace of the
    machine, where that is less. The slowest pace is that of the slowest steps, or of the machine. Waits in the
    operating system have no pace.
    """
    graph, cost = simulation.graph, calls.cost or ProfilerCost()
    machine, paces = cost.pace_range, find_paces(simulation.context, window, simulation.sample)
    work = np.tile(graph.own, (FASTEST + 1, 1))
    for thread in simulation.threads:
        mine = np.flatnonzero((graph.thread == thread) & (graph.work_end > graph.work_start))
        start, end, own = graph.work_start[mine], graph.work_end[mine], graph.own[mine]
        added, waited = calls.added(thread, start, end), covered(simulation.states.waits(thread), start, end)
        pace, floor = paces.get(thread, UNKNOWN_PACE), np.minimum(own, added.alone)
        worked = np.maximum(own - waited, 0)
        fast = own - worked * (1 - 1 / pace.slowdown)
        fastest = np.maximum(fast - (added.usual - added.shown) - added.shown / pace.slowdown, floor)
        most = added.high - added.high_shown + added.high_shown / pace.slowdown
        # What the machine may be faster than the thread's fastest steps.
        unseen = max(machine / pace.shown, 1.0)
        fastest -= np.maximum(fastest - waited, 0) * (1 - 1 / unseen)
        lengths = (
            own + worked * max(max(pace.shown, machine) / pace.slowdown - 1, 0.0),
            own,
            np.maximum(own - added.low, floor),
            np.maximum(own - added.usual, floor),
            np.maximum(own - added.high, floor),
            # Where the cost is not known, it may be all that the thread did.
            np.minimum(np.maximum(fast - most, floor), fastest) if calls.cost is not None else own - worked,
        )
        work[:, mine] = np.rint(np.minimum.accumulate(lengths)).astype(np.int64)
    added_to = [cost[kind].added.in_order for kind in (OPERATION, GRAPH_OPERATION)]
    sooner = np.array([[0.0, 0.0, *each, each[-1]] for each in added_to])
    loader = np.array([machine, 1.0, 1.0, 1.0, 1.0, 1 / machine])
    return Extents(work, sooner, in_graphs(simulation.context), loader)
