"""The program as it runs alone: the calibrated run where there is one, else the recording."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.loop.context import TraceContext, find_states
from nsyswrap.model import AloneSource, Finding, Severity, StepTimes
from nsyswrap.program.calibration import Calibration, find_calibration, measured_alone, periods
from nsyswrap.program.timeline import calibrated_context
from nsyswrap.rules.idle import CPU, LAUNCH
from nsyswrap.rules.synchronization import IN_STEP
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.machine_pace import FEWEST_STEPS
from nsyswrap.what_if.sample import MOST_OPERATIONS as SAMPLED
from nsyswrap.what_if.simulate import Simulation, find_simulation, simulated_part

# The mean step of a part of the recording is that of the steps alone if it differs by less. Source: ours, a third of
# what two runs differ by.
SAME_MEAN = 0.01
# Idle time that ends with a launch of a host without a lead. The range of a step is mostly about the host's pace.
OF_PACE = frozenset({CPU.key, LAUNCH.key, IN_STEP.key})
# The program has at most so many operations of the recording. Source: ours; twenty steps of 1,500 launches.
MOST_OPERATIONS = 30_000


@dataclass(frozen=True, eq=False)
class ProgramAlone:
    """The program as it runs alone.

    Attributes:
        context: Its trace, its events and its loop.
        window: Its window, which is a part of that of the recording.
        calibration: How it follows from the recording; None where it is the recording itself.
        step: The typical step alone, in ns; None where it is not known.
        source: What the step comes from.
        parts: How many such windows the steps of the recording's window make up.
        simulation: The program, simulated; None where it is the recording.
    """

    context: TraceContext
    window: Window
    calibration: Calibration | None = None
    step: Interval[int] | None = None
    source: AloneSource | None = None
    parts: float = 1.0
    simulation: Simulation | None = None

    @property
    def is_recording(self) -> bool:
        """Return whether it is the recording itself."""
        return self.calibration is None

    def values(self) -> dict[str, object]:
        """Return what sections about the program are made of, as far as it is known."""
        known: dict[str, object] = {"context": self.context, "window": self.window, "program": self}
        if self.simulation is None:
            return known
        simulation = self.simulation
        return known | {
            "simulation": simulation,
            "states": simulation.states,
            "collectives": simulation.collectives,
        }

    def whole_window(self, window: Window) -> Window:
        """Return the window of the recording with the length that it has in the program."""
        if self.is_recording:
            return window
        return replace(window, end_ns=window.start_ns + max(round(self.window.length_ns * self.parts), 1))

    def in_whole_window(self, finding: Finding, window: Window) -> Finding:
        """Return a finding on the window of the program as one on all of the recording's window.

        A warning that the GPU waits for a slow host is a note where the shortest step that may be has no such wait.
        """
        saving = None if finding.saving is None else finding.saving.map(self._of_all)
        whole = replace(finding, lost_ns=self._of_all(finding.lost_ns), saving=saving, window=self.whole_window(window))
        low, point, high = self.step.in_order if self.step else (1, 1, 1)
        is_unsure = finding.lost_ns <= (1 - low / point) * self.window.length_ns
        if not is_unsure or finding.rule not in OF_PACE or finding.severity is not Severity.WARNING:
            return whole
        why = f"a step takes {units.duration(low)} to {units.duration(high)}, and has no such wait in the shortest case"
        saving = None if saving is None else Interval(0, saving.point, saving.high)
        return replace(whole, severity=Severity.NOTE, saving=saving, evidence=(*whole.evidence, why))

    def _of_all(self, ns: int) -> int:
        return round(ns * self.parts)

    def with_times(self, step: StepTimes) -> StepTimes:
        """Return the times of the recording's steps with those of the program."""
        total = None if self.is_recording or self.step is None else self._of_all(self.context.steps.longest_ns)
        return replace(step, alone=self.step, alone_source=self.source, alone_total_ns=total)


def find_program(
    context: TraceContext, window: Window, simulation: Simulation, recorded_calls: RecordedCalls
) -> ProgramAlone:
    """Return the program as it runs alone.

    It is the recording itself where nothing tells what the profiler cost, or not well enough, or where the simulation
    does not reproduce the recorded or the calibrated run.
    """
    if (part := part_like_alone(context, window)) != window:
        simulation = simulated_part(context, simulation.states, part, simulation.collectives, SAMPLED)
        window = part
    calibration = find_calibration(simulation, recorded_calls, window)
    if calibration is None:
        measured = measured_alone(context, window)
        if measured is None:
            return ProgramAlone(context, window)
        return ProgramAlone(context, window, step=measured.step, source=measured.source)
    source = None if calibration.step is None else calibration.source
    as_recorded = ProgramAlone(context, window, step=calibration.step, source=source)
    if not calibration.is_known_well:
        return as_recorded
    if simulation.scale > 1:
        states, collectives = simulation.states, simulation.collectives
        larger = simulated_part(context, states, window, collectives, MOST_OPERATIONS)
        if larger.predicts:
            calibration = calibration.applied(larger, recorded_calls, window)
    found, collectives = calibrated_context(context, calibration)
    own = _window(found, calibration, window)
    if own is None:
        return as_recorded
    simulated = find_simulation(found, find_states(found, own), own, collectives)
    if not simulated.predicts:
        return as_recorded
    steps = found.steps.measured_count if window.is_of_steps else 0
    parts = context.steps.measured_count / steps if steps else calibration.simulation.scale
    simulated = _with_error(simulated, simulation.error_share or 0.0)
    return ProgramAlone(found, own, calibration, calibration.step, source, parts, simulated)


def part_like_alone(context: TraceContext, window: Window) -> Window:
    """Return the part of a window whose mean step is as much longer than the median as in the steps alone.

    The GPU is idle when the recording begins, and its queue fills up in the first steps. Memory that they need more of
    is allocated then. Such steps are the profiler's. It is the longest such part with at least half of the steps, else
    the nearest; the whole window where few steps were timed alone. Ranks that wait for another one run ahead of it in
    the first steps, so the rank with the longest part counts.

    Args:
        context: The recording.
        window: The window of the report.
    """
    steps = context.steps.in_all(window)
    alone = [each.lengths for each in context.settings.steps_alone.processes]
    if not window.is_of_steps or len(steps) < FEWEST_STEPS or min(map(len, alone), default=0) < FEWEST_STEPS:
        return window
    usual = float(np.mean([each.mean() / np.median(each) for each in alone]))
    processes = [steps[steps["process"] == each] for each in tables.distinct(array(steps, "process"))]
    first, last = max((_like_alone(each, usual) for each in processes), key=lambda part: part[1] - part[0])
    if (first, last) == (steps["number"].min(), steps["number"].max()):
        return window
    parts = [each[each["number"].between(first, last)] for each in processes]
    start_ns = min(int(array(each, "start")[0]) for each in parts)
    end_ns = max(int(array(each, "start")[0] + periods(each).sum()) for each in parts)
    return Window(start_ns, end_ns, f"{last - first + 1} of {window.label}", window.source)


def _like_alone(mine: pd.DataFrame, usual: float) -> tuple[int, int]:
    """Return the numbers of the first and the last step of the part of a process's steps with the usual mean.

    Args:
        mine: The steps of the process.
        usual: The mean of the steps alone divided by their median.
    """
    lengths, number = periods(mine), array(mine, "number")
    wanted = np.median(lengths) * usual
    so_far, count = np.append(0, np.cumsum(lengths)), len(lengths)
    nearest, n, first = np.inf, count, 0
    for each in range(count, count // 2, -1):
        off = np.abs((so_far[each:] - so_far[:-each]) / each / wanted - 1)
        if off.min() < nearest:
            nearest, n, first = float(off.min()), each, int(off.argmin())
        if nearest <= SAME_MEAN:
            break
    return int(number[first]), int(number[first + n - 1])


def _with_error(simulation: Simulation, error_share: float) -> Simulation:
    """Return a simulation of the program with the error of the simulation that it was made by, on which savings depend.

    Args:
        simulation: It repeats the calibrated run, which is one of the same model, nearly without an error.
        error_share: The error by which the recorded run was simulated.
    """
    length = round((simulation.simulated_ns or 0) / (1 + error_share))
    return replace(simulation, ended_ns=simulation.begun_ns + length)


def _window(context: TraceContext, calibration: Calibration, window: Window) -> Window | None:
    """Return the window of the program; None where it is empty."""
    if window.is_of_steps:
        return context.steps.measured_window()
    sample, length = calibration.simulation.sample, int(calibration.happened[calibration.simulation.graph.is_end].max())
    return replace(window, start_ns=sample.start_ns, end_ns=sample.start_ns + length) if length > 0 else None
