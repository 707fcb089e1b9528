"""Findings of two reports: solved, new, left, each with what it costs."""

from dataclasses import replace

import paired_reports as pairs
from paired_reports import MS

from nsyswrap.compare.findings import pair_findings
from nsyswrap.model import Severity

BASE = pairs.with_findings(
    pairs.report(pairs.lengths(4.0)),
    ("idle/data_wait", Severity.PROBLEM, 120 * MS),
    ("idle/cpu", Severity.WARNING, 60 * MS),
    ("idle/cpu", Severity.WARNING, 60 * MS),
)
NEW = pairs.with_findings(
    pairs.report(pairs.lengths(2.0, 40)),
    ("idle/lock", Severity.NOTE, 4 * MS),
    ("copies/pageable", Severity.WARNING, 2 * MS),
    ("idle/cpu", Severity.NOTE, 40 * MS),
)


def test_findings_are_solved_new_or_left() -> None:
    """By rule and GPU; the gravest first."""
    solved, arisen, left = pair_findings(pairs.side(BASE), pairs.side(NEW), "step")
    assert [one.rule for one in solved] == ["idle/data_wait"]
    assert [one.rule for one in arisen] == ["copies/pageable", "idle/lock"]
    assert [one.rule for one in left] == ["idle/cpu"]


def test_costs_are_of_one_step() -> None:
    """120 ms in 60 steps are 2 ms; what a rule finds twice is added."""
    solved, _, left = pair_findings(pairs.side(BASE), pairs.side(NEW), "step")
    assert (solved[0].base_cost, solved[0].new_cost) == (2 * MS, 0)
    assert (left[0].base_cost, left[0].new_cost) == (2 * MS, MS)


def test_costs_are_shares_of_the_window_where_there_are_no_steps() -> None:
    solved, _, _ = pair_findings(pairs.side(BASE), pairs.side(NEW), "window")
    assert solved[0].base_cost == 120 * MS / BASE.window.length_ns


def test_a_finding_of_another_gpu_is_another_finding() -> None:
    other = pairs.with_findings(pairs.report(pairs.lengths(4.0)), ("idle/data_wait", Severity.PROBLEM, MS))
    moved = replace(other, findings=(replace(other.findings[0], device_id=1),))
    solved, arisen, left = pair_findings(pairs.side(other), pairs.side(moved), "step")
    assert ([one.device_id for one in solved], [one.device_id for one in arisen], left) == ([0], [1], ())


def test_reports_without_findings_have_none() -> None:
    bare = pairs.side(pairs.report(pairs.lengths(4.0)))
    assert pair_findings(bare, bare, "step") == ((), (), ())
