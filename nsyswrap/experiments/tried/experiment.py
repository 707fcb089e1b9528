"""The record of an experiment: a change that can be made to a program from outside."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .program import TriedProgram

# What a change alters of the program's results.
NOTHING, RANDOM, ROUNDING, MATHEMATICS = "nothing", "random numbers", "rounding", "mathematics"

Undo = Callable[[], object]


class NotApplicableError(Exception):
    """An experiment does not apply to a program; the message says why, as the end of a sentence."""


def require(holds: object, why_not: str) -> None:
    """Raise ``NotApplicableError`` where something does not hold that an experiment needs."""
    if not holds:
        raise NotApplicableError(why_not)


def set_all(*wanted: tuple[Any, str, Any]) -> Undo:
    """Set attributes of objects, each with its name and value; return what sets them back."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in wanted]
    for each in wanted:
        setattr(*each)

    def undo() -> None:
        for each in before:
            setattr(*each)

    return undo


def with_arguments(made: Any, change: Callable[[Any, dict[str, Any]], dict[str, Any]]) -> None:
    """Make objects of a class with other arguments from now on.

    ``change`` returns the named arguments, for the first argument and the named ones that the program gives.
    """
    inner = made.__init__

    @functools.wraps(inner)
    def changed(self: Any, first: Any, *arguments: Any, **named: Any) -> None:
        inner(self, first, *arguments, **change(first, named))

    made.__init__ = changed


@dataclass(frozen=True)
class Experiment:
    """A change that can be made to a program from outside.

    Attributes:
        key: Its name in commands and results.
        place: Its place among the experiments that no plan puts first: the cheapest and safest come first.
        name: Its name in sentences.
        alters: What it alters of the results: "nothing", "random numbers", "rounding" or "mathematics".
        values: Returns the values to try, as texts, for a program after its first steps; empty texts for a switch.
            Raises ``NotApplicableError`` where the experiment does not apply.
        switch: Makes the change between two steps, and returns the function that undoes it. None for a change that
            only a new process can have.
        prepare: Makes the change at the start of a process, after the import of torch.
        lines: The lines to write, by the library of the training loop; ``{value}`` stands for the value.
        replaces: Keys of experiments whose change it replaces.
    """

    key: str
    place: int
    name: str
    alters: str
    values: Callable[[TriedProgram], Sequence[str]]
    switch: Callable[[TriedProgram, str], Undo] | None = None
    prepare: Callable[[TriedProgram, str], object] | None = None
    lines: Mapping[str, str] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()

    @property
    def is_in_turns(self) -> bool:
        """Return whether it can be made and undone in one process."""
        return self.switch is not None


def spec_of(key: str, value: str) -> str:
    """Return the text for an experiment with a value, such as "compile=default"."""
    return f"{key}={value}" if value else key


def parts_of(spec: str) -> tuple[str, str]:
    """Return the key and the value of such a text."""
    key, _, value = spec.partition("=")
    return key, value
