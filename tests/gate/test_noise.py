"""The limit of the noise between runs: how often unchanged runs exceed it, and how many runs a hint wants."""

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.gate.noise import (
    FEWEST,
    MOST,
    dependence,
    fewest_new,
    interval_differences,
    is_certain,
    limit,
    middle,
    order_share,
    runs_needed,
)

Series = npt.NDArray[np.float64]
# Shifts that add up are no noise that earlier runs could show in full. Ten runs may hold no far one, and a single new
# run has no order.
MOST_ALARMS = {"shifts": 0.02, "one in twenty is far": 0.015}


def noise(kind: str, count: int, seed: int) -> Series:
    """Return noise of one kind with a spread of about 1."""
    generator = np.random.default_rng([15, seed])
    plain = generator.standard_normal(count + 50)
    if kind == "depends on the run before":
        found = np.zeros(len(plain))
        for at in range(1, len(plain)):
            found[at] = 0.8 * found[at - 1] + 0.6 * plain[at]
        return found[50:]
    if kind == "long tail":
        return np.asarray(np.exp(0.8 * plain[50:]))
    if kind == "shifts":
        level = np.cumsum(np.where(generator.random(count) < 0.05, 4 * generator.standard_normal(count), 0.0))
        return np.asarray(level + plain[50:])
    if kind == "one in ten is long":
        return np.asarray(plain[50:] + np.where(generator.random(count) < 0.1, 20.0, 0.0))
    if kind == "one in twenty is far":
        return np.asarray(plain[50:] + np.where(generator.random(count) < 0.05, 40.0, 0.0))
    return plain[50:]


KINDS = ["normal", "long tail", "depends on the run before", "shifts", "one in ten is long", "one in twenty is far"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("earlier", "new"), [(10, 1), (10, 3), (20, 2)])
def test_unchanged_runs_are_rarely_certain_to_be_slower(kind: str, earlier: int, new: int) -> None:
    """At most 1 in 100 of 400 series is, with an allowance of 1 in 200; seeds are fixed."""
    above = 0
    for seed in range(400):
        series = noise(kind, earlier + new, seed)
        before, now = series[:earlier], series[earlier:]
        beyond = middle(now) - float(np.median(before)) > limit(before, new, 0.005)
        above += beyond and is_certain(before, now, 0.005)
    assert above / 400 <= MOST_ALARMS.get(kind, 0.01)


@pytest.mark.parametrize(("earlier", "new"), [(4, 1), (3, 3), (5, 2)])
def test_the_share_of_orders_is_that_of_all_orders(earlier: int, new: int) -> None:
    """Each choice of the new runs among all is one order; a plain count over all of them."""
    runs = np.arange(float(earlier + new))
    behind = {
        chosen: sum(one > other for one in chosen for other in runs if other not in chosen)
        for chosen in combinations(runs.tolist(), new)
    }
    for chosen, count in behind.items():
        rest = np.array([each for each in runs if each not in chosen])
        expected = sum(other >= count for other in behind.values()) / len(behind)
        assert order_share(rest, np.array(chosen)) == pytest.approx(expected)


@pytest.mark.parametrize(("earlier", "new"), [(3, 9), (5, 5), (10, 3), (20, 2), (199, 1)])
def test_so_many_new_runs_can_be_certain(earlier: int, new: int) -> None:
    """All new runs behind three earlier ones are 1 order of 220, behind ten 1 of 286, behind twenty 1 of 231."""
    assert fewest_new(earlier, 0.005) == new
    assert order_share(np.arange(float(earlier)), np.full(new, 1000.0)) <= 0.005


def test_a_single_run_is_certain_only_far_beyond_the_limit() -> None:
    runs = noise("normal", 10, 3)
    beyond = limit(runs, 1, 0.005)
    assert not is_certain(runs, np.array([float(np.median(runs)) + 1.01 * beyond]), 0.005)
    assert is_certain(runs, np.array([float(np.median(runs)) + 20 * beyond]), 0.005)


def test_three_runs_have_student_s_limit() -> None:
    """The spread of -1, 0, 1 is 1; Student's t of two degrees is 9.925 at 99.5 %; intervals of two have no rest."""
    expected = 9.925 * math.sqrt(math.pi / 4 + math.pi / 6)
    assert limit(np.array([-1.0, 0.0, 1.0]), 2, 0.005) == pytest.approx(expected, rel=1e-3)


def test_the_largest_difference_is_extended_where_intervals_are_few() -> None:
    """One of 20 runs lies 10 above all others: the limit for one run is 10 / sqrt(21 * 0.005), for independent runs."""
    runs = np.zeros(20)
    runs[7] = 10.0
    assert limit(runs, 1, 0.005) == pytest.approx(10 / math.sqrt(21 * 0.005 / dependence(runs)))


def test_with_many_runs_the_limit_is_one_of_their_differences() -> None:
    """Of 499 differences two may be exceeded at 1 in 200, so the second largest is the limit."""
    runs = np.zeros(499)
    runs[[5, 50, 300]] = 9.0, 7.0, 5.0
    assert limit(runs, 1, 0.005) == pytest.approx(7.0)


def test_load_that_lasts_makes_runs_count_for_less() -> None:
    """Alternating and equal runs count in full; ten quiet runs and ten slow ones hardly."""
    assert dependence(np.tile([1.0, 2.0], 10)) == 1.0
    assert dependence(np.ones(20)) == 1.0
    assert dependence(np.repeat([1.0, 2.0], 10)) == pytest.approx((1 + 0.9) / (1 - 0.9))
    assert dependence(np.random.default_rng(1).standard_normal(400)) < 1.3


def test_a_level_that_changed_once_makes_the_limit_larger_than_the_change() -> None:
    """Nothing says that the machine will not do it again."""
    runs = np.concatenate([np.zeros(10), np.ones(10)]) + 0.01 * np.sin(np.arange(20))
    assert limit(runs, 3, 0.005) > 1.0


@given(
    st.lists(st.integers(-500, 500), min_size=3, max_size=25),
    st.integers(1, 5),
    st.sampled_from([0.25, 2.0, 8.0]),
    st.integers(-9, 9),
)
def test_the_limit_scales_with_the_noise(values: list[int], new: int, factor: float, shift: int) -> None:
    """It does not depend on the level, and grows in proportion to the noise."""
    runs = np.array(values, np.float64)
    assert limit(factor * runs + shift, new, 0.01) == pytest.approx(factor * limit(runs, new, 0.01), abs=1e-6)


def test_each_interval_is_held_against_the_rest() -> None:
    """Intervals of two in 1 2 3 4 5: the smaller of the two, less the middle of the other three."""
    assert interval_differences(np.arange(1.0, 6.0), 2).tolist() == [1 - 4, 2 - 4, 3 - 2, 4 - 2]
    assert len(interval_differences(np.arange(3.0), 2)) == 0


def test_the_number_of_runs_that_would_tell_is_the_first_with_a_low_enough_limit() -> None:
    runs = 0.02 * noise("normal", 40, 3)
    needed = runs_needed(runs, 0.05, 0.005)
    assert needed is not None
    assert limit(runs, needed, 0.005) < 0.05
    assert needed == 1 or limit(runs, needed - 1, 0.005) >= 0.05


def test_beyond_the_earlier_runs_the_number_grows_with_the_square_of_the_noise() -> None:
    """Five earlier runs measure two new ones at most; half the difference needs four times as many runs."""
    runs = 0.02 * noise("normal", 5, 3)
    reached = limit(runs, 2, 0.005)
    assert runs_needed(runs, reached / 2, 0.005) == 8
    assert runs_needed(runs, reached / 100, 0.005) is None
    assert runs_needed(runs, 0.0, 0.005) is None
    assert MOST > 8 > FEWEST
