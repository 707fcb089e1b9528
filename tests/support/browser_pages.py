"""Pages in a headless Chromium: tests write them to the disk, open them and read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from nsyswrap.model import Report
from nsyswrap.render import render

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, NARROW = 1280, 390
WIDTHS = (NARROW, WIDE)
HEIGHT = 844

needs_chromium = pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here; apt-get install chromium")

# Every element in order, with its name, the index of its parent and the names of its attributes, without those that
# depend on the scroll position.
STRUCTURE = """() => {
  const all = [...document.querySelectorAll("*")];
  const at = new Map(all.map((one, place) => [one, place]));
  const names = (one) => one.getAttributeNames().filter((name) => name !== "aria-current").sort().join(" ");
  return all.map((one) => `${at.get(one.parentElement)} ${one.tagName} ${names(one)}`);
}"""


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
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        yield started
        started.close()


# The pages of reports by the id of the report. The report is kept, so that no other report gets its id.
_PAGES: dict[int, tuple[Report, str]] = {}


def page_of(report: Report) -> str:
    """Return the page of a report, rendered once."""
    if id(report) not in _PAGES:
        _PAGES[id(report)] = report, render("html", report)
    return _PAGES[id(report)][1]


def write(report: Report, folder: Path, name: str = "report") -> Path:
    """Write the page of a report."""
    path = folder / f"{name}.html"
    path.write_text(page_of(report), encoding="utf-8")
    return path


@contextmanager
def opened(
    browser: Browser,
    path: Path,
    *,
    anchor: str = "",
    width: int = WIDE,
    folded: bool = False,
    **options: Any,  # noqa: ANN401 - as Playwright has them
) -> Iterator[Page]:
    """Open a page in a new context; at the end, check that it logged nothing and requested only itself.

    Args:
        browser: The browser.
        path: The page.
        anchor: What follows the # of its address.
        width: Width of the window in pixels.
        folded: Leave the groups of sections closed, as a reader finds them.
        options: Further options of Playwright's ``new_context``.
    """
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, **options)
    page = context.new_page()

    def refuse(dialog: Dialog) -> None:
        messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    messages: list[str] = []
    requested_urls: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", refuse)
    page.on("request", lambda request: requested_urls.append(request.url))
    page.goto(path.as_uri() + anchor)
    if not folded:
        page.evaluate("document.querySelectorAll('details.group').forEach((group) => { group.open = true; })")
    yield page
    assert messages == []
    assert {url.partition("#")[0] for url in requested_urls if not url.startswith("data:")} == {path.as_uri()}
    context.close()


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
