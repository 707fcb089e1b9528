"""Two ranks do the same work where their kernels are alike; the same kernels that take longer are a slower GPU."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nsyswrap.ranks.rank_times import SAME_KERNEL, RankTimes
from nsyswrap.ranks.same_work import MORE_WORK, SLOWER_GPU, UNKNOWN, compared_work, launches_more


def times(device: int, length: int, name: str = "gemm", grid: int = 8, launched: int = 10) -> RankTimes:
    """Return the times of a GPU that ran ten kernels of one name, grid and length."""
    index = pd.MultiIndex.from_tuples([(name, grid, 1)], names=SAME_KERNEL)
    kernels = pd.DataFrame({"count": [10], "length": [10 * length]}, index=index)
    nothing, none = np.empty(0, np.int64), np.empty((0, 0), np.int64)
    return RankTimes(device, {}, (), none, none, nothing, nothing, nothing, {"forward": launched, "none": 1}, kernels)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (times(1, 150), SLOWER_GPU),
        (times(1, 101), UNKNOWN),
        (times(1, 150, grid=16), MORE_WORK),
        (times(1, 150, "other"), MORE_WORK),
    ],
)
def test_why_compute_takes_longer(other: RankTimes, expected: str) -> None:
    assert [why for why, _ in compared_work({0: times(0, 100), 1: other}, [(0, 1), (0, 1)])] == [expected, expected]


@pytest.mark.parametrize(("other", "expected"), [(6, MORE_WORK), (4, UNKNOWN)])
def test_the_same_work_has_19_of_20_kernels_alike(other: int, expected: str) -> None:
    """Of 100 kernels on the second GPU, six are others, or four."""
    index = pd.MultiIndex.from_tuples([("gemm", 8, 1), ("other", 8, 1)], names=SAME_KERNEL)
    counts = pd.DataFrame({"count": [100 - other, other], "length": [100 * (100 - other), 100 * other]}, index=index)
    known = {0: times(0, 100), 1: replace(times(1, 100), kernels=counts)}
    assert [why for why, _ in compared_work(known, [(0, 1)])] == [expected]


def test_no_pairs_have_no_reasons() -> None:
    assert compared_work({}, []) == []


def test_a_rank_launches_more_in_a_phase() -> None:
    known = {0: times(0, 1), 1: times(1, 1, launched=16)}
    zero, one = np.array([0, 0, 1, 0]), np.array([1, 1, 0, 1])
    phase = np.array([0, -1, 0, 1])
    found = launches_more(known, zero, one, phase, ("forward", "backward"))
    assert found.tolist() == [True, False, False, False]
    fewer = {0: times(0, 1), 1: times(1, 1, launched=14)}
    assert launches_more(fewer, zero, one, phase, ("forward", "backward")).tolist() == [False] * 4
