"""Intervals of the block bootstrap: reproducible, free of units, and wide enough for correlated steps."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_reports import lengths

from nsyswrap.base.interval import Interval
from nsyswrap.compare.bootstrap import (
    Series,
    block_length,
    difference_interval,
    log_ratio_interval,
    mean,
    median,
    normal_error,
    runs_interval,
    runs_needed,
    standard_error,
    student_quantile,
)

SERIES = st.lists(st.floats(1e3, 1e9), min_size=4, max_size=60).map(np.array)
both = pytest.mark.parametrize("statistic", [mean, median])


def steps(median_ms: float, count: int = 60, seed: int = 1) -> Series:
    """Return independent steps with a deviation of 3 %."""
    return lengths(median_ms, count, seed).astype(np.float64)


def autocorrelated(correlation: float, count: int, seed: int) -> Series:
    """Return steps with a deviation of 10 %, each correlated with the step before."""
    noise = np.random.default_rng(seed).standard_normal(count + 50)
    values = np.zeros(count + 50)
    for at in range(1, len(values)):
        values[at] = correlation * values[at - 1] + math.sqrt(1 - correlation**2) * noise[at]
    result: Series = 5e6 * np.exp(0.1 * values[50:])
    return result


@both
@given(SERIES, SERIES)
def test_the_estimate_lies_in_its_interval(statistic: Callable[[Series], Series], base: Series, new: Series) -> None:
    """The interval is widened away from the estimate, so it still contains it."""
    low, high = log_ratio_interval(base, new, statistic, 0.95).ends
    assert low <= high
    assert math.isfinite(low)
    assert math.isfinite(high)


@given(SERIES, st.sampled_from([0.5, 3.0, 1e3]))
def test_the_unit_of_time_does_not_matter(base: Series, factor: float) -> None:
    """Times in microseconds have the intervals of times in nanoseconds."""
    new = base[::-1] * 1.1
    one = log_ratio_interval(base, new, mean, 0.95)
    other = log_ratio_interval(base * factor, new * factor, mean, 0.95)
    assert other.in_order == pytest.approx(one.in_order, abs=1e-9)


def test_a_capture_against_itself_has_an_interval_around_zero() -> None:
    """Both sides are drawn independently; with the same draws every difference would be 0."""
    low, high = log_ratio_interval(steps(4.0), steps(4.0), mean, 0.95).ends
    assert low < -0.001
    assert high > 0.001


def test_more_steps_make_an_interval_narrower() -> None:
    few, many = (log_ratio_interval(steps(4.0, count), steps(4.0, count, 2), mean, 0.95) for count in (20, 400))
    assert many.width < few.width / 2


def test_the_difference_of_means_has_an_interval_for_times_of_0() -> None:
    """A part of the ledger may be 0 in every step."""
    assert difference_interval(np.zeros(30), np.zeros(30), 0.95) == Interval(0.0, 0.0, 0.0)
    low, high = difference_interval(np.zeros(30), steps(2.0, 30), 0.95).ends
    assert low < 2e6 < high
    assert low > 1.9e6


def test_correlated_steps_are_drawn_in_longer_blocks() -> None:
    """Blocks of independent steps have the cube root as length. At a correlation of 0.8 they are twice as long."""
    loose, tight = (
        np.mean([block_length(autocorrelated(correlation, 400, seed)) for seed in range(10)])
        for correlation in (0.0, 0.8)
    )
    assert loose < 10
    assert tight > 2 * loose


@given(SERIES)
def test_a_block_is_no_longer_than_a_third_of_the_series(series: Series) -> None:
    assert 1 <= block_length(series) <= max(len(series) // 3, 1)


@pytest.mark.parametrize(("correlation", "most"), [(0.0, 12), (0.5, 19)])
def test_equal_pairs_have_0_in_the_interval_nearly_as_often_as_promised(correlation: float, most: int) -> None:
    """Few of 150 pairs of 60 equal steps have a 95 % interval without 0.

    Where single steps are drawn, correlation 0.5 makes 1 interval in 4 miss.
    """
    missed = 0
    for seed in range(150):
        pair = autocorrelated(correlation, 60, seed), autocorrelated(correlation, 60, seed + 1_000)
        low, high = log_ratio_interval(*pair, mean, 0.95).ends
        missed += not low <= 0 <= high
    assert missed <= most


@pytest.mark.parametrize(
    ("quantile", "freedom", "value"),
    [
        (0.975, 3, 3.182),
        (0.975, 5, 2.571),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.95, 7, 1.895),
        (0.9875, 12, 2.560),
    ],
)
def test_quantiles_of_the_t_distribution_are_those_of_tables(quantile: float, freedom: float, value: float) -> None:
    """They agree to 1 % with published tables."""
    assert student_quantile(quantile, freedom) == pytest.approx(value, rel=0.01)


@pytest.mark.slow
def test_long_runs_are_drawn_in_little_memory_and_time() -> None:
    """Of fifty thousand steps fewer are drawn, and the interval is that of the formula."""
    long = np.random.default_rng(1).normal(5e6, 5e5, 50_000)
    low, high = log_ratio_interval(long, long * 1.01, mean, 0.95).ends
    expected = 1.96 * 0.1 * math.sqrt(2 / 50_000)
    assert (high - low) / 2 == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(
    ("base", "new", "reach"),
    [
        # Tables of Student's t at 97.5 %: 12.706 for 1 degree of freedom, 4.3027 for 2, 2.7764 for 4.
        ([0.0, 2.0], [5.0], 12.706 * math.sqrt(2) * math.sqrt(1.5)),
        ([0.0, 2.0], [4.0, 6.0], 4.3027 * math.sqrt(2)),
        ([0.0, 1.0, 2.0], [4.0, 5.0, 6.0], 2.7764 * math.sqrt(2 / 3)),
    ],
)
def test_the_interval_of_runs_is_that_of_two_samples_of_one_spread(
    base: list[float], new: list[float], reach: float
) -> None:
    low, high = runs_interval(np.array(base), np.array(new), 0.95).ends
    assert (high - low) / 2 == pytest.approx(reach, rel=2e-3)
    assert (low + high) / 2 == pytest.approx(np.mean(new) - np.mean(base))


def test_runs_that_are_all_alike_leave_no_doubt_but_that_of_their_steps() -> None:
    alike = np.array([3.0, 3.0]), np.array([4.0, 4.0])
    assert runs_interval(*alike, 0.95) == Interval(1.0, 1.0, 1.0)
    assert runs_interval(*alike, 0.95, 0.1).high == pytest.approx(1 + 4.3027 * 0.1, rel=1e-3)


def test_the_runs_that_are_needed_have_an_interval_of_that_reach() -> None:
    """At 97.5 %: 6.205 for two degrees of freedom, 3.495 for four. Spread 1: reaches of 6.2 and 2.85."""
    assert [runs_needed(1.0, reach, 0.975, 60) for reach in (6.3, 6.1, 2.9, 2.8)] == [2, 3, 3, 4]
    assert runs_needed(1.0, 0.1, 0.975, 60) is None


def test_the_standard_error_is_that_of_the_formula() -> None:
    """100 independent steps with 10 % deviation: 1 %."""
    steps_ns = lengths(4.0, 100, 3, 0.1).astype(np.float64)
    assert standard_error(steps_ns, mean) == pytest.approx(0.01, rel=0.3)
    assert normal_error(Interval(-1.645, 0.0, 1.645)) == pytest.approx(1.0, rel=1e-3)
