"""How the page behaves in a real browser: links, keys, glossary terms, themes, print."""

import re
from collections.abc import Iterator
from pathlib import Path

import hand_made
import pytest
from browser_pages import HEIGHT, needs_chromium, opened, until, write
from playwright.sync_api import Browser, Page
from timeline_fixtures import timeline_report

from nsyswrap.model import Report
from nsyswrap.render import report_cards

pytestmark = needs_chromium

REPORT = hand_made.full_report()
FIRST, SECOND, LAST = (card.anchor for card in report_cards.cards(REPORT))
GAP_START, GAP_END = 1_432_000_000, 1_468_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the full report."""
    return write(REPORT, tmp_path_factory.mktemp("page"))


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    """Open the page of the full report."""
    with opened(browser, path) as page:
        yield page


def is_in_sight(page: Page, selector: str) -> bool:
    """Return whether the top of an element is on the screen."""
    box = page.locator(selector).bounding_box()
    return box is not None and 0 <= box["y"] < HEIGHT


def ground(page: Page, selector: str = "body") -> str:
    """Return the colour behind an element."""
    colour: str = page.locator(selector).evaluate("(one) => getComputedStyle(one).backgroundColor")
    return colour


def test_a_link_to_a_finding_opens_its_evidence(browser: Browser, path: Path) -> None:
    with opened(browser, path, anchor=f"#{SECOND}") as page:
        assert is_in_sight(page, f"#{SECOND}")
        assert page.locator(f"#{SECOND} details").first.get_attribute("open") == ""
        assert page.locator(f"#{FIRST} details").first.get_attribute("open") is None
        assert page.evaluate("document.activeElement.id") == SECOND


def test_a_link_to_a_span_of_time_marks_the_gap_that_has_it(browser: Browser, path: Path) -> None:
    with opened(browser, path, anchor=f"#t={GAP_START}-{GAP_END}") as page:
        assert page.locator("tr.lit").get_attribute("id") == f"gap-0-{GAP_START}"
        assert is_in_sight(page, "tr.lit")


def test_n_and_p_go_from_finding_to_finding_and_round(page: Page) -> None:
    visited = []
    for key in ("n", "n", "n", "n", "p"):
        page.keyboard.press(key)
        until(page, "document.activeElement.id === location.hash.slice(1)")
        visited.append(page.evaluate("document.activeElement.id"))
    assert visited == [FIRST, SECOND, LAST, FIRST, LAST]


def test_a_question_mark_tells_the_keys_and_escape_closes(page: Page) -> None:
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("n")
    assert page.evaluate("location.hash") == "", "behind the dialog nothing moves"
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_the_first_stop_of_the_keyboard_skips_to_the_verdict(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#verdict"


@pytest.mark.parametrize("way", ["hover", "focus"])
def test_a_dotted_word_says_what_it_means(page: Page, way: str) -> None:
    term = page.locator(".numbers a.term").first
    term.hover() if way == "hover" else term.focus()
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert tip.inner_text() == page.locator("#term-busy dd").inner_text()
    assert term.get_attribute("aria-describedby") == "tip"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    assert term.get_attribute("aria-describedby") is None


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_follows_the_system_until_it_is_chosen(browser: Browser, path: Path, scheme: str, other: str) -> None:
    with opened(browser, path, color_scheme=scheme) as page:
        before = ground(page)
        button = page.locator("#theme")
        assert button.inner_text() == f"{other} theme".capitalize(), "the button says what it does"
        button.click()
        assert ground(page) != before
        assert page.evaluate("document.documentElement.dataset.theme") == other
        for _ in range(10):  # until the browser has written the page's storage to the disk
            page.wait_for_timeout(500)
            page.reload()
            if page.evaluate("document.documentElement.dataset.theme") == other:
                break
        assert page.evaluate("document.documentElement.dataset.theme") == other, "it is remembered"
        assert button.inner_text() == f"{scheme} theme".capitalize()


def test_both_ways_to_the_dark_theme_are_the_same(browser: Browser, path: Path) -> None:
    """Each colour is the same whether the system or the button sets the theme."""
    names = [
        *("--page", "--ink", "--soft", "--line", "--panel", "--accent", "--compute", "--communication", "--copy"),
        *("--fill", "--idle", "--eligible", "--stripe", "--problem", "--warning", "--note", "--lit"),
    ]
    read = "(names) => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))"
    with opened(browser, path, color_scheme="dark") as page:
        by_system = page.evaluate(read, names)
    with opened(browser, path, color_scheme="light") as page:
        page.locator("#theme").click()
        assert page.evaluate(read, names) == by_system


def test_on_paper_are_the_answer_and_what_the_reader_opened(browser: Browser, path: Path) -> None:
    """Light, without handles."""
    with opened(browser, path, color_scheme="dark", folded=True) as page:
        page.emulate_media(media="print")
        assert ground(page) == "rgb(255, 255, 255)"
        assert page.locator(".verdict > p").is_visible()
        assert page.locator(".finding").first.is_visible()
        assert not any(page.locator(one).first.is_visible() for one in ("nav", ".tools", ".clip", "details.group"))
        page.evaluate("nsyswrap.unfold(document.getElementById('section-kernels'))")
        assert page.locator("table[data-name=kernels-summary] tbody tr").first.is_visible()


def page_count(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))


@pytest.mark.parametrize("report", [REPORT, timeline_report()], ids=["full", "timeline"])
def test_the_answer_takes_two_pages_of_paper(browser: Browser, tmp_path: Path, report: Report) -> None:
    with opened(browser, write(report, tmp_path), folded=True) as page:
        assert page_count(page.pdf(format="A4")) <= 2


def test_the_contents_say_where_the_reader_is(page: Page) -> None:
    page.locator("#section-kernels").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('section-kernels').scrollIntoView()")
    until(page, "document.querySelector('nav [aria-current]')?.hash === '#section-kernels'")
