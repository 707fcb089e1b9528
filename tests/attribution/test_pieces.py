"""Pieces of several parts are joined in order, whatever the sizes of the parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.attribution.pieces import Pieces, joined_in_order


def part_of(starts: list[int]) -> Pieces:
    start = np.array(starts, np.int64)
    small = np.zeros(len(start), np.int8)
    return Pieces(
        start,
        start + 1,
        start.astype(np.int32),
        small,
        small,
        start.astype(np.int8),
        small.astype(np.int32),
        np.arange(10),
    )


@given(parts=st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=9), expected=st.integers(1, 12))
def test_no_piece_is_lost_or_moved(parts: list[list[int]], expected: int) -> None:
    found = joined_in_order(map(part_of, parts), expected)
    starts = [start for part in parts for start in part]
    assert found.start.tolist() == found.threads[found.owner].tolist() == starts
    assert found.length.tolist() == [1] * len(starts)
