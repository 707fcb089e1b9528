"""The order of findings: by predicted saving, a late rank before what its host does, slow steps after their cause."""

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Severity
from nsyswrap.rules import ranks, steps

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
