"""The flame graph in a real browser: by pointer, by keyboard, and without a script."""

from pathlib import Path

import pytest
from browser_pages import NARROW, WIDE, needs_chromium, opened, tab, write
from playwright.sync_api import Browser, Page
from real_captures import RealReport

pytestmark = needs_chromium

SHOWN = "(all) => all.filter((one) => one.style.display !== 'none').length"
BOX = "#flame .box"


@pytest.fixture(scope="module")
def path(real_report: RealReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of the capture with samples."""
    return write(real_report("mnist_counters_python", with_timeline=True), tmp_path_factory.mktemp("flame"))


def said(page: Page) -> str:
    """Return what the line above the flame graph says."""
    return page.inner_text('[data-flame="said"]')


def width_of(page: Page, name: str) -> float:
    """Return the width of the first box with a name, in per cent."""
    return float((page.locator(BOX, has_text=name).first.get_attribute("width") or "").rstrip("%"))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_click_makes_a_box_fill_the_width_and_a_button_goes_back(browser: Browser, path: Path, width: int) -> None:
    with opened(browser, path, width=width) as page:
        every = page.locator(BOX).count()
        page.locator(BOX, has_text="CPU outside CUDA calls").first.locator("rect").first.click()
        assert width_of(page, "CPU outside CUDA calls") == 100
        assert 0 < page.locator(BOX).evaluate_all(SHOWN) < every
        assert said(page).startswith("CPU outside CUDA calls: ")
        assert page.locator('[data-flame="said"] a').get_attribute("href") == "#finding-idle-cpu"
        page.click('[data-flame="all"]')
        assert page.locator(BOX).evaluate_all(SHOWN) == every


def test_it_is_moved_in_by_keyboard(browser: Browser, path: Path) -> None:
    """One box is in the order of the tab key; the arrows lead to the others, Enter zooms, Escape goes back."""
    with opened(browser, path) as page:
        assert page.locator(f'{BOX}[tabindex="0"]').count() == 1
        page.locator(BOX).first.focus()
        for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        assert said(page).startswith("mnist.py:274 in <module>: ")
        page.keyboard.press("Enter")
        every, shown = page.locator(BOX).count(), page.locator(BOX).evaluate_all(SHOWN)
        assert shown < every
        page.keyboard.press("Escape")
        assert page.locator(BOX).evaluate_all(SHOWN) == every


def test_without_a_script_it_is_drawn(browser: Browser, path: Path) -> None:
    with tab(browser, java_script_enabled=False) as page:
        page.goto(path.as_uri())
        page.locator("summary", has_text="Program").first.click()
        assert page.locator(BOX).nth(2).is_visible()
        assert page.locator(".flame-tools").is_hidden()
