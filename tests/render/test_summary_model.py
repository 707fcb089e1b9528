"""The summary in all forms: the ledger, idle time by rule, groups of findings."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hand_made import MS

from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap.render import rows, summary_model

FULL = hand_made.full_report()
TWO = hand_made.two_gpu_report()


def finding(device_id: int | None = 0, **changes: object) -> Finding:
    """Return a finding of 1 ms in a window of 100 ms."""
    window = Window(0, 100 * MS, "steps 1 to 9 (step 0 left out)", "steps")
    one = Finding("idle/cpu", Severity.NOTE, "head", MS, between(0, MS), "do it", (), device_id, window)
    return replace(one, **changes)  # type: ignore[arg-type]


def test_the_parts_of_a_ledger_add_up_to_its_window() -> None:
    for ledger in summary_model.ledgers(TWO):
        assert sum(amount.ns for amount in ledger.parts) == ledger.window_ns
        assert sum(amount.share for amount in ledger.parts) == pytest.approx(1)


def test_the_rules_of_a_ledger_add_up_to_its_idle_time() -> None:
    for ledger in summary_model.ledgers(TWO):
        assert sum(part.ns for part in ledger.idle) == ledger.idle_ns


def test_idle_time_of_one_gpu_is_added_over_phases() -> None:
    """The causes are added, too, and the largest comes first; another GPU is left out."""
    parts = [
        summary_model.IdlePart("a/b", "forward", 0, 3 * MS, 0.3, (("cpu", 2 * MS), ("launch", MS))),
        summary_model.IdlePart("a/b", "backward", 0, 4 * MS, 0.4, (("launch", 4 * MS),)),
        summary_model.IdlePart("a/b", "forward", 1, MS, 0.1, (("cpu", MS),)),
    ]
    (found,) = summary_model.over_phases(parts, 0)
    assert (found.rule, found.phase, found.ns) == ("a/b", "", 7 * MS)
    assert found.share == pytest.approx(0.7)
    assert found.causes == (("launch", 5 * MS), ("cpu", 2 * MS))


def test_idle_time_comes_by_rule_and_phase_largest_first() -> None:
    """Rows that differ only in their cause are one part."""
    found = summary_model.idle_by_phase(TWO, {0: 2_000 * MS, 1: 2_000 * MS})
    assert [one.ns for one in found] == sorted((one.ns for one in found), reverse=True)
    (bound,) = (one for one in found if one.rule == "launches/launch_bound")
    assert (bound.ns, bound.share, bound.cause_names) == (80 * MS, 0.04, "CUDA launch calls, CPU outside CUDA calls")


def test_a_rule_that_is_a_cause_does_not_name_it_again() -> None:
    assert summary_model.IdlePart("idle/cpu", "", 0, 1, 0.1, (("cpu", 1),)).cause_names == ""


def test_a_window_is_named_short_without_its_parenthesis() -> None:
    assert summary_model.short(finding().window) == "steps 1 to 9"


def test_the_cost_of_a_finding_is_a_share_of_its_own_window() -> None:
    assert summary_model.finding_share(finding()) == "1.0 % of steps 1 to 9"


def test_a_cost_summed_over_gpus_is_no_share_of_one_window() -> None:
    assert summary_model.finding_share(finding(None, lost_ns=150 * MS)) == ""


def test_the_same_matter_on_several_gpus_is_one_group() -> None:
    both = (finding(1), finding(0), finding(0, rule="idle/launch"), finding(0, advice="do else"))
    groups = summary_model.finding_groups(replace(FULL, findings=both))
    assert [[one.device_id for one in group] for group in groups] == [[1, 0], [0], [0]]


def test_a_finding_says_its_place() -> None:
    assert [summary_model.place(finding(1)), summary_model.place(finding(None))] == ["GPU 1", "whole capture"]


def test_rows_are_plain_python() -> None:
    frame = pd.DataFrame({"n": [1, 2], "x": [0.5, float("nan")], "t": pd.Categorical(["a", None]), "b": [True, False]})
    assert summary_model.records(frame) == [
        {"n": 1, "x": 0.5, "t": "a", "b": True},
        {"n": 2, "x": None, "t": None, "b": False},
    ]
    assert {type(value) for row in summary_model.records(frame) for value in row.values()} == {
        *(int, float, str, bool, type(None))
    }


def test_infinity_is_no_number_json_knows() -> None:
    assert rows.plain(pd.Series([float("inf"), -float("inf"), 1.0])) == [None, None, 1.0]
