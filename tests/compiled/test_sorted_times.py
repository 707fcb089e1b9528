"""Times and spans have the same places, overlaps, unions and parts with the compiled functions and with numpy."""

import ctypes
from collections.abc import Iterator
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from both_ways import Given, check, library_of
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap import intervals
from nsyswrap.attribution.cuts import cut
from nsyswrap.intervals import LabelledSpans, Spans

LEAST, MOST = -(2**63), 2**63 - 1
# Few different times, so that many are equal; some as far apart as int64 allows.
TIMES = st.one_of(st.integers(0, 30), st.integers(LEAST, MOST), st.sampled_from([LEAST, MOST]))
NEAR = st.integers(0, 60)


@pytest.fixture(scope="module")
def library(functions: ctypes.CDLL) -> Iterator[Given]:
    """Let the library take arrays of any length."""
    with library_of(functions) as library:
        yield library


def array(values: list[int]) -> npt.NDArray[np.int64]:
    """Return times as an array."""
    return np.array(values, np.int64)


@st.composite
def spans(draw: st.DrawFn, times: st.SearchStrategy[int] = NEAR) -> Spans:
    """Draw sorted spans that do not overlap; some touch."""
    edges = sorted(draw(st.lists(times, max_size=30, unique=True)))
    sides = array(edges[: len(edges) // 2 * 2])
    if draw(st.booleans()) and len(sides):
        return Spans(sides[:-1], sides[1:])
    return Spans(sides[::2].copy(), sides[1::2].copy())


@given(edges=st.lists(TIMES, max_size=30), at=st.lists(TIMES, max_size=30), in_order=st.booleans(), data=st.data())
def test_places_are_those_of_numpy(
    library: Given, edges: list[int], at: list[int], *, in_order: bool, data: st.DataObject
) -> None:
    side: Literal["left", "right"] = "right" if data.draw(st.booleans()) else "left"
    wanted = array(sorted(at) if in_order else at)
    check(library, lambda: intervals.places(array(sorted(edges)), wanted, side))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100, 1000])
def test_places_among_edges_of_any_number(library: Given, count: int) -> None:
    """The search goes far forwards and backwards."""
    edges = array([*range(0, 3 * count, 3)])
    at = np.random.default_rng(count).integers(-3, 3 * count + 3, 500)
    for times in (at, np.sort(at), np.sort(at)[::-1].copy()):
        check(library, partial(intervals.places, edges, times))


@given(edges=st.lists(TIMES, max_size=30), at=st.lists(TIMES, min_size=1, max_size=30))
def test_places_among_unsorted_edges_are_inside(functions: ctypes.CDLL, edges: list[int], at: list[int]) -> None:
    found = np.full(len(at), -1, np.int64)
    given_edges, given_at = array(edges), array(at)
    functions.place_times(given_edges.ctypes.data, len(edges), given_at.ctypes.data, len(at), 1, found.ctypes.data)
    assert 0 <= found.min() <= found.max() <= len(edges)


@given(covering=spans(), queries=st.lists(st.tuples(NEAR, NEAR), max_size=30))
def test_covered_time_is_the_same(library: Given, covering: Spans, queries: list[tuple[int, int]]) -> None:
    """Some intervals are empty, or end before they start."""
    start, end = array([each for each, _ in queries]), array([each for _, each in queries])
    check(library, lambda: intervals.covered(covering, start, end))


@given(one=spans(), other=spans())
def test_overlaps_are_the_same(library: Given, one: Spans, other: Spans) -> None:
    check(library, lambda: intervals.overlay(one, other))
    check(library, lambda: tuple(intervals.subtract(one, other)))


@given(rows=st.lists(st.tuples(NEAR, NEAR), max_size=30), in_order=st.booleans())
def test_unions_are_the_same(library: Given, rows: list[tuple[int, int]], *, in_order: bool) -> None:
    rows = sorted(rows) if in_order else rows
    start, end = array([each for each, _ in rows]), array([each for _, each in rows])
    check(library, lambda: tuple(intervals.merge(start, end)))


@given(parts=spans(), labels=spans(), data=st.data())
def test_spans_are_cut_at_the_same_places(library: Given, parts: Spans, labels: Spans, data: st.DataObject) -> None:
    code = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(labels.start), max_size=len(labels.start))), np.int32
    )
    check(library, lambda: cut(parts, LabelledSpans(labels, code), -1))


@given(rows=st.lists(st.tuples(TIMES, TIMES, TIMES, TIMES), min_size=1, max_size=30), room=st.integers(0, 100))
def test_spans_in_no_order_stay_in_their_room(
    functions: ctypes.CDLL, rows: list[tuple[int, int, int, int]], room: int
) -> None:
    """What is behind the room stays as it is."""
    sides = [np.array(side, np.int64) for side in zip(*rows, strict=True)]
    a, b, c, d = (side.ctypes.data for side in sides)
    out = [np.full(room + 1, 7, np.int64) for _ in range(4)]
    addresses = [each.ctypes.data for each in out]
    functions.overlap_spans(a, b, len(rows), c, d, len(rows), *addresses, room)
    codes, labels = np.full(room + 1, 7, np.int32), np.zeros(len(rows), np.int32)
    part, _, start, end = addresses
    functions.cut_spans(
        a, b, len(rows), c, d, labels.ctypes.data, len(rows), -1, part, codes.ctypes.data, start, end, room
    )
    assert [int(each[room]) for each in [*out, codes.astype(np.int64)]] == [7] * 5
