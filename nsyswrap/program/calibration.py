"""The calibration: how much of the profiler's cost to take out of the recorded run, so that its step is the step alone.

What nsys adds to a call is known as a range. How much of it applies is one number, the extent, which is solved: the
typical step of the simulation without the cost is to be as long as a step was without nsys. The step gets shorter as
the extent grows::

    step   ----.
                '----.             step alone, with its error
          .............'----.......................
                             '------ kernels set the pace here: the step stays as it is
    extent  RECORDED   LEAST      MOST    FASTEST

All extents whose step lies in the error of the step alone are admissible, and the middle of them is taken: where the
kernels set the pace, the step does not tell the extent, and all of them are carried on. Where no cost that was measured
fits, the pace of the machine has changed: its bounds come next. What is left then scales all times alike.

The wait for data depends on other processes and on disks, and not on what nsys adds to a call. Where the marks show it,
it is taken out of the steps for that, and then gets its own factor::

    step alone  |data|......other work......|          other work    by the extent
    recorded    |...data...|...other work...|          data          by its factor

The ranks of a job share the machine and wait for each other. So there is one extent, for which the steps of each rank
are compared with its own steps alone. Where a rank waits for a shorter time alone, its kernels beside the wait take
less time, too: the extent is found once more with these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, sqrt

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.interval import NINE_OF_TEN, Interval, around
from nsyswrap.base.intervals import Indices, Spans, Times, Window, covered, merge
from nsyswrap.base.memo import memo
from nsyswrap.events.operations import COMPUTE
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.hardware.steps_alone import ProcessSteps
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.model import AloneSource
from nsyswrap.ranks.identity import find_ranks
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.dependency_graph import NO_CHANGE, Change
from nsyswrap.what_if.fixed_step import RUNS_DIFFER, WIDEST_FACTOR
from nsyswrap.what_if.machine_pace import kernel_factors
from nsyswrap.what_if.simulate import Simulation
from nsyswrap.what_if.simulated_steps import processes_of_steps, simulated_steps, typical_steps, until_next
from nsyswrap.what_if.without_profiler import (
    FASTEST,
    LEAST,
    MOST,
    SLOWEST,
    USUAL,
    Extents,
    find_extents,
    without_profiler,
)

# Fewer steps alone do not show a typical one. Source: ours, as the fewest steps of a report without a caution.
FEWEST_STEPS = 5
# Before the recording begins, the host's work takes so many times as long if nsys is to record calls of the operating
# system: they go through it then, too. It holds where the machine was not measured. Source: docs/overhead.md, the mean
# of nine programs on one machine.
ARMED = 1.08
# A pace that explains less of what is missing does not explain it. Source: ours.
EXPLAINED = 0.5
# The error of means of 5 to 10 batches is hardly less than that of more, and each stays long. Source: Schmeiser, "Batch
# size effects in the analysis of simulation output", Operations Research 30, 1982: 10 to 30, fewer for short runs.
BLOCKS = 5
# Nine of ten cases lie within so many standard errors of a mean of five. Source: Student's t, 4 degrees of freedom.
OF_FIVE = 2.132
# A wait for data that is a smaller share of a step is a part of its other work. Source: ours.
DATA_SHARE = 0.02
# Data may take so many times as long alone, or as short.
MOST_FACTOR = 16.0
# An extent is found to a thousandth of the whole range.
HALVINGS = 10


def median_of(lengths: Times, *, of_another_run: bool = True) -> Interval[float]:
    """Return the median step, and the range of the median of another run of as many steps, or its own error, in ns.

    Of N steps, the number shorter than the true median has a standard deviation of half the root of N, and two runs
    differ by the root of two times as much. Source: the binomial distribution. It takes no shape of their lengths for
    granted, but assumes independent steps. The pace of a machine changes for many steps at once, and for as long as a
    whole run: another run lies where another block of steps could. Source: the method of batch means, and the
    prediction interval of one more batch.

    Args:
        lengths: The steps in their order, in ns.
        of_another_run: Whether the range is that of another run.
    """
    share = 0.5 + NINE_OF_TEN * np.sqrt((1 + of_another_run) / len(lengths)) / 2
    low, point, high = np.quantile(lengths, [max(1 - share, 0.0), 0.5, min(share, 1.0)]).tolist()
    blocks = [float(np.median(each)) for each in np.array_split(lengths, BLOCKS)] if len(lengths) >= 2 * BLOCKS else []
    drift = OF_FIVE * np.sqrt(of_another_run + 1 / BLOCKS) * float(np.std(blocks, ddof=1)) if blocks else 0.0
    return Interval(min(low, max(point - drift, 0.0)), point, max(high, point + drift))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The recorded run as the program runs alone.

    Attributes:
        simulation: The run as it was.
        extents: The run with more and more of the profiler's cost taken out.
        extent: How much of it is; the ends are those that are admissible.
        step: The typical step alone, in ns; None where the run has no steps.
        source: What the step comes from.
        scale: Factor for all times after that: 1 where the extent explains the step alone.
        data_factor: Factor for the wait for data, and the pace of its loader.
        count: Number of steps that were timed alone; 0 for none.
        faster: The kernels that are faster, since collectives beside them wait for a shorter time.
    """

    simulation: Simulation
    extents: Extents
    extent: Interval[float]
    step: Interval[int] | None
    source: AloneSource
    scale: float = 1.0
    count: int = 0
    data_factor: float = 1.0
    faster: Change = NO_CHANGE

    def applied(self, simulation: Simulation, calls: RecordedCalls, window: Window) -> "Calibration":
        """Return the same calibration of a larger sample of the run.

        Args:
            simulation: The larger sample.
            calls: The recorded calls of its threads, with their cost.
            window: The window that it is a part of.
        """
        model = _Model(simulation, calls, window, self.data_factor)
        larger = replace(self, simulation=simulation, extents=model.extents, faster=NO_CHANGE)
        return larger if self.faster is NO_CHANGE else replace(larger, faster=larger.without_waits() or NO_CHANGE)

    def without_waits(self) -> Change | None:
        """Return the kernels that are faster in the program, since collectives beside them wait for a shorter time."""
        return self.simulation.without_waits(self.extents.run(self.simulation, self.extent.point, self.faster))

    @property
    def is_known_well(self) -> bool:
        """Return whether the range of the step says something."""
        return self.step is None or self.step.high <= WIDEST_FACTOR * self.step.low

    @cached_property
    def happened(self) -> Times:
        """Return when each node of the graph happens in the program, in ns since the start of the sample."""
        moments = self.extents.run(self.simulation, self.extent.point, self.faster)
        scaled: Times = np.rint(moments * self.scale).astype(np.int64)
        return scaled

    @cached_property
    def length(self) -> Times:
        """Return the length of the operation that ends with each node in the program, in ns; 0 for none."""
        graph = self.simulation.graph
        scaled: Times = np.rint(graph.length * graph.factors(self.faster) * self.scale).astype(np.int64)
        return scaled

    @cached_property
    def own(self) -> Times:
        """Return the host's own work in each node in the program, in ns."""
        scaled: Times = np.rint(self.extents.host_work(self.extent.point) * self.scale).astype(np.int64)
        return scaled


def find_calibration(simulation: Simulation, calls: RecordedCalls, window: Window) -> Calibration | None:
    """Return the recorded run as the program runs alone.

    None where the simulation does not reproduce the run, or neither the cost of a call nor a step alone is known.

    Args:
        simulation: The run as it was.
        calls: The recorded calls of its threads, with their cost.
        window: The window that was simulated.
    """
    if not simulation.predicts or not simulation.simulated_ns:
        return None
    model, measured = _Model(simulation, calls, window), measured_alone(simulation.context, window)
    if measured is not None and model.has_steps:
        fitted = _fitted(model, measured)
        faster = fitted.without_waits()
        return fitted if faster is None else replace(_fitted(replace(model, faster=faster), measured), faster=faster)
    if (prior := without_profiler(simulation, calls, window)) is None:
        return None
    recorded = median_of(model.lengths, of_another_run=False) if len(model.lengths) else None
    step = None
    if recorded is not None:
        low, point, high = prior.step.in_order
        step = around(round(recorded.point * point), round(recorded.point * low), round(recorded.high * high))
        step = around(step.point, *(round(step.point * (1 + each)) for each in (-RUNS_DIFFER, RUNS_DIFFER)), *step.ends)
    return Calibration(simulation, model.extents, Interval(LEAST, USUAL, FASTEST), step, "simulated")


def _fitted(model: "_Model", measured: "TimedStep") -> Calibration:
    """Return the run whose step is the step alone.

    Args:
        model: The simulated steps.
        measured: The step alone.
    """
    armed = model.pace_while_timed(measured.source)
    if measured.without_data is None or not model.has_data:
        extent = _extent(model, measured.share, armed)
    else:
        others = replace(model, is_without_data=True)
        extent = _extent(others, measured.without_data, armed)
        # What the extent does not explain of the other work scales all times.
        scale = measured.without_data.point / others.share(extent.point, pace=armed)
        model = _with_data(model, extent.point, measured.share.point / scale, armed)
    timed, alone = model.share(extent.point, pace=armed), model.share(extent.point)
    step = model.in_another_run(measured.step.map(lambda each: round(each * alone / timed)), extent.point)
    return Calibration(
        simulation=model.simulation,
        extents=model.extents,
        extent=extent,
        step=step,
        source=measured.source,
        scale=measured.share.point / timed,
        count=measured.count,
        data_factor=model.data_factor,
    )


def _extent(model: "_Model", share: Interval[float], armed: float) -> Interval[float]:
    """Return the extent at which a step is as long as alone; the ends are those that are admissible.

    Args:
        model: The simulated steps.
        share: The step alone as a share of the recorded one.
        armed: How many times as long the host's work took while it was timed.
    """
    found = _admissible(model, share, armed)
    low, high = (min(max(each, LEAST), MOST) for each in found)
    if found[0] > MOST or found[1] < LEAST:
        # The costs that were measured come first. Another pace of the host comes where the step allows none of them.
        nearest, at_any_pace = model.share(low, pace=armed), _crossing(model, share.point, 1.0, armed)
        missing = abs(share.point - nearest)
        if abs(share.point - model.share(at_any_pace, pace=armed)) <= EXPLAINED * missing:
            low, high = found
        else:
            # The kernels set the pace, and took longer or shorter. A step that is as near as what is missing may be it.
            near = _admissible(model, around(nearest, nearest - missing, nearest + missing), armed)
            low, high = (min(max(each, LEAST), MOST) for each in near)
    return Interval(low, (low + high) / 2, high)


def _admissible(model: "_Model", share: Interval[float], armed: float) -> tuple[float, float]:
    """Return the first and the last extent at which a step is as long as alone, or comes nearest."""
    fastest, slowest = model.kernels
    first = _crossing(model, share.high, fastest, armed)
    return first, max(_crossing(model, share.low, slowest, armed), first)


def _with_data(model: "_Model", extent: float, wanted: float, armed: float) -> "_Model":
    """Return the simulated steps with the wait for data that makes a step as long as alone."""
    low, high = 1 / MOST_FACTOR, MOST_FACTOR
    for _ in range(HALVINGS):
        middle = sqrt(low * high)
        is_longer = replace(model, data_factor=middle).share(extent, pace=armed) > wanted
        low, high = (low, middle) if is_longer else (middle, high)
    return replace(model, data_factor=sqrt(low * high))


def _crossing(model: "_Model", wanted: float, kernels: float, armed: float) -> float:
    """Return the extent at which a step, which gets shorter from the slowest pace to the fastest, comes nearest.

    Args:
        model: The simulated steps.
        wanted: The step as a share of the recorded one.
        kernels: How many times as long kernels take.
        armed: How many times as long the host's work takes.
    """
    low, high = float(SLOWEST), float(FASTEST)
    if model.share(low, kernels, armed) <= wanted:
        return low
    if model.share(high, kernels, armed) > wanted:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if model.share(middle, kernels, armed) > wanted else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, eq=False)
class _Model:
    """The typical steps of a sample in simulations.

    Attributes:
        simulation: The run as it was.
        calls: The recorded calls of its threads, with their cost.
        window: The window that was simulated.
        data_factor: Factor for the wait for data.
        is_without_data: Whether that wait is left out of the steps.
        faster: Kernels that are faster without the profiler, since collectives beside them wait for a shorter time.
    """

    simulation: Simulation
    calls: RecordedCalls
    window: Window
    data_factor: float = 1.0
    is_without_data: bool = False
    faster: Change = NO_CHANGE

    @cached_property
    def extents(self) -> Extents:
        """Return the run with more and more of the profiler's cost taken out."""
        found = find_extents(self.simulation, self.calls, self.window)
        return found if self.data_factor == 1 else found.with_data(self._share_of_data, self.data_factor)

    @cached_property
    def _data(self) -> dict[int, Spans]:
        """Return when each thread waits for data, as the marks show it."""
        context = self.simulation.context
        return {thread: data_of(context, thread) for thread in self.simulation.threads}

    @cached_property
    def _share_of_data(self) -> npt.NDArray[np.float64]:
        """Return the share of each node's work in which data is loaded, or waited for."""
        graph, found = self.simulation.graph, np.zeros(len(self.simulation.graph.own))
        for thread, spans in self._data.items():
            mine = np.flatnonzero((graph.thread == thread) & (graph.work_end > graph.work_start))
            start, end = graph.work_start[mine], graph.work_end[mine]
            found[mine] = covered(spans, start, end) / (end - start)
        return found

    @property
    def has_data(self) -> bool:
        """Return whether the marks show a wait for data in the sample."""
        return bool(self._share_of_data.any()) or bool(self.simulation.graph.is_batch.any())

    @cached_property
    def kernels(self) -> tuple[float, float]:
        """Return how long kernels take in the fastest and in the slowest steps, relative to the sample."""
        return kernel_factors(self.simulation.context, self.window, self.simulation.sample)

    @cached_property
    def lengths(self) -> Times:
        """Return the recorded lengths of the measured steps of the window, in ns."""
        return periods(self.simulation.context.steps.measured_inside(self.window))

    @cached_property
    def _rows(self) -> list[Indices]:
        """Return the typical steps of the sample, by process."""
        typical, process = typical_steps(self.simulation, self.window), processes_of_steps(self.simulation)
        mine = [np.flatnonzero(process == each) for each in tables.distinct(process).tolist()]
        return [chosen if len(chosen := np.intersect1d(rows, typical)) else rows for rows in mine]

    @property
    def has_steps(self) -> bool:
        """Return whether the sample has measured steps."""
        return bool(self._rows)

    @memo
    def _steps(self, extent: float, factor: float, pace: float, *, others: bool) -> npt.NDArray[np.float64]:
        """Return the typical step of each process at an extent, with kernels and work so many times as long, in ns."""
        kernels = np.flatnonzero(self.simulation.context.operations.kind == COMPUTE)
        slower = [Change(operations=kernels, factor=factor)] if factor != 1 else []
        if pace != 1:
            slower.append(Change(pace_factor=pace) if others else self.simulation.at_pace(pace))
        happened = self.extents.run(self.simulation, extent, self.faster, *slower)
        lengths = simulated_steps(self.simulation, happened, whole=True, without=self._left_out)
        return np.array([np.median(lengths[rows]) for rows in self._rows])

    @property
    def _left_out(self) -> dict[int, Spans]:
        return self._data if self.is_without_data else {}

    @cached_property
    def _as_recorded(self) -> npt.NDArray[np.float64]:
        happened = self.simulation.graph.run()
        lengths = simulated_steps(self.simulation, happened, whole=True, without=self._left_out)
        return np.array([np.median(lengths[rows]) for rows in self._rows])

    def share(self, extent: float, factor: float = 1.0, pace: float = 1.0, *, others: bool = False) -> float:
        """Return the typical step at an extent as a share of the recorded one: the mean over processes.

        Args:
            extent: The extent.
            factor: How many times as long kernels take.
            pace: How many times as long the host's work takes.
            others: Whether waits in the operating system take longer, too: for the work of other processes.
        """
        return float(np.mean(self._steps(extent, factor, pace, others=others) / self._as_recorded))

    def pace_while_timed(self, source: AloneSource) -> float:
        """Return how many times as long the host's work took while the steps alone were timed."""
        if source != "this_process":
            return 1.0
        if self.calls.cost is not None and self.calls.cost.armed is not None:
            return self.calls.cost.armed
        return ARMED if tables.OS_CALLS.name not in self.simulation.context.trace.absent else 1.0

    def in_another_run(self, step: Interval[int], extent: float) -> Interval[int]:
        """Return a step with the range that it has in another run, in which the machine may have another pace.

        Args:
            step: The step, in ns.
            extent: The extent at which it is simulated.
        """
        pace = 1.0 if self.calls.cost is None else self.calls.cost.pace_of_runs
        now = self.share(extent)
        slower, faster = (abs(self.share(extent, pace=each, others=True) / now - 1) for each in (pace, 1 / pace))
        ends = step.point * (1 - hypot(faster, RUNS_DIFFER)), step.point * (1 + hypot(slower, RUNS_DIFFER))
        return around(step.point, *map(round, ends), *step.ends)


@dataclass(frozen=True, slots=True)
class TimedStep:
    """The typical step that was timed alone.

    Attributes:
        share: The step alone as a share of the recorded one.
        step: Its length in ns.
        source: Where it was timed.
        count: Number of steps.
        without_data: The share without the wait for data; None where that is not known, or hardly a part of a step.
    """

    share: Interval[float]
    step: Interval[int]
    source: AloneSource
    count: int
    without_data: Interval[float] | None = None


def measured_alone(context: TraceContext, window: Window) -> TimedStep | None:
    """Return the typical step that was timed alone: the mean over processes; None where it is unknown.

    Args:
        context: The recording.
        window: The window of the report.
    """
    alone, steps = context.settings.steps_alone, context.steps.measured_inside(window)
    if not len(steps) or not alone.processes:
        return None
    ranks = find_ranks(context.trace, context.operations, context.settings.launched_as)
    number = {each.process: each.number for each in ranks.each}
    process, medians, counts = array(steps, "process"), [], []
    shares: list[npt.NDArray[np.float64]] = []
    others: list[npt.NDArray[np.float64] | None] = []
    for each in tables.distinct(process).tolist():
        mine = steps[process == each]
        recorded = float(np.median(periods(mine)))
        timed = alone.of(tables.pid(each), number.get(each))
        counts.append(min(len(one.lengths) for one in timed))
        if counts[-1] < FEWEST_STEPS or recorded <= 0:
            return None
        shares.append(_own_median([one.lengths for one in timed]) / recorded)
        others.append(_without_data(context, mine, timed))
        medians.append(np.mean([median_of(one.lengths).in_order for one in timed], axis=0))
    low, point, high = np.mean(medians, axis=0).tolist()
    step = around(
        *(round(each) for each in (point, low, high, *(point * (1 + sign * RUNS_DIFFER) for sign in (-1, 1))))
    )
    source: AloneSource = "second_run" if alone.in_second_run else "this_process"
    known = [each for each in others if each is not None]
    without_data = Interval(*np.mean(known, axis=0).tolist()) if len(known) == len(others) else None
    return TimedStep(Interval(*np.mean(shares, axis=0).tolist()), step, source, min(counts), without_data)


def _own_median(lengths: Sequence[Times]) -> npt.NDArray[np.float64]:
    """Return the median of some steps with its own error, the mean over processes, in ns: low, point and high."""
    found: npt.NDArray[np.float64] = np.mean(
        [median_of(each, of_another_run=False).in_order for each in lengths], axis=0
    )
    return found


def _without_data(
    context: TraceContext, steps: pd.DataFrame, timed: Sequence[ProcessSteps]
) -> npt.NDArray[np.float64] | None:
    """Return the step alone without its wait for data as a share of the recorded one; None where that is not known.

    Args:
        context: The recording.
        steps: The recorded steps of a process.
        timed: Its steps alone.
    """
    length, start = periods(steps), array(steps, "start")
    waited = covered(data_of(context, int(array(steps, "thread")[0])), start, start + length)
    left = [one.lengths - one.data for one in timed if one.data is not None]
    alone = [float(np.median(one.data / one.lengths)) for one in timed if one.data is not None]
    if len(left) < len(timed) or min(*alone, float(np.median(waited / length))) < DATA_SHARE:
        return None
    recorded = float(np.median(length - waited))
    return _own_median([np.maximum(each, 0) for each in left]) / recorded if recorded > 0 else None


@memo
def data_of(context: TraceContext, thread: int) -> Spans:
    """Return when a thread waits for data, as the marks of nsyswrap show it."""
    ranges = context.trace[tables.RANGES]
    mine = (ranges["domain"] == tables.OWN_DOMAIN) & (ranges["text"] == DATA) & (ranges["thread"] == thread)
    return merge(array(ranges, "start")[mine], array(ranges, "end")[mine])


def periods(steps: pd.DataFrame) -> Times:
    """Return the times from the start of each step of a process to the start of the next, in ns; of all processes.

    Args:
        steps: Steps, by process and start. The last one of a process lasts until its own end.
    """
    process, start, end = (array(steps, name) for name in ("process", "start", "end"))
    found = [until_next(start[process == each], end[process == each]) for each in tables.distinct(process).tolist()]
    begun = [start[process == each] for each in tables.distinct(process).tolist()]
    lengths: Times = np.concatenate([np.empty(0, np.int64), *found]) - np.concatenate([np.empty(0, np.int64), *begun])
    return lengths
