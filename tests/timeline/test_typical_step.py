"""The typical step, and the steps that a page shows first."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.intervals import Window, times
from nsyswrap.timeline.typical_step import by_length, shown_first

WINDOW = Window(100, 10_000, "steps", "steps")


def test_measured_steps_of_the_window_are_ordered_by_length() -> None:
    """The first is a warm-up, the second lies before the window; of two equal ones the earlier is first."""
    start, end = times([0, 10, 100, 130, 150, 170]), times([10, 40, 130, 150, 170, 270])
    warm_up = np.array([True, False, False, False, False, False])
    assert by_length(start, end, warm_up, WINDOW).tolist() == [3, 4, 2, 5]


def test_the_typical_step_and_its_neighbours_come_first_then_the_slowest_and_the_fastest() -> None:
    lengths = [20, 30, 35, 60, 10]
    start = times([200, 220, 250, 285, 345])
    assert shown_first(start, start + times(lengths), np.zeros(5, bool), WINDOW).tolist() == [1, 0, 2, 3, 4]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_the_middle_one_is_the_lower_median(lengths: list[int]) -> None:
    start = times(np.cumsum([200, *lengths[:-1]]))
    end = start + times(lengths)
    ordered = by_length(start, end, np.zeros(len(start), bool), WINDOW)
    assert lengths[ordered[(len(lengths) - 1) // 2]] == sorted(lengths)[(len(lengths) - 1) // 2]
