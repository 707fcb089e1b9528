"""The typical step in a real browser: what is drawn of it, and of any other step, by keyboard and pointer."""

import re
from pathlib import Path

import pytest
from browser_pages import HEIGHT, NARROW, WIDE, needs_chromium, opened, tab, write
from playwright.sync_api import Browser, Page
from real_captures import RealReport
from timeline_fixtures import US, timeline_report

from nsyswrap.model import Report

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
IDLE_HEAD = "idle, by reason500 µs · 50.0 %"
SAID = """() => {
  window.said = [];
  document.addEventListener("nsyswrap:select", ({ detail }) => window.said.push(detail));
}"""


@pytest.fixture(scope="module")
def real(real_report: RealReport) -> Report:
    return real_report("cnn_amp", with_timeline=True)


@pytest.fixture
def page_path(tmp_path: Path) -> Path:
    """Return the page of the timeline made by hand: three measured steps of 1 ms, and two GPUs."""
    return write(timeline_report(), tmp_path)


def ready(page: Page) -> Page:
    """Wait until the script has drawn the step."""
    page.wait_for_selector('[data-step="controls"]:not([hidden])')
    return page


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_text_overlaps_another_one(browser: Browser, real: Report, tmp_path: Path, width: int) -> None:
    with opened(browser, write(real, tmp_path), width=width) as page:
        for name in ("typical", "fastest", "slowest"):
            ready(page).click(f'[data-step="{name}"]')
            assert page.locator(f"{SHOWN} .st text").evaluate_all(OVERLAPS) == []
        assert page.locator(f"{SHOWN} .st path").count() > 10


def test_the_gpu_lanes_add_up_to_the_step(browser: Browser, real: Report, tmp_path: Path) -> None:
    """The label of the drawing has the share of each lane, rounded to 0.1 %; no outline is wider than its time."""
    with opened(browser, write(real, tmp_path)) as page:
        for name in ("typical", "fastest", "slowest"):
            ready(page).click(f'[data-step="{name}"]')
            shares = re.findall(r"([\d.]+) %", page.get_attribute(f"{SHOWN} .st", "aria-label") or "")
            assert sum(map(float, shares)) == pytest.approx(100, abs=0.2)
            for lane in page.locator(f"{SHOWN} .st svg[viewBox]").all():
                columns = int((lane.get_attribute("viewBox") or "").split()[2])
                for path in lane.locator("path").evaluate_all(PATHS):
                    assert sum(map(int, re.findall(r"h(\d+)", path))) == columns


def test_lanes_say_what_they_hold_and_arrows_lead_from_launch_to_start(browser: Browser, page_path: Path) -> None:
    """GPU 0 runs in the first half of each 100 us of a step of 1 ms, each kernel 12 us after its launch."""
    with opened(browser, page_path) as page:
        drawing = ready(page).locator(f"{SHOWN} .st")
        idle = "idle, by reason 500 µs · 50.0 %"
        assert drawing.get_attribute("aria-label") == f"A step of 1.00 ms: compute 500 µs · 50.0 %, {idle}"
        heads = drawing.locator(".st-head").all_text_contents()
        assert heads == ["phases", "thread 4711 python3■40.0 µs in CUDA calls", "compute500 µs · 50.0 %", IDLE_HEAD]
        assert drawing.locator(".wide > .st-name").all_text_contents()[:2] == ["data 500 µs", "forward 500 µs"]
        assert drawing.locator("g > .st-amount").all_text_contents() == ["0", "200 µs", "400 µs", "600 µs", "800 µs"]
        arrows = drawing.locator(".st-arrow line").evaluate_all(
            "(all) => all.map((one) => [one.getAttribute('x1'), one.getAttribute('x2')].map(parseFloat))"
        )
        assert len(arrows) == 3
        for launch, start in arrows:
            assert start - launch == pytest.approx(1.2, abs=0.01)
        outline = drawing.locator("path.h-compute").get_attribute("d") or ""
        assert outline.startswith("M0 20v-20h60v20h60v-20")


def test_a_finding_lies_where_its_time_is(browser: Browser, page_path: Path) -> None:
    """Its number leads to it; it is also in the list below, with its share of the step."""
    with opened(browser, page_path) as page:
        pins = ready(page).locator(f"{SHOWN} .st .wide a")
        listed = page.locator(f"{SHOWN} .st-found li")
        assert listed.count() > 0
        for at in range(listed.count()):
            anchor = listed.nth(at).locator("a").get_attribute("href")
            assert page.locator(f"{SHOWN} .st .wide a[href='{anchor}']").count() == 1
        assert pins.count() == listed.count()


def test_without_a_script_the_step_is_words(browser: Browser, page_path: Path) -> None:
    with tab(browser, java_script_enabled=False) as page:
        page.goto(page_path.as_uri())
        assert "1.00 ms, the middle of 3 steps" in page.inner_text(SHOWN)
        assert page.locator("#step svg").count() == 0


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
    """A button is near the lower edge when it is clicked; the inspector then covers that edge, or is at the right."""
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
        below, right = (HEIGHT, panel["x"]) if width == WIDE else (panel["y"], NARROW)
        assert 0 < button["y"] < caption["y"] < below - caption["height"]
        assert figure["y"] < below
        assert figure["x"] + figure["width"] <= right


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
