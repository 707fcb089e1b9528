"""Ten tasks of a reader on six reports, by keyboard and by pointer, each within three actions of opening the page."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from browser_pages import HEIGHT, NARROW, WIDE, needs_chromium, opened
from firefox import Firefox, firefox, needs_firefox
from page_tasks import MOST_ACTIONS, TASKS, failed
from playwright.sync_api import Browser, Page

from nsyswrap.render import render
from nsyswrap.report import build_report
from nsyswrap.trace.tables import Trace

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "reports" / "samples"
OWN = ("mnist-1-worker", "mnist-8-workers")
# Captures by the name of their page.
CAPTURES = {
    "vgg16-amp": "gallery/vgg16-amp",
    "bert-amp": "gallery/bert-amp",
    "decoding": "gallery/decoding",
    "two-ranks": "ranks/loader",
}
LIMIT_MS = 5000
# Height of a laptop's screen, pixels.
LAPTOP = 800


@dataclass
class Chromium:
    """A page of Playwright with the methods of ``page_tasks.Driver``."""

    page: Page

    def press(self, key: str) -> None:
        """Press a key."""
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type a text."""
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
def pages(real_trace: Callable[[str], Trace], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives the page of a report by name, written once."""
    folder = tmp_path_factory.mktemp("tasks")

    def path(name: str) -> Path:
        if name in OWN:
            return SAMPLES / name / "report.html"
        made = folder / f"{name}.html"
        if not made.exists():
            report = build_report(real_trace(CAPTURES[name]), with_timeline=True)
            made.write_text(render("html", report), encoding="utf-8")
        return made

    return path


@pytest.fixture(scope="module")
def first_screen(browser: Browser, pages: Callable[[str], Path]) -> Iterator[Callable[[str, int], Page]]:
    """Return a function that gives the page of a report in a tab of some width, as it opens; it is opened once."""
    with ExitStack() as tabs:
        yield cache(lambda name, width: tabs.enter_context(opened(browser, pages(name), folded=True, width=width)))


def test_each_task_takes_at_most_three_actions() -> None:
    assert len(TASKS) == 10
    assert max(len(actions) for task in TASKS for actions in (task.keys, task.clicks)) == MOST_ACTIONS


@needs_chromium
@pytest.mark.parametrize("name", ["mnist-1-worker", "decoding", "two-ranks"])
def test_tasks_in_chromium(browser: Browser, pages: Callable[[str], Path], name: str) -> None:
    """By keyboard and by pointer on a wide screen."""
    allowed = ["clipboard-read", "clipboard-write"]
    with opened(browser, pages(name), folded=True, width=WIDE, permissions=allowed) as page:
        driver = Chromium(page)
        assert list(failed(driver, TASKS, "keys")) == []
        assert page.evaluate("navigator.clipboard.readText()").startswith("#")
        assert list(failed(driver, TASKS, "clicks")) == []


@needs_chromium
@pytest.mark.parametrize("name", ["mnist-1-worker", "two-ranks"])
def test_tasks_on_a_phone(browser: Browser, pages: Callable[[str], Path], name: str) -> None:
    """By pointer on a narrow screen."""
    with opened(browser, pages(name), folded=True, width=NARROW, permissions=["clipboard-write"]) as page:
        assert list(failed(Chromium(page), TASKS, "clicks")) == []


@needs_chromium
@pytest.mark.parametrize("name", [*OWN, *CAPTURES])
def test_the_page_is_as_wide_as_a_phone_and_begins_with_the_answer(
    first_screen: Callable[[str, int], Page], name: str
) -> None:
    """Verdict, step and the first change of the plan are on the first screen; a long word of advice widens nothing."""
    page = first_screen(name, NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW
    for place in (".verdict > p", ".now .bar", "#plan li:first-child .saving"):
        box = page.locator(place).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= HEIGHT, place


@needs_chromium
@pytest.mark.parametrize("name", [*OWN, *CAPTURES])
def test_the_first_screen_has_three_actions_and_the_command_that_checks_them(
    first_screen: Callable[[str, int], Page], name: str
) -> None:
    """On a laptop. Each action has its saving, its speed-up, and code to copy where a few lines make the change."""
    page = first_screen(name, WIDE)
    command = page.locator("#plan .check pre").bounding_box()
    assert command is not None
    assert command["y"] + command["height"] <= LAPTOP
    rows = page.locator(".plan > ol").first.locator("li")
    assert 1 <= rows.count() <= 3
    for part in (".when", ".saving", ".speed", ".to-do"):
        assert rows.locator(part).locator("visible=true").count() == rows.count(), part
    assert rows.first.locator("details.code pre").count() >= 1


@needs_chromium
@pytest.mark.parametrize("name", [*OWN, *CAPTURES])
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
@pytest.mark.parametrize("name", [*OWN, *CAPTURES])
def test_each_part_of_the_step_now_has_a_visible_name(
    first_screen: Callable[[str, int], Page], name: str, width: int
) -> None:
    """In the bar or beside it, once, on a wide screen and on a phone; parts below 1 % have their name as a tip."""
    page = first_screen(name, width)
    parts = page.locator(".now .bar > rect").evaluate_all(
        "(all) => all.filter((one) => parseFloat(one.getAttribute('width')) >= 1)"
        ".map((one) => one.textContent.replace(/: [^:]*, /, ' '))"
    )
    seen = page.locator(".now .inside text, .now .beside span").locator("visible=true").all_text_contents()
    assert sorted(" ".join(one.split()) for one in seen) == sorted(parts)


@pytest.fixture(scope="module")
def session() -> Iterator[Firefox]:
    """Start a Firefox for the tests of this file."""
    with firefox(WIDE, HEIGHT) as started:
        started.listen()
        yield started


@needs_firefox
@pytest.mark.parametrize("name", ["mnist-1-worker", "two-ranks"])
def test_tasks_in_firefox(session: Firefox, pages: Callable[[str], Path], name: str) -> None:
    """The same, without an error of the page and without a request over the network."""
    session.open(pages(name))
    assert list(failed(session, TASKS, "keys")) == []
    assert list(failed(session, TASKS, "clicks")) == []
    assert session.noted() == ([], [])
