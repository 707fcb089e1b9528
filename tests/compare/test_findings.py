"""Findings of two reports: how each changed, its time lost on both sides, and the time that changed its rule."""

from dataclasses import replace

import paired_reports as pairs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_reports import MS

from nsyswrap.compare.comparison import FindingChange, FindingPair
from nsyswrap.compare.findings import pair_findings
from nsyswrap.model import Report, Severity

STEPS = 60
WAIT, BOUND, MANY = "idle/data_wait", "launches/launch_bound", "optimizer/many_kernels"


def report(*attribution: tuple[str, str, str, int], listed: tuple[str, ...] = ()) -> Report:
    """Return a report of 60 steps of 4 ms with this attribution of idle time; listed rules have a finding.

    Args:
        attribution: Cause, rule, phase and idle time of a step in µs.
        listed: Rules whose time passes the threshold of display.
    """
    whole = pairs.report(pairs.lengths(4.0, STEPS))
    rows = [(cause, rule, phase, STEPS * us * 1_000) for cause, rule, phase, us in attribution]
    lost = {rule: sum(ns for _, each, _, ns in rows if each == rule) for rule in listed}
    findings = [(rule, Severity.WARNING, ns) for rule, ns in lost.items()]
    return pairs.with_findings(pairs.with_attribution(whole, *rows), *findings)


def compared(base: Report, new: Report) -> dict[str, FindingPair]:
    """Return the pairs of findings by rule, with amounts in ns a step."""
    return {one.rule: one for one in pair_findings(pairs.side(base), pairs.side(new), "step")}


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (2_000, 0, FindingChange.GONE),
        (2_000, 150, FindingChange.GONE),
        (2_000, 1_000, FindingChange.SMALLER),
        (2_000, 1_900, FindingChange.SAME),
        (2_000, 2_600, FindingChange.LARGER),
        (0, 2_000, FindingChange.NEW),
    ],
)
def test_a_finding_changes_with_its_time_lost_a_step(before: int, now: int, change: FindingChange) -> None:
    base, new = (report(("data_wait", WAIT, "data", us), listed=(WAIT,) if us else ()) for us in (before, now))
    found = compared(base, new)[WAIT]
    assert (found.base_lost, found.new_lost, found.change) == (before * 1_000, now * 1_000, change)


def test_a_finding_below_the_threshold_of_display_is_not_gone() -> None:
    """Its rule still takes half of the time, so it got smaller."""
    base = report(("data_wait", WAIT, "data", 160), listed=(WAIT,))
    found = compared(base, report(("data_wait", WAIT, "data", 70)))[WAIT]
    assert (found.new, found.new_lost, found.change) == (None, 70_000, FindingChange.SMALLER)


def test_a_finding_that_was_below_the_threshold_is_not_new() -> None:
    base = report(("data_wait", WAIT, "data", 70))
    found = compared(base, report(("data_wait", WAIT, "data", 160), listed=(WAIT,)))[WAIT]
    assert (found.base, found.base_lost, found.change) == (None, 70_000, FindingChange.LARGER)


def test_time_that_changed_its_rule_is_not_saved() -> None:
    """The same idle time of the same cause and phase belongs to another rule in new; no finding is gone or new."""
    base = report(("cpu", BOUND, "optimizer", 2_000), ("data_wait", WAIT, "data", 900), listed=(BOUND, WAIT))
    new = report(("cpu", MANY, "optimizer", 1_950), ("data_wait", WAIT, "data", 900), listed=(MANY, WAIT))
    found = compared(base, new)
    assert {rule: one.change for rule, one in found.items()} == dict.fromkeys((BOUND, MANY, WAIT), FindingChange.SAME)
    (to,), (by,) = found[BOUND].moved, found[MANY].moved
    assert (to.rule, to.amount, to.to_other) == (MANY, 1_950_000, True)
    assert (by.rule, by.amount, by.to_other) == (BOUND, 1_950_000, False)
    assert found[WAIT].moved == ()


def test_a_finding_that_moved_in_part_is_smaller_by_the_rest() -> None:
    base = report(("cpu", BOUND, "forward", 2_000), listed=(BOUND,))
    found = compared(base, report(("cpu", MANY, "forward", 1_000), listed=(MANY,)))
    assert found[BOUND].change is FindingChange.SMALLER
    assert found[MANY].change is FindingChange.SAME


def test_a_finding_of_another_gpu_is_another_finding() -> None:
    other = pairs.with_findings(pairs.report(pairs.lengths(4.0)), ("copies/exposed", Severity.PROBLEM, 60 * MS))
    moved = replace(other, findings=(replace(other.findings[0], device_id=1),))
    found = pair_findings(pairs.side(other), pairs.side(moved), "step")
    assert [(one.device_id, one.change) for one in found] == [(1, FindingChange.NEW), (0, FindingChange.GONE)]


def test_a_finding_without_time_lost_is_new_the_same_or_gone() -> None:
    with_note = pairs.with_findings(pairs.report(pairs.lengths(4.0)), ("capture/no_ranges", Severity.NOTE, 0))
    without = pairs.report(pairs.lengths(4.0))
    for base, new, change in (
        (with_note, without, FindingChange.GONE),
        (with_note, with_note, FindingChange.SAME),
        (without, with_note, FindingChange.NEW),
    ):
        assert compared(base, new)["capture/no_ranges"].change is change


def test_findings_of_one_rule_are_added() -> None:
    """120 ms in 60 steps are 2 ms a step."""
    once = ("idle/cpu", Severity.WARNING, 60 * MS)
    base = pairs.with_findings(pairs.report(pairs.lengths(4.0)), once, once)
    assert compared(base, base)["idle/cpu"].base_lost == 2 * MS


def test_amounts_are_shares_of_the_window_where_there_are_no_steps() -> None:
    base = pairs.with_findings(pairs.report(pairs.lengths(4.0)), ("idle/cpu", Severity.WARNING, 60 * MS))
    (found,) = pair_findings(pairs.side(base), pairs.side(base), "window")
    assert found.base_lost == 60 * MS / base.window.length_ns


def test_findings_come_by_change_and_then_largest_first() -> None:
    base = report(("cpu", BOUND, "forward", 500), ("data_wait", WAIT, "data", 900), listed=(BOUND, WAIT))
    new = report(("launch", "idle/launch", "backward", 300), listed=("idle/launch",))
    found = pair_findings(pairs.side(base), pairs.side(new), "step")
    assert [one.rule for one in found] == ["idle/launch", WAIT, BOUND]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["cpu", "launch"]),
        st.sampled_from([WAIT, BOUND, MANY]),
        st.sampled_from(["forward", "optimizer"]),
        st.integers(0, 3_000),
    ),
    max_size=6,
)


@pytest.mark.slow
@given(ROWS, ROWS)
def test_moved_time_is_never_more_than_what_a_rule_lost_or_took(
    before: list[tuple[str, str, str, int]], now: list[tuple[str, str, str, int]]
) -> None:
    """If base and new are exchanged, each finding changes the other way."""
    base, new = (report(*rows, listed=(WAIT, BOUND, MANY)) for rows in (before, now))
    opposite = {
        FindingChange.NEW: FindingChange.GONE,
        FindingChange.GONE: FindingChange.NEW,
        FindingChange.LARGER: FindingChange.SMALLER,
        FindingChange.SMALLER: FindingChange.LARGER,
    }
    back = compared(new, base)
    for rule, one in compared(base, new).items():
        assert sum(part.amount for part in one.moved if part.to_other) <= one.base_lost * (1 + 1e-9)
        assert sum(part.amount for part in one.moved if not part.to_other) <= one.new_lost * (1 + 1e-9)
        assert back[rule].change is opposite.get(one.change, one.change)
