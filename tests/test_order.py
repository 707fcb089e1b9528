"""The order of findings: by predicted saving, a late rank before what its host does, slow steps after their cause."""

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Plan, PlannedChange, Severity
from nsyswrap.rules import ranks, steps
from nsyswrap.verdict import in_order

WHOLE = Window(0, 1000, "10 steps", "steps")


def finding(rule: str, saved: int) -> Finding:
    return Finding(rule, Severity.PROBLEM, "", 500, Interval(0, saved, 900), "", (), 0, WHOLE)


@pytest.mark.parametrize(("saved", "is_first"), [(79, False), (81, True)])
def test_a_late_rank_comes_first_where_it_saves_four_fifths_of_the_most(saved: int, is_first: bool) -> None:  # noqa: FBT001
    both = (finding(ranks.LATE.key, saved), finding("idle/cpu", 100))
    assert (min(both, key=lambda each: each.order).rule == ranks.LATE.key) is is_first


@pytest.mark.parametrize(("saved", "is_first"), [(124, False), (126, True)])
def test_slow_steps_come_first_where_they_save_a_quarter_more_than_any_cause(saved: int, is_first: bool) -> None:  # noqa: FBT001
    both = (finding(steps.UNEVEN.key, saved), finding("idle/file_io", 100))
    assert (min(both, key=lambda each: each.order).rule == steps.UNEVEN.key) is is_first


@pytest.mark.parametrize(("saved", "is_first"), [(49, False), (51, True)])
def test_a_late_rank_comes_before_what_its_own_host_does_where_it_saves_half_of_that(
    saved: int,
    is_first: bool,  # noqa: FBT001
) -> None:
    """Without the change of all hosts, which comes first in the plan, the rank would not be late."""
    both = (finding(ranks.LATE.key, saved), finding("idle/cpu", 100))
    plan = Plan(1000, (PlannedChange("idle/cpu", Interval(900, 900, 900)),))
    assert (in_order((), both, plan)[0].rule == ranks.LATE.key) is is_first
