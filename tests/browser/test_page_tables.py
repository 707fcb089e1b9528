"""Tables of the page in a real browser: sorting, filtering, folding and copying use the values of the report."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hand_made
import pytest
from browser_pages import needs_chromium, opened, write
from playwright.sync_api import Browser, Locator, Page

from nsyswrap.render import render

pytestmark = needs_chromium

REPORT = hand_made.full_report()
KERNELS = "table[data-name=kernels-summary]"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the full report."""
    return write(REPORT, tmp_path_factory.mktemp("page"))


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    """Open the page of the full report, with a clipboard."""
    with opened(browser, path, permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page


def rows_of(section: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table in report.json."""
    found: list[dict[str, Any]] = json.loads(render("json", REPORT))["sections"][section]["tables"][table]
    return found


def values(page: Page, column: str, table: str = KERNELS) -> list[str]:
    """Return the raw values of the visible rows of a column, in their order on the page."""
    script = """([table, column]) => {
      const found = document.querySelector(table);
      const at = [...found.tHead.rows[0].cells].findIndex((head) => head.dataset.name === column);
      const seen = [...found.tBodies[0].rows].filter((row) => row.getClientRects().length);
      return seen.map((row) => row.cells[at].dataset.v ?? row.cells[at].textContent.trim());
    }"""
    found: list[str] = page.evaluate(script, [table, column])
    return found


def unfold(page: Page, table: str = KERNELS) -> None:
    """Show all rows of a table."""
    more(page, table).click()


def more(page: Page, table: str = KERNELS) -> Locator:
    """Return the button that shows all rows."""
    return page.locator(f".scroll:has({table}) ~ button.more").first


def head(page: Page, label: str, table: str = KERNELS) -> Locator:
    return page.locator(f"{table} th", has_text=label).first


def test_raw_values_are_those_of_the_report(page: Page) -> None:
    unfold(page)
    expected = rows_of("kernels", "summary")
    for column in ("count", "total_ns", "median_ns"):
        assert [float(value) for value in values(page, column)] == [float(row[column]) for row in expected]


def test_a_number_sorts_by_its_value_the_largest_first(page: Page) -> None:
    unfold(page)
    head(page, "count").locator("button").click()
    counts = [float(value) for value in values(page, "count")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 12_345, "not by its text, which begins with a 1"
    assert head(page, "count").get_attribute("aria-sort") == "descending"
    head(page, "count").locator("button").click()
    assert [float(value) for value in values(page, "count")] == sorted(counts)
    assert head(page, "count").get_attribute("aria-sort") == "ascending"


def test_a_name_sorts_by_the_alphabet_and_numbers_in_it_by_value(page: Page) -> None:
    unfold(page)
    head(page, "name").locator("button").click()
    names = [name for name in values(page, "name") if name.startswith("small_kernel")]
    assert names[:3] == ["small_kernel_0", "small_kernel_1", "small_kernel_2"]
    assert len(names) == 60


def test_a_heading_sorts_by_keyboard(page: Page) -> None:
    head(page, "count").locator("button").focus()
    page.keyboard.press("Enter")
    assert head(page, "count").get_attribute("aria-sort") == "descending"


def test_a_long_table_folds_and_says_how_much_there_is(page: Page) -> None:
    assert (len(values(page, "name")), more(page).inner_text()) == (12, "Show all 64 rows")
    unfold(page)
    assert (len(values(page, "name")), more(page).get_attribute("aria-expanded")) == (64, "true")
    unfold(page)
    assert len(values(page, "name")) == 12


def test_the_filter_leaves_rows_that_hold_all_words_in_all_tables(page: Page) -> None:
    """The filter searches the full name, even if the page shows it cut, and ignores case."""
    page.keyboard.press("f")
    page.keyboard.type("TENSOROP bf16")
    assert values(page, "total_ns") == ["476000000"]
    assert page.locator("#found").inner_text() == "4 rows in 4 tables"
    assert (
        page.locator(".handles:has(+ .scroll table[data-name=kernels-summary])").inner_text().startswith("1 of 64 rows")
    )


def test_enter_goes_to_the_next_table_with_a_match(page: Page) -> None:
    page.locator("#search").fill("cudaStreamSynchronize")
    page.keyboard.press("Enter")
    box = page.locator("table[data-name=host_calls-summary]").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 844


def test_a_table_copies_as_csv_with_the_columns_and_values_of_the_report(page: Page) -> None:
    """The copy has all rows, including folded ones, with full names."""
    page.get_by_role("button", name="Copy CSV of Kernels", exact=True).click()
    page.get_by_text("Copied 64 rows").first.wait_for()
    found = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"), newline="")))
    expected = rows_of("kernels", "summary")
    assert set(found[0]) == set(expected[0]) | {"operator", "module", "verdict", "precision", "peak_share"}
    assert [row["name"] for row in found] == [row["name"] for row in expected]
    for column in ("count", "total_ns", "share"):
        assert [float(row[column]) for row in found] == [row[column] for row in expected]
    assert [row["stddev_ns"] == "" for row in found] == [row["stddev_ns"] is None for row in expected]


def test_a_copied_text_that_a_spreadsheet_would_run_is_disarmed(browser: Browser, tmp_path: Path) -> None:
    """The text is escaped in the same way as in the CSV report; a negative number stays a number."""
    names = hand_made.names_table('=cmd|"x",1', "@a", "b").assign(change_ns=[-1, -2, -3])
    report = hand_made.report_with(hand_made.section_with("odd", t=names))
    with opened(browser, write(report, tmp_path), permissions=["clipboard-read", "clipboard-write"]) as page:
        page.locator("button.copy").first.click()
        page.get_by_text("Copied 3 rows").first.wait_for()
        rows = list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"), newline="")))
    assert [row[0] for row in rows[1:]] == ['\'=cmd|"x",1', "'@a", "b"]
    assert [row[2] for row in rows[1:]] == ["-1", "-2", "-3"]


def test_a_cut_name_shows_its_whole_on_hover_and_on_a_click(page: Page) -> None:
    name = page.locator(f"{KERNELS} details.name").first
    name.locator("summary").hover()
    assert name.locator("summary").get_attribute("title") == hand_made.GEMM
    assert not name.locator(".whole").is_visible()
    name.locator("summary").click()
    assert name.locator(".whole").inner_text() == hand_made.GEMM


def test_numbers_are_set_to_the_right_in_figures_of_one_width(page: Page) -> None:
    styles = page.locator(f"{KERNELS} td.n").first.evaluate(
        "(one) => [getComputedStyle(one).textAlign, getComputedStyle(one).fontVariantNumeric]"
    )
    assert styles == ["right", "tabular-nums"]
