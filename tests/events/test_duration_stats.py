"""Statistics of durations by group are those of numpy over each group, for short and for long durations."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.events.duration_stats import SHORT_NS, statistics
from nsyswrap.trace import tables

LENGTHS = st.one_of(st.integers(0, 1000), st.integers(SHORT_NS - 2, SHORT_NS + 2), st.integers(0, 1 << 40))


@given(rows=st.lists(st.tuples(st.integers(0, 4), LENGTHS), min_size=1, max_size=60))
def test_statistics_are_those_of_each_group(rows: list[tuple[int, int]]) -> None:
    codes, duration = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    found = pd.DataFrame(statistics(codes, duration, 6))
    assert found["total_ns"].sum() == duration.sum()
    for group in range(6):
        mine, row = duration[codes == group], found.iloc[group]
        assert row["count"] == len(mine)
        if len(mine):
            assert (row["total_ns"], row["min_ns"], row["max_ns"]) == (mine.sum(), mine.min(), mine.max())
            assert (row["mean_ns"], row["median_ns"]) == (mine.sum() / len(mine), np.median(mine))
            assert row["stddev_ns"] == (mine.std(ddof=1) if len(mine) > 1 else 0)
        else:
            assert not row["total_ns"]


@pytest.mark.parametrize("longest", [1000, 2 * SHORT_NS])
def test_many_durations_keep_their_order_in_each_group(longest: int) -> None:
    """Rounding of the deviation depends on the order, which the same report needs to be the same."""
    random = np.random.default_rng(7)
    codes, duration = random.integers(0, 300, 3 * tables.BLOCK), random.integers(0, longest, 3 * tables.BLOCK)
    found = pd.DataFrame(statistics(codes, duration, 300))
    for group in (0, 17, 299):
        mine = duration[codes == group]
        row = found.iloc[group]
        assert (row["count"], row["total_ns"], row["median_ns"]) == (len(mine), mine.sum(), np.median(mine))
        assert row["stddev_ns"] == mine.std(ddof=1)
