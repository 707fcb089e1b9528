"""What a reader wants of a report: ten tasks, each with its keys, its clicks, and what the screen shows then.

A task takes at most two actions: a key, a text typed with its Enter, or a click. They are the same for each browser.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MOST_ACTIONS = 2

Action = tuple[str, str]

# Functions for the conditions: whether an element is on the screen, and the text of one.
HELPERS = """
const all = (place) => [...document.querySelectorAll(place)];
const onScreen = (place) => all(place).some((one) => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility() && box.width > 0 && box.top >= 0 && box.top < innerHeight - 12 && box.left < innerWidth;
});
const box = (place) => document.querySelector(place).getBoundingClientRect();
const textOf = (place) => all(place).map((one) => one.textContent).join(" ");
"""
# The page as it is after opening: nothing selected or unfolded, at its top.
AS_OPENED = """
document.querySelectorAll("dialog[open]").forEach((one) => one.close());
nsyswrap.selection.clear();
document.querySelector('[data-step="pinned"]:not([hidden]) button')?.click();
document.querySelector('[data-step="typical"]')?.click();
nsyswrap.selection.clear();
history.replaceState(null, "", location.pathname);
all("details[open]").forEach((one) => { one.open = false; });
document.getElementById("status").textContent = "";
document.activeElement?.blur();
scrollTo(0, 0);
return true;
"""


class Driver(Protocol):
    """A browser with a page open."""

    def press(self, key: str) -> None:
        """Press a key."""

    def type(self, text: str) -> None:
        """Type a text."""

    def click(self, place: str) -> None:
        """Click the first visible element of a CSS selector."""

    def evaluate(self, body: str) -> Any:  # noqa: ANN401 - what the function returns
        """Run the body of a function in the page and return its value."""

    def wait(self) -> None:
        """Let the page work for a moment."""


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: The reader's question.
        shown: Condition on what is on the screen then.
    """

    name: str
    keys: tuple[Action, ...]
    clicks: tuple[Action, ...]
    shown: str


def _find(text: str) -> tuple[Action, ...]:
    return (("press", "/"), ("enter", text))


def _go(anchor: str) -> tuple[Action, ...]:
    """Return the click on the contents; on a narrow screen, they are behind a button."""
    return (("go", anchor),)


_READY = "all('[data-step=\"controls\"]').every((one) => !one.hidden)"
TASKS = (
    Task(
        "What is wrong?",
        (),
        (),
        "onScreen('.verdict > p') && onScreen('.hero .bar') && textOf('.verdict > p').length > 30",
    ),
    Task(
        "What should I change, and in which line?",
        (("press", "n"),),
        (("click", ".lead .headline a"),),
        "onScreen('.finding .advice') && /\\.py:\\d+|--python-sampling/.test(textOf('main'))",
    ),
    Task(
        "How much faster?",
        (),
        (),
        "onScreen('.hero .bar') && all('.hero .scale b').every((one) => /^[\\d.<]+ [mµn]?s$/.test(one.textContent))",
    ),
    Task("How sure is it?", (), (), "onScreen('.hero .sure') && /^How sure: /.test(textOf('.hero .sure'))"),
    Task(
        "Where is it in the timeline?",
        (("press", "n"), ("press", "t")),
        (("click", "[data-timeline]"),),
        "onScreen('#timeline canvas') && nsyswrap.selection.current().kind === 'finding'",
    ),
    Task(
        "Which kernels, on tensor cores, and why not?",
        _find("kernels"),
        _go("section-kernels"),
        "onScreen('#section-kernels tbody tr') && all('#section-kernels th[data-name=verdict]').length",
    ),
    Task("What does a typical step look like?", _find("typical step"), _go("step"), "onScreen('#step .st')"),
    Task(
        "Is it faster than before?",
        _find("check and share"),
        _go("next"),
        "onScreen('#next pre') && /nsyswrap profile --then/.test(textOf('#next pre'))",
    ),
    Task(
        "Where is this kernel?",
        (("press", "/"), ("type", "kernel")),
        (("click", "#find"), ("type", "kernel")),
        "all('#palette-list li').some((one) => one.firstChild.textContent === 'kernel'"
        " && /^[\\d.,]+ [mµn]?s, ./.test(one.querySelector('.place-note')?.textContent))",
    ),
    Task(
        "How do I share it without secrets?",
        _find("check and share"),
        _go("next"),
        "onScreen('#next pre') && /nsyswrap redact/.test(textOf('#next pre'))",
    ),
)


def failed(driver: Driver, tasks: Sequence[Task], way: str) -> Iterator[str]:
    """Do tasks one after another, each on the page as opened; yield the names of those whose answer is not shown.

    Args:
        driver: The browser.
        tasks: What to do.
        way: "keys" or "clicks".
    """
    assert _comes(driver, f"{HELPERS} return {_READY};")
    for task in tasks:
        driver.evaluate(HELPERS + AS_OPENED)
        actions = [each for one in getattr(task, way) for each in _simple(driver, one)]
        assert len(actions) <= MOST_ACTIONS, task.name
        for kind, given in actions:
            if kind == "enter":
                driver.type(given)
                driver.press("Enter")
            else:
                getattr(driver, kind)(given)
        if not _comes(driver, f"{HELPERS} return Boolean({task.shown});"):
            yield task.name


def _simple(driver: Driver, action: Action) -> Sequence[Action]:
    """Return an action as keys, texts and clicks: a narrow screen has its contents behind a button."""
    if action[0] != "go":
        return (action,)
    is_narrow = driver.evaluate(f"{HELPERS} return onScreen('.menu');")
    return (*([("click", ".menu")] if is_narrow else []), ("click", f'nav a[href="#{action[1]}"]'))


def _comes(driver: Driver, condition: str) -> bool:
    """Return whether a condition holds within ten seconds of waiting."""
    for _ in range(200):
        if driver.evaluate(condition):
            return True
        driver.wait()
    return False
