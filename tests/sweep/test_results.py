"""The time per step of a cell with its interval, and the mean parts of its step."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made_sweeps import MS, gpus_sweep, made_run, spec_of

from nsyswrap.sweep.results import difference_is_shown, step_interval, sweep_of


def test_three_runs_give_their_own_interval() -> None:
    """The same as Student's t from a table: 4.3027 for two degrees of freedom."""
    found = step_interval([made_run("a", ms, at) for at, ms in enumerate((10.0, 11.0, 12.1), 1)])
    assert found is not None
    assert found.from_runs
    assert found.ns.point == pytest.approx(11.0 * MS)
    assert found.half_width == pytest.approx(4.3027 * 0.0953102 / 3**0.5, rel=1e-3)


def test_fewer_runs_have_the_noise_known_between_runs() -> None:
    """It is larger where no kernel runs for most of the time, and two runs make it smaller."""
    bound, host = step_interval([made_run("a", 10)]), step_interval([made_run("a", 10, host_ms=9)])
    twice = step_interval([made_run("a", 10, at, host_ms=9) for at in (1, 2)])
    assert bound is not None
    assert host is not None
    assert twice is not None
    assert not bound.from_runs
    assert bound.half_width < twice.half_width < host.half_width
    assert twice.half_width == pytest.approx(host.half_width / 2**0.5)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """2,000 cells of four runs with 3 % noise: 95 % within three standard errors of that share."""
    draw = random.Random(1)  # noqa: S311 - no secret
    hits = 0
    for _ in range(2000):
        found = step_interval([made_run("a", 10 * draw.lognormvariate(0, 0.03), at) for at in range(1, 5)])
        assert found is not None
        hits += 10 * MS in found.ns
    assert hits / 2000 == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / 2000) ** 0.5)


def test_a_cell_that_is_the_same_as_another_has_its_runs() -> None:
    cells = {each.cell.key: each for each in gpus_sweep().cells}
    assert cells["gpus-1_batch-8_mode-ddp"].runs == cells["gpus-1_batch-8_mode-dp"].runs


@given(some.lists(some.floats(1.0, 1e3), min_size=1, max_size=6))
def test_parts_add_up_to_the_mean_step(steps_ms: list[float]) -> None:
    runs = [made_run("workers-0_batch-64", ms, at, loader_ms=ms / 2) for at, ms in enumerate(steps_ms, 1)]
    cell = sweep_of(spec_of(), 1, runs).cells[0]
    assert cell.step_ns == pytest.approx(sum(steps_ms) / len(steps_ms) * MS)


def test_a_difference_within_the_noise_is_not_shown() -> None:
    one, other = step_interval([made_run("a", 10)]), step_interval([made_run("a", 10.05)])
    far = step_interval([made_run("a", 20)])
    assert one is not None
    assert other is not None
    assert far is not None
    assert not difference_is_shown(one, other)
    assert difference_is_shown(one, far)
    assert not difference_is_shown(far, one)
