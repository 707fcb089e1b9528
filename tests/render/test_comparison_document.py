"""The four forms of a comparison: pure, inert, narrow and small, with the same content."""

import html
import inspect
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_comparisons import ALL, full, hostile, unlike

from nsyswrap.base.errors import UsageError
from nsyswrap.compare import Comparison, Outcome
from nsyswrap.render import documents
from nsyswrap.render.comparison_document import tree
from nsyswrap.render.markdown_writer import MOST_BYTES

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"
FILES = {"text": "comparison.txt", "markdown": "comparison.md"}
FORMS = documents.KINDS["comparison"]
every_form = pytest.mark.parametrize("form", FORMS)


def render(form: str, comparison: Comparison, **fitting: Any) -> str:  # noqa: ANN401 - as the function has it
    """Return the comparison in one form."""
    return documents.render("comparison", form, comparison, **fitting)


every_pair = pytest.mark.parametrize("made", ALL.values(), ids=ALL)


@pytest.mark.parametrize(("form", "name"), FILES.items())
def test_a_comparison_reads_as_it_did(form: str, name: str) -> None:
    """The text is that of the reviewed file; NSYSWRAP_WRITE_SNAPSHOTS=1 writes a new one."""
    shown = render(form, full()).encode("utf-8")
    path = SNAPSHOTS / name
    if os.environ.get("NSYSWRAP_WRITE_SNAPSHOTS"):
        path.write_bytes(shown)
    assert path.read_bytes() == shown


@every_form
@every_pair
def test_the_same_comparison_gives_the_same_bytes(form: str, made: object) -> None:
    assert callable(made)
    first, second = render(form, made()), render(form, inspect.unwrap(made)())
    assert first == second
    assert first.endswith("\n")


@every_form
def test_the_verdict_is_in_every_form(form: str) -> None:
    """White space and markup may differ."""
    shown = html.unescape(re.sub(r"\s+", " ", render(form, full())))
    assert " ".join(full().verdict.split()) in shown


@every_form
def test_no_hostile_name_gets_through(form: str) -> None:
    """A name adds no markup, no escape sequence, no change of text direction and no line break."""
    shown = render(form, hostile())
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert form in ("json", "text") or "<img" not in shown
    assert form != "html" or shown.count("</script>") == 3


class Tags(HTMLParser):
    """Collects the elements of a page, and checks that they nest."""

    void = frozenset({"meta", "link", "br", "hr", "input"})
    shapes = frozenset({"rect", "path", "circle", "line"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element, and check that it has no event handler."""
        assert not any(name.startswith("on") for name, _ in attrs)
        self.seen.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """Collect an element that closes itself."""
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag


@every_pair
def test_the_page_is_whole_and_inert(made: object) -> None:
    """Elements nest, names become no elements, and the policy of the page forbids the network."""
    assert callable(made)
    page = render("html", made())
    tags = Tags(page)
    assert tags.open == []
    assert not {"img", "iframe", "object"} & set(tags.seen)
    assert tags.seen.count("script") == 3
    assert "default-src 'none'" in page
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []


@every_pair
def test_text_fits_eighty_columns_without_colour(made: object) -> None:
    assert callable(made)
    shown = render("text", made())
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert not any(line != line.rstrip() for line in shown.splitlines())


def test_colour_adds_nothing_but_colour() -> None:
    coloured = render("text", full(), colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == render("text", full()).splitlines()


@pytest.mark.parametrize("width", [60, 100, 120])
def test_text_fits_the_width_it_is_given(width: int) -> None:
    assert max(map(len, render("text", full(), width=width).splitlines())) <= width


@every_pair
def test_markdown_fits_a_comment(made: object) -> None:
    assert callable(made)
    assert len(render("markdown", made()).encode()) <= MOST_BYTES


def test_tables_of_markdown_have_as_many_cells_in_each_row() -> None:
    blocks = [block for block in render("markdown", full()).split("\n\n") if block.startswith("|")]
    assert blocks
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_json_holds_everything_unrounded() -> None:
    found = json.loads(render("json", full()))
    assert found["schema"] == "nsyswrap.comparison/3"
    assert found["outcome"] == "faster"
    estimate = full().estimates[0]
    assert found["step_time"][0]["low_share"] == estimate.change.low
    assert found["findings"]["smaller"][0]["rule"] == "idle/data_wait"
    rows = found["tables"]["kernels"]["rows"]
    assert {row["name"] for row in rows if row["base"] is None} == {"only_with_8"}
    assert {row["name"] for row in rows if row["new"] is None} == {"only_with_1"}
    assert found["issues"][0]["kind"] == "command"


def test_a_row_of_json_is_one_line() -> None:
    """Two JSON files can then be compared line by line."""
    text = render("json", full())
    assert sum('"base_count"' in line for line in text.splitlines()) == sum(
        len(table["rows"]) for table in tree(full())["tables"].values()
    )


def test_there_are_four_forms_and_no_fifth() -> None:
    with pytest.raises(UsageError, match="there is no form 'csv'"):
        render("csv", full())


def test_the_text_says_whether_the_two_can_be_compared() -> None:
    assert "note     Other arguments: " in render("text", full())
    assert "not comparable  Other GPU" in render("text", unlike())


def test_the_text_leaves_out_what_hardly_moved_and_names_it() -> None:
    shown = render("text", full())
    assert "Changed by less than 0.5 % of a step: Kernel families." in shown
    assert "KERNEL FAMILIES" not in shown
    assert "only_with_8" in shown


def test_what_is_new_or_gone_is_marked_on_the_page() -> None:
    page = render("html", full())
    assert re.search(r'only_with_8</bdi> <span class="change-tag">new<', page)
    assert re.search(r'only_with_1</bdi> <span class="change-tag">gone<', page)


def test_each_outcome_has_its_class_on_the_page() -> None:
    """The page shows the outcome as a word and in colour, never in colour alone."""
    page = render("html", full())
    assert f'<span class="outcome good">{Outcome.FASTER.value}</span>' in page
    assert '<span class="outcome unsure">cannot tell</span>' in render("html", unlike())
