"""Markdown for a comment: small, with all important facts, and inert with any names."""

import html
import re
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render import documents, markdown_writer
from nsyswrap.render.markdown_writer import MOST_BYTES

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_a_report_that_would_be_too_long_is_cut_and_says_so() -> None:
    report = hand_made.full_report()
    long = replace(report.findings[0], evidence=("x" * 300,) * 4, advice="ä" * 300, headline="€" * 300)
    many = tuple(replace(long, rule=f"rule/{number}") for number in range(9))
    shown = documents.render("report", "markdown", replace(report, findings=many, notes=("n" * 350,) * 9))
    assert len(shown.encode()) <= MOST_BYTES
    assert shown.endswith("it does not fit into a comment.\n")


def test_folds_are_closed_however_much_is_cut() -> None:
    report = hand_made.full_report()
    many = tuple(replace(report.findings[0], rule=f"r/{n}", advice="a" * 390) for n in range(9))
    shown = documents.render("report", "markdown", replace(report, findings=many, notes=("n" * 350,) * 12))
    assert shown.count("<details>") == shown.count("</details>")


def test_more_findings_than_fit_are_counted() -> None:
    report = hand_made.full_report()
    many = tuple(replace(report.findings[0], rule=f"rule/{n}", evidence=()) for n in range(8))
    assert "2 more on the page" in documents.render("report", "markdown", replace(report, findings=many))


@pytest.mark.parametrize(
    "markup",
    [
        *("<b>", "`code`", "**bold**", "_it_", "[link](http://x)", "![i](http://x)", "a | b", "@user", "#12"),
        *("~~gone~~", "$x$", ":tada:", "https://x", "<!-- -->", "\\*"),
    ],
)
def test_markup_in_a_sentence_is_text(markup: str) -> None:
    """Each character with a meaning in Markdown is written by its number."""
    shown = markdown_writer.escape(markup).replace("<code>", "").replace("</code>", "")
    assert not re.search(r"[<>|`*_\[\]~$@#\\]|:\S", re.sub(r"&#\d+;", "", shown))
    assert html.unescape(shown) == markup


def test_nobody_is_mentioned() -> None:
    """Hosts look for @name and #12 in the finished text, but not in code."""
    assert markdown_writer.escape("@user #12") == "<code>&#64;</code>user <code>&#35;</code>12"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see www.example.org", "see www<code>&#46;</code>example.org"),
        ("like GH-2 and gh-30", "like GH<code>&#45;</code>2 and gh<code>&#45;</code>30"),
        ("at a5c3785ed8d6a35868bc169f07e40e889087fd2e", "at <code>a5c3785ed8d6a35868bc169f07e40e889087fd2e</code>"),
        ("at a5c3785", "at <code>a5c3785</code>"),
        ("at 1234567 ns", "at 1234567 ns"),
        ("the 12.5 ms", "the 12.5 ms"),
    ],
)
def test_nothing_is_linked(text: str, shown: str) -> None:
    """GitHub links addresses without a scheme, GH-2, and hashes of commits."""
    assert markdown_writer.escape(text) == shown


@given(anything)
def test_a_name_is_code_without_markup(name: str) -> None:
    shown = markdown_writer.name(name, 1_000)
    inner = shown.removeprefix("<code>").removesuffix("</code>")
    assert not re.search(r"[<>|`*_\[\]~$@\\:\n]", re.sub(r"&#\d+;", "", inner))


def test_a_name_in_a_table_does_not_break_it() -> None:
    table = pd.DataFrame({"name": [hand_made.HOSTILE], "total_ns": [1_500]})
    section = replace(hand_made.section_with("kernels", summary=table), title="Kernels")
    shown = documents.render("report", "markdown", hand_made.report_with(section))
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert "<img" not in shown


def test_idle_time_that_does_not_fit_is_counted() -> None:
    phases = [f"p{n}" for n in range(10)]
    table = pd.DataFrame({"device_id": 0, "cause": "cpu", "phase": phases, "idle_ns": 100, "gap_count": 1})
    report = hand_made.with_tables(hand_made.full_report(), "idle", attribution=table.assign(rule="idle/cpu"))
    assert "8 of 10 rows, 80.0 % of the time" in documents.render("report", "markdown", report)
