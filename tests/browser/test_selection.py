"""One selection drives the page: rows, panel, timeline and address say the same, by pointer and by keyboard."""

from collections.abc import Callable, Iterator
from pathlib import Path

import hand_made
import pytest
from browser_pages import FOLLOW, NARROW, needs_chromium, opened, until, write
from made_rank_sections import with_ranks
from playwright.sync_api import Browser, Page
from timeline_fixtures import US, timeline_report
from timeline_page import DETAIL, ROWS, opened_fixture, place, press, settled, view  # noqa: F401 - a fixture

pytestmark = needs_chromium

UNFOLD = "document.querySelectorAll('details:not(.name)').forEach((one) => { one.open = true; })"
CURRENT = "JSON.stringify(nsyswrap.selection.current())"
KERNELS = "table[data-name=kernels-summary] tbody tr"
GAP_START, GAP_END = 1_432_000_000, 1_468_000_000
PICKED = {
    "kernel": KERNELS,
    "finding": "table[data-name=idle-attribution] tbody tr",
    "phase": "table[data-name=phases-phases] tbody tr",
    "window": f"#gap-0-{GAP_START}",
    "step": "table[data-name=steps-slowest] tbody tr",
    "rank": "table[data-name=ranks-ranks] tbody tr",
    "range": "table[data-name=ranges-summary] tbody tr",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the full report as a job of four ranks."""
    return write(with_ranks(hand_made.full_report(), 4, 2), tmp_path_factory.mktemp("page"))


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    with opened(browser, path) as page:
        page.evaluate(UNFOLD)
        yield page


def lit(page: Page) -> list[str]:
    """Return the tables that have rows of the selection, in order."""
    script = "(all) => all.map((one) => one.closest('table').dataset.name)"
    found: list[str] = page.locator("table.data tr.belongs").evaluate_all(script)
    return sorted(set(found))


def kind(page: Page) -> str:
    """Return the kind of the selection; empty for none."""
    found: str = page.evaluate("nsyswrap.selection.current().kind")
    return found


@pytest.mark.parametrize("wanted", PICKED)
def test_a_row_selects_and_the_address_restores_it(page: Page, wanted: str) -> None:
    row = page.locator(PICKED[wanted]).first
    row.locator("td.n").last.click()
    assert kind(page) == wanted
    assert page.locator("#selection").is_visible()
    assert "lit" in str(row.get_attribute("class"))
    before, address, tables = page.evaluate(CURRENT), page.url, lit(page)
    assert "#" in address
    assert tables
    page.reload()
    page.evaluate(UNFOLD)
    assert page.evaluate(CURRENT) == before
    assert (page.url, lit(page)) == (address, tables)
    page.keyboard.press("Escape")
    assert kind(page) == ""
    assert (page.evaluate("location.hash"), lit(page)) == ("", [])
    assert not page.locator("#selection").is_visible()


def test_a_kernel_marks_its_rows_in_each_table_and_nothing_else(page: Page) -> None:
    page.locator(KERNELS).first.locator("td.n").first.click()
    names = page.locator("table.data tr.belongs .whole").all_text_contents()
    assert set(names) == {hand_made.GEMM}
    assert "kernels-summary" in lit(page)
    assert page.locator("#selection-name").inner_text() == hand_made.GEMM


def test_only_its_rows_filters_the_tables_until_it_is_cleared(page: Page) -> None:
    page.locator(KERNELS).first.locator("td.n").first.click()
    page.locator("#selection-only").click()
    assert page.locator(f"{KERNELS}:visible").count() == 1
    assert page.locator("#selection-only").get_attribute("aria-pressed") == "true"
    page.locator("#selection-clear").click()
    assert page.locator(f"{KERNELS}:visible").count() == 12


def test_rows_are_walked_and_selected_by_keys(page: Page) -> None:
    """One stop of the Tab key for each table; a button goes to the next row of the selection."""
    assert page.locator(f"{KERNELS}[tabindex='0']").count() == 1
    page.locator(KERNELS).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    chosen = page.evaluate("nsyswrap.selection.current().id")
    assert chosen in page.evaluate("document.activeElement.textContent")
    assert page.evaluate("document.activeElement.classList.contains('lit')")
    page.locator("#selection-rows").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.matches('tr.belongs')")


def test_a_link_to_a_finding_selects_it_and_a_link_elsewhere_keeps_it(page: Page) -> None:
    page.keyboard.press("n")
    page.locator("#selection").wait_for(state="visible")
    assert kind(page) == "finding"
    address = page.evaluate("location.hash")
    page.locator("nav a", has_text="Kernels").click()
    until(page, f"location.hash === '{address}'")
    assert kind(page) == "finding"


def test_an_event_of_any_part_is_a_selection(page: Page) -> None:
    page.evaluate(
        "document.dispatchEvent(new CustomEvent('nsyswrap:select', { detail: "
        f"{{ kind: 'window', id: '', start_ns: {GAP_START}, end_ns: {GAP_END} }} }}))"
    )
    assert page.evaluate("location.hash") == f"#t={GAP_START}-{GAP_END}"
    assert page.locator(f"#gap-0-{GAP_START}.belongs").count() == 1


def test_an_address_of_something_unknown_selects_nothing(browser: Browser, path: Path) -> None:
    """When the page opens, and when it is followed on the page."""
    with opened(browser, path, anchor="#kernel=00000000") as page:
        assert kind(page) == ""
        for anchor in ("#kernel=00000000", "#phase=nothing", "#rank=99", "#range=", "#phase=%E0%A4%A"):
            page.evaluate(FOLLOW, anchor)
            assert kind(page) == "", anchor


def test_the_timeline_selects_and_follows(opened: Callable[..., Page]) -> None:
    """A click on a kernel selects it, and its rows are marked; keys go from one of its places to the next."""
    page = opened(timeline_report(), f"#t={1_000 * US}-{1_100 * US}")
    page.mouse.click(*place(page, "stream 7", 1_020 * US))
    settled(page)
    assert kind(page) == "kernel"
    assert "kernels-summary" in lit(page)
    before = page.inner_text(DETAIL)
    press(page, "]")
    assert page.inner_text(DETAIL) != before
    page.mouse.click(*place(page, "steps", view(page)[0] + 1 * US))
    settled(page)
    assert kind(page) == "step"
    press(page, "Escape")
    assert (kind(page), page.evaluate("location.hash")) == ("", "")


def test_the_panel_counts_the_kernels_and_gaps_of_an_interval(opened: Callable[..., Page]) -> None:
    """Both GPUs: one runs a kernel of 50 us in each 100 us, the other one is idle in one piece."""
    page = opened(timeline_report(), f"#t={1_000 * US}-{1_200 * US}")
    settled(page)
    rows = page.locator("#selection-lists tr").all_inner_texts()
    cells = [row.split() for row in rows]
    assert [cell[-3:] for cell in cells if "2" in cell and "100" in cell] == [["2", "100", "µs"], ["µs", "100", "µs"]]
    assert page.locator("#selection-facts").inner_text().count("%") == 2


def test_a_kernel_s_gaps_are_those_that_end_when_it_starts(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    page.evaluate(f"nsyswrap.selection.select(nsyswrap.things.plain('kernel', {hand_made.GEMM!r}))")
    settled(page)
    table = page.locator("#selection-lists table", has_text="Gaps that end when it starts")
    assert table.locator("tbody tr").all_inner_texts()[0].split()[-5:] == ["32", "50.0", "µs", "1.60", "ms"]


def test_a_finding_s_kernels_are_those_that_start_after_its_gaps(opened: Callable[..., Page]) -> None:
    """GPU 0 waits for data before each of its 32 kernels in the window, except the first, which begins with it."""
    page = opened(timeline_report())
    page.evaluate("nsyswrap.selection.select(nsyswrap.things.plain('finding', 'finding-idle-data-wait'))")
    settled(page)
    table = page.locator("#selection-lists table", has_text="Kernels that start after its gaps")
    assert table.locator("tbody tr").all_inner_texts()[0].split()[-3:] == ["31", "1.55", "ms"]


def test_hostile_names_stay_text_in_the_panel(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report(hostile=hand_made.HOSTILE))
    hostile = "[...nsyswrap.things.kernels()].find((one) => one.includes('<img'))"
    page.evaluate(f"nsyswrap.selection.select(nsyswrap.things.plain('kernel', {hostile}))")
    settled(page)
    assert "<img src=x onerror=alert(1)>" in page.locator("#selection").inner_text()
    assert page.locator("img").count() == 0


# A phone has no mouse. The headless shell has one at the corner of the page, and after a tap it leaves what was tapped.
NO_MOUSE = """addEventListener("mouseout", (event) => {
  if (!event.clientX && !event.clientY) event.stopImmediatePropagation();
}, true)"""


def test_on_a_phone_a_tap_answers_at_the_finger_and_the_contents_stay(browser: Browser, tmp_path: Path) -> None:
    file = write(timeline_report(), tmp_path)
    with opened(browser, file, width=NARROW, has_touch=True, is_mobile=True) as page:
        page.evaluate(NO_MOUSE)
        term = page.locator(".numbers a.term").first
        term.tap()
        page.locator("#tip").wait_for(state="visible")
        box, tip = term.bounding_box(), page.locator("#tip").bounding_box()
        assert box is not None
        assert tip is not None
        assert min(abs(tip["y"] - box["y"] - box["height"]), abs(box["y"] - tip["y"] - tip["height"])) < 20
        assert page.evaluate("location.hash") == ""
        page.evaluate("document.querySelector('[data-tl=rows]').scrollIntoView({ block: 'center' })")
        canvas = page.locator(ROWS).bounding_box()
        assert canvas is not None
        page.touchscreen.tap(canvas["x"] + 150, canvas["y"] + 120)
        page.locator('[data-tl="tip"]').wait_for(state="visible")
        menu = page.locator(".menu").bounding_box()
        assert menu is not None
        assert 0 <= menu["y"] < 120, "the button of the contents stays in sight"
