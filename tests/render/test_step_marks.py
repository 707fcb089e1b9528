"""Marks of a lane: they lie inside, do not overlap, and say as much as fits."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render.step_columns import ColumnCluster
from nsyswrap.render.step_marks import WIDTHS, Label, Mark, Wanted, label, place

COLUMNS = 1200


def wanted(first: int, last: int, number: str = "", name: str = "data loader wait") -> Wanted:
    """Return a mark for some columns."""
    return Wanted(
        ColumnCluster(first, last, (first + last) / 2, 1), number, (f"{name} 2.97 ms", name), "finding-1", name
    )


def extent(mark: Mark, width: int) -> tuple[float, float]:
    """Return the pixels that a mark takes."""
    at = float(mark.x) * width / 100
    return (at, at + mark.plate) if mark.plate else (at - 9, at + 9)


@given(
    st.lists(st.tuples(st.integers(0, COLUMNS - 1), st.integers(1, 600), st.sampled_from(["", "1", "12"])), max_size=12)
)
def test_marks_lie_inside_and_do_not_overlap(drawn: list[tuple[int, int, str]]) -> None:
    marks = place([wanted(at, min(at + length, COLUMNS), number) for at, length, number in drawn], COLUMNS)
    for fits, width in WIDTHS:
        found = [extent(mark, width) for mark in marks if mark.fits == fits]
        assert all(start >= -0.1 and end <= width + 0.1 for start, end in found)
        assert all(one[1] <= other[0] + 0.2 or other[1] <= one[0] + 0.2 for one, other in combinations(found, 2))


def test_a_wide_page_has_room_for_more() -> None:
    found = place([wanted(0, 400, "1")], COLUMNS)
    assert [(mark.fits, mark.text) for mark in found] == [("wide", "data loader wait 2.97 ms"), ("narrow", "")]
    assert {mark.number for mark in found} == {"1"}


def test_a_name_without_room_is_left_out_but_a_finding_keeps_its_number() -> None:
    assert place([wanted(0, 10)], COLUMNS) == []
    found = place([wanted(600, 604, "3")], COLUMNS)
    assert [(mark.fits, mark.x, mark.number) for mark in found] == [("wide", "50.17", "3"), ("narrow", "50.17", "3")]


def test_the_second_of_two_findings_in_one_place_moves_aside() -> None:
    found = [mark for mark in place([wanted(600, 602, "1"), wanted(600, 602, "2")], COLUMNS) if mark.fits == "wide"]
    assert found[0].x == "50.08"
    assert abs(float(found[1].x) - 50.08) * 960 / 100 >= 18


def test_a_part_of_a_bar_says_what_it_has_room_for() -> None:
    """The shortest text may be too long, too; on a phone there is a third of the room."""
    texts = ("idle 82.6 %", "idle", "5 %")
    assert label(texts, 80) == Label("idle 82.6 %", 96, "all")
    assert label(texts, 15) == Label("idle 82.6 %", 96, "wide")
    assert label(texts, 6).text == "idle"
    assert label(texts, 1) == Label("", 0, "")
