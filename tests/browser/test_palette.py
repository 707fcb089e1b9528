"""The palette finds things by name, by keyboard and by pointer, and goes to what is chosen."""

from collections.abc import Iterator
from pathlib import Path

import hand_made
import pytest
from browser_pages import WIDTHS, needs_chromium, opened, until, write
from export_builder import PID, ExportBuilder, global_id
from playwright.sync_api import Browser, Page

from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export

pytestmark = needs_chromium

OPTIONS = "#palette-list li"
US = 1_000
ACTIVE = "#palette-list li[aria-selected=true]"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the full report."""
    return write(hand_made.full_report(), tmp_path_factory.mktemp("page"))


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    """Open it as a reader finds it."""
    with opened(browser, path, folded=True) as page:
        yield page


def test_slash_arrows_and_enter_select_and_unfold(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("small_kernel_5")
    assert page.locator(OPTIONS).count() == 12, "one with the name, ten that begin with it, and the filter"
    assert page.locator(ACTIVE).locator("span, bdi").all_inner_texts()[:2] == ["kernel", "small_kernel_5"]
    assert page.locator(ACTIVE).locator(".place-note").inner_text().endswith(" ms, Kernels"), "its time and its place"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    chosen = page.locator(ACTIVE).locator("bdi").inner_text()
    assert page.locator("#palette-input").get_attribute("aria-activedescendant") == page.locator(ACTIVE).get_attribute(
        "id"
    )
    page.keyboard.press("Enter")
    assert not page.locator("#palette").is_visible()
    assert page.evaluate("nsyswrap.selection.current().id") == chosen
    row = page.locator("table[data-name=kernels-summary] tr.lit")
    assert row.is_visible(), "its group and the table are unfolded"
    assert row.inner_text().startswith(chosen)


def test_escape_closes_and_keeps_the_selection(page: Page) -> None:
    page.keyboard.press("n")
    page.locator("#selection").wait_for(state="visible")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert not page.locator("#palette").is_visible()
    assert page.locator("#selection").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#selection").is_visible()


@pytest.mark.parametrize(
    ("text", "kind"),
    [("data loader", "finding"), ("forward", "phase"), ("step 17", "step"), ("occupancy", "part"), ("busy", "word")],
)
def test_each_kind_is_found_and_chosen_by_pointer(page: Page, text: str, kind: str) -> None:
    page.locator("#find").click()
    page.locator("#palette-input").fill(text)
    option = page.locator(OPTIONS).filter(has=page.locator(f".kind:text-is('{kind}')")).first
    label = option.locator("bdi").inner_text()
    option.click()
    assert not page.locator("#palette").is_visible()
    selected = page.evaluate("nsyswrap.selection.current().kind")
    assert selected == ("" if kind in ("part", "word") else kind)
    if kind in ("part", "word"):
        assert page.locator(".arrived").is_visible()
        assert label in page.locator(".arrived").inner_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_part_that_is_gone_to_has_one_ground_and_its_frame_is_on_the_screen(
    browser: Browser, path: Path, width: int
) -> None:
    """What covers the page elsewhere, such as the edges of a table that scrolls, covers the lit ground in it."""
    with opened(browser, path, folded=True, width=width) as page:
        page.keyboard.press("/")
        page.keyboard.insert_text("tensor cores")
        page.keyboard.press("Enter")
        ground = page.locator("section.arrived").evaluate("(one) => getComputedStyle(one).backgroundColor")
        lit, scroll = page.locator("section.arrived .scroll").first.evaluate(
            "(one) => [getComputedStyle(one).getPropertyValue('--lit'), getComputedStyle(one).backgroundImage]"
        )
        channels = [int(lit.strip()[at : at + 2], 16) for at in (1, 3, 5)]
        assert ground == "rgb({}, {}, {})".format(*channels)
        assert scroll.count(ground) == 2
        box = page.locator("section.arrived").bounding_box()
        assert box is not None
        reach = page.locator("section.arrived").evaluate(
            "(one) => parseFloat(getComputedStyle(one).outlineOffset) + parseFloat(getComputedStyle(one).outlineWidth)"
        )
        assert reach >= 8
        assert box["x"] - reach >= 0
        assert box["x"] + box["width"] + reach <= width
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", WIDTHS)
def test_the_heading_above_a_word_of_the_glossary_is_not_cut(browser: Browser, path: Path, width: int) -> None:
    with opened(browser, path, folded=True, width=width) as page:
        page.locator(".numbers a.term").first.click()
        until(
            page, "document.querySelector('#glossary .pairs > div:target')?.getBoundingClientRect().top < innerHeight"
        )
        cut = page.evaluate("""() => {
          const covers = [document.querySelector(".top"), document.querySelector("nav")].filter(
            (one) => one.getBoundingClientRect().width > innerWidth / 2);
          const below = Math.max(...covers.map((one) => one.getBoundingClientRect().bottom));
          const heads = [...document.querySelectorAll("#glossary h3")].map((one) => one.getBoundingClientRect());
          return heads.filter((box) => box.top < below && box.bottom > below).length;
        }""")
        assert cut == 0


def test_the_last_entry_filters_the_tables(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("triton")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.locator("#search").input_value() == "triton"
    assert "rows in" in page.locator("#found").inner_text()


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, write(hand_made.hostile_report(), tmp_path)) as page:
        page.keyboard.press("/")
        page.keyboard.type("img")
        assert page.locator(OPTIONS).count() > 1
        assert page.locator("img").count() == 0
        page.keyboard.press("Enter")
        assert page.locator("img").count() == 0


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of two processes that make steps of the same names, the second one 3 us later."""
    folder, builder = tmp_path_factory.mktemp("ranks"), ExportBuilder()
    for rank, pid in enumerate((PID, PID + 1)):
        thread = global_id(pid, pid)
        for number in range(6):
            start = (number * 100 + rank * 3) * US
            builder.range(f"step {number}", start, start + 90 * US, thread=thread)
            correlation = 1_000 + 10 * rank + number
            builder.call("cudaLaunchKernel", start + 5 * US, start + 10 * US, thread=thread, correlation=correlation)
            process = global_id(pid, 0)
            builder.kernel(start + 20 * US, start + 70 * US, device=rank, process=process, correlation=correlation)
    trace = load_export(builder.write(folder / "built.sqlite"))
    return write(build_report(trace, with_timeline=True), folder)


def test_steps_of_one_name_tell_when_they_start(browser: Browser, ranks: Path) -> None:
    with opened(browser, ranks) as page:
        page.keyboard.press("/")
        page.keyboard.type("step 3")
        labels = page.locator(f"{OPTIONS} bdi").all_inner_texts()[:2]
    assert labels == ["step 3, from 0.000300 s", "step 3, from 0.000303 s"]


# The difference between the darkest and the lightest pixel of the line with the name of the first row.
CONTRAST = """() => {
    const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    copy.drawImage(document.querySelector("canvas.tl-rows"), 0, 0);
    const { data } = copy.getImageData(0, 28 * devicePixelRatio, 30, 12 * devicePixelRatio);
    const sums = Array.from({ length: data.length / 4 }, (_, at) => data[4 * at] + data[4 * at + 1] + data[4 * at + 2]);
    return Math.max(...sums) - Math.min(...sums);
}"""


def test_on_a_phone_a_selection_does_not_cover_the_names_of_rows(browser: Browser, ranks: Path) -> None:
    """The names are above their rows, and the time beside a selection is grey from top to bottom."""
    with opened(browser, ranks, width=390) as page:
        page.locator("canvas.tl-rows").scroll_into_view_if_needed()
        until(page, "document.querySelector('canvas.tl-rows').dataset.start !== undefined")
        page.evaluate("nsyswrap.selection.select([...nsyswrap.things.steps().values()][6])")
        until(page, "Number(document.querySelector('canvas.tl-rows').dataset.start) > 400000")
        assert page.evaluate(CONTRAST) > 765 / 2, "half of the way from black to white; below a curtain it is 189"
