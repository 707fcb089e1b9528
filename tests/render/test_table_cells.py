"""Tables on the page: raw values with their text, bars that compare values, and links to times."""

import hand_made
import pandas as pd
import pytest

from nsyswrap.render.document import Column, Span, Table, frame_columns
from nsyswrap.render.table_cells import TableView, table_view


def shown(frame: pd.DataFrame) -> TableView:
    """Return a table of a section as a page prints it."""
    return table_view(Table("t", "", frame_columns(frame)))


def bars(table: pd.DataFrame, column: int) -> list[str]:
    return [row[column].bar for row in shown(table).rows]


def test_a_cell_has_the_value_of_the_report() -> None:
    """The text is rounded and in its column's unit; the raw value is what report.json holds."""
    view = shown(pd.DataFrame({"name": ["a"], "total_ns": [1_234_567], "share": [1 / 3]}))
    name, total, share = view.rows[0]
    assert (name.text, name.raw) == ("a", "")
    assert (total.text, total.raw) == ("1.23", "1234567")
    assert (share.text, share.raw) == ("33.3 %", str(1 / 3))


def test_a_column_is_headed_by_words_and_keeps_its_name() -> None:
    (head,) = shown(pd.DataFrame({"gap_count": [1]})).heads
    assert (head.name, head.label, head.is_text, head.term) == ("gap_count", "gaps", False, "term-gap")


def test_a_full_bar_is_100_per_cent() -> None:
    """A share of 10 % never fills the width, and one above 100 % stays inside it."""
    assert bars(pd.DataFrame({"share": [0.1, 0.05, 0.0, None]}), 0) == ["10.0", "5.0", "0.0", "0.0"]
    assert bars(pd.DataFrame({"share": [2.0, 1.0]}), 0) == ["100.0", "50.0"]


def test_a_column_of_no_shares_has_empty_bars() -> None:
    assert bars(pd.DataFrame({"share": [0.0, 0.0]}), 0) == ["0.0", "0.0"]


def test_shares_beside_one_another_have_one_scale() -> None:
    table = pd.DataFrame({"mean_share": [0.1, 0.2], "max_share": [0.4, 0.3]})
    assert bars(table, 0) == ["10.0", "20.0"]


def test_many_shares_are_numbers_alone() -> None:
    table = pd.DataFrame({f"{name}_share": [0.1, 0.2] for name in "abcd"})
    assert bars(table, 0) == ["", ""]


def test_without_a_share_the_weight_of_a_row_has_the_bar() -> None:
    table = pd.DataFrame({"name": ["a", "b"], "total_ns": [75, 25], "mean_ns": [1, 2]})
    assert (bars(table, 1), bars(table, 2)) == (["75.0", "25.0"], ["", ""])


def test_idle_time_has_the_colour_of_idle_time() -> None:
    table = pd.DataFrame({"name": ["a", "b"], "idle_ns": [4, 2]})
    assert [(row[1].bar, row[1].fill) for row in shown(table).rows] == [
        ("66.7", "idle"),
        ("33.3", "idle"),
    ]


def test_a_row_with_start_and_end_leads_to_its_place_in_time() -> None:
    table = pd.DataFrame({"name": ["a", "b"], "start_ns": [5, 7], "end_ns": [6, 7]})
    spans = [row[1].span for row in shown(table).rows]
    assert spans == [Span(5, 6), None], "an interval of length 0 has no link"


def test_a_long_table_is_cut_and_says_so() -> None:
    view = shown(pd.DataFrame({"name": [str(at) for at in range(500)]}))
    assert (len(view.rows), view.cut) == (100, "100 of 500 rows")


def test_a_cell_has_what_its_column_has_beside_its_text() -> None:
    """A word behind it, lines that a click opens, a shade, and a place that it leads to."""
    own = Column("name", "name", "text", ["a"], ["A"], ["#x"], ["late"], more=[("one", "two")], shades=[3])
    ((cell,),) = table_view(Table("t", "", (own,))).rows
    assert (cell.text, cell.href, cell.tag, cell.more, cell.shade) == ("A", "#x", "late", ("one", "two"), 3)


@pytest.mark.parametrize("hostile", [hand_made.HOSTILE])
def test_a_long_name_keeps_its_whole_and_hides_nothing(hostile: str) -> None:
    ((cell,),) = shown(pd.DataFrame({"name": [hostile * 20]})).rows
    assert len(cell.text) < len(cell.whole)
    assert not any(mark in cell.text for mark in "\u202e\x1b\n")
