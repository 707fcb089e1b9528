"""Every page in a real browser: no message, no request, never wider than the screen, legible, and it prints."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import hand_made
import pytest
from browser_pages import NARROW, WIDE, contrast, needs_chromium, opened, page_of
from made_results import LONG_NAME, MADE, history, trend
from playwright.sync_api import Browser

from nsyswrap.model import Report
from nsyswrap.render import documents

pytestmark = needs_chromium


def long_report() -> Report:
    """Return the full report with evidence without break points, like the names of templates."""
    report = hand_made.full_report()
    long = ("12 launches of void " + "x::" * 900, "k" * 900)
    return replace(report, findings=tuple(replace(one, evidence=long) for one in report.findings))


REPORTS: dict[str, Callable[[], Report]] = {
    "full": hand_made.full_report,
    "two GPUs": hand_made.two_gpu_report,
    "no GPU": hand_made.no_gpu_report,
    "hostile": hand_made.hostile_report,
    "long": long_report,
}
PAGES: dict[str, Callable[[], str]] = {
    **{f"report, {name}": lambda make=make: page_of(make()) for name, make in REPORTS.items()},  # type: ignore[misc]
    **{
        f"{kind}, {name}": lambda kind=kind, make=make: documents.render(kind, "html", make())  # type: ignore[misc]
        for (kind, name), make in MADE.items()
        if "html" in documents.KINDS[kind]
    },
    "history, long": lambda: documents.render("history", "html", history(trend((10.0,), LONG_NAME))),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes a page by its name, once."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def written(name: str) -> Path:
        target = folder / f"{name.replace(', ', '-')}.html"
        target.write_text(PAGES[name](), encoding="utf-8")
        return target

    return written


@pytest.mark.parametrize("name", PAGES)
def test_a_page_requests_only_itself_and_tables_scroll_but_not_the_page(
    browser: Browser, path: Callable[[str], Path], name: str
) -> None:
    """It logs no message, no error and no violation of its own policy, and can be printed."""
    with opened(browser, path(name), width=NARROW, wait_until="networkidle") as page:
        assert (page.locator("h1").count(), page.locator("img").count()) == (1, 0)
        if name.endswith("hostile") and not name.startswith("history"):
            assert "<img src=x onerror=alert(1)></script>" in page.inner_text("body")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for width in (NARROW, WIDE):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.set_viewport_size({"width": NARROW, "height": 844})
        if name.endswith("full"):
            assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("report, full", (".fine", ".window", ".advice", ".tag b", "summary")),
        ("comparison, full", (".outcome", ".about dt", ".fine", ".change-tag", ".axis", "figcaption")),
    ],
)
def test_text_stands_out_from_the_page(
    browser: Browser, path: Callable[[str], Path], name: str, places: tuple[str, ...]
) -> None:
    """Contrast of body text and of the quieter notes is at least 4.5 in both schemes (WCAG 2.2, 1.4.3)."""
    colour_of = "(one) => getComputedStyle(document.querySelector(one)).color"
    with opened(browser, path(name)) as page:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert min(contrast(page.evaluate(colour_of, one), ground) for one in ("body", *places)) >= 4.5
