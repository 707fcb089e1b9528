"""What the plan of base promised against what came."""

from dataclasses import replace

import paired_reports as pairs
from paired_reports import MS

from nsyswrap.compare import Comparison, compare_reports
from nsyswrap.model import Finding, Plan, PlannedChange, Report, Severity, StepTimes
from nsyswrap.render.comparison import render
from nsyswrap.render.comparison.plan_check import plan_check

WAIT, OFF = "idle/data_wait", "tensor_cores/not_used"
PLAN = Plan(10 * MS, changes=(PlannedChange(WAIT, 4 * MS, 5 * MS), PlannedChange(OFF, 2 * MS, 3 * MS)))
STEPS = 60


def report(step_ms: float, *rules: str) -> Report:
    """Return a report of 60 steps with findings of some rules; each loses 2 ms a step."""
    whole = pairs.report(pairs.lengths(step_ms, STEPS, spread=0.0))
    lost = 2 * STEPS * MS
    found = tuple(Finding(rule, Severity.WARNING, "", lost, lost, lost, "", (), 0, whole.window) for rule in rules)
    plain = replace(pairs.with_attribution(whole), findings=found, plan=PLAN)
    return replace(plain, step=StepTimes(STEPS, round(step_ms * MS)))


def compared(step_ms: float, *rules: str) -> Comparison:
    """Return the comparison of a run of 10 ms a step with the next one."""
    return compare_reports([report(10.0, WAIT, OFF)], [report(step_ms, *rules)], ("before", "after"))


def test_each_promise_has_its_time_and_the_measured_steps_are_around_them() -> None:
    check = plan_check(compared(4.5, OFF))
    assert check is not None
    assert [(one.label, one.state, one.time, one.low, one.high) for one in check.steps] == [
        ("base", "", "10.0 ms", "100.00", "100.00"),
        ("data loader wait", "made", "4.00 to 5.00 ms", "40.00", "50.00"),
        ("matrix work without tensor cores", "not made", "2.00 to 3.00 ms", "20.00", "30.00"),
        ("new", "", "4.50 ms", "45.00", "45.00"),
    ]
    assert check.notes[-1] == "The plan predicted a median step of 4.00 to 5.00 ms; it takes 4.50 ms: as predicted."
    assert [one.is_measured for one in check.steps] == [True, False, False, True]


def test_the_longest_step_fills_the_bar() -> None:
    """A run that got slower is the longest bar, so that no bar leaves its cell."""
    check = plan_check(compared(20.0, WAIT, OFF))
    assert check is not None
    assert [one.high for one in check.steps] == ["50.00", "25.00", "15.00", "100.00"]


def test_the_page_shows_it_and_a_run_without_a_plan_has_none() -> None:
    page = render("html", compared(4.5, OFF))
    assert "promised and measured" in page
    assert "4.00 to 5.00 ms</b> promised" in page
    assert (
        plan_check(
            compare_reports([pairs.report(pairs.lengths(1.0))] * 1, [pairs.report(pairs.lengths(1.0))], ("a", "b"))
        )
        is None
    )
