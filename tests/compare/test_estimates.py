"""The conditions for the four outcomes: faster, slower, no difference and cannot tell."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import paired_reports as pairs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsyswrap.base.interval import Interval
from nsyswrap.compare.comparison import FIND, Outcome
from nsyswrap.compare.estimates import ALONE, MEAN, MEDIAN, MORE_RUNS, Decision, decide, estimate_changes
from nsyswrap.compare.step_times import LEDGER_ROWS, MeasuredSteps

Series = npt.NDArray[np.float64]
FASTER, SLOWER, SAME, UNKNOWN = Outcome.FASTER, Outcome.SLOWER, Outcome.NO_DIFFERENCE, Outcome.CANNOT_TELL


def series(median_ms: float, count: int = 60, seed: int = 1, spread: float = 0.003) -> Series:
    """Return steps with random deviations from a median, in ns."""
    return pairs.lengths(median_ms, count, seed, spread).astype(np.float64)


def steps(length: Series, between: float = 0.0, host: float = 0.0) -> MeasuredSteps:
    """Return steps in which kernels run, except for a share of their time, and ``between`` ns after each."""
    period = length + between
    parts = dict.fromkeys(LEDGER_ROWS, np.zeros(len(length)))
    return MeasuredSteps(length, period, parts | {"compute_ns": period * (1 - host)})


def decision(base: list[MeasuredSteps], new: list[MeasuredSteps], find: float = FIND) -> Decision:
    return decide(estimate_changes(base, new, find), base, new, find)


def outcome_of(base: Series, new: Series, find: float = FIND) -> Outcome:
    """Return the outcome for one run of each side whose kernels run all the time."""
    return decision([steps(base)], [steps(new)], find).outcome


@pytest.mark.parametrize(("median_ms", "expected"), [(2.0, FASTER), (8.0, SLOWER), (4.0, SAME)])
def test_a_clear_case_is_decided(median_ms: float, expected: Outcome) -> None:
    assert outcome_of(series(4.0, spread=0.0001), series(median_ms, seed=2, spread=0.0001)) is expected


def test_turned_round_the_answer_is_turned_round() -> None:
    assert outcome_of(series(4.0), series(3.0, seed=2)) is FASTER
    assert outcome_of(series(3.0), series(4.0, seed=2)) is SLOWER


def test_no_difference_needs_an_interval_within_what_must_be_found() -> None:
    """Three runs of each side, 1.0 % apart: the interval reaches from -1.2 to 1.2 %."""
    runs = [steps(np.full(60, 4e6 * factor)) for factor in (0.995, 1.0, 1.005)]
    (of_median, _) = estimate_changes(runs, runs, FIND)
    assert of_median.change.high == pytest.approx(0.0144, abs=0.001)
    assert decision(runs, runs).outcome is SAME
    assert decision(runs, runs, find=0.016).outcome is SAME
    unknown = decision(runs, runs, find=0.012)
    assert (unknown.outcome, unknown.reason) == (
        UNKNOWN,
        "the runs vary too much to show or exclude a change of 1.2 %",
    )
    assert unknown.hint == "about 4 runs of each side would tell: --base-run, --new-run"


def test_a_small_change_that_is_certain_is_a_change() -> None:
    """An interval of -0.7 to -0.4 % leaves out 0, although it is within 2 %."""
    base, new = ([steps(np.full(60, 4e6 * level * each)) for each in (0.9996, 1.0, 1.0004)] for level in (1.0, 0.9945))
    assert decision(base, new).outcome is FASTER


def test_what_more_runs_cannot_show_is_said_to_be_so() -> None:
    runs = [steps(np.full(60, 4e6 * factor)) for factor in (0.7, 1.0, 1.4)]
    assert decision(runs, runs).hint.startswith("more than 60 runs of each side would be needed: make runs more alike")


@pytest.mark.parametrize(("host", "expected"), [(0.04, SLOWER), (0.06, UNKNOWN)])
def test_one_run_of_each_side_gives_no_verdict_on_host_time(host: float, expected: Outcome) -> None:
    """A step takes twice as long. It is decided where kernels run for 96 % of it, and not where they do for 94 %."""
    base, new = [steps(series(4.0), host=host)], [steps(series(8.0, seed=2), host=host)]
    found = decision(base, new)
    assert found.outcome is expected
    if expected is UNKNOWN:
        assert found.hint == MORE_RUNS
        assert all(one.outcome is UNKNOWN for one in estimate_changes(base, new, FIND))


def test_equal_runs_of_host_time_are_no_difference_only_by_several_runs() -> None:
    """One run of each side: the interval may be narrow, and another run would be 20 % away."""
    assert decision([steps(series(4.0), host=1.0)], [steps(series(4.0), host=1.0)]).outcome is UNKNOWN
    three = [steps(series(4.0, seed=at, spread=0.001), host=1.0) for at in range(3)]
    assert decision(three, three).outcome is SAME


def waiting(own_ms: float, waits_ms: float, seed: int) -> MeasuredSteps:
    """Return a run of so many ms of its own a step, and of waits for a core."""
    return replace(steps(series(own_ms + waits_ms, seed=seed), host=1.0), waiting_ns=waits_ms * 1e6)


def test_a_change_that_waits_for_a_core_explain_is_none() -> None:
    """A step takes 6 ms instead of 4 ms and waits 2 ms for a core. The other way round it is not faster."""
    alone, loaded = [waiting(4.0, 0.0, at) for at in range(3)], [waiting(4.0, 2.0, at) for at in range(3, 6)]
    for base, new, side in ((alone, loaded, "new"), (loaded, alone, "base")):
        found = decision(base, new)
        assert found.outcome is UNKNOWN
        assert found.reason.startswith(f"{side} waits 2.00 ms a step longer for a CPU core")
    assert decision(alone, [waiting(5.0, 1.0, at) for at in range(3, 6)]).outcome is SLOWER
    unknown = [replace(one, waiting_ns=None) for one in loaded]
    assert decision(alone, unknown).outcome is SLOWER


@pytest.mark.parametrize(("waits_ms", "expected"), [(0.039, SLOWER), (0.041, UNKNOWN)])
def test_waits_of_a_hundredth_of_a_step_may_explain_a_change(waits_ms: float, expected: Outcome) -> None:
    alone = [replace(steps(np.full(60, 4e6)), waiting_ns=0.0)] * 3
    loaded = [replace(steps(np.full(60, 4e6 + waits_ms * 1e6)), waiting_ns=waits_ms * 1e6)] * 3
    assert decision(alone, loaded).outcome is expected


def alone(median_ms: float, percent: float = 0.5) -> MeasuredSteps:
    """Return a run of 9 ms a step whose step alone is known to so many per cent."""
    half = round(median_ms * 1e4 * percent)
    point = round(median_ms * 1e6)
    return replace(steps(series(9.0), host=1.0), alone_ns=Interval(point - half, point, point + half))


def test_the_step_alone_is_what_is_compared_where_all_runs_have_it() -> None:
    """Under the profiler all steps take 9 ms; alone 5 instead of 4 ms."""
    base, new = [alone(4.0), alone(4.01), alone(3.99)], [alone(5.0), alone(5.01), alone(4.99)]
    first, *rest = estimate_changes(base, new, FIND)
    assert (first.label, [one.label for one in rest]) == (ALONE, [MEDIAN, MEAN])
    assert first.change.point == pytest.approx(0.25, abs=0.002)
    assert decision(base, new).outcome is SLOWER
    assert decision(base, [*new[1:], replace(new[0], alone_ns=None)]).outcome is SAME


def test_one_step_alone_of_each_side_is_still_host_time() -> None:
    assert decision([alone(4.0)], [alone(5.0)]).outcome is UNKNOWN


def test_one_step_alone_of_each_side_is_compared_where_kernels_always_run() -> None:
    """Its interval is that of the two medians, with the noise between runs."""
    base, new = (replace(steps(series(9.0)), alone_ns=alone(ms).alone_ns) for ms in (4.0, 5.0))
    assert decision([base], [new]).outcome is SLOWER
    (first, *_) = estimate_changes([base], [new], FIND)
    assert first.change.low == pytest.approx(0.25 - 1.25 * math.hypot(0.0172, 0.0086), abs=0.003)


def test_few_steps_that_scatter_widely_tell_nothing() -> None:
    assert outcome_of(series(4.0, 12, spread=0.5), series(4.4, 12, 2, 0.5)) is UNKNOWN


def test_steps_are_slower_if_each_fourth_is_longer() -> None:
    """The median stays, the time per step rises, as with gradient accumulation or a slow loader."""
    base, new = series(4.0, 80), series(4.0, 80, 2)
    new[::4] *= 2
    assert outcome_of(base, new) is SLOWER


def test_steps_of_two_lengths_are_no_difference_where_the_mean_tells() -> None:
    """Every second step takes 1.5 times as long, so the median is uncertain; the mean of 800 steps is certain."""
    base, new = series(4.0, 800), series(4.0, 800, 2)
    base[::2] *= 1.5
    new[1::2] *= 1.5
    assert outcome_of(base, new, find=0.05) is SAME


def test_time_that_moved_out_of_the_steps_is_no_saving() -> None:
    """Steps are half as long, and the other half now lies between them: training takes as long as before."""
    assert decision([steps(series(4.0))], [steps(series(2.0, seed=2), between=2e6)]).outcome is UNKNOWN


def test_estimates_are_of_median_and_mean() -> None:
    """They are in that order, each with its change and its speed-up."""
    base, new = MeasuredSteps(np.full(20, 4e6), np.full(20, 5e6)), MeasuredSteps(np.full(20, 2e6), np.full(20, 2.5e6))
    of_median, of_mean = estimate_changes([base], [new], FIND)
    assert (of_median.label, of_mean.label) == (MEDIAN, MEAN)
    assert (of_median.base_ns, of_mean.base_ns) == pytest.approx((4e6, 5e6))
    assert of_median.change.point == pytest.approx(-0.5)
    assert of_mean.times == pytest.approx(2.0)


@given(st.integers(0, 10_000), st.integers(10, 80), st.floats(0.005, 0.05))
def test_a_series_never_differs_from_its_own_shuffle(seed: int, count: int, spread: float) -> None:
    """The same times in another order have the same mean and median, so there is no change to find."""
    base = series(4.0, count, seed, spread)
    new = np.random.default_rng(seed).permutation(base)
    assert outcome_of(base, new) in (SAME, UNKNOWN)


def test_independent_pairs_of_the_same_loop_are_seldom_called_different() -> None:
    """A/A: of 60 pairs of 58 steps that scatter by 10 %, at most 4 are called faster or slower."""
    found = Counter(outcome_of(series(5.0, 58, seed, 0.1), series(5.0, 58, seed + 500, 0.1)) for seed in range(60))
    assert found[FASTER] + found[SLOWER] <= 4


def test_interval_and_change_are_shares_and_not_logarithms() -> None:
    of_median, _ = estimate_changes([steps(np.full(20, 4e6))] * 2, [steps(np.full(20, 8e6))] * 2, FIND)
    assert of_median.change.ends == pytest.approx((1.0, 1.0))
    assert of_median.change.point == pytest.approx(1.0)


def runs(count: int, median_ms: float, spread: float, seed: int) -> list[MeasuredSteps]:
    """Return several runs of one loop on the CPU, each a little faster or slower than the others."""
    faster = np.exp(spread * np.random.default_rng(seed).standard_normal(count))
    lengths = [series(median_ms, 60, seed + at) * factor for at, factor in enumerate(faster)]
    return [steps(one, host=1.0) for one in lengths]


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_runs_that_differ_are_no_change(count: int) -> None:
    """Runs of one loop differ by 5 %. At most 4 of 60 pairs of sides are called faster or slower."""
    said = Counter(
        decision(runs(count, 5.0, 0.05, at), runs(count, 5.0, 0.05, at + 900)).outcome for at in range(0, 600, 10)
    )
    assert said[FASTER] + said[SLOWER] <= 4


def test_three_runs_of_each_side_find_5_per_cent_on_a_quiet_machine() -> None:
    """Runs differ by 0.7 %: at least nine of ten of 40 pairs are found."""
    said = [decision(runs(3, 5.0, 0.007, at), runs(3, 5.25, 0.007, at + 900)).outcome for at in range(0, 400, 10)]
    assert said.count(SLOWER) >= 36


def test_runs_that_agree_by_chance_are_no_more_certain_than_their_steps() -> None:
    """Two runs of each side have equal means, from 60 steps that scatter by 30 %: 2 % between them shows nothing."""
    base, new = ([steps(series(ms, spread=0.3) * 1.0)] * 2 for ms in (4.0, 4.08))
    assert decision(base, new).outcome is UNKNOWN


def test_the_times_of_several_runs_are_their_geometric_mean() -> None:
    base = [steps(np.full(40, factor * 4.5e6)) for factor in (1.0, 1.21)]
    new = [steps(2 * one.length) for one in base]
    of_mean = estimate_changes(base, new, FIND)[1]
    assert of_mean.base_ns == pytest.approx(1.1 * 4.5e6)
    assert of_mean.change.point == pytest.approx(1.0)
    assert of_mean.noise == 0


ODD_LENGTHS = st.lists(st.sampled_from([1.0, 2.0, 1e3, 1e9, 1e9 + 1, 1e12, float(1 << 52)]), min_size=2, max_size=9)


@example(base=[[1.0, 1.0]], new=[[1e9, 1e9, 1.0]])
@example(base=[[1.0, 1.0], [float(1 << 52)] * 2], new=[[1e9] * 3])
@given(base=st.lists(ODD_LENGTHS, min_size=1, max_size=2), new=st.lists(ODD_LENGTHS, min_size=1, max_size=2))
def test_steps_of_any_length_are_compared(base: list[list[float]], new: list[list[float]]) -> None:
    """Steps a thousand million times as long once ended in an exception. Intervals are finite and in order."""
    first, second = ([MeasuredSteps(np.array(run), np.array(run)) for run in some] for some in (base, new))
    estimates = estimate_changes(first, second, FIND)
    assert decide(estimates, first, second, FIND).outcome in Outcome
    for one in estimates:
        assert -1 < one.change.low <= one.change.high < math.inf
