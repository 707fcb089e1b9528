"""Change points of a series of runs: where its level changes, and whether this is a step or a drift.

Otava, ruptures and signal-processing-algorithms find change points, too. Otava needs BigQuery, PostgreSQL and one exact
numpy; signal-processing-algorithms needs numpy 1; ruptures has no test that says whether a change point is real.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nsyswrap.base.intervals import Indices
from nsyswrap.compare.bootstrap import Series

SIGNIFICANCE = 0.01
_PERMUTATIONS = 299
_SEED = 15
# Pairs of runs that are worked out at once: their arrays stay in the processor's cache.
_PAIRS = 1 << 17
# Noise needs few orders, mostly.
_AT_FIRST = 8
_ROUNDING = 1e-12
# A mean of fewer runs is no level.
_SHORTEST = 2


class ChangePoint(NamedTuple):
    """A change of level.

    Attributes:
        first: Position of the first run of the new level.
        change: New level less old level, in the unit of the series; levels are medians up to the next change points.
    """

    first: int
    change: float


class SeriesShape(StrEnum):
    """What a series does."""

    LEVEL = "level"
    STEP = "step"
    DRIFT = "drift"


def change_points(series: Series) -> tuple[ChangePoint, ...]:
    """Return the change points of a series in order; the same series gives the same points.

    The series is cut where both sides differ most, then each part again, as long as random orders of a part show such
    a difference in at most ``SIGNIFICANCE`` of cases. The test assumes that runs do not depend on each other, so
    load that lasts shows as change points, too.

    Source:
        E-divisive with its permutation test: Matteson and James, 2014; for benchmarks: Daly and others, 2020. Distances
        are absolute differences. Parts are cut in two, without the third interval of Matteson and James.
    """
    generator = np.random.default_rng(_SEED)
    cuts: list[int] = []
    parts = [(0, len(series))]
    while parts:
        start, end = parts.pop()
        place = _cut(series[start:end], generator)
        if place is not None:
            cuts.append(start + place)
            parts += [(start, start + place), (start + place, end)]
    if not cuts:
        return ()
    bounds = [0, *sorted(cuts), len(series)]
    levels = [float(np.median(series[low:high])) for low, high in pairwise(bounds)]
    changes = (after - before for before, after in pairwise(levels))
    return tuple(ChangePoint(cut, change) for cut, change in zip(sorted(cuts), changes, strict=True))


def _cut(part: Series, generator: np.random.Generator) -> int | None:
    """Return the best place to cut a part; None where it is not significant."""
    count = len(part)
    if count < 2 * _SHORTEST:
        return None
    distance = np.abs(part[:, None] - part)
    divergence = _divergence(distance, np.arange(count)[None])[0]
    place = int(divergence.argmax())
    # Two orders may cut the runs alike, and differ by rounding only.
    least = divergence[place] - _ROUNDING * distance.sum() / count
    as_large, done, at_once = 0, 0, _AT_FIRST
    while done < _PERMUTATIONS:
        state = generator.bit_generator.state
        orders = _random_orders(generator, min(at_once, _PERMUTATIONS - done), count)
        counts = as_large + np.cumsum(_divergence(distance, orders).max(axis=1) >= least)
        too_many = np.flatnonzero((counts + 1) / (_PERMUTATIONS + 1) > SIGNIFICANCE)
        if len(too_many):
            # Orders after the one that decides are not drawn, so that results do not depend on how many are at once.
            generator.bit_generator.state = state
            _random_orders(generator, int(too_many[0]) + 1, count)
            return None
        as_large, done, at_once = int(counts[-1]), done + len(orders), max(_AT_FIRST, _PAIRS // count**2)
    return place + _SHORTEST


def _random_orders(generator: np.random.Generator, number: int, count: int) -> Indices:
    """Return random orders of runs, shape (number, count)."""
    return np.array([generator.permutation(count) for _ in range(number)])


def _divergence(distance: Series, orders: Indices) -> Series:
    """Return how much both sides of each cut differ, for cuts that leave at least ``_SHORTEST`` runs on each side.

    Args:
        distance: Absolute difference of each two runs, shape (n, n).
        orders: Runs in order, shape (m, n).

    Returns:
        Shape (m, n - 2 * _SHORTEST + 1).
    """
    count = len(distance)
    places = np.argsort(orders, axis=1).astype(np.int32)
    is_before = (places[:, :, None] < places[:, None, :]).astype(np.float64)
    # Of each run in order: distance from all runs before it, and from all others.
    before = np.take_along_axis(np.einsum("muv,uv->mv", is_before, distance), orders, axis=1)
    from_all = distance.sum(axis=0)[orders]
    left = np.cumsum(before, axis=1)[:, :-1]
    right = np.cumsum((from_all - before)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    between = distance.sum() / 2 - left - right
    first = np.arange(1, count)[_SHORTEST - 1 : count - _SHORTEST]
    at, rest = first - 1, count - first
    mean_between = 2 * between[:, at] / (first * rest)
    mean_left, mean_right = (2 * side[:, at] / (size * (size - 1)) for side, size in ((left, first), (right, rest)))
    result: Series = first * rest / count * (mean_between - mean_left - mean_right)
    return result


class SeriesTrend(NamedTuple):
    """The shape of a series, and by how much it changes.

    Attributes:
        change: Size of the last step, or the change over the whole series where it drifts; 0 for a level.
        first: Position of the first run after the last step; 0 otherwise.
    """

    shape: SeriesShape
    change: float = 0.0
    first: int = 0


def trend_of(series: Series, points: Sequence[ChangePoint]) -> SeriesTrend:
    """Return whether a series keeps its level, steps or drifts.

    A series drifts where runs are in order of time too often for chance, and where a line describes it better than the
    levels that its change points make. A line has two numbers; levels have one more for each point and its place, so
    that enough of them follow any line.

    Source:
        Test: Mann, 1945, and Kendall, 1975. Slope: Theil, 1950, and Sen, 1968. Choice: the criterion of Schwarz, 1978,
        with noise of Laplace's distribution, whose likelihood falls with the mean absolute deviation.
    """
    slope = _slope(series) if _has_trend(series) else 0.0
    line = slope * np.arange(len(series))
    levels = np.empty(len(series))
    for low, high in zip(
        [0, *(one.first for one in points)], [*(one.first for one in points), len(series)], strict=True
    ):
        levels[low:high] = np.median(series[low:high])
    if slope and _criterion(series - line, 2) <= _criterion(series - levels, 2 * len(points) + 1):
        return SeriesTrend(SeriesShape.DRIFT, slope * (len(series) - 1))
    if points:
        return SeriesTrend(SeriesShape.STEP, points[-1].change, points[-1].first)
    return SeriesTrend(SeriesShape.LEVEL)


def _criterion(rest: Series, numbers: int) -> float:
    """Return Schwarz's criterion of a description that leaves this rest; the smaller one describes better."""
    scatter = float(np.abs(rest - np.median(rest)).mean())
    return 2 * len(rest) * math.log(max(scatter, _ROUNDING)) + numbers * math.log(len(rest))


def _has_trend(series: Series) -> bool:
    """Return whether later runs are longer, or shorter, than earlier ones too often for chance."""
    count = len(series)
    if count <= 2 * _SHORTEST:
        return False
    signs = np.sign(series[None, :] - series[:, None])
    score = float(np.triu(signs).sum())
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return math.erfc((abs(score) - 1) / deviation / math.sqrt(2)) <= SIGNIFICANCE


def _slope(series: Series) -> float:
    """Return the median slope between two runs, for each run."""
    low, high = np.triu_indices(len(series), 1)
    return float(np.median((series[high] - series[low]) / (high - low)))
