"""The time of a step now is the mean step, without the profiler where that is known; savings shorten it by a share."""

import pytest
from analysis_fixtures import window

from nsyswrap.base.interval import Interval
from nsyswrap.model import StepTimes
from nsyswrap.what_if.fixed_step import CurrentStep, typical

WHOLE = window(0, 1260)


@pytest.mark.parametrize("count", [0, 1])
def test_one_step_is_no_step(count: int) -> None:
    assert typical(StepTimes(count, 100), WHOLE) is None


@pytest.mark.parametrize(("count", "is_of_few"), [(4, True), (5, False)])
def test_fewer_than_five_steps_need_a_caution(count: int, is_of_few: bool) -> None:  # noqa: FBT001
    found = typical(StepTimes(count, 100), WHOLE)
    assert found is not None
    assert found.is_of_few == is_of_few


def test_the_step_alone_counts_where_it_is_known() -> None:
    """The median step is 80 to 100 ns long, at 90; the mean step shrinks by the same share."""
    step = StepTimes(10, 100, Interval(80, 90, 100), "second_run", total_ns=1200)
    assert typical(step, WHOLE) == CurrentStep(Interval(96, 108, 120), 1200, 10)


@pytest.mark.parametrize(("high", "is_recorded"), [(90, False), (91, True)])
def test_a_range_wider_than_a_factor_of_three_says_nothing(high: int, is_recorded: bool) -> None:  # noqa: FBT001
    found = typical(StepTimes(10, 100, Interval(30, 60, high), "simulated"), WHOLE)
    assert found is not None
    assert found.is_recorded == is_recorded


def test_the_errors_of_step_and_saving_are_independent() -> None:
    """Of 100 ns a step, half goes. The step is known to 6 ns and the saving to 4: 3 and 4 ns of what is left, so 5."""
    found = CurrentStep(Interval(94, 100, 106), 1000).after(Interval(460, 500, 540))
    assert found == Interval(45, 50, 55)


@pytest.mark.parametrize(("error_left", "width"), [(1.0, 20), (0.5, 10), (0.0, 3)])
def test_what_is_left_has_the_error_that_is_left(error_left: float, width: int) -> None:
    """Half of a step goes, whose length is known to a fifth; two runs differ by 3 % at least."""
    found = CurrentStep(Interval(800, 1000, 1200), 10_000).after(Interval(5_000, 5_000, 5_000), error_left)
    assert found.width == width * 10


def test_a_step_is_never_shorter_than_nothing() -> None:
    assert CurrentStep(Interval(100, 100, 100), 1000).after(Interval(0, 990, 1010)).low == 0
