"""Make the pictures of README.md and docs/tutorial.md again from the samples: `python tools/tutorial_pictures.py`.

It opens the reports in Chromium, does what the tutorial says, and takes a screenshot of what is then on the screen.
"""

import base64
import shutil
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
BEFORE, AFTER = (ROOT / "reports" / "samples" / name for name in ("mnist-1-worker", "mnist-8-workers"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell") or "chromium"
SCREEN: ViewportSize = {"width": 1280, "height": 800}


def screen(page: Page) -> bytes:
    return page.screenshot()


def part(page: Page, place: str) -> bytes:
    return page.locator(place).first.screenshot()


def finding(page: Page) -> bytes:
    """Go to the first finding; return it."""
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    return part(page, ".finding")


def timeline(page: Page) -> bytes:
    """Show the first finding in the timeline; return the screen."""
    page.wait_for_selector('[data-step="controls"]:not([hidden])')
    page.keyboard.press("n")
    page.keyboard.press("t")
    page.wait_for_timeout(500)
    return screen(page)


def step(page: Page) -> bytes:
    page.wait_for_selector('[data-step="controls"]:not([hidden])')
    return part(page, "#step")


def two_steps(page: Page) -> bytes:
    """Compare the slowest step with the typical one; return both."""
    page.wait_for_selector('[data-step="controls"]:not([hidden])')
    page.keyboard.press("/")
    page.keyboard.insert_text("compare")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    # A part that was gone to is marked for a moment.
    page.wait_for_selector(".arrived", state="detached")
    return part(page, "#step")


def summary(page: Page) -> bytes:
    """Return the picture that "Copy picture" makes."""
    return base64.b64decode(page.evaluate("nsyswrap.drawSummary().toDataURL()").partition(",")[2])


# Name of each picture -> the page it is made from, and how.
PICTURES: dict[str, tuple[str, Callable[[Page], bytes]]] = {
    "first-screen": ("before", screen),
    "tutorial-verdict": ("before", screen),
    "tutorial-step": ("before", step),
    "tutorial-steps": ("before", two_steps),
    "tutorial-finding": ("before", finding),
    "tutorial-timeline": ("before", timeline),
    "tutorial-after": ("after", screen),
    "tutorial-summary": ("before", summary),
}


def main() -> None:
    with sync_playwright() as playwright:
        pages = {"before": BEFORE / "report.html", "after": AFTER / "report.html"}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, (opened, taken) in PICTURES.items():
            page = browser.new_page(viewport=SCREEN, color_scheme="light")
            page.goto(pages[opened].as_uri())
            (IMAGES / f"{name}.png").write_bytes(taken(page))
            page.close()
            print(f"made {name}.png")
        browser.close()


if __name__ == "__main__":
    main()
