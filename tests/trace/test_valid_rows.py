"""Rows are sorted in small groups as they are all at once; invalid rows are dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.trace import valid_rows
from nsyswrap.trace.valid_rows import EVERY, LONGEST, find_bounds, keep_possible

TIMES = st.lists(st.integers(-50, 50), max_size=60)


@given(starts=TIMES, block=st.integers(1, 9))
def test_rows_are_sorted_by_start_and_then_by_content(starts: list[int], block: int) -> None:
    columns = {"start": np.array(starts, np.int64), "other": np.arange(len(starts))[::-1].copy()}
    expected = sorted(zip(*(values.tolist() for values in columns.values()), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(valid_rows, "BLOCK", block)
        assert keep_possible(columns, EVERY, is_operation=False) == {}
    assert list(zip(*(values.tolist() for values in columns.values()), strict=True)) == expected


def test_only_the_rows_out_of_order_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valid_rows, "BLOCK", 2)
    start = np.array([1, 2, 4, 3, 5, 7, 6, 8, 9, 10])
    assert list(valid_rows._unsorted_parts(start)) == [slice(2, 4), slice(4, 8)]  # noqa: SLF001


def test_invalid_rows_are_dropped_and_counted() -> None:
    """Each is counted once, by its first reason."""
    columns = {
        "start": np.array([5, 0, 9, 3, 7]),
        "end": np.array([4, 0, 10, 4, 8]),
        "bytes": np.array([1, 1, -1, 1, 1]),
        "device_id": np.array([0, -1, -1, 0, -1]),
    }
    dropped = keep_possible(columns, EVERY, is_operation=True)
    assert list(dropped.values()) == [2, 1, 1]
    assert [words.split()[-1] for words in dropped] == ["start", "size", "GPU"]
    assert {name: values.tolist() for name, values in columns.items()} == {
        "start": [3],
        "end": [4],
        "bytes": [1],
        "device_id": [0],
    }


def test_events_far_from_the_others_are_out_of_bounds() -> None:
    far = int(LONGEST) * 2
    bounds = find_bounds({"calls": {"start": np.array([1, 2, 3, far]), "end": np.array([2, 3, 4, far + 1])}})
    assert bounds.low < 1
    assert 4 < bounds.high <= far
