"""Measured times of a step as bars on one scale."""

import pytest

from nsyswrap.base.interval import Interval
from nsyswrap.render.measured_hero import MeasuredTime, hero

MS = 1_000_000


def test_bars_have_one_scale_and_one_unit() -> None:
    (shown,) = hero(MeasuredTime("base", 5.68 * MS), MeasuredTime("new", 0.95 * MS), sure="measured")
    assert [bar[:2] for bar in shown.bars] == [("base", "5.68 ms"), ("new", "0.95 ms")]
    assert [float(bar.parts[0].width) for bar in shown.bars] == [100, pytest.approx(16.7254)]
    assert shown.sure == ("How sure: measured", "")


def test_a_range_is_on_the_scale_too() -> None:
    """It may reach beyond all bars."""
    (shown,) = hero(MeasuredTime("new", 2 * MS, Interval(1.0 * MS, 2.0 * MS, 4.0 * MS)))
    assert (shown.bars[0].range, shown.bars[0].ends) == ("1.00 to 4.00", ("25.00", "100.00"))
    assert shown.bars[0].parts[0].width == "50"


def test_without_times_there_is_nothing() -> None:
    assert hero() == hero(MeasuredTime("base", 0.0)) == ()
