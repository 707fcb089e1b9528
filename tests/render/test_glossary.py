"""The glossary: its terms, their anchors, and the page in docs that has the same ones."""

import re
from pathlib import Path

import pytest

from nsyswrap.render import glossary

TERMS = [term for _, terms in glossary.GLOSSARY for term in terms]
PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"


@pytest.mark.parametrize(
    "label", ["GPU busy", "idle", "gap", "starvation", "exposed copies", "share", "median step", "Ranks"]
)
def test_every_term_of_the_page_is_in_the_glossary(label: str) -> None:
    anchors = {glossary.term_anchor(one.term) for one in TERMS}
    assert glossary.term_anchor(label) in anchors - {""}


def test_a_label_without_a_term_has_no_anchor() -> None:
    assert glossary.term_anchor("std dev") == ""


def test_anchors_are_names_of_their_own() -> None:
    anchors = [glossary.term_anchor(one.term) for one in TERMS]
    assert len(set(anchors)) == len(TERMS)
    assert all(re.fullmatch("term-[a-z-]+", anchor) for anchor in anchors)


def test_meanings_are_sentences() -> None:
    assert all(one.meaning[0].isupper() and one.meaning.endswith(".") for one in TERMS)


def test_the_documentation_has_the_same_terms() -> None:
    """docs/glossary.md has the groups, terms and meanings of the page, in the same order."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!term \|)([^|-][^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    assert rows == [(one.term, one.meaning) for one in TERMS]
    assert re.findall("^## (.*)$", text, re.MULTILINE) == [title for title, _ in glossary.GLOSSARY]
