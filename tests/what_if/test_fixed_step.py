"""Savings refer to the median step, or to the mean step where a few long steps hold much of the time."""

import pytest
from analysis_fixtures import window

from nsyswrap.model import StepTimes
from nsyswrap.what_if.fixed_step import typical


@pytest.mark.parametrize(("whole", "length", "is_mean"), [(1240, 100, False), (1260, 126, True)])
def test_the_mean_step_counts_where_it_is_a_quarter_longer(whole: int, length: int, is_mean: bool) -> None:  # noqa: FBT001
    """The median of ten steps is 100 ns."""
    found = typical(StepTimes(10, 100, total_ns=whole), window(0, whole), None)
    assert found is not None
    assert (found.length_ns, found.is_mean) == (length, is_mean)
