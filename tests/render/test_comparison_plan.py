"""What the plan of base promised against what came."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import paired_reports as pairs
import pytest
from paired_reports import MS

from nsyswrap.base.interval import between
from nsyswrap.compare.comparison import Comparison
from nsyswrap.compare.reports import compare_reports
from nsyswrap.model import Finding, Plan, PlannedChange, Report, Severity, StepTimes
from nsyswrap.render import documents
from nsyswrap.render.comparison_document import document
from nsyswrap.render.document import Table
from nsyswrap.render.drawings import Picture

WAIT, OFF = "idle/data_wait", "tensor_cores/not_used"
PLAN = Plan(
    10 * MS, changes=(PlannedChange(WAIT, between(4 * MS, 5 * MS)), PlannedChange(OFF, between(2 * MS, 3 * MS)))
)
STEPS = 60


def report(step_ms: float, *rules: str) -> Report:
    """Return a report of 60 steps with findings of some rules; each loses 2 ms a step."""
    whole = pairs.report(pairs.lengths(step_ms, STEPS, spread=0.0))
    lost = 2 * STEPS * MS
    found = tuple(
        Finding(rule, Severity.WARNING, "", lost, between(lost, lost), "", (), 0, whole.window) for rule in rules
    )
    plain = replace(pairs.with_attribution(whole), findings=found, plan=PLAN)
    return replace(plain, step=StepTimes(STEPS, round(step_ms * MS)))


def compared(step_ms: float, *rules: str) -> Comparison:
    """Return the comparison of a run of 10 ms a step with the next one."""
    return compare_reports([report(10.0, WAIT, OFF)], [report(step_ms, *rules)], ("before", "after"))


def columns(comparison: Comparison) -> dict[str, list[Any]]:
    """Return the columns of the plan's table by their headings; texts where a column has them."""
    section = next(one for one in document(comparison).sections if one.key == "plan")
    table = next(one for one in section.blocks if isinstance(one, Table))
    return {one.label: list(one.cells or one.raw) for one in table.columns}


def widths(pictures: Sequence[Picture]) -> list[tuple[str, ...]]:
    """Return the width of the parts of each bar."""
    return [tuple(one.attributes["width"] for one in picture.shapes) for picture in pictures]


def test_each_promise_has_its_time_and_the_measured_steps_are_around_them() -> None:
    found = columns(compared(4.5, OFF))
    assert found["step"] == ["base", "data loader wait", "matrix work without tensor cores", "new"]
    assert found["change"] == ["", "made", "not made", ""]
    assert found["time"] == ["10.0 ms", "4.00 to 5.00 ms promised", "2.00 to 3.00 ms promised", "4.50 ms"]
    drawn = [("100.00%", "100.00%"), ("50.00%", "40.00%"), ("30.00%", "20.00%"), ("45.00%", "45.00%")]
    assert widths(found["as a bar"]) == drawn
    # Words of any length follow the bar, so that they do not push it beyond the edge.
    assert list(found)[:4] == ["step", "change", "time", "as a bar"]


def test_the_longest_step_fills_the_bar() -> None:
    """A run that got slower is the longest bar, so that no bar leaves its cell."""
    bars = widths(columns(compared(20.0, WAIT, OFF))["as a bar"])
    assert [bar[0] for bar in bars] == ["50.00%", "25.00%", "15.00%", "100.00%"]


@pytest.mark.parametrize("form", ["html", "text", "markdown"])
def test_every_form_says_what_the_plan_predicted_and_a_run_without_a_plan_has_none(form: str) -> None:
    shown = " ".join(documents.render("comparison", form, compared(4.5, OFF)).split())
    assert "The plan predicted a mean step of 4.00 to 5.00 ms; it takes 4.50 ms: as predicted." in shown
    plain = pairs.report(pairs.lengths(1.0))
    without = documents.render("comparison", form, compare_reports([plain], [plain], ("a", "b")))
    assert "The plan predicted" not in without
