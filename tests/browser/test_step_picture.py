"""The typical step in a real browser: the script draws what Python drew, and any other step by keyboard and pointer."""

from collections.abc import Callable
from pathlib import Path

import pytest
from browser_pages import FOLLOW, NARROW, WIDE, needs_chromium, opened, tab, until, write
from playwright.sync_api import Browser, Page
from timeline_fixtures import US, timeline_report

from nsyswrap.model import Report
from nsyswrap.report import build_report
from nsyswrap.trace.tables import Trace

pytestmark = needs_chromium

SHOWN, PINNED, SLIDER = '[data-step="shown"]', '[data-step="pinned"]', "#step-slider"
PATHS = "(all) => all.map((one) => one.getAttribute('d'))"
# Visible texts of the picture that overlap another one or reach beyond the page.
OVERLAPS = """(all) => {
  const boxes = all.map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const after = ([, box], at) => boxes.slice(at + 1).filter(([, other]) => meet(box, other)).map(([name]) => name);
  const pairs = boxes.flatMap((one, at) => after(one, at).map((name) => `${one[0]} / ${name}`));
  const wide = boxes.filter(([, box]) => box.right > innerWidth || box.left < 0).map(([name]) => name);
  return [...pairs, ...wide];
}"""
SAID = """() => {
  window.said = [];
  document.addEventListener("nsyswrap:select", ({ detail }) => window.said.push(detail));
}"""


@pytest.fixture(scope="module")
def real(real_trace: Callable[[str], Trace]) -> Report:
    """Return a report of a real capture."""
    return build_report(real_trace("cnn_amp"), with_timeline=True)


@pytest.fixture
def page_path(tmp_path: Path) -> Path:
    """Return the page of the timeline made by hand: three measured steps of 1 ms, and two GPUs."""
    return write(timeline_report(), tmp_path)


def ready(page: Page) -> Page:
    """Wait until the script has drawn the step."""
    page.wait_for_selector('[data-step="controls"]:not([hidden])')
    return page


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_script_draws_what_the_page_had_without_it(
    browser: Browser, real: Report, tmp_path: Path, width: int
) -> None:
    """No text of it overlaps another one."""
    path = write(real, tmp_path)
    with tab(browser, width=width, java_script_enabled=False) as page:
        page.goto(path.as_uri())
        assert page.locator(f"{SHOWN} .st").is_visible()
        before = page.locator(f"{SHOWN} .st path").evaluate_all(PATHS)
        texts = page.locator(f"{SHOWN} .st-found li").all_inner_texts()
    with opened(browser, path, width=width) as page:
        ready(page)
        assert page.locator(f"{SHOWN} .st path").evaluate_all(PATHS) == before
        assert page.locator(f"{SHOWN} .st-found li").all_inner_texts() == texts
        assert page.locator(f"{SHOWN} .st text").evaluate_all(OVERLAPS) == []
    assert len(before) > 10


def test_the_slider_goes_to_any_step_by_keyboard(browser: Browser, real: Report, tmp_path: Path) -> None:
    """The address leads back to it, and the other parts of the page hear of it."""
    path = write(real, tmp_path)
    with opened(browser, path) as page:
        ready(page).evaluate(SAID)
        assert "the middle of 58 steps" in page.inner_text(f"{SHOWN} figcaption")
        page.focus(SLIDER)
        page.keyboard.press("End")
        assert "the slowest of 58 steps" in page.inner_text(f"{SHOWN} figcaption")
        page.keyboard.press("ArrowLeft")
        caption = page.inner_text(f"{SHOWN} figcaption")
        assert "number 57 of 58 steps" in caption
        assert "number 57 of 58 steps" in (page.get_attribute(SLIDER, "aria-valuetext") or "")
        address = page.evaluate("location.hash")
        slowest, second = page.evaluate("window.said")
        assert slowest["kind"] == second["kind"] == "step"
        assert caption.startswith(second["id"])
        assert slowest["end_ns"] - slowest["start_ns"] >= second["end_ns"] - second["start_ns"]
        page.click('[data-step="fastest"]')
        assert "the fastest of 58 steps" in page.inner_text(f"{SHOWN} figcaption")
    with opened(browser, path, anchor=address) as page:
        assert ready(page).inner_text(f"{SHOWN} figcaption") == caption


def test_a_pinned_step_stays_below_on_the_same_scale(browser: Browser, real: Report, tmp_path: Path) -> None:
    path = write(real, tmp_path)
    with opened(browser, path) as page:
        ready(page).click('[data-step="fastest"]')
        page.click('[data-step="pin"]')
        page.click('[data-step="slowest"]')
        assert "longer than the pinned step" in page.inner_text(f"{SHOWN} figcaption")
        assert "the fastest of 58 steps" in page.inner_text(f"{PINNED} figcaption")
        widths = [
            page.eval_on_selector(f"{one} .st svg[viewBox]", "(each) => each.getBoundingClientRect().width")
            for one in (SHOWN, PINNED)
        ]
        lengths = page.evaluate("""() => ["slowest", "fastest"].map((name) =>
          parseFloat(document.querySelector(`[data-step=${name}]`).textContent.split(" ")[1]))""")
        assert widths[1] / widths[0] == pytest.approx(lengths[1] / lengths[0], rel=0.01)
        address = page.evaluate("location.hash")
        page.click(f"{PINNED} button")
        assert page.locator(PINNED).is_hidden()
        assert "pin" not in page.evaluate("location.hash")
    with opened(browser, path, anchor=address) as page:
        assert "the fastest of 58 steps" in ready(page).inner_text(f"{PINNED} figcaption")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_step_that_is_compared_is_on_the_screen(browser: Browser, real: Report, tmp_path: Path, width: int) -> None:
    """A button is near the lower edge when it is clicked; the panel of the selection then covers that edge."""
    with opened(browser, write(real, tmp_path), width=width) as page:
        below = ready(page).evaluate(
            "document.querySelector('[data-step=pin]').getBoundingClientRect().bottom - innerHeight"
        )
        page.evaluate(f"scrollBy(0, {below + 20})")
        page.click('[data-step="pin"]')
        page.click('[data-step="slowest"]')
        panel = page.locator("#selection").bounding_box()
        figure = page.locator(f"{SHOWN} .st").bounding_box()
        caption = page.locator(f"{SHOWN} figcaption").bounding_box()
        button = page.locator('[data-step="fastest"]').bounding_box()
        assert panel is not None
        assert figure is not None
        assert caption is not None
        assert button is not None
        assert 0 < button["y"] < caption["y"] < panel["y"] - caption["height"]
        assert figure["y"] < panel["y"]
        if width == WIDE:
            assert figure["y"] + figure["height"] <= panel["y"]


def test_another_gpu_shows_the_same_step(browser: Browser, page_path: Path) -> None:
    with opened(browser, page_path, anchor="#step=2") as page:
        ready(page).select_option('[data-step="gpu"]', label="GPU 1")
        assert "GPU 1" in page.inner_text(f"{SHOWN} figcaption")
        assert page.evaluate("location.hash") == "#step=2&gpu=1"
        assert "exposed copies" not in (page.text_content(f"{SHOWN} .st") or "")
        page.focus(SLIDER)
        page.keyboard.press("ArrowRight")
        assert "exposed copies100 µs" in (page.text_content(f"{SHOWN} .st") or "")


def test_the_picture_follows_a_selection_made_elsewhere(browser: Browser, page_path: Path) -> None:
    """An event that comes from another part, and a link to the interval of a step; others change nothing."""
    with opened(browser, page_path) as page:
        ready(page)
        for kind, start, expected in (
            ("step", 1_000, "#t=1000000-"),
            ("kernel", 3_000, "#t=1000000-"),
            ("step", 7, "#t=1000000-"),
        ):
            page.evaluate(
                "(detail) => document.dispatchEvent(new CustomEvent('nsyswrap:select', { detail }))",
                {"kind": kind, "id": "x", "start_ns": start * US, "end_ns": (start + 1_000) * US},
            )
            assert (page.get_attribute(f"{SHOWN} figcaption a", "href") or "").startswith(expected)
        page.evaluate(f"location.hash = '#t={3_000 * US}-{4_000 * US}'")
        page.wait_for_selector(f'{SHOWN} figcaption a[href="#t=3000000-4000000"]')


def test_the_pointer_shows_a_kernel_and_its_launch(browser: Browser, page_path: Path) -> None:
    with opened(browser, page_path) as page:
        ready(page).locator(f"{SHOWN} .st").scroll_into_view_if_needed()
        box = page.locator(f"{SHOWN} .st").bounding_box()
        assert box is not None
        head = page.locator(f"{SHOWN} .st-head", has_text="compute").bounding_box()
        assert head is not None
        page.mouse.move(box["x"] + 0.32 * box["width"], head["y"] + 28)
        assert "12.0 µs after cudaLaunchKernel" in page.inner_text(f"{SHOWN} .tl-tip")
        assert page.locator(f"{SHOWN} .st-way").count() == 1
        page.mouse.move(0, 0)
        assert page.locator(f"{SHOWN} .tl-tip").is_hidden()


def test_an_address_that_leads_nowhere_does_no_harm(browser: Browser, page_path: Path) -> None:
    """When the page opens, and when it is followed on the page."""
    with opened(browser, page_path, anchor="#step=99&gpu=9") as page:
        ready(page)
        for anchor in ("#step=0", "#step=99&gpu=9", "#step=2&pin=9-9", "#step=x", "#step=2&gpu=1&pin=1-0"):
            assert page.locator(f"{SHOWN} .st").is_visible()
            assert page.locator(PINNED).is_hidden(), anchor
            page.evaluate(FOLLOW, anchor)
        assert page.locator(PINNED).is_hidden()


def test_the_typical_step_of_another_run_is_pinned_from_its_page(
    browser: Browser, real: Report, page_path: Path, tmp_path: Path
) -> None:
    """It is on the scale of both, has its own threads and no numbers of findings, and asks for nothing over the net."""
    other = tmp_path / "other" / "report.html"
    other.parent.mkdir()
    write(real, other.parent)
    with opened(browser, page_path) as page:
        ready(page)
        alone = page.locator(f"{SHOWN} .st .st-ground").first.get_attribute("width")
        page.set_input_files('[data-step="other"]', other)
        page.wait_for_selector(f"{PINNED} .st")
        assert "report.html" in page.inner_text(f"{PINNED} figcaption")
        assert "shorter than the pinned step" in page.inner_text(f"{SHOWN} figcaption")
        assert page.locator(f"{PINNED} .st-pin").count() == 0
        width = float((page.locator(f"{SHOWN} .st .st-ground").first.get_attribute("width") or "").rstrip("%"))
        assert alone == "100%"
        assert width < 100
        assert "pin=" not in page.url
        page.click(f"{PINNED} figcaption button")
        assert page.locator(PINNED).is_hidden()


def test_a_file_that_is_no_page_of_a_report_is_refused(browser: Browser, page_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.html"
    other.write_text("<title>x</title>", encoding="utf-8")
    with opened(browser, page_path) as page:
        ready(page).set_input_files('[data-step="other"]', other)
        until(page, "document.querySelector('[data-step=said]').textContent.includes('no page of nsyswrap')")
        assert page.locator(PINNED).is_hidden()
