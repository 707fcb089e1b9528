"""Rows are chosen, taken and grouped in the same way with the compiled functions and with numpy."""

import ctypes
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from both_ways import Given, check, library_of
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.compiled import rows as rows_of
from nsyswrap.compiled.rows import chosen, grouped, in_ranges, is_constant, median, taken
from nsyswrap.events.duration_stats import statistics

KINDS = st.sampled_from(["i1", "i2", "i4", "i8", "u4", "bool", "f8", "f4", ">i4", "M8[ns]"])
ROW_KINDS = st.sampled_from(["i1", "i2", "i4", "i8", "u4", "u8"])
MASKS = st.lists(st.booleans(), max_size=40)


@pytest.fixture(scope="module")
def library(functions: ctypes.CDLL) -> Iterator[Given]:
    """Let the library take arrays of any length."""
    with library_of(functions) as library:
        yield library


def column(count: int, kind: str) -> npt.NDArray[np.int64]:
    """Return numbers of a type, most of them different."""
    return np.arange(3, count + 3, dtype=np.int64).astype(kind)


@given(mask=MASKS, kind=KINDS)
def test_chosen_values_are_those_of_numpy(library: Given, mask: list[bool], kind: str) -> None:
    where, values = np.array(mask, bool), column(len(mask), kind)
    check(library, lambda: chosen(where, values, values[::-1], np.broadcast_to(values[:1], len(mask))))
    check(library, lambda: chosen(np.repeat(where, 9), np.repeat(values, 9)))
    assert taken(values, where).tolist() == values[where].tolist()


@given(mask=st.lists(st.booleans(), max_size=40), block=st.integers(1, 9))
def test_chosen_values_are_those_of_the_mask(mask: list[bool], block: int) -> None:
    where, column = np.array(mask, bool), np.arange(len(mask))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_of, "BLOCK", block)
        one, other = chosen(where, column, -column)
    assert one.tolist() == column[where].tolist()
    assert other.tolist() == (-column)[where].tolist()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1001])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_chosen_values_of_sparse_and_dense_masks(library: Given, count: int, share: float) -> None:
    where = np.random.default_rng(count).random(count) < share
    check(library, lambda: chosen(where, column(count, "i4"), column(count, "i8")))


def test_values_of_a_full_mask_are_a_copy(library: Given) -> None:
    """What is taken can be changed in place."""
    assert library.found
    values = column(5, "i8")
    taken(values, np.ones(5, bool))[:] = 0
    assert values.tolist() == [3, 4, 5, 6, 7]


@given(data=st.data(), count=st.integers(1, 20), kind=KINDS, row_kind=ROW_KINDS)
def test_taken_values_are_those_of_numpy(
    library: Given, data: st.DataObject, count: int, kind: str, row_kind: str
) -> None:
    """A negative number counts from the end."""
    least = 0 if row_kind.startswith("u") else -count
    rows = np.array(data.draw(st.lists(st.integers(least, count - 1), max_size=30)), row_kind)
    for values in (column(count, kind), column(count, kind)[::-1]):
        check(library, partial(taken, values, rows))
        check(library, partial(taken, values, rows[::-1]))
        assert taken(values, rows).tolist() == values[rows].tolist()


@pytest.mark.parametrize("row", [5, -6, 2**31 - 1, -(2**31)])
def test_a_row_that_is_missing_is_an_error(library: Given, row: int) -> None:
    assert library.found
    for values in (column(5, "i8"), column(5, "i8")[:0]):
        with pytest.raises(IndexError):
            taken(values, np.array([row], np.int32))


def test_a_mask_of_another_length_is_an_error(library: Given) -> None:
    assert library.found
    with pytest.raises(IndexError):
        taken(column(5, "i8"), np.ones(4, bool))


def _statistics(codes: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], ...]:
    return tuple(statistics(codes, values, 6).values())


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 1 << 40)), max_size=40),
    kind=st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4"]),
)
def test_statistics_of_groups_are_the_same(library: Given, rows: list[tuple[int, int]], kind: str) -> None:
    codes, values = np.array([each for each, _ in rows], kind), np.array([each for _, each in rows], np.int64)
    check(library, partial(_statistics, codes, values))
    for short in (np.abs(values) % 1000, values.astype(np.uint32)):
        check(library, partial(_statistics, codes, short))


@pytest.mark.parametrize(("codes", "first"), [([0, 2], [0, 1]), ([0, -1], [0, 1]), ([0, 0], [1, 0]), ([0, 1], [-1, 0])])
def test_a_group_without_room_is_not_written(library: Given, codes: list[int], first: list[int]) -> None:
    assert library.found
    kept = np.full(4, 7, np.int64)
    assert not grouped(np.array(codes, np.int32), np.array([1, 2]), np.array(first), kept[1:3])
    assert kept[[0, 3]].tolist() == [7, 7]


@given(
    data=st.data(),
    reach=st.sampled_from([0, 1, 100, 1 << 20, 1 << 40, (1 << 63) - 1]),
    kind=st.sampled_from(["i8", "u4", "i4", "f8"]),
)
def test_medians_are_those_of_numpy(library: Given, data: st.DataObject, reach: int, kind: str) -> None:
    """Few values have a few different ones many times, so that the middle is often between two."""
    assert library.found
    some = data.draw(st.lists(st.integers(-reach, reach), min_size=1, max_size=80))
    times = data.draw(st.integers(1, 9))
    values = np.array(some * times, np.int64).astype(kind)
    for each in (values, np.sort(values), np.abs(values)):
        assert median(each) == np.median(each)


@pytest.mark.parametrize("count", [63, 64, 65, 1000, 100_001])
@pytest.mark.parametrize("spread", [0.1, 3.0, 8.0])
def test_medians_of_lengths(library: Given, count: int, spread: float) -> None:
    """Most are short, and some a million times as long; at the end of the range the first guess is wrong."""
    assert library.found
    lengths = np.random.default_rng(count).lognormal(7, spread, count).astype(np.int64)
    for each in (lengths, np.sort(lengths), np.where(np.arange(count) % 64 == 0, 1, lengths)):
        assert median(each) == np.median(each)


@given(edges=st.lists(st.integers(0, 40), max_size=20, unique=True), kind=st.sampled_from(["i4", "i8"]))
def test_rows_in_ranges_are_the_same(library: Given, edges: list[int], kind: str) -> None:
    sides = np.array(sorted(edges)[: len(edges) // 2 * 2], kind).reshape(-1, 2)
    check(library, lambda: in_ranges(sides[:, 0], sides[:, 1], 40))
    wanted = [any(begin <= row < end for begin, end in sides.tolist()) for row in range(40)]
    assert in_ranges(sides[:, 0], sides[:, 1], 40).tolist() == wanted


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (3, 1), (2, 9)])
def test_a_range_outside_is_not_written(functions: ctypes.CDLL, begin: int, end: int) -> None:
    mask, sides = np.full(6, 7, np.uint8), np.array([[begin], [end]])
    low, high = (each.ctypes.data for each in sides)
    assert functions.mark_ranges(low, high, 1, mask[1:5].ctypes.data, 4) < 0
    assert mask.tolist() == [7] * 6


@pytest.mark.parametrize(
    ("values", "wanted"), [([], False), ([1], True), ([1, 2, 1], False), ([1, 1], True), ([1, 2], False)]
)
def test_one_value_in_all_rows(values: list[int], *, wanted: bool) -> None:
    assert is_constant(np.array(values, np.int64)) is wanted
    assert is_constant(np.array(values, object)) is wanted
    assert is_constant(np.broadcast_to(np.int64(3), len(values))) is (len(values) > 0)
