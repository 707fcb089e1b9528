"""The report in text and Markdown, and an outline of the page, compared with reviewed files.

After an intended change, run with NSYSWRAP_WRITE_SNAPSHOTS=1, review the files, and commit them.
"""

import os
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import hand_made
import made_comparisons
import pytest

from nsyswrap.render import documents, render

FOLDER = Path(__file__).parents[1] / "snapshots"
HINT = "if this is intended: NSYSWRAP_WRITE_SNAPSHOTS=1 pytest tests/render/test_snapshots.py"
MOST_BYTES = 15_000


class Outline(HTMLParser):
    """Collects the structure of a page: the text of headings, captions, column heads, terms and summaries."""

    kept = ("h1", "h2", "h3", "caption", "figcaption", "summary", "th", "dt", "nav")
    # The glossary and the sentences of the page have tests of their own.
    skipped = ("style", "script", "title", "svg")

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line at an element of the outline."""
        name = dict(attrs).get("id")
        if tag == "section":
            self.lines.append(f"section {name or ''}".rstrip())
        if tag in self.kept or tag in self.skipped:
            self.open.append(tag)
            self.words = []

    def handle_endtag(self, tag: str) -> None:
        """End the line of an element."""
        if self.open and tag == self.open[-1]:
            self.open.pop()
            text = " ".join(" ".join(self.words).split())
            if tag in self.kept and text:
                self.lines.append(f"  {tag} {text}")
            self.words = []

    def handle_data(self, data: str) -> None:
        """Keep the text of an element of the outline."""
        if self.open and not {*self.open} & {*self.skipped}:
            self.words.append(data)


def outline(page: str) -> str:
    """Return the outline of a page; equal lines that follow each other are one."""
    lines = Outline(page).lines
    return "\n".join(line for line, before in zip(lines, ["", *lines], strict=False) if line != before) + "\n"


SNAPSHOTS: dict[str, Callable[[], str]] = {
    "report.txt": lambda: render("text", hand_made.full_report()),
    "report.md": lambda: render("markdown", hand_made.full_report()),
    "report_outline.txt": lambda: outline(render("html", hand_made.full_report())),
    "comparison.txt": lambda: documents.render("comparison", "text", made_comparisons.full()),
    "comparison.md": lambda: documents.render("comparison", "markdown", made_comparisons.full()),
    "comparison_outline.txt": lambda: outline(documents.render("comparison", "html", made_comparisons.full())),
}


@cache
def snapshot(name: str) -> bytes:
    return SNAPSHOTS[name]().encode("utf-8")


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_report_reads_as_it_did(name: str) -> None:
    shown = snapshot(name)
    path = FOLDER / name
    if os.environ.get("NSYSWRAP_WRITE_SNAPSHOTS"):
        path.write_bytes(shown)
    assert path.read_bytes() == shown, HINT


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_is_small_enough_to_be_reviewed(name: str) -> None:
    assert len(snapshot(name)) <= MOST_BYTES


def test_an_outline_changes_with_the_page() -> None:
    """It changes if a section, a column or a finding is missing."""
    report = hand_made.full_report()
    whole = outline(render("html", report))
    assert outline(render("html", hand_made.no_gpu_report())) != whole
    assert "section section-device_memory" in whole
    assert "h3 The training loop waits for its data loader in 18 of 18 steps." in whole
