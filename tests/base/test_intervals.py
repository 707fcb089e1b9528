"""Laws of intervals, each checked by counting nanoseconds."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base import intervals
from nsyswrap.base.intervals import NOTHING, LabelledSpans, Spans, Window

FIRST, LAST = -12, 48

Loose = list[tuple[int, int]]
Labelled = list[tuple[int, int, int]]

moments = st.integers(FIRST, LAST)
loose_lists = st.lists(st.tuples(moments, moments), max_size=12)
labelled_lists = st.lists(st.tuples(moments, moments, st.integers(0, 4)), max_size=10)


def covered_by(loose: Loose) -> set[int]:
    """Return every nanosecond inside an interval."""
    return {at for start, end in loose for at in range(start, end)}


def counted(spans: Spans) -> set[int]:
    """Return every nanosecond inside the spans."""
    return covered_by(list(zip(spans.start.tolist(), spans.end.tolist(), strict=True)))


def merged(loose: Loose) -> Spans:
    """Return the union of loose intervals."""
    return intervals.merge([start for start, _ in loose], [end for _, end in loose])


def label_of_each(labels: LabelledSpans) -> dict[int, int]:
    rows = zip(labels.spans.start.tolist(), labels.spans.end.tolist(), labels.code.tolist(), strict=True)
    return {at: code for start, end, code in rows for at in range(start, end)}


def innermost_of(rows: Labelled) -> LabelledSpans:
    return intervals.innermost([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def assert_spans(spans: Spans) -> None:
    """Check that spans are int64, sorted, disjoint and not empty."""
    assert spans.start.dtype == spans.end.dtype == np.int64
    assert (spans.end > spans.start).all()
    assert (spans.start[1:] >= spans.end[:-1]).all()


def assert_labelled(labels: LabelledSpans) -> None:
    """Check that the spans are valid and have one int32 label each."""
    assert_spans(labels.spans)
    assert labels.code.dtype == np.int32
    assert len(labels.code) == len(labels.spans.start)


@given(loose_lists)
def test_merge_covers_what_its_intervals_cover(loose: Loose) -> None:
    assert counted(merged(loose)) == covered_by(loose)


@given(loose_lists)
def test_merged_spans_are_sorted_and_do_not_touch(loose: Loose) -> None:
    """Touching intervals become one span, so that gaps are maximal."""
    spans = merged(loose)
    assert_spans(spans)
    assert (spans.start[1:] > spans.end[:-1]).all()


@given(loose_lists)
def test_total_counts_each_nanosecond_once(loose: Loose) -> None:
    assert intervals.total(merged(loose)) == len(covered_by(loose))


@given(st.lists(loose_lists, max_size=4))
def test_union_covers_what_any_part_covers(parts: list[Loose]) -> None:
    union = intervals.union(*map(merged, parts))
    assert_spans(union)
    assert counted(union) == {at for part in parts for at in covered_by(part)}


@given(loose_lists, moments, moments)
def test_clip_keeps_the_part_inside(loose: Loose, start: int, end: int) -> None:
    clipped = intervals.clip(merged(loose), start, end)
    assert_spans(clipped)
    assert counted(clipped) == covered_by(loose) & set(range(start, end))


@given(loose_lists, moments, moments)
def test_gaps_are_the_rest_of_a_window(loose: Loose, start: int, end: int) -> None:
    holes = intervals.gaps(merged(loose), start, end)
    assert_spans(holes)
    assert counted(holes) == set(range(start, end)) - covered_by(loose)


@given(loose_lists, moments, moments)
def test_busy_and_gaps_add_up_to_the_window(loose: Loose, start: int, end: int) -> None:
    """The ledger relies on this: no nanosecond of a window is lost or counted twice."""
    spans = merged(loose)
    busy, idle = intervals.clip(spans, start, end), intervals.gaps(spans, start, end)
    assert intervals.total(busy) + intervals.total(idle) == max(end - start, 0)


@given(loose_lists, loose_lists)
def test_subtract_keeps_what_is_not_taken(loose: Loose, taken: Loose) -> None:
    left = intervals.subtract(merged(loose), merged(taken))
    assert_spans(left)
    assert counted(left) == covered_by(loose) - covered_by(taken)


@given(loose_lists, loose_lists)
def test_intersect_is_what_both_cover(one: Loose, other: Loose) -> None:
    both = intervals.intersect(merged(one), merged(other))
    assert_spans(both)
    assert counted(both) == covered_by(one) & covered_by(other)


@given(loose_lists, loose_lists)
def test_overlap_counts_what_both_cover(one: Loose, other: Loose) -> None:
    assert intervals.overlap(merged(one), merged(other)) == len(covered_by(one) & covered_by(other))


@given(loose_lists, loose_lists)
def test_overlay_names_the_pair_of_each_overlap(one: Loose, other: Loose) -> None:
    """Each piece is the whole overlap of its two spans, in order of time."""
    a, b = merged(one), merged(other)
    left, right, start, end = intervals.overlay(a, b)
    expected = [
        (i, j, max(a.start[i], b.start[j]), min(a.end[i], b.end[j]))
        for i in range(len(a.start))
        for j in range(len(b.start))
        if max(a.start[i], b.start[j]) < min(a.end[i], b.end[j])
    ]
    assert list(zip(left, right, start, end, strict=True)) == expected


@given(loose_lists, loose_lists)
def test_covered_counts_each_query_on_its_own(loose: Loose, queries: Loose) -> None:
    """Queries may overlap, come in any order, be empty or reversed."""
    start, end = (intervals.times([query[side] for query in queries]) for side in (0, 1))
    counts = intervals.covered(merged(loose), start, end)
    assert counts.dtype == np.int64
    assert counts.tolist() == [len(covered_by(loose) & set(range(*query))) for query in queries]


@given(loose_lists, st.lists(moments))
def test_containing_finds_the_span_of_a_moment(loose: Loose, at: list[int]) -> None:
    spans = merged(loose)
    found = intervals.containing(spans, intervals.times(at))
    for moment, index in zip(at, found, strict=True):
        if index < 0:
            assert moment not in covered_by(loose)
        else:
            assert spans.start[index] <= moment < spans.end[index]


@given(st.lists(st.tuples(st.integers(0, 4), loose_lists), max_size=4))
def test_a_nanosecond_has_the_label_of_its_first_layer(layers: list[tuple[int, Loose]]) -> None:
    labels = intervals.layered([(code, merged(loose)) for code, loose in layers])
    assert_labelled(labels)
    expected: dict[int, int] = {}
    for code, loose in layers:
        for at in covered_by(loose):
            expected.setdefault(at, code)
    assert label_of_each(labels) == expected


def innermost_by_counting(rows: Labelled) -> dict[int, set[int]]:
    """Return, for each nanosecond, the labels of the open interval that started last; of equals, the shorter."""
    found: dict[int, set[int]] = {}
    for at in range(FIRST, LAST):
        inside = [(start, -end, code) for start, end, code in rows if start <= at < end]
        if inside:
            best = max((start, shortness) for start, shortness, _ in inside)
            found[at] = {code for start, shortness, code in inside if (start, shortness) == best}
    return found


@given(labelled_lists)
def test_innermost_of_crossing_ranges_is_the_one_opened_last(rows: Labelled) -> None:
    """Ranges of several kinds may cross."""
    labels = innermost_of(rows)
    assert_labelled(labels)
    expected = innermost_by_counting(rows)
    found = label_of_each(labels)
    assert found.keys() == expected.keys()
    assert all(found[at] in expected[at] for at in found)


@given(labelled_lists, labelled_lists)
def test_fill_keeps_the_upper_label_and_else_has_the_lower(over: Labelled, under: Labelled) -> None:
    above, below = innermost_of(over), innermost_of(under)
    filled = intervals.fill(above, below)
    assert_labelled(filled)
    assert label_of_each(filled) == label_of_each(below) | label_of_each(above)


@given(labelled_lists, moments, moments)
def test_within_keeps_spans_that_overlap_an_interval_uncut(rows: Labelled, start: int, end: int) -> None:
    labels = innermost_of(rows)
    found = intervals.within(labels, start, end)
    assert_labelled(found)
    inside = set(range(start, end))
    assert label_of_each(found).items() <= label_of_each(labels).items()
    assert {at: label for at, label in label_of_each(found).items() if at in inside} == {
        at: label for at, label in label_of_each(labels).items() if at in inside
    }
    if start < end:
        assert all(set(range(*one)) & inside for one in zip(found.spans.start, found.spans.end, strict=True))


@given(labelled_lists, st.lists(moments))
def test_label_at_reads_one_moment(rows: Labelled, at: list[int]) -> None:
    labels = innermost_of(rows)
    found = intervals.label_at(labels, intervals.times(at), -7)
    assert found.dtype == np.int32
    assert found.tolist() == [label_of_each(labels).get(moment, -7) for moment in at]


def test_nothing_merges_to_nothing() -> None:
    assert intervals.merge([], []) == NOTHING
    assert intervals.total(intervals.union()) == 0


def test_spans_far_from_zero_keep_every_nanosecond() -> None:
    """int64 keeps the last digit, which a float would lose."""
    far = 2**61
    assert intervals.total(intervals.merge([far, -far], [far + 1, -far + 1])) == 2


def test_a_window_has_a_length() -> None:
    assert Window(-5, 5, "all", "operations").length_ns == 10


@pytest.mark.parametrize("end", [3, 2])
def test_a_window_is_never_empty(end: int) -> None:
    with pytest.raises(ValueError, match=f"empty window: 3 to {end} ns"):
        Window(3, end, "none", "user")


@given(edges=st.lists(st.integers(0, 40), max_size=6), at=st.lists(st.integers(-2, 42), max_size=60))
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("order", [sorted, list])
def test_places_are_those_of_searchsorted(
    edges: list[int], at: list[int], side: Literal["left", "right"], order: Callable[[list[int]], list[int]]
) -> None:
    borders, moments = np.array(sorted(edges), np.int64), np.array(order(at), np.int64)
    assert np.array_equal(intervals.places(borders, moments, side), np.searchsorted(borders, moments, side))
