"""Change points: found where the level changes, not in noise, and different from drift."""

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.gate.change_points import SeriesShape, _divergence, change_points, trend_of

Series = npt.NDArray[np.float64]


def noise(count: int, seed: int = 1) -> Series:
    """Return normal noise with a spread of 0.01; the same for the same seed."""
    return 0.01 * np.random.default_rng(seed).standard_normal(count)


def by_definition(series: Series, cut: int) -> float:
    """Return the divergence of one cut: Matteson and James, 2014, equation 5, with absolute distances."""
    left, right = series[:cut].tolist(), series[cut:].tolist()
    between = float(np.mean([abs(one - other) for one in left for other in right]))
    within = [float(np.mean([abs(one - other) for one, other in combinations(side, 2)])) for side in (left, right)]
    return len(left) * len(right) / len(series) * (2 * between - sum(within))


@given(st.lists(st.floats(-10, 10), min_size=4, max_size=20))
def test_the_divergence_is_that_of_its_definition(values: list[float]) -> None:
    series = np.array(values)
    orders = np.array([np.arange(len(series)), np.random.default_rng(1).permutation(len(series))])
    found = _divergence(np.abs(series[:, None] - series), orders)
    for order, of_order in zip(orders, found, strict=True):
        expected = [by_definition(series[order], cut) for cut in range(2, len(series) - 1)]
        assert of_order.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("pairs", [1, 5_000, 1 << 20])
@pytest.mark.parametrize("at_first", [1, 299])
def test_points_do_not_depend_on_how_many_orders_are_worked_out_at_once(
    pairs: int, at_first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part has a change point, and the noise after it takes the next random orders of the same stream."""
    every = [np.concatenate([np.zeros(15), np.full(count, 0.05)]) + noise(15 + count, count) for count in (8, 15, 40)]
    expected = [change_points(series) for series in every]
    monkeypatch.setattr("nsyswrap.gate.change_points._PAIRS", pairs)
    monkeypatch.setattr("nsyswrap.gate.change_points._AT_FIRST", at_first)
    assert [change_points(series) for series in every] == expected
    assert all(expected)


def test_two_steps_are_found_where_they_are() -> None:
    series = np.concatenate([np.zeros(10), np.full(8, 0.1), np.full(12, 0.05)]) + noise(30)
    points = change_points(series)
    assert [one.first for one in points] == [10, 18]
    assert [one.change for one in points] == pytest.approx([0.1, -0.05], abs=0.01)


def test_noise_has_change_points_at_most_as_often_as_its_significance() -> None:
    """Of 200 series of noise, 1 % is allowed and at most 3 % are seen; seeds are fixed."""
    assert sum(bool(change_points(noise(20, seed))) for seed in range(200)) <= 6


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [5.0] * 12])
def test_short_and_constant_series_have_no_change_points(values: list[float]) -> None:
    assert change_points(np.array(values)) == ()


@pytest.mark.parametrize(
    ("series", "shape", "change"),
    [
        (noise(24), SeriesShape.LEVEL, 0.0),
        (np.repeat([0.0, 0.1], 12) + noise(24), SeriesShape.STEP, 0.1),
        (np.linspace(0.0, 0.2, 24) + noise(24), SeriesShape.DRIFT, 0.2),
        (np.linspace(0.2, 0.0, 24) + noise(24), SeriesShape.DRIFT, -0.2),
    ],
    ids=["noise", "a step", "drift up", "drift down"],
)
def test_step_drift_and_noise_are_different(series: Series, shape: SeriesShape, change: float) -> None:
    found = trend_of(series, change_points(series))
    assert found.shape is shape
    assert found.change == pytest.approx(change, abs=0.02)
