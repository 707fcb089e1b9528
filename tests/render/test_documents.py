"""Each kind of result in each of its forms is pure, inert, narrow and small, whatever it holds."""

import html
import importlib
import re
from functools import cache

import pytest
from made_results import MADE
from page_elements import Page

from nsyswrap.base.errors import UsageError
from nsyswrap.render import documents
from nsyswrap.render.markdown_writer import MOST_BYTES

RESULTS = {key: make() for key, make in MADE.items()}


def made_in(*forms: str) -> pytest.MarkDecorator:
    """Return a mark that gives a test each result that has one of some forms, in that form."""
    found = [(*key, form) for key in MADE for form in documents.KINDS[key[0]] if form in forms or not forms]
    return pytest.mark.parametrize(("kind", "name", "form"), found)


@cache
def shown(kind: str, name: str, form: str) -> str:
    return documents.render(kind, form, RESULTS[kind, name])


@made_in()
def test_the_same_result_gives_the_same_bytes(kind: str, name: str, form: str) -> None:
    text = shown(kind, name, form)
    again = getattr(MADE[kind, name], "__wrapped__", MADE[kind, name])()
    assert documents.render(kind, form, again) == text
    assert text.endswith("\n")
    assert not {"\x1b", "\u202e", "\x00"} & set(text)


@made_in("text", "html", "markdown")
def test_the_verdict_is_in_every_form(kind: str, name: str, form: str) -> None:
    """White space and markup may differ."""
    if name == "hostile":
        return
    made = importlib.import_module(f"nsyswrap.render.{kind}_document")
    words = re.sub(r"[\s*`]+", " ", html.unescape(re.sub(r"</?code>", "", shown(kind, name, form))))
    assert " ".join(made.document(RESULTS[kind, name]).verdict.split()) in words


@made_in("html")
def test_a_page_is_one_file_without_network_and_handlers(kind: str, name: str, form: str) -> None:
    """Elements nest, and names become none; all links stay on the page, to an id that is there."""
    text = shown(kind, name, form)
    page = Page(text)
    assert not {"img", "iframe", "object", "base"} & {tag for tag, _ in page.elements}
    made = importlib.import_module(f"nsyswrap.render.{kind}_document").document(RESULTS[kind, name])
    assert page.all("script") == [{}] * (3 + len(made.scripts))
    attributes = [pair for _, each in page.elements for pair in each.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in {"style", "src"}]
    links = {value for name, value in attributes if name == "href"} - {"data:,"}
    # The script follows the address of an interval.
    assert {link.removeprefix("#") for link in links if not link.startswith("#t=")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "default-src 'none'" in text


@made_in("text")
@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_fits_its_width(kind: str, name: str, form: str, width: int) -> None:
    """A word that is longer, such as a path, is a line of its own, so that it can be copied."""
    lines = documents.render(kind, form, RESULTS[kind, name], width=width).splitlines()
    assert max(len(line) for line in lines if " " in line.strip()) <= width
    assert not any(line != line.rstrip() for line in lines)


@made_in("text")
def test_colour_adds_nothing_but_colour(kind: str, name: str, form: str) -> None:
    coloured = documents.render(kind, form, RESULTS[kind, name], colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == shown(kind, name, form).splitlines()


@made_in("markdown")
def test_markdown_fits_a_comment_and_its_rows_have_as_many_cells(kind: str, name: str, form: str) -> None:
    text = shown(kind, name, form)
    assert len(text.encode()) <= MOST_BYTES
    assert "<img" not in text
    assert "<script" not in text
    assert text.count("<details>") == text.count("</details>")
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}) == 1


@pytest.mark.parametrize("kind", documents.KINDS)
def test_a_form_that_is_not_there_is_an_error_of_the_user(kind: str) -> None:
    with pytest.raises(UsageError, match="there is no form 'pdf'"):
        documents.render(kind, "pdf", None)
