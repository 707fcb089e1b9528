"""Pages in a headless Chromium: tests write them to the disk, open them and read them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from nsyswrap.model import Report
from nsyswrap.render import render

# The headless shell comes first. A whole Chromium draws its tabs and its window, too: 67 tests took 53 s of its
# processor time, and 32 s of the shell's.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
# One process draws all pages. A process for each page took 38, 32 and 31 s of processor time for 34 tests, one for all
# of them 32, 31 and 29 s, in turn.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--renderer-process-limit=1", "--disable-site-isolation-trials"),
)
WIDE, NARROW = 1280, 390
WIDTHS = (NARROW, WIDE)
HEIGHT = 844

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; apt-get install chromium-headless-shell"
)

# Every element in order, with its name, the index of its parent and the names of its attributes, without those that
# depend on the scroll position.
STRUCTURE = """() => {
  const all = [...document.querySelectorAll("*")];
  const at = new Map(all.map((one, place) => [one, place]));
  const names = (one) => one.getAttributeNames().filter((name) => name !== "aria-current").sort().join(" ");
  return all.map((one) => `${at.get(one.parentElement)} ${one.tagName} ${names(one)}`);
}"""

# Opens the groups of sections.
UNFOLD = "document.querySelectorAll('details.group').forEach((group) => { group.open = true; })"

# Follows an address on a page, and waits until the page has heard of it.
FOLLOW = "(anchor) => new Promise((done) => { location.hash = anchor; setTimeout(done); })"


def until(page: Page, condition: str) -> None:
    """Wait until a condition holds. Playwright's own function needs a page that allows ``eval``.

    Raises:
        AssertionError: It does not hold within five seconds.
    """
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never: {condition}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium, and end it."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM or NAMES[0], args=[*FLAGS])
        yield started
        _FREE.clear()
        started.close()


# The pages of reports by the id of the report. The report is kept, so that no other report gets its id.
_PAGES: dict[int, tuple[Report, str]] = {}


def page_of(report: Report) -> str:
    """Return the page of a report, rendered once."""
    if id(report) not in _PAGES:
        _PAGES[id(report)] = report, render("html", report)
    return _PAGES[id(report)][1]


def write(report: Report, folder: Path, name: str = "report") -> Path:
    path = folder / f"{name}.html"
    path.write_text(page_of(report), encoding="utf-8")
    return path


# Tabs that no test uses now, by their options. To start a tab takes the browser longer than to load a page in it.
_FREE: dict[str, Page] = {}


@contextmanager
def tab(browser: Browser, *, width: int = WIDE, **options: Any) -> Iterator[Page]:  # noqa: ANN401 - as Playwright has them
    """Give an empty tab, which later tests use again. It is closed if the test fails or the page stored something.

    Args:
        browser: The browser.
        width: Width of the window in pixels.
        options: Further options of Playwright's ``new_context``.
    """
    everything = {"viewport": {"width": width, "height": HEIGHT}, **options}
    key = f"{id(browser)} {sorted(everything.items())}"
    page = _FREE.pop(key, None) or browser.new_context(**everything).new_page()
    is_as_before = False
    try:
        yield page
        page.mouse.move(0, 0)
        page.emulate_media(media="null")
        is_as_before = page.evaluate("localStorage.length") == 0
        page.goto("about:blank")
    finally:
        if is_as_before:
            _FREE[key] = page
        else:
            page.context.close()


@contextmanager
def opened(
    browser: Browser,
    path: Path,
    *,
    anchor: str = "",
    folded: bool = False,
    wait_until: Literal["load", "networkidle"] = "load",
    **options: Any,  # noqa: ANN401 - as Playwright has them
) -> Iterator[Page]:
    """Open a page in a tab; at the end, check that it logged nothing and requested only itself.

    Args:
        browser: The browser.
        path: The page.
        anchor: What follows the # of its address.
        folded: Leave the groups of sections closed, as a reader finds them.
        wait_until: The event of the page that ends loading.
        options: The width of the tab in pixels, and further options of Playwright's ``new_context``.
    """
    with tab(browser, **options) as page, listening(page) as (messages, requested_urls):
        page.goto(path.as_uri() + anchor, wait_until=wait_until)
        if not folded:
            page.evaluate(UNFOLD)
        yield page
        assert messages == []
        assert {url.partition("#")[0] for url in requested_urls if not url.startswith("data:")} == {path.as_uri()}


@contextmanager
def listening(page: Page) -> Iterator[tuple[list[str], list[str]]]:
    """Give the messages of a page, with its errors and dialogs, and the addresses that it requests; both grow."""
    messages: list[str] = []
    requested_urls: list[str] = []

    def refuse(dialog: Dialog) -> None:
        messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: messages.append(message.text),
        "pageerror": lambda error: messages.append(str(error)),
        "dialog": refuse,
        "request": lambda request: requested_urls.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield messages, requested_urls
    for event, listener in listeners.items():
        page.remove_listener(event, listener)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two CSS colours, 1 to 21.

    Source:
        WCAG 2.2, relative luminance and contrast ratio.
    """
    lights = sorted((luminance(one), luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour such as ``rgb(1, 2, 3)``."""
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
