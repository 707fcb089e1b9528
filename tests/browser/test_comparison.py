"""The page of a comparison in a real browser: no message, no request, legible, as wide as the screen."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_pages import NARROW, WIDTHS, contrast, needs_chromium, opened, tab
from made_comparisons import ALL, faster_steps, full
from playwright.sync_api import Browser, Page

from nsyswrap.render.documents import render

pytestmark = needs_chromium
every_page = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write four pages."""
    folder = tmp_path_factory.mktemp("comparisons")
    paths = {name: folder / f"{name}.html" for name in ALL}
    for name, made in ALL.items():
        paths[name].write_text(render("comparison", "html", made()), encoding="utf-8")
    return paths


@every_page
def test_the_page_requests_only_itself_and_logs_no_message(browser: Browser, files: dict[str, Path], name: str) -> None:
    """The page makes no other request. It logs no message, no error and no violation of its own policy."""
    with opened(browser, files[name], width=NARROW, wait_until="networkidle") as page:
        assert page.locator("h1").count() == 1


@pytest.fixture
def page(browser: Browser, files: dict[str, Path]) -> Iterator[Page]:
    """Open the full comparison on a phone."""
    with opened(browser, files["full"], width=NARROW) as page:
        yield page


def test_hostile_names_are_text(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["hostile"], width=NARROW, wait_until="networkidle") as page:
        assert page.locator("img").count() == 0
        assert "<img src=x onerror=alert(1)></script>" in page.inner_text("h1")


@every_page
@pytest.mark.parametrize("width", WIDTHS)
def test_tables_scroll_and_the_page_does_not(browser: Browser, files: dict[str, Path], name: str, width: int) -> None:
    with opened(browser, files[name], width=width) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_page(browser: Browser, files: dict[str, Path], scheme: str) -> None:
    """Contrast of at least 4.5 in both schemes (WCAG 2.2, 1.4.3)."""
    colour_of = "(one) => getComputedStyle(document.querySelector(one)).color"
    places = ("body", ".outcome", ".about dt", ".fine", ".change-tag", ".axis", "figcaption")
    with opened(browser, files["full"], color_scheme=scheme) as page:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert min(contrast(page.evaluate(colour_of, one), ground) for one in places) >= 4.5


def test_the_shorter_step_is_the_shorter_bar(page: Page) -> None:
    """The lengths are proportional to the times per step."""
    widths = page.evaluate(
        "[...document.querySelectorAll('.group-bars > svg')].map((one) => "
        "[...one.querySelectorAll(':scope > rect')].reduce((sum, each) => sum + each.getBBox().width, 0))"
    )
    of_mean = full().estimates[1]
    assert widths[1] / widths[0] == pytest.approx(of_mean.new_ns / of_mean.base_ns, abs=0.01)


def test_both_steps_begin_at_the_left_edge_on_the_scale_of_the_longer_one(browser: Browser, tmp_path: Path) -> None:
    """Each step is drawn whole, and its columns are as wide in both."""
    path = tmp_path / "page.html"
    path.write_text(render("comparison", "html", faster_steps()), encoding="utf-8")
    with tab(browser) as page:
        page.goto(path.as_uri())
        page.wait_for_selector(".drawn-step .st")
        labels = page.locator(".st").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")
        assert [label.partition(":")[0] for label in labels] == ["A step of 1.00 ms", "A step of 500 µs"]
        assert all("compute" in label and "50.0 %" in label for label in labels)
        boxes = [page.locator(".drawn-step").nth(at).locator("svg[viewBox]").first for at in (0, 1)]
        assert [box.get_attribute("width") for box in boxes] == ["100%", "50%"]
        assert [(box.get_attribute("viewBox") or "").split()[2] for box in boxes] == ["1200", "600"]
        ticks = [page.locator(".drawn-step").nth(at).locator("g > .st-amount").all_inner_texts() for at in (0, 1)]
        assert ticks[0] == ticks[1]


def test_the_interval_lies_left_of_no_change_where_new_is_faster(page: Page) -> None:
    ends, zero = page.evaluate(
        "(() => { const reach = document.querySelector('.reach').getBBox(); "
        "return [[reach.x, reach.x + reach.width], document.querySelector('.picture .middle').getBBox().x]; })()"
    )
    assert ends[0] < ends[1] < zero


def test_the_page_prints(page: Page) -> None:
    assert page.pdf().startswith(b"%PDF")
