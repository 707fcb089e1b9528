"""The page in a real browser, opened from a file: no message, no request, inert, and never wider than the screen."""

from dataclasses import replace
from pathlib import Path

import hand_made
import pytest
from browser_pages import NARROW, WIDTHS, contrast, needs_chromium, opened, write
from playwright.sync_api import Browser

from nsyswrap.model import Report

pytestmark = needs_chromium


def long_report() -> Report:
    """Return the full report with evidence without break points, like the names of templates."""
    report = hand_made.full_report()
    long = ("12 launches of void " + "x::" * 900, "k" * 900)
    return replace(report, findings=tuple(replace(one, evidence=long) for one in report.findings))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write pages to the disk."""
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "full": hand_made.full_report(),
        "two": hand_made.two_gpu_report(),
        "none": hand_made.no_gpu_report(),
        "hostile": hand_made.hostile_report(),
        "long": long_report(),
    }
    return {name: write(report, folder, name) for name, report in reports.items()}


every_file = pytest.mark.parametrize("name", ["full", "two", "none", "hostile", "long"])


@every_file
def test_the_page_requests_only_itself_and_logs_no_message(browser: Browser, files: dict[str, Path], name: str) -> None:
    """The page makes no other request. It logs no message, no error and no violation of its own policy."""
    with opened(browser, files[name], width=NARROW, wait_until="networkidle") as page:
        assert page.locator("h1").count() == 1


@every_file
@pytest.mark.parametrize("width", WIDTHS)
def test_tables_scroll_and_the_page_does_not(browser: Browser, files: dict[str, Path], name: str, width: int) -> None:
    with opened(browser, files[name], width=width) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_bar_of_the_ledger_fills_its_width(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["full"], width=NARROW) as page:
        widths = page.evaluate("[...document.querySelectorAll('.ledger > rect')].map((one) => one.getBBox().width)")
        whole = page.evaluate("document.querySelector('.ledger').getBoundingClientRect().width")
    assert sum(widths) == pytest.approx(whole, abs=0.5)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_page(browser: Browser, files: dict[str, Path], scheme: str) -> None:
    """Contrast of body text and of the quieter notes is at least 4.5 in both schemes (WCAG 2.2, 1.4.3)."""
    colour_of = "(one) => getComputedStyle(document.querySelector(one)).color"
    with opened(browser, files["full"], color_scheme=scheme) as page:
        colours = [
            page.evaluate(colour_of, one) for one in ("body", ".fine", ".window", ".advice", ".tag b", "summary")
        ]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert min(contrast(colour, ground) for colour in colours) >= 4.5


def test_evidence_opens_without_a_script(browser: Browser, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["full"].as_uri())
    evidence = page.locator(".finding details").first
    assert not evidence.locator("li").first.is_visible()
    evidence.locator("summary").click()
    assert evidence.locator("li").first.is_visible()
    context.close()
