"""The score of a plan: the changes that were made, the prediction for them, and the measured step."""

import json
from dataclasses import replace
from pathlib import Path

import paired_reports as pairs
import pytest
from paired_reports import MS

from nsyswrap.base.errors import UsageError
from nsyswrap.base.interval import between
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.cli.profile import add_plan_score, plan_before
from nsyswrap.compare.comparison import Comparison
from nsyswrap.model import Finding, Plan, PlannedChange, Report, Section, Severity, StepTimes
from nsyswrap.render import documents, json_report
from nsyswrap.render.json_reader import parse_report

WAIT, BOUND, OFF = "idle/data_wait", "launches/launch_bound", "tensor_cores/not_used"
STEPS = 60
PLAN = Plan(
    10 * MS, changes=(PlannedChange(WAIT, between(4 * MS, 5 * MS)), PlannedChange(OFF, between(2 * MS, 3 * MS)))
)


def report(step_ms: float, *rules: str, plan: Plan = PLAN) -> Report:
    """Return a report of 60 steps with findings of some rules; each loses 2 ms a step, and saves 2 to 3."""
    whole = pairs.report(pairs.lengths(step_ms, STEPS, spread=0.0))
    found = tuple(
        Finding(
            rule,
            Severity.WARNING,
            "",
            2 * STEPS * MS,
            between(2 * STEPS * MS, 3 * STEPS * MS),
            "",
            (),
            0,
            whole.window,
        )
        for rule in rules
    )
    empty = pairs.with_attribution(whole)
    return replace(empty, findings=found, plan=plan, step=StepTimes(STEPS, round(step_ms * MS)))


def score(base: Report, new: Report) -> Section:
    """Return the score of the second report against the plan of the first."""
    found = compared(base, new).plan_score
    assert found is not None
    return found


def compared(base: Report, new: Report) -> Comparison:
    return pairs.compared(base, new)


def value(section: Section, label: str) -> object:
    fact = section.fact(label)
    assert fact is not None
    return fact.value


def states(section: Section) -> dict[str, str]:
    """Return the state of each planned change."""
    table = section.tables["changes"]
    return dict(zip(table["rule"], table["state"], strict=True))


def test_a_change_is_made_where_its_findings_are_gone() -> None:
    found = score(report(10, WAIT, OFF), report(4.5, OFF))
    assert states(found) == {WAIT: "made", OFF: "not made"}
    assert found.notes[0] == "1 of 2 planned changes was made: data loader wait."


@pytest.mark.parametrize(
    ("step_ms", "within", "words"),
    [
        (4.5, "yes", "The plan predicted a mean step of 4.00 to 5.00 ms; it takes 4.50 ms: as predicted."),
        (
            6.0,
            "no",
            "The plan predicted a mean step of 4.00 to 5.00 ms; it takes 6.00 ms: 20.0 % more than predicted.",
        ),
        (
            3.0,
            "no",
            "The plan predicted a mean step of 4.00 to 5.00 ms; it takes 3.00 ms: 25.0 % less than predicted.",
        ),
    ],
)
def test_the_step_is_within_the_prediction_or_beside_it(step_ms: float, within: str, words: str) -> None:
    found = score(report(10, WAIT, OFF), report(step_ms, OFF))
    assert value(found, "within_prediction") == within
    assert (value(found, "predicted_low_ns"), value(found, "predicted_high_ns")) == (4 * MS, 5 * MS)
    assert value(found, "measured_step_ns") == round(step_ms * MS)
    assert found.notes[1] == words


@pytest.mark.parametrize(("step_ms", "within"), [(5.1, "yes"), (5.2, "no"), (3.9, "yes"), (3.8, "no")])
def test_three_per_cent_beside_the_interval_count_as_no_difference(step_ms: float, within: str) -> None:
    assert value(score(report(10, WAIT, OFF), report(step_ms, OFF)), "within_prediction") == within


def test_after_all_changes_the_last_time_of_the_plan_counts() -> None:
    found = score(report(10, WAIT, OFF), report(2.5))
    assert (value(found, "predicted_low_ns"), value(found, "within_prediction")) == (2 * MS, "yes")


def test_a_single_change_out_of_order_counts_by_its_own_saving() -> None:
    """The change saves 2 to 3 ms in a step of 10 ms."""
    found = score(report(10, WAIT, OFF), report(7.5, WAIT))
    assert states(found) == {WAIT: "not made", OFF: "made"}
    assert (value(found, "predicted_low_ns"), value(found, "predicted_high_ns")) == (7 * MS, 8 * MS)


def test_several_changes_out_of_order_have_no_prediction() -> None:
    third = replace(PLAN, changes=(*PLAN.changes, PlannedChange(BOUND, between(1 * MS, 2 * MS))))
    found = score(report(10, WAIT, OFF, BOUND, plan=third), report(6, WAIT))
    assert value(found, "predicted_low_ns") is None
    assert found.notes[1] == "The plan has no time for this set of changes, because it makes them in another order."


def test_without_a_change_nothing_is_checked() -> None:
    found = score(report(10, WAIT, OFF), report(10, WAIT, OFF))
    assert found.notes == ("No change of the plan was made: all its findings are still there.",)
    assert value(found, "within_prediction") is None


@pytest.mark.parametrize(("left", "state"), [(0.4, "partly made"), (0.6, "not made")])
def test_a_finding_with_less_than_half_of_its_time_left_is_partly_made(left: float, state: str) -> None:
    """Another change of the plan may make a finding a little smaller."""
    new = report(4.5, WAIT, OFF)
    lost = [round(each.lost_ns * (left if each.rule == WAIT else 1)) for each in new.findings]
    findings = tuple(replace(each, lost_ns=ns) for each, ns in zip(new.findings, lost, strict=True))
    assert states(score(report(10, WAIT, OFF), replace(new, findings=findings))) == {WAIT: state, OFF: "not made"}


def test_runs_that_cannot_be_compared_are_not_checked() -> None:
    new = report(4.5, OFF)
    other = replace(new, gpus=tuple(replace(gpu, name="NVIDIA A100") for gpu in new.gpus))
    found = score(report(10, WAIT, OFF), other)
    assert found.notes[1] == "The two runs cannot be compared, so the prediction is not checked."
    assert value(found, "within_prediction") is None


def test_means_are_compared_with_means() -> None:
    """The steps of the next run take 4.5 ms each, but with the time between them 5.5 ms."""
    new = report(4.5, OFF)
    longer = replace(new, window=replace(new.window, end_ns=new.window.start_ns + STEPS * 11 * MS // 2))
    found = score(report(10, WAIT, OFF), longer)
    assert value(found, "measured_step_ns") == 11 * MS // 2
    assert "a mean step of" in found.notes[1]


def test_a_report_without_a_plan_has_no_score() -> None:
    assert compared(report(10, WAIT, plan=Plan()), report(4)).plan_score is None


def written(whole: Report, folder: Path) -> Path:
    """Write the report.json of a run."""
    path = folder / "report.json"
    path.write_text(json_report.render(whole))
    return path


def test_profile_then_reads_the_plan_of_the_run_before(tmp_path: Path) -> None:
    found = plan_before(written(report(10, WAIT, OFF), tmp_path), ReadOptions())
    assert found is not None
    assert found.plan == PLAN
    assert plan_before(None, ReadOptions()) is None


def test_profile_then_refuses_a_run_without_a_plan(tmp_path: Path) -> None:
    reason = Plan(notes=("No plan: the window is not made of steps.",))
    with pytest.raises(UsageError, match="has no plan") as error:
        plan_before(written(report(10, WAIT, plan=reason), tmp_path), ReadOptions())
    assert error.value.hint == reason.notes[0]


def test_the_next_report_keeps_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    """Its report.json has the section, and the terminal says it."""
    base, new = report(10, WAIT, OFF), report(4.5, OFF)
    scored = parse_report(json_report.render(add_plan_score(new, base)), "report.json").section("plan_score")
    assert scored is not None
    assert scored.notes == score(base, new).notes
    assert "it takes 4.50 ms: as predicted." in capsys.readouterr().err
    assert add_plan_score(new, None) is new


def test_the_json_of_a_comparison_has_the_score() -> None:
    comparison = compared(report(10, WAIT, OFF), report(4.5, OFF))
    tree = json.loads(documents.render("comparison", "json", comparison))
    assert tree["plan_score"]["facts"]["within_prediction"]["value"] == "yes"
    assert (
        json.loads(documents.render("comparison", "json", compared(report(10, plan=Plan()), report(4))))["plan_score"]
        is None
    )
