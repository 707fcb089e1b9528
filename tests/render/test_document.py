"""Any document in each form: what a form shows, what it leaves out, and that no text is more than text."""

import html
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hand_made import HOSTILE
from page_elements import Page

from nsyswrap.render import html_writer, markdown_writer, text_writer
from nsyswrap.render.charts import stacked
from nsyswrap.render.document import (
    EVERYWHERE,
    PAGE,
    PAGES,
    Bar,
    Bars,
    Block,
    Column,
    Document,
    DocumentSection,
    Entries,
    Entry,
    Evidence,
    Facts,
    Fold,
    Form,
    Lines,
    Meaning,
    Meanings,
    Pictures,
    Table,
    columns,
)
from nsyswrap.render.drawings import Picture, shape

WRITERS: dict[str, Callable[[Document], str]] = {
    "html": html_writer.write,
    "text": text_writer.write,
    "markdown": markdown_writer.write,
}
every_form = pytest.mark.parametrize("form", WRITERS)


def table(count: int = 3) -> Table:
    """Return a table of so many rows, the longest first."""
    rows = [{"name": f"row {at}", "total_ns": (count - at) * 1_000_000, "text": "why"} for at in range(count)]
    return Table("things", "Things", columns(rows, {"text": "reason"}))


def document(*blocks: Block) -> Document:
    return Document("try", "title", "The verdict.", (DocumentSection("part", "Part", "", blocks),))


def shown(form: str, *blocks: Block) -> str:
    """Return what a form shows of blocks, with single spaces and without entities."""
    return " ".join(html.unescape(WRITERS[form](document(*blocks))).split())


def hostile() -> Document:
    parts = stacked([("compute", HOSTILE, "#0054A9", 1.0)])
    drawing = Picture((shape("text", "word", words=HOSTILE, title=HOSTILE),), 20, HOSTILE, caption=HOSTILE)
    made = Table(HOSTILE, HOSTILE, columns([{HOSTILE: HOSTILE, "text": HOSTILE}], {}), cut=HOSTILE, is_titled=True)
    blocks: tuple[Block, ...] = (
        *(Lines((HOSTILE,), role) for role in ("plain", "fine", "notes", "bullets", "code")),
        Facts(((HOSTILE, HOSTILE),)),
        Entries((Entry(HOSTILE, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, "note"),), HOSTILE),
        Entries((Entry(HOSTILE, headline=HOSTILE, evidence=(Evidence(HOSTILE),)),) * 9, HOSTILE, advised=EVERYWHERE),
        Bars((Bar(HOSTILE, HOSTILE, parts),), parts, with_amounts=True, forms=EVERYWHERE),
        Pictures((drawing,)),
        Fold(HOSTILE, (Meanings((Meaning(HOSTILE, HOSTILE),), HOSTILE),)),
        made,
    )
    about = ((HOSTILE, HOSTILE),)
    sections = (DocumentSection("part", HOSTILE, HOSTILE, blocks, HOSTILE),)
    return Document("try", HOSTILE, HOSTILE, sections, about, HOSTILE, lead=(Lines((HOSTILE,)),))


@every_form
def test_each_block_of_hostile_texts_stays_text(form: str) -> None:
    """No control character, no change of direction, and on the page no element that the document did not ask for."""
    text = WRITERS[form](hostile())
    assert not {"\x1b", "\u202e", "\x00"} & set(text)
    if form != "text":
        assert "<img" not in text
    if form == "html":
        assert Page(text).all("script") == [{}] * 3


@every_form
def test_a_form_has_its_blocks_and_no_others(form: str) -> None:
    here, elsewhere = Lines(("here it is",), forms=frozenset({form})), Lines(("elsewhere",), forms=EVERYWHERE - {form})  # type: ignore[arg-type]
    assert "here it is" in shown(form, here, elsewhere)
    assert "elsewhere" not in shown(form, here, elsewhere)


@pytest.mark.parametrize(("form", "rows"), [("html", 100), ("text", 5), ("markdown", 8)])
def test_a_table_is_cut_after_its_most_rows_and_says_so(form: Form, rows: int) -> None:
    """A table with one row more is cut."""
    assert table(rows).cut_in(form) == ""
    assert table(rows + 1).cut_in(form).startswith(f"{rows} of {rows + 1} rows, ")
    assert f"{rows} of {rows + 1} rows" in shown(form, table(rows + 1))
    assert f"row {rows} " not in shown(form, table(rows + 1))


def test_a_table_may_have_its_own_limits_and_keep_its_last_rows() -> None:
    days = replace(table(9), most={"text": 2, "markdown": 0}, keeps_last=True)
    assert list(days.shown("text")) == [7, 8]
    assert "row 8" not in shown("markdown", days)
    assert "row 8" in shown("text", days)
    assert "row 0" not in shown("text", days)


def test_a_brief_table_has_all_columns_on_the_page_alone() -> None:
    brief = replace(table(), brief=("name", "total_ns"))
    assert "reason" in shown("html", brief)
    assert "reason" not in shown("text", brief) + shown("markdown", brief)


def test_columns_have_the_unit_of_their_name_and_one_unit_on_the_page() -> None:
    long, short = table().columns_of("html")[1], table().columns_of("text")[1]
    assert (long.unit, long.cells) == ("ms", ["3.00", "2.00", "1.00"])
    assert (short.unit, short.cells) == ("", ["3.00 ms", "2.00 ms", "1.00 ms"])


def test_a_column_with_its_own_texts_has_no_bars() -> None:
    change = Column("change", "change", "share", [0.5, 0.1], ["+50 %", "+10 %"])
    name = Column("name", "name", "text", ["a", "b"])
    assert "barred" in html_writer.write(document(Table("t", "T", (name, change._replace(cells=())))))
    assert 'class="n barred' not in html_writer.write(document(Table("t", "T", (name, change))))


def test_more_entries_than_fit_are_counted() -> None:
    """A text has three of them, Markdown five; the page has all."""
    for count in (3, 4, 6):
        entries = Entries(tuple(Entry("new", f"thing {at}") for at in range(count)), "new", (3, 5))
        assert ("1 more new" in shown("text", entries)) is (count == 4)
        assert ("1 more new" in shown("markdown", entries)) is (count == 6)
        assert f"thing {count - 1}" in shown("html", entries)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_advice_is_in_the_forms_that_have_it_and_evidence_is_folded(form: Form) -> None:
    one = Entry("problem", headline="It waits.", advice="Do this; or that.", evidence=(Evidence("18 gaps"),))
    assert "Try this" not in shown(form, Entries((one,), "new"))
    words = shown(form, Entries((one,), "new", is_numbered=True, advised=EVERYWHERE))
    assert ("Try this: Do this…" in words, "Evidence: 18 gaps" in words) == (form == "text", form == "markdown")
    assert ("<details><summary>1. <strong>problem</strong> It waits.</summary>" in words) is (form == "markdown")


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_a_folded_table_opens_with_a_click(form: Form) -> None:
    open_table, folded = document(table()), document(replace(table(), folded=frozenset({form})))
    count = WRITERS[form](open_table).count("<details>")
    assert WRITERS[form](folded).count("<details>") == count + 1


def test_a_wide_table_wraps_its_headings_before_its_numbers() -> None:
    names = [f"a long heading of column {at}" for at in range(6)]
    rows = columns([dict.fromkeys(names, 1_234)], {})
    lines = text_writer.write(document(Table("wide", "Wide", rows)), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("1,234") for line in lines) == 6


def test_a_row_begins_with_its_heading_and_leads_where_its_link_says() -> None:
    run = Column("run", "run", "text", ["a", "b"], links=["reports/a.html", ""])
    page = html_writer.write(document(Table("runs", "Runs", (run,), row_attributes=({"id": "x"}, {"id": "y"}))))
    assert '<tr id="x"><th scope="row"><a href="reports/a.html">a</a></th></tr>' in page
    assert '<tr id="y"><th scope="row"><bdi>b</bdi></th></tr>' in page


def test_a_picture_is_on_the_page_alone_and_says_what_it_shows() -> None:
    drawing = Picture((shape("rect", "level", title="a run", href="#x", x="5%", fill_opacity=".5"),), 20, "All runs")
    page = html_writer.write(document(Pictures((drawing,), PAGE)))
    assert 'role="img" aria-label="All runs"' in page
    assert re.search(r'<a href="#x"><rect class="level" x="5%" fill-opacity=".5"><title>a run</title></rect></a>', page)
    assert "All runs" not in shown("text", Pictures((drawing,)))


def test_the_marker_is_the_first_line_of_markdown() -> None:
    marked = replace(document(), marker="<!-- mine -->", outcome="passes")
    assert markdown_writer.write(marked).startswith("<!-- mine -->\n### nsyswrap try: passes, title\n")


def test_a_click_opens_the_blocks_of_a_fold_on_the_page_alone() -> None:
    folded = Fold("more of it", (Lines(("what it holds",)),))
    page = html_writer.write(document(folded))
    assert page.index("<summary>more of it</summary>") < page.index("what it holds")
    assert "what it holds" not in shown("text", folded) + shown("markdown", folded)


def test_groups_but_the_first_are_folded_and_listed_in_the_contents() -> None:
    first, second = (
        DocumentSection(name, name, "", (Lines((f"of {name}",)),), group=f"{name}s") for name in ("a", "b")
    )
    page = html_writer.write(replace(document(), sections=(first, second)))
    assert re.findall(r"<p>(\w+)</p>\s<ul>", page) == ["as", "bs"]
    assert page.index("of a") < page.index('<details class="group">') < page.index("of b")


def test_a_line_leads_only_to_what_the_page_has() -> None:
    lines = Lines(("to the part", "to nowhere"), "headline", links=("part", "elsewhere"))
    page = html_writer.write(document(lines))
    assert '<a href="#part">to the part</a>' in page
    assert '<p class="headline">to nowhere</p>' in page


def test_a_slim_page_has_its_blocks_and_its_last_sentence() -> None:
    both, page_alone = Lines(("here it is",), forms=PAGES), Lines(("elsewhere",), forms=PAGE)
    slim = html_writer.write(replace(document(both, page_alone), closing="More is there."), form="slim")
    assert "here it is" in slim
    assert "elsewhere" not in slim
    assert "More is there." in slim


FOLDED = Table(
    "tree",
    "Tree",
    columns([{"name": name, "total_ns": ns} for name, ns in (("all", 9), ("a", 6), ("b", 3), ("a.x", 2))], {}),
    parents=(-1, 0, 0, 1),
)


def test_rows_that_are_part_of_others_follow_them() -> None:
    """The page says how deep they are, for the script that folds them; cut tables keep their first rows."""
    rows = re.findall(r'data-depth="(\d)"><th scope="row"><bdi>([\w.]+)<', html_writer.write(document(FOLDED)))
    assert rows == [("0", "all"), ("1", "a"), ("2", "a.x"), ("1", "b")]
    cut = replace(FOLDED, most={"html": 3})
    assert list(cut.shown("html")) == [0, 1, 2]
    assert cut.cut_in("html") == "3 of 4 rows"


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_texts_indent_rows_that_are_part_of_others(form: str) -> None:
    found = WRITERS[form](document(FOLDED))
    assert [len(space) for space in re.findall("(\N{NO-BREAK SPACE}*)(?:all|a|b|a&#46;x|a.x)\\b +", found)][-4:] == [
        0,
        2,
        4,
        2,
    ]
