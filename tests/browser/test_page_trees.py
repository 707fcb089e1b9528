"""Rows that are part of others fold in a real browser, and lines of Python are copied by a click."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_pages import needs_chromium, opened
from playwright.sync_api import Browser, Page

from nsyswrap.render import html_writer
from nsyswrap.render.document import Document, DocumentSection, Table, columns

pytestmark = needs_chromium

# Three rows, the first with eight parts; the first of these has six.
NAMES = ["a", "b", "c", *(f"a.{at}" for at in range(8)), *(f"a.0.{at}" for at in range(6))]
PARENTS = (-1, -1, -1, *[0] * 8, *[3] * 6)
ROWS = [{"name": name, "total_ns": 100 - at, "line": f"train.py:{at}"} for at, name in enumerate(NAMES)]


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """Open a page with such a table, with a clipboard."""
    table = Table("tree", "Tree", columns(ROWS, {}), parents=PARENTS)
    path = tmp_path / "tree.html"
    path.write_text(html_writer.write(Document("try", "t", "v", (DocumentSection("part", "Part", "", (table,)),))))
    with opened(browser, path, permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page


def seen(page: Page) -> list[str]:
    """Return the names of the rows in sight."""
    script = """() => [...document.querySelectorAll("table.data tbody tr")].filter((row) => row.getClientRects().length)
      .map((row) => row.querySelector("bdi").textContent)"""
    found: list[str] = page.evaluate(script)
    return found


def test_a_click_opens_and_closes_a_row(page: Page) -> None:
    """At first as many rows are open as a table shows."""
    first = ["a", *(f"a.{at}" for at in range(8)), "b", "c"]
    assert seen(page) == first
    page.get_by_label("Parts of a.0").click()
    assert seen(page) == [*first[:2], *(f"a.0.{at}" for at in range(6)), *first[2:]]
    folds = page.get_by_label("Parts of a", exact=True)
    assert folds.get_attribute("aria-expanded") == "true"
    folds.click()
    assert (seen(page), folds.get_attribute("aria-expanded")) == (["a", "b", "c"], "false")
    page.get_by_text("Show all 17 rows").click()
    assert len(seen(page)) == 17


def test_sorting_keeps_parts_below_their_row(page: Page) -> None:
    page.locator("th[data-name=total_ns] button").click()
    page.locator("th[data-name=total_ns] button").click()
    assert seen(page) == ["c", "b", "a", *(f"a.{at}" for at in reversed(range(8)))]


def test_a_match_is_shown_with_the_rows_around_it(page: Page) -> None:
    page.locator("#search").fill("a.0.3")
    assert seen(page) == ["a", "a.0", "a.0.3"]


def test_a_line_is_copied_by_a_click(page: Page) -> None:
    page.get_by_text("train.py:1", exact=True).click()
    page.locator("#status").get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "train.py:1"
