"""Texts for users have short sentences, as textstat counts them."""

from pathlib import Path

import pytest
from readability import Lengths, lengths, of_commands, of_pages, of_rules, of_sections

ROOT = Path(__file__).resolve().parents[1]
# Words. Source: guides to plain language ask for 15 to 20 on average.
MOST = 14.0
# Pages whose sentences are about formulas and conditions.
MOST_OF_METHODS = 15.5
FIRST = ("README.md", "docs/quickstart.md", "docs/reading.md", "docs/terminal.md", "docs/tutorial.md", "docs/index.md")


def test_the_mean_sentence_of_all_texts() -> None:
    """Headlines, advice, titles, help and documentation together."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = lengths([*of_rules(), *of_sections(), *of_commands(), *of_pages(pages)])
    assert found.sentences > 2000
    assert found.mean <= MOST


def test_the_mean_sentence_of_what_rules_say() -> None:
    assert lengths(of_rules()).mean <= MOST


def test_the_mean_sentence_of_the_help() -> None:
    assert lengths(of_commands()).mean <= MOST


@pytest.mark.parametrize("page", FIRST)
def test_the_mean_sentence_of_a_page_that_is_read_first(page: str) -> None:
    assert lengths(of_pages([ROOT / page])).mean <= MOST


def test_pages_about_sections_may_have_longer_sentences() -> None:
    assert lengths(of_pages((ROOT / "docs" / "sections").glob("*.md"))).mean <= MOST_OF_METHODS


def test_points_in_numbers_and_names_end_no_sentence() -> None:
    assert lengths(["A step takes 2.5 ms in train.py. It was 3.5 ms before the change."]) == Lengths(2, 14)


def test_code_tables_and_headings_are_no_prose(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n\nSay `x.y` to [it](page.md).\n\n```sh\nrun it\n```\n\n| a | b |\n|---|---|\n\n- one\n- two\n"
    )
    assert list(of_pages([page])) == ["Say name to it.", "one", "two"]
