"""An interval holds its estimate whatever is done to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.interval import Interval, around, between

WHOLE = st.integers(-(10**15), 10**15)
INTERVALS = st.tuples(WHOLE, WHOLE, WHOLE).map(sorted).map(lambda values: Interval(*values))


def test_an_estimate_outside_of_its_range_is_refused() -> None:
    for values in ((2, 1, 3), (1, 3, 2), (1, float("nan"), 2)):
        with pytest.raises(ValueError, match="not in order"):
            Interval(*values)


@given(INTERVALS, WHOLE)
def test_it_holds_the_values_from_its_lower_to_its_upper_end(interval: Interval[int], value: int) -> None:
    low, high = interval.ends
    assert (value in interval) == (low <= value <= high)
    assert interval.width == high - low


@given(INTERVALS, WHOLE, st.sampled_from([-3, 0, 2]))
def test_a_rising_or_falling_function_maps_the_range_to_the_range(
    interval: Interval[int], shift: int, factor: int
) -> None:
    """Where it falls, the lower end becomes the upper one."""
    found = interval.map(lambda value: factor * value + shift)
    assert found.point == factor * interval.point + shift
    assert found.width == abs(factor) * interval.width


@given(INTERVALS, WHOLE, WHOLE)
def test_clipping_keeps_the_order(interval: Interval[int], first: int, last: int) -> None:
    low, high = sorted((first, last))
    found = interval.map(lambda value: min(max(value, low), high))
    assert set(found.ends) <= {low, high, *interval.ends}


@given(WHOLE, WHOLE)
def test_where_nothing_better_is_known_the_estimate_is_the_middle(first: int, last: int) -> None:
    found = between(first, last)
    assert set(found.ends) == {first, last}
    assert found.point == (first + last) // 2


@given(WHOLE, st.lists(WHOLE))
def test_the_interval_around_an_estimate_holds_all_values(point: int, others: list[int]) -> None:
    found = around(point, *others)
    assert found.point == point
    assert all(each in found for each in others)
