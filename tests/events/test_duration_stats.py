"""Statistics of durations by group are those of numpy over each group, for short and for long durations."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.events.duration_stats import SHORT_NS, statistics

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
