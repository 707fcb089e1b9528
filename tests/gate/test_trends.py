"""How a program develops: levels, noise, changes, and what moved."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import IDENTITY, made_run

from nsyswrap.gate.change_points import SeriesShape
from nsyswrap.gate.trends import OTHER, moved, trend_of_runs
from nsyswrap.runs.run import Run, SeriesRun, in_series

# Differences of up to 0.4 % in an order without a trend.
NOISE = (0.0, 0.3, -0.1, 0.1, -0.2, 0.2, 0.4, -0.4)


def series(levels_ms: list[float], runs: int = 16, commit_of: int = 4) -> list[SeriesRun]:
    """Return so many runs at each level; every four of them have a commit."""
    found = []
    for at in range(len(levels_ms) * runs):
        ms = levels_ms[at // runs] * (1 + NOISE[at * 5 % len(NOISE)] / 100)
        found.append(in_series(made_run(at, ms, f"{at // commit_of:040x}" if commit_of else "", at)))
    return found


def test_a_step_is_two_levels_with_what_moved() -> None:
    """The parts that moved add up to the difference of the mean steps."""
    runs = series([10.0, 10.5])
    trend = trend_of_runs(IDENTITY, 500, runs)
    assert (trend.shape, [level.first for level in trend.levels]) == (SeriesShape.STEP, [0, 16])
    (change,) = trend.changes
    assert change.share == pytest.approx(0.05, abs=0.005)
    assert change.is_of_commit is True
    means = [sum(one.row.mean_ns or 0 for one in some) / 16 for some in (runs[:16], runs[16:])]
    assert sum(one.delta_ns for one in change.moved) == pytest.approx(means[1] - means[0])
    assert change.moved[0].words == "compute"
    assert change.moved[-1].words == OTHER


def test_the_noise_of_a_level_holds_its_runs() -> None:
    trend = trend_of_runs(IDENTITY, 16, series([10.0]))
    (level,) = trend.levels
    assert trend.changes == ()
    spread = max(abs((one.row.mean_ns or 0) / level.middle_ns - 1) for one in trend.runs)
    assert spread < level.noise < 0.05


def test_a_change_inside_a_commit_is_not_one_of_the_commit() -> None:
    """Noise may move a change point by one run, so a commit that begins one run beside it counts."""
    assert trend_of_runs(IDENTITY, 32, series([10.0, 10.5], commit_of=100)).changes[0].is_of_commit is False
    assert trend_of_runs(IDENTITY, 32, series([10.0, 10.5], commit_of=17)).changes[0].is_of_commit is True
    assert trend_of_runs(IDENTITY, 32, series([10.0, 10.5], commit_of=0)).changes[0].is_of_commit is None


def test_what_else_changed_with_the_level_is_named() -> None:
    """The driver, with the commit; the page says both."""
    runs = series([10.0, 10.5])
    later = [one._replace(row=one.row._replace(driver="590")) for one in runs[16:]]
    (change,) = trend_of_runs(IDENTITY, 32, [*runs[:16], *later]).changes
    assert change.others == ("Other driver: 590 against 580.159.04.",)
    assert trend_of_runs(IDENTITY, 32, runs).changes[0].others == ()


def test_runs_without_steps_are_counted_and_left_out() -> None:
    run = made_run(100)
    bare = in_series(Run(run.row._replace(step_count=0, mean_ns=None), run.content, (), (), ()))
    trend = trend_of_runs(IDENTITY, 17, [*series([10.0]), bare])
    assert (len(trend.runs), trend.without_steps) == (16, 1)
    assert trend_of_runs(IDENTITY, 1, [bare]).levels == ()


def test_two_runs_have_a_level_of_unknown_noise() -> None:
    (level,) = trend_of_runs(IDENTITY, 2, series([10.0], runs=2)).levels
    assert math.isinf(level.noise)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=12))
def test_what_moved_adds_up(pairs: list[tuple[float, float]]) -> None:
    """To the difference of both sides, whatever is added up as the rest."""
    before, after = ({str(at): pair[side] for at, pair in enumerate(pairs)} for side in (0, 1))
    found = moved(before, after)
    assert sum(one.delta_ns for one in found) == pytest.approx(sum(after.values()) - sum(before.values()), abs=1e-3)
    assert len(found) <= len(pairs)
