"""Ten tasks of a reader on six reports, by keyboard and by pointer, each within two actions of opening the page."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from browser_pages import HEIGHT, NARROW, WIDE, needs_chromium, opened
from firefox import Firefox, firefox, needs_firefox
from page_tasks import TASKS, failed
from playwright.sync_api import Browser, Page
from real_captures import RealReport, more

from nsyswrap.render import render

# Captures by the name of their page.
CAPTURES = {
    "mnist-1-worker": "samples/mnist-1-worker",
    "mnist-8-workers": "samples/mnist-8-workers",
    "vgg16-amp": "gallery/vgg16-amp",
    "bert-amp": "gallery/bert-amp",
    "decoding": "gallery/decoding",
    "two-ranks": "ranks/loader",
}
# Those of `make test`.
FEW = ("mnist-1-worker", "two-ranks")
every_page = pytest.mark.parametrize("name", [*FEW, *more(*(each for each in CAPTURES if each not in FEW))])
QUICK = ((FEW[0], NARROW, "dark"), (FEW[1], NARROW, "dark"), (FEW[0], WIDE, "light"))
# A page that is larger loads slowly from a shared disk. Source: issue of the project.
MOST_BYTES = 1_500_000
LIMIT_MS = 5000
# Height of a laptop's screen, pixels.
LAPTOP = 800


@dataclass
class Chromium:
    """A page of Playwright with the methods of ``page_tasks.Driver``."""

    page: Page

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.insert_text(text)

    def click(self, place: str) -> None:
        """Click the first visible element of a CSS selector."""
        self.page.locator(place).locator("visible=true").first.click(timeout=LIMIT_MS)

    def evaluate(self, body: str) -> object:
        """Run the body of a function in the page and return its value."""
        return self.page.evaluate(f"() => {{ {body} }}")

    def wait(self) -> None:
        """Let the page work for a moment."""
        self.page.wait_for_timeout(50)


@pytest.fixture(scope="module")
def pages(real_report: RealReport, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives the page of a report by name, written once."""
    folder = tmp_path_factory.mktemp("tasks")

    def path(name: str) -> Path:
        made = folder / f"{name}.html"
        if not made.exists():
            made.write_text(render("html", real_report(CAPTURES[name], with_timeline=True)), encoding="utf-8")
        return made

    return path


@pytest.fixture(scope="module")
def first_screen(browser: Browser, pages: Callable[[str], Path]) -> Iterator[Callable[[str, int], Page]]:
    """Return a function that gives the page of a report in a tab of some width, as it opens; it is opened once."""
    with ExitStack() as tabs:
        yield cache(lambda name, width: tabs.enter_context(opened(browser, pages(name), folded=True, width=width)))


def test_there_are_ten_tasks() -> None:
    assert len(TASKS) == 10


@needs_chromium
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *QUICK,
        *more(*(case for case in product(CAPTURES, (WIDE, NARROW), ("light", "dark")) if case not in QUICK)),
    ],
)
def test_tasks_in_chromium(
    browser: Browser, pages: Callable[[str], Path], name: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    """By pointer on both screens in both themes, and by keyboard on the wide one."""
    allowed = ["clipboard-read", "clipboard-write"]
    with opened(browser, pages(name), folded=True, width=width, color_scheme=scheme, permissions=allowed) as page:
        driver = Chromium(page)
        assert list(failed(driver, TASKS, "clicks")) == []
        if width == WIDE:
            assert list(failed(driver, TASKS, "keys")) == []


@every_page
def test_a_page_is_small(pages: Callable[[str], Path], name: str) -> None:
    assert pages(name).stat().st_size <= MOST_BYTES


@needs_chromium
@pytest.mark.parametrize("width", [WIDE, NARROW])
@every_page
def test_the_first_screen_has_the_answer(first_screen: Callable[[str, int], Page], name: str, width: int) -> None:
    """Verdict, step now and then, how sure and what to do first; a long word of advice widens nothing."""
    page = first_screen(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for place in (".verdict > p", ".hero .bar >> nth=-1", ".hero .sure", ".lead .headline"):
        box = page.locator(place).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= LAPTOP, place


@needs_chromium
@every_page
def test_a_card_of_the_plan_has_its_saving_its_bar_and_what_to_do(
    first_screen: Callable[[str, int], Page], name: str
) -> None:
    cards = first_screen(name, WIDE).locator("#plan > .findings > li")
    assert 1 <= cards.count() <= 3
    for part in (".saving", ".bar", ".advice", "[data-timeline]"):
        assert cards.first.locator(part).is_visible(), part


@needs_chromium
@every_page
def test_no_column_of_the_kernels_is_outside_the_page_of_a_laptop(
    browser: Browser, pages: Callable[[str], Path], name: str
) -> None:
    """The share of the time, which says which kernels count, is the last column."""
    with opened(browser, pages(name), width=WIDE) as page:
        share = page.locator("#section-kernels th[data-name=share]").first.bounding_box()
        room = page.locator("#section-kernels .scroll").first.bounding_box()
        assert share is not None
        assert room is not None
        assert share["x"] + share["width"] <= room["x"] + room["width"] + 0.5


@needs_chromium
@pytest.mark.parametrize("width", [WIDE, NARROW])
@every_page
def test_each_part_of_the_step_now_has_a_visible_name(
    first_screen: Callable[[str, int], Page], name: str, width: int
) -> None:
    """In the bar or beside it, once, on a wide screen and on a phone; parts below 1 % have their name as a tip."""
    page = first_screen(name, width)
    parts = (
        page.locator(".hero .bar")
        .first.locator("> rect")
        .evaluate_all(
            "(all) => all.filter((one) => parseFloat(one.getAttribute('width')) >= 1)"
            ".map((one) => one.textContent.replace(/: [^:]*, /, ' '))"
        )
    )
    seen = page.locator(".hero .inside text, .hero .beside span").locator("visible=true").all_text_contents()
    assert sorted(" ".join(one.split()) for one in seen) == sorted(parts)


@pytest.fixture(scope="module")
def session() -> Iterator[Firefox]:
    """Start a Firefox for the tests of this file."""
    with firefox(WIDE, HEIGHT) as started:
        started.listen()
        yield started


@needs_firefox
@pytest.mark.parametrize(
    ("name", "way"), [(FEW[0], "clicks"), *more((FEW[0], "keys"), *product(FEW[1:], ("keys", "clicks")))]
)
def test_tasks_in_firefox(session: Firefox, pages: Callable[[str], Path], name: str, way: str) -> None:
    """The same, without an error of the page and without a request over the network."""
    session.open(pages(name))
    assert list(failed(session, TASKS, way)) == []
    assert session.noted() == ([], [])
