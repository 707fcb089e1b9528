"""The ranks on the page: a headline, the picture, the table rank by rank, and who waits for whom, for any number."""

from dataclasses import replace

import hand_made
import pytest
from made_rank_sections import HEADLINE, LATE, LENGTH, with_ranks

from nsyswrap.model import Report
from nsyswrap.render import documents, page_ranks, render
from nsyswrap.render.document import Block, Lines, Table
from nsyswrap.render.drawings import Picture
from nsyswrap.render.table_cells import TableView, table_view

FULL = hand_made.full_report()
# What the page of many ranks may take more than the page without them.
MOST_BYTES = {8: 40_000, 64: 150_000, 1_024: 200_000}


def blocks_of(count: int, late: int) -> list[Block]:
    """Return the blocks of a report with ranks."""
    return list(page_ranks.ranks(with_ranks(FULL, count, late)))


def said(report: Report) -> Lines:
    return next(one for one in page_ranks.ranks(report) if isinstance(one, Lines))


def table_of(count: int, late: int) -> tuple[Table, TableView]:
    """Return the table of a report with ranks, and how a page shows it."""
    table = next(one for one in blocks_of(count, late) if isinstance(one, Table))
    return table, table_view(table)


def matrix_of(count: int, late: int) -> Table | Picture | None:
    """Return who waits for whom."""
    section = with_ranks(FULL, count, late).section("ranks")
    assert section is not None
    return page_ranks.matrix(section, {late}, "mean step")


def map_of(count: int, late: int) -> Picture:
    """Return the picture of who waits for whom."""
    found = matrix_of(count, late)
    assert isinstance(found, Picture)
    return found


@pytest.mark.parametrize("report", [FULL, hand_made.empty_report(), hand_made.no_gpu_report()])
def test_without_ranks_there_is_no_part(report: Report) -> None:
    assert list(page_ranks.ranks(report)) == []
    assert 'id="ranks"' not in render("html", report)


def test_the_headline_is_that_of_the_finding_and_leads_to_it() -> None:
    found = said(with_ranks(FULL, 8, 3))
    assert (found.lines, found.links) == ((HEADLINE.format(3),), ("finding-ranks-late",))
    page = render("html", with_ranks(FULL, 8, 3))
    assert '<a href="#finding-ranks-late">' in page
    assert 'All numbers: <a href="#ranks">Ranks</a>' in page


def test_without_a_late_rank_the_headline_names_none() -> None:
    found = said(with_ranks(FULL, 8, -1))
    assert found.lines == ("No rank is late beyond chance. Ranks wait for one another for 0.0 % of their time.",)
    assert found.links == ("",)


def test_a_wait_that_may_be_chance_is_named_with_its_cause() -> None:
    report = with_ranks(FULL, 2, 1)
    table = hand_made.section_of(report, "ranks").tables["ranks"].assign(late=False)
    (line,) = said(replace(hand_made.with_tables(report, "ranks", ranks=table), findings=FULL.findings)).lines
    assert line.endswith("Longest for rank 1, 15.0 ms a step: data loader wait in data.")


def test_the_table_marks_the_late_rank_and_its_numbers_add_up() -> None:
    _, table = table_of(4, 2)
    assert [row[0].tag for row in table.rows] == ["", "", "late", ""]
    assert [each.get("class") for each in table.row_attributes] == [None, None, "late-rank", None]
    for row in table.rows:
        length, *parts, waited = (int(cell.raw) for cell in row[3:-1])
        assert (length, sum(parts)) == (LENGTH, LENGTH)
        assert waited == (LATE if row[0].tag else 0)
        assert row[2].picture is not None
        widths = [float(one.attributes["width"][:-1]) for one in row[2].picture.shapes]
        assert sum(widths) == pytest.approx(100, abs=0.01)
    assert [row[-1].text for row in table.rows][1:3] == ["waits for rank 2", "data loader wait in data"]


def test_the_table_of_many_ranks_begins_with_the_late_one_and_says_what_it_leaves_out() -> None:
    _, table = table_of(1_024, 700)
    assert (table.rows[0][0].text, len(table.rows), table.cut) == ("700", 100, "100 of 1,024 ranks")


def test_the_matrix_of_a_few_ranks_has_numbers() -> None:
    matrix = matrix_of(3, 1)
    assert isinstance(matrix, Table)
    rows = table_view(matrix).rows
    texts = [[cell.text for cell in row[1:]] for row in rows]
    assert texts == [["", "15.0 ms", ""], ["", "", ""], ["", "15.0 ms", ""]]
    assert [cell.shade for cell in rows[0]] == [0, 0, 5, 0]


def test_the_matrix_of_many_ranks_is_a_picture_of_few_shapes() -> None:
    picture = map_of(64, 21)
    blocks = [one for one in picture.shapes[0].parts if one.attributes["class"] == "p-rank_wait"]
    # A cell is 5 pixels wide and 9 high; no rank waits for itself.
    places = [tuple(int(one.attributes[name]) for name in ("x", "y", "height")) for one in blocks]
    assert places == [(21 * 5, 0, 21 * 9), (21 * 5, 22 * 9, 42 * 9)]
    assert [one.words for one in picture.shapes[0].parts if one.attributes["class"].endswith("late")] == ["21", "21"]
    assert picture.alt == "Who waits for whom; longest: 0 waits 15.0 ms for 21"


@pytest.mark.parametrize("count", MOST_BYTES)
def test_the_page_of_many_ranks_stays_small(count: int) -> None:
    more = len(render("html", with_ranks(FULL, count, 1))) - len(render("html", FULL))
    assert more < MOST_BYTES[count]


def test_the_slim_page_has_the_picture_of_a_few_ranks_and_stays_small() -> None:
    few, many = (documents.render("report", "slim", with_ranks(FULL, count, 1)) for count in (2, 64))
    assert few.count('class="rank-row"') == 2
    assert 'class="rank-row"' not in many
    assert "6 of 64 ranks" in many
    assert max(len(few.encode()), len(many.encode())) < 60_000


def test_every_row_of_the_picture_leads_to_the_timeline() -> None:
    page = render("html", with_ranks(FULL, 2, 1))
    start = FULL.window.start_ns
    assert page.count(f'<a href="#t={start}-{start + LENGTH}"><title>rank ') == 2


def test_names_of_steps_and_phases_are_text() -> None:
    report = with_ranks(FULL, 2, 1)
    hostile = {
        name: table.assign(**{column: hand_made.HOSTILE for column in ("step", "phase") if column in table})
        for name, table in hand_made.section_of(report, "ranks").tables.items()
    }
    page = render("html", hand_made.with_tables(report, "ranks", **hostile))
    assert "<img" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_terminal_and_markdown_show_the_ranks(form: str) -> None:
    shown = render(form, with_ranks(FULL, 64, 40))
    assert "late: data loader wait" in shown.replace("&#58;", ":")
    assert "waits for rank 40" in shown
    assert "56 more" in shown


@pytest.mark.parametrize("form", ["json", "csv"])
def test_the_forms_for_programs_have_all_ranks(form: str) -> None:
    assert "1023" in render(form, with_ranks(FULL, 1_024, 700))
