"""The conditions for the four outcomes: faster, slower, no difference and cannot tell."""

import math

import numpy as np
import numpy.typing as npt
import paired_reports as pairs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nsyswrap.compare import MARGIN, Outcome
from nsyswrap.compare.estimates import MEAN, MEDIAN, decide, estimate_changes
from nsyswrap.compare.step_times import MeasuredSteps

Series = npt.NDArray[np.float64]


def series(median_ms: float, count: int = 60, seed: int = 1, spread: float = 0.03) -> Series:
    """Return steps with random deviations from a median, in ns."""
    return pairs.lengths(median_ms, count, seed, spread).astype(np.float64)


def outcome_of(base: Series, new: Series, between: tuple[float, float] = (0, 0), margin: float = MARGIN) -> Outcome:
    """Return the outcome of a comparison; ``between`` is the time after each step of base and new, in ns."""
    sides = [MeasuredSteps(one, one + more) for one, more in zip((base, new), between, strict=True)]
    return decide(estimate_changes(sides[:1], sides[1:], margin)).outcome


@pytest.mark.parametrize(
    ("median_ms", "expected"), [(2.0, Outcome.FASTER), (8.0, Outcome.SLOWER), (4.0, Outcome.NO_DIFFERENCE)]
)
def test_a_clear_case_is_decided(median_ms: float, expected: Outcome) -> None:
    assert outcome_of(series(4.0), series(median_ms, seed=2)) is expected


def test_turned_round_the_answer_is_turned_round() -> None:
    assert outcome_of(series(4.0), series(3.0, seed=2)) is Outcome.FASTER
    assert outcome_of(series(3.0), series(4.0, seed=2)) is Outcome.SLOWER


def test_a_certain_change_below_the_margin_is_no_difference() -> None:
    """A change of 1 % is certain here. It counts only if the margin is 0."""
    base, new = np.full(60, 4e6), np.full(60, 4.04e6)
    assert outcome_of(base, new) is Outcome.NO_DIFFERENCE
    assert outcome_of(base, new, margin=0.0) is Outcome.SLOWER


def test_few_steps_that_scatter_widely_tell_nothing() -> None:
    assert outcome_of(series(4.0, 12, spread=0.5), series(4.4, 12, 2, 0.5)) is Outcome.CANNOT_TELL


def test_one_very_long_step_does_not_affect_the_median() -> None:
    """The mean is unknown then, the median is not."""
    base, new = series(4.0), series(2.0, seed=2)
    base[10] = 4e9
    assert outcome_of(base, new) is Outcome.FASTER


def test_steps_are_slower_if_each_fourth_is_longer() -> None:
    """The median stays, the time per step rises, as with gradient accumulation or a slow loader."""
    base, new = series(4.0, 80), series(4.0, 80, 2)
    new[::4] *= 2
    assert outcome_of(base, new) is Outcome.SLOWER


def test_steps_of_two_lengths_are_no_difference_where_the_mean_tells() -> None:
    """Every second step takes 1.5 times as long, so the median is uncertain; the mean of 80 steps is certain."""
    base, new = series(4.0, 80), series(4.0, 80, 2)
    base[::2] *= 1.5
    new[1::2] *= 1.5
    assert outcome_of(base, new) is Outcome.NO_DIFFERENCE


def test_time_that_moved_out_of_the_steps_is_no_saving() -> None:
    """Steps are half as long, and the other half now lies between them: training takes as long as before."""
    assert outcome_of(series(4.0), series(2.0, seed=2), between=(0, 2e6)) is Outcome.CANNOT_TELL


def test_time_that_lies_between_steps_counts() -> None:
    assert outcome_of(series(4.0), series(4.0, seed=2), between=(0, 2e6)) is Outcome.SLOWER


def test_a_change_no_larger_than_the_drift_within_a_capture_is_not_reported() -> None:
    """The second half of base is 20 % slower than its first; new is 10 % slower than base as a whole."""
    halves = np.concatenate([series(4.0, 40), series(4.8, 40, 3)])
    later = series(4.8, 80, 2)
    estimates = estimate_changes([MeasuredSteps(halves, halves)], [MeasuredSteps(later, later)], MARGIN)
    assert estimates[1].change.low > 0
    decision = decide(estimates)
    assert decision.outcome is Outcome.CANNOT_TELL
    assert "drifts" in decision.reason


def test_estimates_are_of_median_and_mean() -> None:
    """They are in that order, each with its change, its speed-up and its drift."""
    base, new = MeasuredSteps(np.full(20, 4e6), np.full(20, 5e6)), MeasuredSteps(np.full(20, 2e6), np.full(20, 2.5e6))
    of_median, of_mean = estimate_changes([base], [new], MARGIN)
    assert (of_median.label, of_mean.label) == (MEDIAN, MEAN)
    assert (of_median.base_ns, of_mean.base_ns) == (4e6, 5e6)
    assert of_median.change.point == pytest.approx(-0.5)
    assert of_mean.times == pytest.approx(2.0)
    assert of_median.drift == 0


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(10, 80), st.floats(0.005, 0.05))
def test_a_series_never_differs_from_its_own_shuffle(seed: int, count: int, spread: float) -> None:
    """The same times in another order have the same mean and median, so there is no change to find."""
    base = series(4.0, count, seed, spread)
    new = np.random.default_rng(seed).permutation(base)
    assert outcome_of(base, new) in (Outcome.NO_DIFFERENCE, Outcome.CANNOT_TELL)


def test_independent_pairs_of_the_same_loop_are_seldom_called_different() -> None:
    """A/A: of 60 pairs of 58 steps that scatter by 10 %, at most 4 are called faster or slower."""
    wrong = sum(
        outcome_of(series(5.0, 58, seed, 0.1), series(5.0, 58, seed + 500, 0.1)) in (Outcome.FASTER, Outcome.SLOWER)
        for seed in range(60)
    )
    assert wrong <= 4


def test_a_tenth_is_found_among_steps_that_scatter_by_a_tenth() -> None:
    """At least nine of ten in 40 pairs of 116 steps are found."""
    found = sum(
        outcome_of(series(5.0, 116, seed, 0.1), series(5.5, 116, seed + 500, 0.1)) is Outcome.SLOWER
        for seed in range(40)
    )
    assert found >= 36


def test_interval_and_change_are_shares_and_not_logarithms() -> None:
    of_median, _ = estimate_changes(
        [MeasuredSteps(np.full(20, 4e6), np.full(20, 4e6))], [MeasuredSteps(np.full(20, 8e6), np.full(20, 8e6))], MARGIN
    )
    assert of_median.change.ends == pytest.approx((1.0, 1.0))
    assert math.isclose(of_median.change.point, 1.0)


def runs(count: int, median_ms: float, spread: float, seed: int) -> list[MeasuredSteps]:
    """Return several runs of one loop, each a little faster or slower than the others."""
    faster = np.exp(spread * np.random.default_rng(seed).standard_normal(count))
    steps = [series(median_ms, 60, seed + at) * factor for at, factor in enumerate(faster)]
    return [MeasuredSteps(one, one) for one in steps]


def test_several_runs_that_differ_are_no_change() -> None:
    """Runs of one loop differ by 5 %. With one run on each side many of 60 pairs differ; with five at most 4 do."""
    alone, together = (
        sum(
            decide(estimate_changes(runs(count, 5.0, 0.05, seed), runs(count, 5.0, 0.05, seed + 900), MARGIN)).outcome
            in (Outcome.FASTER, Outcome.SLOWER)
            for seed in range(0, 600, 10)
        )
        for count in (1, 5)
    )
    assert alone >= 20
    assert together <= 4


def test_a_change_that_is_larger_than_the_runs_differ_is_found() -> None:
    for count in (3, 5):
        estimates = estimate_changes(runs(count, 5.0, 0.02, 1), runs(count, 6.0, 0.02, 2), MARGIN)
        assert decide(estimates).outcome is Outcome.SLOWER
        assert estimates[0].change.low < 0.2 < estimates[0].change.high


def test_the_times_of_several_runs_are_their_geometric_mean_and_do_not_drift() -> None:
    drifting = np.concatenate([np.full(20, 4e6), np.full(20, 5e6)])
    base = [MeasuredSteps(factor * drifting, factor * drifting) for factor in (1.0, 1.21)]
    new = [MeasuredSteps(2 * one.length, 2 * one.period) for one in base]
    of_mean = estimate_changes(base, new, MARGIN)[1]
    assert of_mean.base_ns == pytest.approx(1.1 * 4.5e6)
    assert of_mean.change.point == pytest.approx(1.0)
    assert of_mean.drift == 0
    assert estimate_changes(base, new[:1], MARGIN)[1].drift == pytest.approx(0.25)


def test_runs_that_differ_too_much_are_said_to() -> None:
    estimates = estimate_changes(runs(2, 5.0, 0.2, 1), runs(2, 5.0, 0.2, 5), MARGIN)
    assert decide(estimates, "runs").reason == "the runs vary too much for so few of them"


ODD_LENGTHS = st.lists(st.sampled_from([1.0, 2.0, 1e3, 1e9, 1e9 + 1, 1e12, float(1 << 52)]), min_size=2, max_size=9)


@settings(max_examples=20)
@example(base=[[1.0, 1.0]], new=[[1e9, 1e9, 1.0]])
@example(base=[[1.0, 1.0], [float(1 << 52)] * 2], new=[[1e9] * 3])
@given(base=st.lists(ODD_LENGTHS, min_size=1, max_size=2), new=st.lists(ODD_LENGTHS, min_size=1, max_size=2))
def test_steps_of_any_length_are_compared(base: list[list[float]], new: list[list[float]]) -> None:
    """Steps a thousand million times as long once ended in an exception. Intervals are finite and in order."""
    first, second = ([MeasuredSteps(np.array(run), np.array(run)) for run in runs] for runs in (base, new))
    estimates = estimate_changes(first, second, MARGIN)
    assert decide(estimates).outcome in Outcome
    for one in estimates:
        assert -1 < one.change.low <= one.change.high < math.inf
