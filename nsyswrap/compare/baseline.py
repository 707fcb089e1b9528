"""Adds the step time measured without nsys to the report of the same program, next to the simulated one."""

from collections.abc import Callable
from dataclasses import replace

from nsyswrap.base import units
from nsyswrap.base.intervals import Times
from nsyswrap.hardware.steps_alone import ProcessSteps, StepsAlone
from nsyswrap.loop.step_detection import Steps
from nsyswrap.model import Fact, Report
from nsyswrap.program.calibration import median_of
from nsyswrap.sections import profiler_cost
from nsyswrap.trace.tables import array

FEWEST_STEPS = 3
NO_STEPS_HINT = "mark steps with ranges of torch.cuda.nvtx or of the package nvtx, or use an optimizer of PyTorch"


def with_baseline(report: Report, alone: Steps, calibrated: Callable[[StepsAlone], Report] | None = None) -> Report:
    """Return a report whose step alone is the median step of a run without nsys.

    A step that the recorded process took alone is better, and stays.

    Args:
        report: The report of the run under nsys.
        alone: The steps of the run without it, timed by the program's own processes.
        calibrated: Returns the report of the run under nsys, calibrated to steps alone; None for the same report.
    """
    lengths = _same_steps(report, alone)
    if not report.step.recorded_ns:
        return without_baseline(report, "the report is not about steps")
    if len(lengths) < FEWEST_STEPS:
        return without_baseline(report, f"the run without nsys shows {len(lengths)} of its steps; {NO_STEPS_HINT}")
    measured, simulated = median_of(lengths).map(round), report.step.alone
    found = report
    if report.step.alone_source != "this_process":
        timed = StepsAlone((ProcessSteps(0, None, lengths),), in_second_run=True)
        found = report if calibrated is None else calibrated(timed)
        found = replace(found, step=replace(found.step, alone=measured, alone_source="second_run"))
    facts = [Fact("baseline_step_ns", measured.point, "ns")]
    if simulated is not None:
        difference = (simulated.point - measured.point) / measured.point
        facts.append(Fact("baseline_difference_share", difference, "share"))
    words = f"Measured without nsys: a step takes {units.duration(measured.point)} ({len(lengths)} steps)."
    if simulated is not None:
        where = "inside" if measured.point in simulated else "outside"
        interval = f"{units.duration(simulated.point)} ({units.duration_range(*simulated.ends)})"
        words += f" Simulated: {interval}; the measured step is {where} this interval."
    return _noted(found, tuple(facts), words)


def without_baseline(report: Report, reason: str) -> Report:
    """Return a report that says why there is no step without nsys."""
    return _noted(report, (), f"The step without nsys was not measured: {reason}.")


def _same_steps(report: Report, alone: Steps) -> Times:
    """Return the lengths of the measured steps in ns; only of those that the report measured, too, if enough."""
    measured, table = alone.measured, report.rows("steps", "steps")
    if table is not None:
        names = set(table.loc[~table["warm_up"].astype(bool), "name"].astype(str))
        common = measured[measured["name"].astype(str).isin(names)]
        measured = common if len(common) >= FEWEST_STEPS else measured
    found: Times = array(measured, "end") - array(measured, "start")
    return found


def _noted(report: Report, facts: tuple[Fact, ...], note: str) -> Report:
    """Return a report with facts and a note in the section on the profiler's own cost, which is added if missing."""
    old = report.section(profiler_cost.SECTION.key)
    base = old or profiler_cost.SECTION.made(report.window)
    new = replace(base, facts=(*base.facts, *facts), notes=(*base.notes, note))
    if old is None:
        return report.with_section(new)
    return replace(report, sections=tuple(new if each is old else each for each in report.sections))
