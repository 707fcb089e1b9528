"""The pictures of a comparison in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_pages import NARROW, needs_chromium, opened, tab
from made_comparisons import faster_steps, full
from playwright.sync_api import Browser, Page

from nsyswrap.render.documents import render

pytestmark = needs_chromium


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """Open the full comparison on a phone."""
    path = tmp_path / "comparison.html"
    path.write_text(render("comparison", "html", full()), encoding="utf-8")
    with opened(browser, path, width=NARROW) as page:
        yield page


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
        "return [[reach.x, reach.x + reach.width], document.querySelector('.drawn .middle').getBBox().x]; })()"
    )
    assert ends[0] < ends[1] < zero
