"""The index of the gallery: short because its rows are folded, unfolded without a script, and fit for all readers."""

from pathlib import Path

import pytest
from browser_pages import NARROW, WIDE, listening, needs_chromium, tab
from playwright.sync_api import Browser

FOLDER = Path(__file__).resolve().parents[1]
INDEX = FOLDER.parent / "reports" / "index.html"
AXE = FOLDER / "vendor" / "axe.min.js"
SCREEN = 800


@needs_chromium
@pytest.mark.parametrize(("width", "screens"), [(WIDE, 3), (NARROW, 7)])
def test_all_cases_fit_on_few_screens(browser: Browser, width: int, screens: int) -> None:
    """Each row has its name, its bar and its first finding, and nothing is wider than the screen."""
    with tab(browser, width=width) as page, listening(page) as (messages, requested):
        page.goto(INDEX.as_uri())
        assert page.evaluate("document.documentElement.scrollHeight") <= screens * SCREEN
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        rows = page.locator("article")
        assert rows.count() == 41
        for part in ("h3 a", ".bar", "summary"):
            assert rows.locator(part).locator("visible=true").count() == 41
        assert messages == []
        assert [url for url in requested if url != INDEX.as_uri()] == []


@needs_chromium
def test_a_row_unfolds_to_its_verdict_without_a_script(browser: Browser) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(INDEX.as_uri())
        row = page.locator("article#vgg16-amp")
        assert not row.locator("details p").first.is_visible()
        row.locator("summary").click()
        assert "A step takes" in row.locator("details p").first.inner_text()
        assert row.get_by_text("report.json").is_visible()
        assert "--model vgg16" in row.locator("code").inner_text()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_index_is_accessible(browser: Browser, scheme: str) -> None:
    """axe-core finds nothing, with rows folded and unfolded."""
    with tab(browser, color_scheme=scheme) as page:
        page.goto(INDEX.as_uri())
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for unfold in (False, True):
            page.evaluate(
                "(open) => document.querySelectorAll('details').forEach((one) => { one.open = open; })", unfold
            )
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            assert [(one["id"], one["impact"]) for one in found["violations"]] == []
