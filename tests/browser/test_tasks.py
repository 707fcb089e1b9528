"""Ten tasks of a reader on seven reports, by keyboard and by pointer, each within three actions of opening the page.

Three cases of the gallery have only a report.json, and their captures need an nsys of 2025 to be read: their pages have
no timeline and no picture of the step, so two tasks are not possible on them. A capture of BERT in float32 has both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from browser_pages import HEIGHT, NARROW, WIDE, needs_chromium, opened
from firefox import Firefox, firefox, needs_firefox
from page_tasks import MOST_ACTIONS, TASKS, failed, possible
from playwright.sync_api import Browser, Page
from tool_modules import tool_module

from nsyswrap.render import html_report
from nsyswrap.report import build_report
from nsyswrap.tables import Trace

ROOT = Path(__file__).resolve().parents[2]
SAMPLES, GALLERY = ROOT / "reports" / "samples", ROOT / "reports" / "gallery"
OWN = ("mnist-1-worker", "mnist-8-workers")
# Cases without an export, and captures by the name of their page.
CASES = ("vgg16-amp", "bert-amp", "decoding")
CAPTURES = {"bert-fp32": "bench_source", "two-ranks": "ranks/loader"}
NAMES = (*OWN, *CASES, *CAPTURES)
LIMIT_MS = 5000
WITHOUT_EVENTS = {"Where is it in the timeline?", "How do two steps differ?"}


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
def slim() -> Iterator[ModuleType]:
    """Import the tool that reads the gallery's reports."""
    with tool_module("gallery_slim") as module:
        yield module


@pytest.fixture(scope="module")
def pages(
    slim: ModuleType, real_trace: Callable[[str], Trace], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return a function that gives the page of a report by name, written once."""
    folder = tmp_path_factory.mktemp("tasks")

    def path(name: str) -> Path:
        if name in OWN:
            return SAMPLES / name / "report.html"
        made = folder / f"{name}.html"
        if not made.exists() and name in CASES:
            text = (GALLERY / name / "report.json").read_text(encoding="utf-8")
            made.write_text(html_report.render(slim.judged(slim.parse_report(text, name), name)), encoding="utf-8")
        elif not made.exists():
            report = build_report(real_trace(CAPTURES[name]), with_timeline=True)
            made.write_text(html_report.render(report), encoding="utf-8")
        return made

    return path


def test_each_task_takes_at_most_three_actions() -> None:
    assert len(TASKS) == 10
    assert max(len(actions) for task in TASKS for actions in (task.keys, task.clicks)) == MOST_ACTIONS


@needs_chromium
@pytest.mark.parametrize("name", NAMES)
def test_tasks_in_chromium(browser: Browser, pages: Callable[[str], Path], name: str) -> None:
    """By keyboard and by pointer on a wide screen."""
    allowed = ["clipboard-read", "clipboard-write"]
    with opened(browser, pages(name), folded=True, width=WIDE, permissions=allowed) as page:
        driver = Chromium(page)
        tasks = possible(driver)
        missing = {task.name for task in TASKS} - {task.name for task in tasks}
        assert missing == (WITHOUT_EVENTS if name in CASES else set())
        assert list(failed(driver, tasks, "keys")) == []
        assert page.evaluate("navigator.clipboard.readText()").startswith("#")
        assert list(failed(driver, tasks, "clicks")) == []


@needs_chromium
@pytest.mark.parametrize("name", ["mnist-1-worker", "bert-amp", "two-ranks"])
def test_tasks_on_a_phone(browser: Browser, pages: Callable[[str], Path], name: str) -> None:
    """By pointer on a narrow screen."""
    with opened(browser, pages(name), folded=True, width=NARROW, permissions=["clipboard-write"]) as page:
        driver = Chromium(page)
        assert list(failed(driver, possible(driver), "clicks")) == []


@pytest.fixture(scope="module")
def session() -> Iterator[Firefox]:
    """Start a Firefox for the tests of this file."""
    with firefox(WIDE, HEIGHT) as started:
        started.listen()
        yield started


@needs_firefox
@pytest.mark.parametrize("name", ["mnist-1-worker", "bert-amp", "two-ranks"])
def test_tasks_in_firefox(session: Firefox, pages: Callable[[str], Path], name: str) -> None:
    """The same, without an error of the page and without a request over the network."""
    session.open(pages(name))
    tasks = possible(session)
    assert len(tasks) == len(TASKS) - (len(WITHOUT_EVENTS) if name in CASES else 0)
    assert list(failed(session, tasks, "keys")) == []
    assert list(failed(session, tasks, "clicks")) == []
    assert session.noted() == ([], [])
