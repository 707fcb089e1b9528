"""The simulation: a sample of the run as a dependency graph of host moments and GPU operations.

Each operation comes after the host moment that launched it, so no node waits for a later one. A node waits for at most
two others. Where a moment waits for more operations, additional nodes before it wait for them.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window, covered
from nsyswrap.base.memo import memo
from nsyswrap.events.operations import Operations, launch_rows
from nsyswrap.events.thread_states import ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.collectives import NO_COLLECTIVES, Collectives
from nsyswrap.ranks.mpi_collectives import find_mpi_collectives
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if import cpu_nodes as host
from nsyswrap.what_if.beside_waits import without_waits
from nsyswrap.what_if.cpu_nodes import HostNodes, HostSources, find_host
from nsyswrap.what_if.dependency_graph import EMPTY, FREE, Change, DependencyGraph
from nsyswrap.what_if.gpu_nodes import NONE, Queued, Starts, find_starts, queue_operations
from nsyswrap.what_if.machine_pace import find_paces, kernel_factors
from nsyswrap.what_if.rank_edges import NAMES, across_hosts, across_ranks, whole_until
from nsyswrap.what_if.sample import MOST_OPERATIONS, choose_sample
from nsyswrap.what_if.stream_waits import find_stream_waits
from nsyswrap.what_if.sync_waits import Holds, find_holds, find_recorded

NO_OPERATIONS = "no launch of an operation was recorded in it"
UNKNOWN_LAUNCHES = "the capture does not show which call launched {count} of its operations"
SILENT = "calls of its main thread were lost"
HIDDEN_GRAPHS = "CUDA graphs were launched that left no trace on the GPU"


# A simulation with a larger error share than this does not predict. Source: ours.
TOLERANCE = 0.05


# A step that takes more than so many times as long as the typical one does not only run at another pace. Source: ours,
# the pace of machines that others share changes by as much while the cost of calls is measured.
SAME_WORK = 2.0


@dataclass(frozen=True, eq=False)
class Simulation:
    """A sample of the run as a dependency graph, and how well its simulation reproduces the measured time.

    Attributes:
        context: The trace, its events and its loop.
        window: The window; a sample of it is simulated.
        states: What the threads do inside the window.
        graph: What waits for what in the sample.
        sample: The part of the window that is simulated.
        steps: Number of steps in it; 0 where the sample is not made of steps.
        begun_ns: When the GPU has finished earlier work and the sample's time begins, in ns since the sample's start.
        ended_ns: When host and GPU had finished the sample as measured, in ns since the sample's start.
        scale: Factor from the sample to the whole window.
        threads: The launching threads in it, ascending.
        failure: Why the sample cannot be simulated, as the end of a sentence; empty where it can.
        collectives: The collectives of all ranks, which tie them together.
    """

    context: TraceContext
    window: Window
    states: ThreadStates
    graph: DependencyGraph
    sample: Window
    steps: int
    begun_ns: int
    ended_ns: int
    scale: float
    threads: tuple[int, ...] = ()
    failure: str = ""
    collectives: Collectives = NO_COLLECTIVES

    @cached_property
    def operations(self) -> Indices:
        """Return the rows of the context's operations that are simulated."""
        rows: Indices = pd.unique(self.graph.operation[self.graph.operation >= 0])
        return rows

    @property
    def measured_ns(self) -> int:
        """Return the measured length of the sample, in ns."""
        return self.ended_ns - self.begun_ns

    @cached_property
    def simulated_ns(self) -> int | None:
        """Return the simulated length of the sample without a change, in ns; None where it cannot be simulated."""
        return None if self.failure else self.length()

    @cached_property
    def fastest(self) -> tuple[float, dict[int, float]]:
        """Return how long kernels, and the work of each thread, take at their fastest pace, relative to the sample."""
        paces = find_paces(self.context, self.window, self.sample)
        return kernel_factors(self.context, self.window, self.sample)[0], {
            thread: 1 / pace.slowdown for thread, pace in paces.items()
        }

    @property
    def error_share(self) -> float | None:
        """Return the error of the simulation as a share of the measured time; None where there is no simulation."""
        if self.simulated_ns is None or self.measured_ns <= 0:
            return None
        return (self.simulated_ns - self.measured_ns) / self.measured_ns

    @cached_property
    def of_window(self) -> float:
        """Return the factor from simulated time to time of the window: by it, all simulated time is at most all of it.

        The steps of the sample may be shorter than those of the window, or longer, as the pace of the machine changes.
        Steps much longer than the typical one do something else, and may not be in the sample.
        """
        steps = self.context.steps
        own = (each.length_ns for each in steps.windows_of(self.window).values())
        whole = max(own, default=self.window.length_ns)
        pace, each = 1.0, [steps.measured_inside(part) for part in (self.window, self.sample)]
        if self.steps and all(map(len, each)):
            lengths = [array(some, "end") - array(some, "start") for some in each]
            usual = SAME_WORK * np.median(lengths[0])
            of_window, of_sample = (float(np.minimum(some, usual).mean()) for some in lengths)
            pace = of_window / of_sample
        return min(self.scale * pace, whole / max(self.simulated_ns or 0, 1))

    @property
    def predicts(self) -> bool:
        """Return whether the simulated length is close enough to the measured one to predict savings."""
        return self.error_share is not None and abs(self.error_share) <= TOLERANCE

    def length(self, *changes: Change) -> int:
        """Return the simulated length of the sample with some changes, in ns; their order does not matter."""
        return self._outcome(frozenset(changes))[0]

    def paces(self, *changes: Change) -> Times:
        """Return the time from step to step of the sample with some changes, in ns.

        A step counts as done when all that was launched until then is: a host that runs ahead of its GPU makes some
        steps short, and waits in others.
        """
        return self._outcome(frozenset(changes))[1]

    @memo
    def _outcome(self, changes: frozenset[Change]) -> tuple[int, Times]:
        """Return the length and the paces with some changes; findings and the plan need those of the same ones."""
        happened = self.graph.run(*changes) if changes else self._as_it_was
        if changes and (faster := self.without_waits(happened)) is not None:
            happened = self.graph.run(*changes, faster)
        done: Times = np.maximum.accumulate(happened)[self._last_of_steps]
        return max(self.length_of(happened), *(each.least_ns for each in changes), 0), np.diff(done)

    @cached_property
    def _last_of_steps(self) -> Indices:
        """Return the last node before each measured step of the sample, of the first process that has any."""
        steps = self.context.steps.in_all(self.sample)
        begun = array(steps, "start")[array(steps, "process") == array(steps, "process")[:1]]
        hosts = np.flatnonzero(self.graph.thread)
        after = np.append(hosts, len(self.graph.thread))
        last: Indices = after[np.searchsorted(self.graph.moment[hosts], begun, "right")] - 1
        return last

    def without_waits(self, happened: Times) -> Change | None:
        """Return how much faster kernels are, because collectives beside them wait for a shorter time than as it was.

        Args:
            happened: When each node of the graph happens after some changes.

        Returns:
            None where no collective of several ranks waits for a shorter time.
        """
        parts, arrives, ends = self._parts
        if not len(parts):
            return None
        now, before = ((each[self.graph.after[ends]] - each[arrives]) for each in (happened, self._as_it_was))
        gone = 1 - now / np.maximum(before, 1)
        shorter = (now < before) & (before > 0)
        if not shorter.any():
            return None
        return without_waits(self.context, self.collectives, parts[shorter], gone[shorter])

    @cached_property
    def _as_it_was(self) -> Times:
        return self.graph.run()

    @cached_property
    def _parts(self) -> tuple[Indices, Indices, Indices]:
        """Return the collectives that tie ranks together: their indices, and the nodes where each arrives and ends."""
        nodes = np.flatnonzero(np.isin(self.graph.operation, self.collectives.row))
        nodes = nodes[np.argsort(self.graph.operation[nodes], kind="stable")]
        rows = self.graph.operation[nodes]
        first = np.flatnonzero(rows[1:] == rows[:-1])
        return np.searchsorted(self.collectives.row, rows[first]), nodes[first], nodes[first + 1]

    def length_of(self, happened: Times) -> int:
        """Return the length of the sample from when each node of the graph happens, in ns."""
        return max(int(happened[self.graph.is_end].max(initial=0)) - self.begun_ns, 0)

    @memo
    def at_pace(self, factor: float) -> Change:
        """Return the change "all work of the host takes so many times as long"; waits do not."""
        graph, waited = self.graph, np.zeros(len(self.graph.own), np.int64)
        for thread in self.threads:
            mine = np.flatnonzero(graph.thread == thread)
            waited[mine] = covered(self.states.waits(thread), graph.work_start[mine], graph.work_end[mine])
        return Change(pace_factor=factor, waited=waited)

    def saving(self, change: Change) -> int | None:
        """Return how many ns of the window a change saves; None where the simulation cannot predict."""
        if not self.predicts or self.simulated_ns is None:
            return None
        return round((self.simulated_ns - self.length(change)) * self.scale)


def find_simulation(
    context: TraceContext, states: ThreadStates, window: Window, collectives: Collectives
) -> Simulation:
    """Return the simulation of a window, or of the part of it that can be simulated quickly."""
    return simulated_part(context, states, window, collectives, MOST_OPERATIONS)


def simulated_part(
    context: TraceContext, states: ThreadStates, window: Window, collectives: Collectives, most: int
) -> Simulation:
    """Return the simulation of a window, or of a part of it with at most so many operations."""
    operations = context.operations
    # When each operation was launched; when it began where no call is known.
    known = operations.call >= 0
    launched: Times = operations.start.copy()
    launched[known] = array(context.trace[tables.CALLS], "start")[operations.call[known]]
    chosen = choose_sample(launched, context.steps, window, most)
    sample = chosen.window
    # No call launches a migration. Its delay of a kernel or of the host stays as measured.
    by_host = ~operations.migration
    inside = np.flatnonzero((launched >= sample.start_ns) & (launched < sample.end_ns) & by_host)
    backlog = np.flatnonzero((launched < sample.start_ns) & (operations.end > sample.start_ns) & by_host)
    if failure := _failure(context, inside, sample):
        return Simulation(
            context, window, states, EMPTY, sample, chosen.steps, 0, sample.length_ns, chosen.scale, failure=failure
        )
    ends = context.steps.ends_ahead(sample) if chosen.steps else {}
    for process, end in ends.items():
        inside = inside[(operations.process[inside] != process) | (launched[inside] < end)]
    sources = HostSources(context.trace, operations, context.phases, states, sample, ends)
    nodes = find_host(sources, inside)
    queued = queue_operations(context.trace, operations, nodes, inside, backlog)
    recorded = find_recorded(context.trace, operations, nodes, queued, launched)
    holds = find_holds(context.trace, nodes, queued, recorded)
    starts = find_starts(queued, find_stream_waits(context.trace, operations, queued, launched))
    places = _Places(nodes, queued, starts, holds)
    graph = across_hosts(graph_of(places, sample), nodes, places.host, find_mpi_collectives(context.trace))
    graph = across_ranks(graph, collectives)
    begun = max(sample.start_ns, int(operations.end[backlog].max(initial=sample.start_ns)))
    # The operations that start before the part that is left out on their GPU.
    until = whole_until(collectives, launched, inside, sample.end_ns)
    outside = np.zeros(len(inside), bool)
    for device, end in until.items():
        outside |= (operations.device_id[inside] == device) & (operations.start[inside] >= end)
    counted = inside[~outside]
    graph = _ending_with(graph, operations, launched, inside, counted)
    last = int(nodes.moment[-1])
    ended, whole = (max(last, int(operations.end[rows].max(initial=last))) for rows in (counted, inside))
    return Simulation(
        context=context,
        window=window,
        states=states,
        graph=graph,
        sample=sample,
        steps=chosen.steps,
        begun_ns=begun - sample.start_ns,
        ended_ns=ended - sample.start_ns,
        scale=chosen.scale * (whole - begun) / max(ended - begun, 1),
        threads=tuple(tables.distinct(nodes.thread).tolist()),
        collectives=collectives,
    )


def _ending_with(
    graph: DependencyGraph, operations: Operations, launched: Times, inside: Indices, counted: Indices
) -> DependencyGraph:
    """Return the graph that ends with the counted operations, and with the host before it launched the others."""
    others = np.setdiff1d(inside, counted)
    is_end = graph.is_end & ~np.isin(graph.operation, others)
    process = tables.process_of(graph.thread)
    for each in np.unique(operations.process[others]).tolist():
        first = int(launched[others[operations.process[others] == each]].min())
        is_end &= (process != each) | (graph.work_start < first)
    return replace(graph, is_end=is_end)


def _failure(context: TraceContext, inside: Indices, sample: Window) -> str:
    """Return why a sample cannot be simulated; empty where it can."""
    trace, operations = context.trace, context.operations
    if not len(inside):
        return NO_OPERATIONS
    if unknown := int(operations.orphaned[inside].sum()):
        return UNKNOWN_LAUNCHES.format(count=unknown)
    if context.silences:
        return SILENT
    graphs = launch_rows(trace)
    start = array(trace[tables.CALLS], "start")[graphs]
    graphs = graphs[(start >= sample.start_ns) & (start < sample.end_ns)]
    return "" if np.isin(graphs, operations.call[inside]).all() else HIDDEN_GRAPHS


@dataclass(frozen=True)
class _Places:
    """The index of each node in the graph.

    The start comes first, then operations launched before the sample, then each host moment with its operations.

    Attributes:
        nodes: Moments of the host.
        queued: Operations.
        starts: What operations wait for.
        holds: What moments of the host wait for.
    """

    nodes: HostNodes
    queued: Queued
    starts: Starts
    holds: Holds

    @cached_property
    def joins(self) -> Indices:
        """Return the number of additional nodes before each moment of the host."""
        found = np.zeros(len(self.nodes.moment), np.intp)
        for node, others in self.holds.others.items():
            found[node] = len(others)
        return found

    @cached_property
    def _sizes(self) -> Indices:
        return 1 + (self.starts.other >= 0)

    @cached_property
    def _before(self) -> Indices:
        """Return the number of operation nodes before each operation."""
        return np.cumsum(self._sizes) - self._sizes

    @cached_property
    def host(self) -> Indices:
        """Return the index of each moment of the host."""
        upto = np.searchsorted(self.queued.launch, np.arange(len(self.nodes.moment)))
        operations = np.append(self._before, self._sizes.sum())[upto]
        return 1 + operations + np.cumsum(self.joins + 1) - 1

    @cached_property
    def operation(self) -> Indices:
        """Return the index of each operation."""
        moments = np.append(0, np.cumsum(self.joins + 1))[self.queued.launch + 1]
        return moments + self._before + self._sizes

    @property
    def count(self) -> int:
        """Return the number of nodes."""
        return 1 + int(self._sizes.sum()) + int((self.joins + 1).sum())


def graph_of(places: _Places, sample: Window) -> DependencyGraph:
    """Return the dependency graph of host moments and operations."""
    nodes, queued = places.nodes, places.queued
    table = {name: np.zeros(places.count, np.int64) for name in NAMES}
    table["held"][:] = FREE
    table["operation"][:] = table["call"][:] = NONE
    table["work_start"][:] = table["work_end"][:] = table["moment"][:] = sample.start_ns
    _add_host(table, places, sample)
    _add_joins(table, places)
    _add_operations(table, places, sample)
    is_batch, is_end = np.zeros((2, places.count), bool)
    is_batch[places.host[nodes.kind == host.BATCH]] = True
    is_end[places.host] = True
    is_end[places.operation[queued.launch >= 0]] = True
    return DependencyGraph(**table, is_batch=is_batch, is_end=is_end)


def _add_host(table: dict[str, Times], places: _Places, sample: Window) -> None:
    """Fill in the moments of the host."""
    nodes, holds, at = places.nodes, places.holds, places.host
    follows = nodes.after >= 0
    since = np.where(follows, nodes.moment[nodes.after], sample.start_ns)
    table["after"][at] = np.where(follows, at[nodes.after], 0)
    table["own"][at] = np.maximum(holds.busy_until - since, 0)
    table["work_start"][at], table["work_end"][at] = since, np.maximum(holds.busy_until, since)
    table["thread"][at], table["moment"][at] = nodes.thread, nodes.moment
    waits = holds.by >= 0
    table["held_by"][at[waits]] = places.operation[holds.by[waits]]
    table["held"][at[waits]] = holds.delay[waits]
    calls = waits & ((nodes.kind == host.WAIT) | (nodes.kind == host.RETURN))
    table["call"][at[calls]] = nodes.call[calls]
    for thread in tables.distinct(nodes.thread[nodes.kind == host.BATCH]):
        mine = np.flatnonzero((nodes.kind == host.BATCH) & (nodes.thread == thread))
        table["held_by"][at[mine]] = np.append(0, at[mine[:-1]])
        table["held"][at[mine]] = np.diff(nodes.moment[mine], prepend=sample.start_ns)


def _add_joins(table: dict[str, Times], places: _Places) -> None:
    """Fill in the additional nodes before a moment that waits for several operations; each waits for one of them."""
    for node, others in places.holds.others.items():
        place = places.host[node]
        for number, other in enumerate(others):
            join = place - len(others) + number
            table["after"][join] = table["held_by"][place]
            table["held_by"][join], table["held"][join] = places.operation[other], 0
            table["held_by"][place] = join


def _add_operations(table: dict[str, Times], places: _Places, sample: Window) -> None:
    """Fill in the operations; of those launched before the sample only the end matters."""
    queued, starts, at = places.queued, places.starts, places.operation
    length = queued.end - queued.start
    inside = queued.launch >= 0
    table["operation"][at[inside]], table["length"][at[inside]] = queued.row[inside], length[inside]
    launch = np.where(inside, places.host[queued.launch], 0)
    own = np.where(inside, starts.latency + length, queued.end - sample.start_ns)
    table["after"][at], table["own"][at] = launch, own
    follows = inside & (queued.before >= 0)
    table["held_by"][at[follows]] = at[queued.before[follows]]
    table["held"][at[follows]] = (starts.gap + length)[follows]
    waits = np.flatnonzero(starts.other >= 0)
    ready = at[waits] - 1
    table["after"][ready], table["own"][ready] = launch[waits], starts.latency[waits]
    table["held_by"][ready], table["held"][ready] = at[starts.other[waits]], starts.other_gap[waits]
    table["after"][at[waits]], table["own"][at[waits]] = ready, length[waits]
