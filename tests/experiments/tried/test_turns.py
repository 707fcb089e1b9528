"""When a change counts as faster, slower or no difference."""

import math

import pytest

from nsyswrap.experiments.request import LOOKS
from nsyswrap.experiments.tried.turns import interval, judged

LIMIT = 3.0


def logs(mean: float, deviation: float) -> list[float]:
    """Return nine logarithms of ratios with this mean and this standard deviation."""
    return [*[mean + deviation] * 4, *[mean - deviation] * 4, mean]


@pytest.mark.parametrize(
    ("mean", "deviation", "verdict"),
    [
        (-0.10, 0.052, "faster"),
        (-0.10, 0.053, "cannot tell"),
        (0.10, 0.052, "slower"),
        (0.10, 0.053, "cannot tell"),
        (-6.5, 4.0, "faster"),
        (0.0, 0.0099, "no difference"),
        (0.0, 0.0101, "cannot tell"),
        (-0.004, 0.004, "no difference"),
        (0.006, 0.003, "no difference"),
        (0.008, 0.003, "slower"),
    ],
)
def test_a_change_is_judged_by_its_interval(mean: float, deviation: float, verdict: str) -> None:
    """Half of the interval is three deviations over the root of nine pairs: one deviation.

    A step of 100 that takes 90.5 has an interval of 85.9 to 95.3: as wide as what is saved. One that takes 0.15 has an
    interval of 0.003 to 8.2, far from 100.
    """
    assert judged(logs(mean, deviation), LIMIT) == verdict


def test_one_pair_says_nothing() -> None:
    mean, reach = interval([-0.5], LIMIT)
    assert (mean, reach) == (-0.5, math.inf)
    assert judged([-0.5], LIMIT) == "cannot tell"


def test_each_look_needs_more_pairs() -> None:
    assert list(LOOKS) == sorted(set(LOOKS))
