"""Open, move and read the timeline of a page in a browser, for tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import UNFOLD, tab, write
from playwright.sync_api import Browser, Page

from nsyswrap.model import Report

# Addresses that a page may request.
OWN = ("file:", "data:", "about:blank")
LIVE = '[data-tl="live"]:not([hidden])'
ROWS = '[data-tl="rows"]'
LEDGER = '[data-tl="ledger"]'
DETAIL = '[data-tl="detail"]'
# A message comes after the events that wait, such as that of a new address.
EVENTS_SEEN = """new Promise((seen) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => seen(null);
  port2.postMessage(0);
})"""
NUMBERS = """(place) => Object.fromEntries([...place.querySelectorAll("tbody tr")].map((row) =>
  [row.dataset.class, [...row.querySelectorAll("[data-ns]")].map((cell) => Number(cell.dataset.ns))]))"""


@pytest.fixture(name="opened")
def opened_fixture(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Return a function that opens the page of a report. Any error or message of the page fails the test."""
    said: list[str] = []
    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "request": lambda request: None if request.url.startswith(OWN) else said.append(request.url),
    }
    with tab(browser, reduced_motion="reduce") as page:
        for event, listener in listeners.items():
            page.on(event, listener)

        def page_of(report: Report, fragment: str = "") -> Page:
            page.goto("about:blank")  # from the same file, only the fragment would be followed
            load(page, write(report, tmp_path), fragment)
            return page

        yield page_of
        assert not said, said
        for event, listener in listeners.items():
            page.remove_listener(event, listener)


def load(page: Page, file: Path, fragment: str = "") -> None:
    """Open a file with a timeline, with a clock that tests control, and wait until the timeline is drawn."""
    page.clock.install()
    page.goto(file.as_uri() + fragment)
    page.evaluate(UNFOLD)
    page.wait_for_selector(LIVE)
    settled(page)


def settled(page: Page) -> None:
    """Let the page see a new address; advance its clock until the timeline is drawn and its ledger is shown."""
    page.evaluate(EVENTS_SEEN)
    page.clock.run_for(200)


def view(page: Page) -> tuple[float, float]:
    """Return start and end of the visible interval, in ns."""
    start, end = page.evaluate(f"(({{ dataset }}) => [dataset.start, dataset.end])(document.querySelector('{ROWS}'))")
    return float(start), float(end)


def ledger(page: Page) -> dict[str, list[int]]:
    """Return the visible ledger: the ns of each GPU, by class."""
    found: dict[str, list[int]] = page.eval_on_selector(LEDGER, NUMBERS)
    return found


def press(page: Page, *keys: str) -> None:
    """Press keys while the drawing has the focus."""
    page.focus(ROWS)
    for key in keys:
        page.keyboard.press(key)
    settled(page)


def place(page: Page, row: str, at_ns: float) -> tuple[float, float]:
    """Return the position of a time of a row on the screen."""
    page.locator(ROWS).scroll_into_view_if_needed()
    box = page.locator(ROWS).bounding_box()
    assert box is not None
    # Tops of the rows at this width, in pixels: an axis of 26, then the rows and the space between them.
    tops = {"steps": 31, "GPU 0": 89, "stream 7": 154, "GPU 1": 194}
    start, end = view(page)
    x = box["x"] + 172 + (at_ns - start) / (end - start) * (box["width"] - 172)
    return x, box["y"] + tops[row] + 12
