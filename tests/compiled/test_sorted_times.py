"""Times and spans have the same places, overlaps, unions and parts with the compiled functions and with numpy."""

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap import intervals
from nsyswrap.attribution.cuts import cut
from nsyswrap.compiled import sorted_times
from nsyswrap.intervals import LabelledSpans, Spans

LEAST, MOST = -(2**63), 2**63 - 1
# Few different times, so that many are equal; some as far apart as int64 allows.
TIMES = st.one_of(st.integers(0, 30), st.integers(LEAST, MOST), st.sampled_from([LEAST, MOST]))
NEAR = st.integers(0, 60)


class Given:
    """Stands for the library: its functions are those that a test gives."""

    found: ctypes.CDLL | None = None

    def functions(self) -> ctypes.CDLL | None:
        """Return them."""
        return self.found


@pytest.fixture(scope="module")
def library(functions: ctypes.CDLL) -> Iterator[Given]:
    """Let arrays of any length be given to the library, which has no functions yet."""
    library = Given()
    library.found = functions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_times, "LIBRARY", library)
        patch.setattr(sorted_times, "FEW_ROWS", 1)
        yield library


def both(library: Given, make: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a function returns with the compiled functions, and without them."""
    compiled = make()
    functions, library.found = library.found, None
    try:
        return compiled, make()
    finally:
        library.found = functions


def check(library: Given, make: Callable[[], Any]) -> None:
    """Check that both ways return arrays with the same values, and of the same types."""
    for found, wanted in zip(
        *(each if isinstance(each, tuple) else (each,) for each in both(library, make)), strict=True
    ):
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


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


@given(mask=st.lists(st.booleans(), max_size=40), kind=st.sampled_from(["i1", "i2", "i4", "i8", "u4", "bool", "f8"]))
def test_chosen_values_are_the_same(library: Given, mask: list[bool], kind: str) -> None:
    values = np.arange(len(mask), dtype=np.int64).astype(kind)
    check(library, lambda: intervals.chosen(np.array(mask, bool), values, values[::-1]))


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
