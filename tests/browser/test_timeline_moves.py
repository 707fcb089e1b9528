"""The timeline moves by keys, wheel, mouse, fingers and buttons."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_pages import needs_chromium, until, write
from playwright.sync_api import Browser, Page
from timeline_fixtures import US, WINDOW, timeline_report
from timeline_page import (  # noqa: F401 - a fixture
    LEDGER,
    LIVE,
    ROWS,
    ledger,
    load,
    opened_fixture,
    place,
    press,
    settled,
    view,
)

pytestmark = needs_chromium


@pytest.mark.parametrize(("inward", "outward"), [("w", "s"), ("+", "-"), ("=", "-")])
def test_keys_zoom(opened: Callable[..., Page], inward: str, outward: str) -> None:
    page = opened(timeline_report())
    before = view(page)
    press(page, inward)
    start, end = view(page)
    assert end - start == pytest.approx((before[1] - before[0]) / 1.5)
    press(page, outward)
    assert view(page) == pytest.approx(before)


@pytest.mark.parametrize(("later", "earlier"), [("d", "a"), ("ArrowRight", "ArrowLeft")])
def test_keys_move(opened: Callable[..., Page], later: str, earlier: str) -> None:
    page = opened(timeline_report())
    press(page, "w", "w")
    before = view(page)
    press(page, later)
    assert view(page)[0] == pytest.approx(before[0] + 0.2 * (before[1] - before[0]))
    press(page, earlier)
    assert view(page) == pytest.approx(before)


def test_the_view_stays_inside_the_capture(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    press(page, *["s"] * 9)
    assert view(page) == (0, 4_000 * US)
    press(page, *["w"] * 40)
    start, end = view(page)
    assert end - start == 50
    press(page, "0")
    assert view(page) == (WINDOW.start_ns, WINDOW.end_ns)


def test_n_and_p_go_from_gap_to_gap(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    press(page, "n")
    assert "Selected: 1.50 ms" in page.inner_text(LEDGER)
    press(page, "p")
    assert "Selected: 1.60 ms" in page.inner_text(LEDGER)
    press(page, "p")
    assert "Selected: 50.0 µs" in page.inner_text(LEDGER)


def test_the_wheel_zooms_with_ctrl_alone(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    before = view(page)
    page.mouse.move(*place(page, "GPU 0", 2_000 * US))
    page.mouse.wheel(0, -100)
    settled(page)
    assert view(page) == before
    page.mouse.move(*place(page, "GPU 0", 2_000 * US))
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    settled(page)
    start, end = view(page)
    assert end - start < before[1] - before[0]
    assert start < 2_000 * US < end


def drag(page: Page, from_ns: float, to_ns: float) -> None:
    """Drag the mouse over the row of GPU 0."""
    begin, end = place(page, "GPU 0", from_ns), place(page, "GPU 0", to_ns)
    page.mouse.move(*begin)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()
    settled(page)


def test_dragging_selects_and_the_address_leads_back(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    drag(page, 1_000 * US, 2_000 * US)
    shown = ledger(page)
    found = re.search(r"#t=(\d+)-(\d+)$", page.url)
    assert found
    start, end = (int(bound) for bound in found.groups())
    assert [start, end] == pytest.approx([1_000 * US, 2_000 * US], abs=8 * US)
    assert shown["compute"][0] == pytest.approx((end - start) / 2, abs=30 * US)
    page.reload()
    page.wait_for_selector(LIVE)
    settled(page)
    assert ledger(page)["compute"] == pytest.approx(shown["compute"], abs=2)
    press(page, "Escape")
    assert "In view" in page.inner_text(LEDGER)


def test_dragging_with_shift_moves(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    press(page, "w")
    before = view(page)
    page.keyboard.down("Shift")
    drag(page, 2_000 * US, 1_800 * US)
    page.keyboard.up("Shift")
    assert view(page)[0] == pytest.approx(before[0] + 200 * US, abs=10 * US)
    assert "In view" in page.inner_text(LEDGER)


def test_a_finger_moves_and_two_zoom(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    file = write(timeline_report(), tmp_path)
    load(page, file)
    page.locator(ROWS).scroll_into_view_if_needed()
    settled(page)
    before = view(page)
    touch(page, [[(160, 90), (200, 90)], [(120, 90), (240, 90)]])
    start, end = view(page)
    assert end - start == pytest.approx((before[1] - before[0]) / 3, rel=0.02)
    touch(page, [[(200, 90)], [(100, 90)]])
    assert view(page)[0] > start
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def touch(page: Page, moves: list[list[tuple[int, int]]]) -> None:
    """Put fingers down on the drawing, move them, and lift them."""
    box = page.locator(ROWS).bounding_box()
    assert box is not None
    points = [[{"x": box["x"] + x, "y": box["y"] + y, "id": at} for at, (x, y) in enumerate(move)] for move in moves]
    session = page.context.new_cdp_session(page)
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points[0]})
    for move in points[1:]:
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": move})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    settled(page)


def test_buttons_do_what_the_keys_do(opened: Callable[..., Page]) -> None:
    page = opened(timeline_report())
    page.click('[data-tl="all"]')
    settled(page)
    assert view(page) == (0, 4_000 * US)
    page.click('[data-tl="in"]')
    page.click('[data-tl="right"]')
    settled(page)
    assert view(page)[1] > 3_500 * US
    page.click('[data-tl="fit"]')
    settled(page)
    assert view(page) == (WINDOW.start_ns, WINDOW.end_ns)
    page.click('[data-tl="mode"]')
    assert page.get_attribute('[data-tl="mode"]', "aria-pressed") == "true"


def test_t_shows_the_timeline_with_what_is_selected_and_gives_it_the_keys(opened: Callable[..., Page]) -> None:
    """Also right after the key that chooses a finding."""
    page = opened(timeline_report())
    page.evaluate("document.querySelectorAll('details.group').forEach((group) => { group.open = false; })")
    assert not page.locator(ROWS).is_visible()
    page.locator("body").press("n")
    page.locator("body").press("t")
    until(page, "nsyswrap.selection.current().kind === 'finding'")
    assert page.locator(ROWS).is_visible()
    assert page.evaluate("document.activeElement.dataset.tl") == "rows"
    assert abs(page.evaluate("document.getElementById('timeline').getBoundingClientRect().top")) < 200
