"""What a reader wants of a report: ten tasks, each with its keys, its clicks, and what the screen shows then.

A task takes at most three actions: a key, a text typed, or a click. They are the same for each browser.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MOST_ACTIONS = 3

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
        keys: Actions by keyboard.
        clicks: Actions by pointer.
        shown: Condition on what is on the screen then.
    """

    name: str
    keys: tuple[Action, ...]
    clicks: tuple[Action, ...]
    shown: str


def _find(text: str) -> tuple[Action, ...]:
    return (("press", "/"), ("type", text), ("press", "Enter"))


def _go(anchor: str) -> tuple[Action, ...]:
    return (("click", f'nav a[href="#{anchor}"]'),)


_READY = "all('[data-step=\"controls\"]').every((one) => !one.hidden)"
TASKS = (
    Task("What limits it?", (), (), "onScreen('.verdict > p') && textOf('.verdict > p').length > 30"),
    Task(
        "What should I change?",
        _find("plan"),
        _go("plan"),
        "onScreen('.plan .action > p') && onScreen('.plan .what a')",
    ),
    Task(
        "Where in my code?",
        _find("plan"),
        _go("plan"),
        "all('.plan .action > .fine').some((one) => /Most samples: |--python-sampling/.test(one.textContent)"
        " && one.getBoundingClientRect().bottom <= innerHeight)",
    ),
    Task(
        "How much faster?",
        (),
        (),
        "onScreen('.now .bar') && onScreen('.plan li:first-child .when') && onScreen('.plan li:first-child .saving')"
        " && /^saves .* [mµ]?s$/.test(textOf('.plan li:first-child .saving'))"
        " && /times as fast/.test(textOf('.plan li:first-child .speed'))",
    ),
    Task(
        "Where is it in the timeline?",
        (("press", "n"), ("press", "t")),
        (("click", ".verdict > p a"), ("click", "#selection-timeline")),
        "onScreen('#timeline canvas') && nsyswrap.selection.current().kind === 'finding'",
    ),
    Task("Which kernels?", _find("kernels"), _go("section-kernels"), "onScreen('#section-kernels tbody tr')"),
    Task(
        "Is the tensor share sure?",
        _find("tensor cores"),
        _go("section-tensor_cores"),
        "onScreen('#section-tensor_cores .facts dd') && onScreen('#section-tensor_cores .legend')",
    ),
    Task(
        "How do two steps differ?",
        _find("compare"),
        (("click", '[data-step="pin"]'), ("click", '[data-step="slowest"]')),
        # Both fit on one screen, to which a reader may have to scroll.
        "/longer than the pinned step/.test(textOf('[data-step=\"shown\"] figcaption'))"
        " && box('[data-step=\"pinned\"] figcaption').bottom - box('[data-step=\"shown\"]').top < innerHeight",
    ),
    Task(
        "Give me a summary.",
        (("press", "c"),),
        (("click", "#copy-summary"),),
        "document.getElementById('status').textContent === 'Copied'",
    ),
    Task(
        "How was this number made?",
        _find("GPU busy"),
        (("click", ".numbers a.term"),),
        "all('#glossary .pairs > div').some((one) => { const { top, bottom } = one.getBoundingClientRect();"
        " return one.checkVisibility() && top >= 0 && bottom <= innerHeight && one.matches('.arrived, :target'); })",
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
        actions: tuple[Action, ...] = getattr(task, way)
        assert len(actions) <= MOST_ACTIONS, task.name
        for kind, given in actions:
            getattr(driver, kind)(given)
        if not _comes(driver, f"{HELPERS} return Boolean({task.shown});"):
            yield task.name


def _comes(driver: Driver, condition: str) -> bool:
    """Return whether a condition holds within ten seconds of waiting."""
    for _ in range(200):
        if driver.evaluate(condition):
            return True
        driver.wait()
    return False
