"""The palette finds things by name, by keyboard and by pointer, and goes to what is chosen."""

from collections.abc import Iterator
from pathlib import Path

import hand_made
import pytest
from browser_pages import needs_chromium, opened, write
from playwright.sync_api import Browser, Page

pytestmark = needs_chromium

OPTIONS = "#palette-list li"
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
    assert page.locator(ACTIVE).inner_text().split() == ["kernel", "small_kernel_5"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    chosen = page.locator(ACTIVE).inner_text().split()[1]
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


def test_a_slash_in_a_field_is_a_letter(page: Page) -> None:
    page.locator("#search").fill("")
    page.locator("#search").type("a/b")
    assert page.locator("#search").input_value() == "a/b"
    assert not page.locator("#palette").is_visible()
