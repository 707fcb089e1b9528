"""The report shows what was predicted for a change beside what was measured."""

import json
from dataclasses import replace
from pathlib import Path

import hand_made
import pytest
from made_results import trial

from nsyswrap.base.errors import ExportError
from nsyswrap.base.interval import Interval
from nsyswrap.cli.inputs import with_tried
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.tried_section import planned_order, tried_section
from nsyswrap.model import Finding, Plan, PlannedChange, Report, Severity
from nsyswrap.render import json_report
from nsyswrap.render.json_reader import parse_report
from nsyswrap.render.try_document import verdict
from nsyswrap.what_if.fixed_step import typical

RULE = "optimizer/many_kernels"


def report(low: float, high: float) -> Report:
    """Return a report that predicts, for a fused AdamW, a saving between two shares of a step."""
    made = hand_made.full_report()
    step = typical(made.step, made.window)
    assert step is not None
    ends = [round(share * step.window_ns) for share in (low, (low + high) / 2, high)]
    finding = Finding(RULE, Severity.WARNING, "Many kernels.", 1, Interval(*ends), "Fuse.", (), None, made.window)
    return replace(made, findings=(finding,), plan=Plan())


@pytest.mark.parametrize(
    ("low", "high", "held"), [(0.25, 0.29, 1), (0.35, 0.4, 1), (0.351, 0.4, 0), (0.2, 0.25, 1), (0.2, 0.249, 0)]
)
def test_a_prediction_holds_within_the_ranges_and_what_two_runs_differ(low: float, high: float, held: int) -> None:
    """The fused AdamW has saved 28 to 32 % of a step; two runs differ by 3 %."""
    made = report(low, high)
    found = tried_section(made, trial(), "")
    assert (found.fact("predictions_checked").value, found.fact("predictions_held").value) == (1, held)  # type: ignore[union-attr]
    row = found.tables["changes"].set_index("change").loc["fused AdamW"]
    assert (row["predicted_low_share"], row["predicted_high_share"]) == pytest.approx((low, high), abs=0.001)
    assert tuple(row[[f"measured{each}_share" for each in ("_low", "", "_high")]]) == pytest.approx((0.28, 0.3, 0.32))


def test_what_limits_the_kernels_predicts_nothing() -> None:
    """The saving is that of kernels at the peak of the memory, and attention may save more."""
    made = report(0.0, 0.07)
    made = replace(made, findings=tuple(replace(each, rule="compute/kernels") for each in made.findings))
    outcomes = tuple(replace(each, spec="attention=flash") for each in trial().outcomes[:1])
    found = tried_section(made, replace(trial(), outcomes=outcomes), "")
    assert len(found.tables["changes"]) == 1
    assert found.fact("predictions_checked").value == 0  # type: ignore[union-attr]
    assert planned_order(made, ("gc", "attention"))[0] == "attention"


def test_a_report_with_the_section_can_be_read_again(tmp_path: Path) -> None:
    """A change without a prediction, or that was not timed, has no numbers there."""
    (tmp_path / "try.json").write_text(json.dumps(trial().tree()))
    made = with_tried(report(0.1, 0.2), tmp_path / "try.json")
    found = parse_report(json_report.render(made), "report.json").section("tried")
    assert found is not None
    assert found.notes[0] == verdict(trial()) == "2.00 times as fast: fused AdamW, torch.compile (default)."
    assert found.fact("speed_ratio").value == pytest.approx(2.0)  # type: ignore[union-attr]
    rows = found.tables["changes"].set_index("change")
    assert rows["measured_share"].isna().to_dict()["set_num_threads(1)"]
    assert rows["predicted_low_share"].notna().sum() == 1


def test_the_finding_gets_the_measured_saving(tmp_path: Path) -> None:
    """Read again with these savings, nothing is checked: what was predicted is gone."""
    (tmp_path / "try.json").write_text(json.dumps(trial().tree()))
    before = report(0.1, 0.2)
    made = with_tried(before, tmp_path / "try.json")
    step = typical(made.step, made.window)
    assert step is not None
    (finding,) = made.findings
    assert finding.saving_method == "measured"
    assert finding.saving is not None
    assert finding.saving.point == pytest.approx(0.3 * step.window_ns, rel=0.001)
    again = with_tried(made, tmp_path / "try.json").section("tried")
    assert again is not None
    assert again.fact("predictions_checked").value == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["{", "{}", '{"command": [], "outcomes": [{"spec": "gone", "verdict": "faster"}]}'])
def test_a_damaged_trial_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "try.json").write_text(text)
    with pytest.raises(ExportError, match=r"try\.json is damaged"):
        with_tried(hand_made.full_report(), tmp_path / "try.json")


def test_what_the_plan_advises_is_tried_first() -> None:
    step = Interval(1, 2, 3)
    made = replace(report(0.1, 0.2), plan=Plan(9, (PlannedChange("idle/garbage_collection", step),)))
    order = planned_order(made, tuple(experiments()))
    assert order[0] == "gc"
    assert order.index("fused") < order.index("tf32")
    assert sorted(order) == sorted(experiments())
