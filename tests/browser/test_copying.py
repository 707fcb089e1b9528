"""Code, the command that checks the plan and the summary are copied in a real browser."""

from pathlib import Path

import hand_made
from browser_pages import needs_chromium, opened, write
from playwright.sync_api import Browser

from nsyswrap.render import markdown_report, plan_view
from nsyswrap.render.code_changes import code_changes

pytestmark = needs_chromium

REPORT = hand_made.full_report()


def test_what_is_copied_is_what_is_shown(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, write(REPORT, tmp_path), permissions=["clipboard-read", "clipboard-write"]) as page:

        def copied(button: str, place: int = 0) -> str:
            page.locator(button).nth(place).click()
            page.locator("#status").get_by_text("Copied", exact=True).wait_for()
            text: str = page.evaluate("navigator.clipboard.readText()")
            page.evaluate("document.getElementById('status').textContent = ''")
            return text

        plan = page.locator("#plan")
        plan.locator("details.code > summary").first.click()
        changes = code_changes("idle/data_wait")
        assert [copied("#plan .clip", place) for place in range(len(changes))] == [each.code for each in changes]
        assert copied("#plan .check .clip") == plan_view.plan(REPORT).check
        assert copied("#copy-summary") == markdown_report.render(REPORT)
