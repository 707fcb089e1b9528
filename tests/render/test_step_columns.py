"""Columns of a row and their outlines: nothing is lost, and the area of a colour is its time."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from timeline_fixtures import END, US, timeline_data

from nsyswrap.base.intervals import times
from nsyswrap.render.step_columns import UNITS, cluster, column_edges, heights, outline, taken

LAYERS = st.lists(st.lists(st.integers(0, 50), min_size=12, max_size=12), min_size=1, max_size=4)


def area(path: str) -> int:
    """Return the area of an outline in units of one column by one part of the height."""
    height, found = 0, 0
    for kind, number in re.findall(r"([hv])(-?\d+)", path):
        if kind == "v":
            height -= int(number)
        else:
            found += height * int(number)
    return found


@given(LAYERS)
def test_outlines_have_the_area_of_their_layers(drawn: list[list[int]]) -> None:
    """Each upper edge is rounded to half a unit, and lower layers cover what higher ones draw below their own part."""
    layers = [np.array(layer) for layer in drawn]
    widths = times(np.maximum(np.sum(layers, axis=0), 60))
    tops = heights(layers, widths)
    bottoms = [np.zeros(12, np.int64), *tops[:-1]]
    for layer, bottom, top in zip(np.cumsum(layers, axis=0), bottoms, tops, strict=True):
        assert (np.abs(top - UNITS * layer / widths) <= 0.5).all()
        assert area(outline(bottom, top)) == int(top[top > bottom].sum())


@given(LAYERS)
def test_layers_that_fill_their_columns_fill_the_drawing(drawn: list[list[int]]) -> None:
    layers = [np.array(layer) + 1 for layer in drawn]
    assert (heights(layers, times(np.sum(layers, axis=0)))[-1] == UNITS).all()


def test_an_outline_joins_equal_columns() -> None:
    nothing = np.zeros(6, np.int64)
    assert outline(nothing, np.array([0, 0, 5, 5, 20, 0])) == "M0 20h2v-5h2v-15h1v20h1V20z"
    assert outline(nothing, nothing) == ""


@given(start=st.integers(0, END - 1), length=st.integers(1, END), count=st.integers(1, 60), is_exact=st.booleans())
def test_the_classes_of_a_gpu_fill_each_column(*, start: int, length: int, count: int, is_exact: bool) -> None:
    """Also where an interval begins or ends inside a bin without items, to a ns for each class."""
    data = timeline_data(is_exact=is_exact)
    row = next(row for row in data.rows if row.label == "GPU 0")
    edges = column_edges(start, min(start + length, END), count)
    whole = np.sum([*taken(row, data.edges, edges).values(), np.zeros(count)], axis=0)
    assert (np.abs(whole - np.diff(edges)) <= (0 if is_exact else 4)).all()


def test_single_items_are_exact() -> None:
    """GPU 0 runs in the first half of each 100 us."""
    data = timeline_data()
    row = next(row for row in data.rows if row.label == "GPU 0")
    found = taken(row, data.edges, column_edges(1_020 * US, 1_120 * US, 4))
    assert found[0].tolist() == [25 * US, 5 * US, 0, 20 * US]


def test_a_cluster_holds_most_of_the_time() -> None:
    layer = np.zeros(40, np.int64)
    layer[[2, 3]], layer[[20, 24, 25]] = 50, 40
    assert cluster(layer, 4) == (20, 26, 24.5, 120)
    assert cluster(layer, 1) == (2, 4, 2.5, 100)
