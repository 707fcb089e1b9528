"""The page opens folded: verdict, plan, step, breakdown and findings; the rest is one click or a search away."""

from collections.abc import Iterator
from pathlib import Path

import hand_made
import pytest
from browser_pages import HEIGHT, NARROW, WIDE, needs_chromium, opened, write
from playwright.sync_api import Browser, Page

pytestmark = needs_chromium

KERNELS = "table[data-name=kernels-summary]"
MOST_SCREENS = {WIDE: 3, NARROW: 5}
SAMPLES = Path(__file__).resolve().parents[2] / "reports" / "samples"
LAPTOP = 800
MOST_OF_A_SAMPLE = 3.5


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the full report."""
    return write(hand_made.full_report(), tmp_path_factory.mktemp("page"))


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    """Open the page as a reader finds it."""
    with opened(browser, path, folded=True) as page:
        yield page


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_takes_a_few_screens_and_the_plan_is_on_the_first(browser: Browser, path: Path, width: int) -> None:
    with opened(browser, path, folded=True, width=width) as page:
        assert page.evaluate("document.documentElement.scrollHeight") < MOST_SCREENS[width] * HEIGHT
        advice = page.locator(".lead .headline").bounding_box()
        assert advice is not None
        assert advice["y"] + advice["height"] < HEIGHT


@pytest.mark.parametrize("name", ["mnist-1-worker", "mnist-8-workers"])
def test_a_sample_takes_three_or_four_screens_of_a_laptop(browser: Browser, name: str) -> None:
    """With the whole plan, the typical step and three findings in sight, with the script and without."""
    for scripts in (True, False):
        with opened(browser, SAMPLES / name / "report.html", folded=True, java_script_enabled=scripts) as page:
            assert page.locator("#step figcaption").first.is_visible()
            assert page.locator(".finding:visible").count() >= 3
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height <= MOST_OF_A_SAMPLE * LAPTOP


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_with_everything_open_the_page_is_as_wide_as_the_screen(browser: Browser, width: int) -> None:
    """Code, names of kernels and tables scroll or wrap where they are."""
    with opened(browser, SAMPLES / "mnist-8-workers" / "report.html", width=width) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_search_opens_folds_inside_a_section(page: Page) -> None:
    """The table of idle time by root cause is folded twice."""
    table = page.locator("table[data-name=idle-attribution]")
    assert not table.is_visible()
    page.locator("#search").fill("data loader wait")
    table.wait_for(state="visible")
    page.locator("#search").fill("")
    table.wait_for(state="hidden")


def test_a_search_opens_the_groups_with_matches_while_it_lasts(page: Page) -> None:
    """A group that the reader opened stays open."""
    page.locator("details.group > summary").filter(has_text="Glossary").click()
    page.locator("#search").fill("triton")
    page.locator(KERNELS).wait_for(state="visible")
    page.locator("#search").fill("")
    page.locator(KERNELS).wait_for(state="hidden")
    assert page.locator("#glossary").is_visible()
