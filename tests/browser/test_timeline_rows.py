"""Rows of the timeline are folded, pinned and measured, by keys and by the mouse."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from browser_pages import NARROW, needs_chromium, tab, write
from playwright.sync_api import Browser, Page
from timeline_fixtures import US, timeline_report
from timeline_page import LEDGER, ROWS, load, opened_fixture, place, press, settled  # noqa: F401 - a fixture

from nsyswrap.model import Report

pytestmark = needs_chromium
SAID = "#status"


def many_rows() -> Report:
    """Return the report with five threads more, and with ranges on five levels of the first one."""
    report = timeline_report()
    data = report.timeline
    assert data is not None
    thread = data.rows[-1]
    items = replace(thread.items, code=thread.items.code * 0, details={"range": thread.items.code * 0 + 1})
    level = replace(thread, kind="range", classes=("range",), sums=thread.sums.sum(axis=0)[None, :], items=items)
    levels = [replace(level, label=f"ranges, level {number}") for number in range(1, 6)]
    threads = [replace(thread, label=f"thread {number}", thread=number) for number in range(1, 6)]
    texts = {**data.texts, "range": ("block",)}
    return replace(report, timeline=replace(data, rows=(*data.rows, *levels, *threads), texts=texts))


def height(page: Page) -> float:
    return float(page.evaluate(f"document.querySelector({ROWS!r}).clientHeight"))


def test_threads_and_deep_ranges_are_folded_until_a_key_shows_them(opened: Callable[..., Page]) -> None:
    """Two of five levels and two of six threads are folded, into a line each."""
    page = opened(many_rows())
    folded = height(page)
    press(page, "o")
    assert height(page) - folded == (5 + 18) + (2 + 18) + 2 * (5 + 28)
    assert page.inner_text(SAID) == "All rows are shown."
    press(page, "o")
    assert height(page) == folded


def test_rows_of_ranges_outside_the_window_are_folded_below_all_others(opened: Callable[..., Page]) -> None:
    """The window begins at 400 us; a range of the first steps is of little interest."""
    report = many_rows()
    data = report.timeline
    assert data is not None
    level = next(row for row in data.rows if row.kind == "range")
    one = {name: values[:1] for name, values in level.items.details.items()}
    items = replace(level.items, start=level.items.start[:1] * 0, end=level.items.end[:1] * 0 + 300 * US)
    early = replace(level, items=replace(items, code=level.items.code[:1], details=one))
    rows = [row for row in data.rows if row.kind != "range"]
    before = height(opened(replace(report, timeline=replace(data, rows=tuple(rows)))))
    page = opened(replace(report, timeline=replace(data, rows=(*rows[:8], early, *rows[8:]))))
    assert height(page) - before == 4 + 20
    press(page, "o")
    assert height(page) - before > 4 + 20 + 18


def test_a_click_on_the_line_of_a_group_shows_its_rows(opened: Callable[..., Page]) -> None:
    page = opened(many_rows())
    folded = height(page)
    page.evaluate(f"document.querySelector({ROWS!r}).scrollIntoView({{ block: 'end' }})")
    box = page.locator(ROWS).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 300, box["y"] + folded - 14)
    settled(page)
    assert height(page) > folded
    assert page.inner_text(SAID) == "The rows are shown."


def test_a_row_is_pinned_above_the_others_by_key_and_by_its_name(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    press(page, "t")
    assert page.inner_text(SAID) == "Choose a row with the arrows up and down."
    before = place(page, "GPU 1", 0)[1]
    press(page, *["ArrowDown"] * 5, "t")
    assert page.inner_text(SAID) == "GPU 1 is pinned above the others."
    box = page.locator(ROWS).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 20, box["y"] + 60)
    assert page.inner_text(SAID) == "GPU 1 is back in its place."
    page.mouse.click(box["x"] + 20, before)
    assert page.inner_text(SAID) == "GPU 1 is pinned above the others."


def test_a_drag_measures_from_edge_to_edge(opened: Callable[..., Page]) -> None:
    """The kernel of 50 us is measured to the ns where the pointer is some pixels beside its edges."""
    page = opened(timeline_report())
    press(page, *["w"] * 6)
    at = page.evaluate(f"Number(document.querySelector({ROWS!r}).dataset.start)")
    first = (int(at) // (100 * US) + 1) * 100 * US
    (left, y), (right, _) = place(page, "GPU 0", first), place(page, "GPU 0", first + 50 * US)
    page.mouse.move(left + 3, y)
    page.mouse.down()
    page.mouse.move((left + right) / 2, y)
    page.mouse.move(right - 3, y)
    page.mouse.up()
    settled(page)
    assert "Selected: 50.0 µs" in page.inner_text(LEDGER)
    assert f"#t={first}-{first + 50 * US}" in page.url


def test_the_lines_of_a_selection_do_not_touch_the_names_above_rows(browser: Browser, tmp_path: Path) -> None:
    """On a narrow page, where names are above rows."""
    with tab(browser, width=NARROW, reduced_motion="reduce") as page:
        load(page, write(timeline_report(), tmp_path))
        names, drawn = pixel_lines(page, "--ink"), pixel_lines(page, "--accent")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("n")
        settled(page)
        added = pixel_lines(page, "--accent") - drawn
        assert len(names) > 20
        assert len(added) == 3
        assert not names & added
        assert max(line for line in names if line < min(added)) < min(added) - 2


def pixel_lines(page: Page, colour: str) -> set[int]:
    """Return the lines of pixels of the drawing's first 100 columns that have a colour of the page, or nearly so."""
    script = """([place, colour]) => {
      const canvas = document.querySelector(place).querySelector("canvas") ?? document.querySelector(place);
      const sought = getComputedStyle(document.documentElement).getPropertyValue(colour).trim();
      const [red, green, blue] = [1, 3, 5].map((at) => parseInt(sought.slice(at, at + 2), 16));
      const { data } = canvas.getContext("2d").getImageData(0, 0, 100, canvas.height);
      const lines = new Set();
      for (let at = 0; at < data.length; at += 4) {
        const off = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
        if (off < 60) lines.add(Math.floor(at / 400));
      }
      return [...lines];
    }"""
    return set(page.evaluate(script, [ROWS, colour]))
