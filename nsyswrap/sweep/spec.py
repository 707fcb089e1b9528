"""A sweep as its TOML file describes it: a command with placeholders, axes with values, and budgets."""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nsyswrap.base.errors import UsageError

PLACEHOLDER = re.compile(r"\{(\w+)\}")
# The axes whose meaning the result depends on: throughput and scaling.
GPUS, BATCH = "gpus", "batch"
# A placeholder that follows from the axis of GPUs: 0,1 for two.
VISIBLE_GPUS = "visible_gpus"
BATCH_OF_ALL, BATCH_OF_EACH = "all GPUs", "each GPU"
_KEYS = frozenset(
    {"name", "command", "profile", "batch_of", "axes", "environment", "skip", "same", "budget", "seed", "tolerance"}
)
_BUDGET = frozenset({"time_s", "runs", "run_time_s", "repeats", "most_repeats"})
# Ours: a program that trains for longer is not made for a sweep.
RUN_TIME_S = 3600.0
# Runs of a cell with --until stable. Ours: a cell that is not known after ten runs needs a quieter machine.
MOST_REPEATS = 10
# Half of the width of the interval at which a time per step is known. Ours: the smallest difference that matters.
TOLERANCE = 0.02


class AxisValue(NamedTuple):
    """One value of an axis.

    Attributes:
        words: What its placeholder stands for, as a shell would split it; may hold other placeholders.
    """

    name: str
    words: str

    @property
    def number(self) -> float | None:
        """Return the value of a number; None for any other name."""
        try:
            return float(self.name)
        except ValueError:
            return None


class Axis(NamedTuple):
    """One axis of the grid: its name and its values, in order."""

    name: str
    values: tuple[AxisValue, ...]

    def value(self, name: str) -> AxisValue:
        """Return the value of a name."""
        return next(each for each in self.values if each.name == name)


class Alias(NamedTuple):
    """Cells that are the same as others: those with the values of ``where`` are as those with ``other`` instead."""

    where: Mapping[str, str]
    other: Mapping[str, str]


class Budget(NamedTuple):
    """What a sweep may take.

    Attributes:
        time_s: Seconds of all runs together; None for no limit.
        run_time_s: Seconds of one run.
        most_repeats: The same where repeats end when the answer is known.
    """

    time_s: float | None = None
    runs: int | None = None
    run_time_s: float = RUN_TIME_S
    repeats: int = 1
    most_repeats: int = MOST_REPEATS


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A sweep.

    Attributes:
        command: The words of the command, with placeholders.
        options: Options of ``nsyswrap profile`` for each run.
        batch_of: Whether the batch size is that of all GPUs or of each; empty if not given.
        seed: Decides the order of runs; None for one drawn at the start.
        tolerance: Half of the width of an interval that is narrow enough, as a share.
    """

    text: str
    name: str
    command: tuple[str, ...]
    axes: tuple[Axis, ...]
    environment: Mapping[str, str]
    options: tuple[str, ...]
    batch_of: str
    skip: tuple[Mapping[str, str], ...]
    same: tuple[Alias, ...]
    budget: Budget
    seed: int | None
    tolerance: float

    def axis(self, name: str) -> Axis | None:
        """Return an axis; None if there is none of this name."""
        return next((each for each in self.axes if each.name == name), None)


def parse(text: str, source: str) -> SweepSpec:
    """Return the sweep that a TOML text describes.

    Raises:
        UsageError: It is no TOML, or does not describe a sweep.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is no TOML: {error}", hint="docs/sweep.md has an example") from error
    try:
        return _spec(found, text, source)
    except _Wrong as error:
        raise UsageError(f"{source}: {error}", hint="docs/sweep.md describes each key") from error


class _Wrong(Exception):  # noqa: N818 - it becomes a UsageError
    """What is wrong with a description."""


def _spec(found: Mapping[str, Any], text: str, source: str) -> SweepSpec:
    _check_keys(found, _KEYS, "")
    tables = {key: found.get(key, {}) for key in ("axes", "environment")}
    if not isinstance(tables["axes"], Mapping) or not tables["axes"]:
        raise _Wrong("it needs a table [axes] with at least one axis, such as workers = [0, 1, 2]")
    if not isinstance(tables["environment"], Mapping):
        raise _Wrong("environment is a table of texts")
    axes = tuple(_axis(name, values) for name, values in tables["axes"].items())
    spec = SweepSpec(
        text=text,
        name=_text(found.get("name", source.rpartition("/")[2].removesuffix(".toml")), "name"),
        command=_words(found.get("command"), "command"),
        axes=axes,
        environment={name: _text(value, f"environment.{name}") for name, value in tables["environment"].items()},
        options=_words(found.get("profile", ""), "profile", empty=True),
        batch_of=_batch_of(found.get("batch_of", ""), axes),
        skip=tuple(_values(each, axes, "skip") for each in _list(found.get("skip", []), "skip")),
        same=tuple(_alias(each, axes) for each in _list(found.get("same", []), "same")),
        budget=_budget(found.get("budget", {})),
        seed=None if "seed" not in found else int(_number(found["seed"], "seed", least=0)),
        tolerance=_number(found.get("tolerance", TOLERANCE), "tolerance", least=0.001),
    )
    known = {each.name for each in spec.axes} | ({VISIBLE_GPUS} if spec.axis(GPUS) else set())
    inner = [value.words for axis in spec.axes for value in axis.values]
    used = {name for text in (*spec.command, *spec.environment.values(), *inner) for name in PLACEHOLDER.findall(text)}
    for name in sorted(used - known):
        raise _Wrong(f"{{{name}}} is no axis; known are {', '.join(sorted(known))}")
    for axis in spec.axes:
        if PLACEHOLDER.search(axis.name) or any(f"{{{axis.name}}}" in value.words for value in axis.values):
            raise _Wrong(f"the words of axes.{axis.name} name themselves")
        is_used = axis.name in used or (axis.name == GPUS and VISIBLE_GPUS in used)
        if len(axis.values) > 1 and not is_used:
            raise _Wrong(f"axis {axis.name} is used nowhere: write {{{axis.name}}} into the command or the environment")
    return spec


def _check_keys(found: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for key in found:
        if key not in known:
            raise _Wrong(f"unknown key '{where}{key}'; known are {', '.join(sorted(known))}")


def _axis(name: str, found: object) -> Axis:
    if not re.fullmatch(r"\w+", name) or name == VISIBLE_GPUS:
        raise _Wrong(f"'{name}' cannot be the name of an axis: use letters, digits and _")
    values = tuple(_axis_value(name, each) for each in _list(found, f"axes.{name}"))
    if not values or len({each.name for each in values}) < len(values):
        raise _Wrong(f"axes.{name} needs values, each once")
    if name in (GPUS, BATCH) and not all(each.number and each.number >= 1 for each in values):
        raise _Wrong(f"axes.{name} needs numbers of at least 1")
    return Axis(name, values)


def _axis_value(axis: str, found: object) -> AxisValue:
    if isinstance(found, Mapping):
        _check_keys(found, frozenset({"name", "words"}), f"axes.{axis}.")
        return AxisValue(_text(found.get("name"), f"axes.{axis}.name"), _text(found.get("words"), f"axes.{axis}.words"))
    if isinstance(found, bool):
        return AxisValue(str(found).lower(), str(found).lower())
    if isinstance(found, str | int | float):
        return AxisValue(str(found), shlex.quote(str(found)))
    raise _Wrong(f"axes.{axis}: a value is a text, a number, or {{name = ..., words = ...}}")


def _batch_of(found: object, axes: Sequence[Axis]) -> str:
    if found not in ("", BATCH_OF_ALL, BATCH_OF_EACH):
        raise _Wrong(f"batch_of is '{BATCH_OF_ALL}' or '{BATCH_OF_EACH}'")
    if not found and any(each.name == GPUS and len(each.values) > 1 for each in axes):
        raise _Wrong(f"several GPUs need batch_of = '{BATCH_OF_ALL}' or '{BATCH_OF_EACH}': whose batch size it is")
    return str(found)


def _alias(found: object, axes: Sequence[Axis]) -> Alias:
    if not isinstance(found, Mapping) or set(found) != {"where", "as"}:
        raise _Wrong("same needs 'where' and 'as', each with values of axes")
    return Alias(_values(found["where"], axes, "same.where"), _values(found["as"], axes, "same.as"))


def _values(found: object, axes: Sequence[Axis], where: str) -> Mapping[str, str]:
    """Return the names of values by axis, after a check that each exists."""
    if not isinstance(found, Mapping) or not found:
        raise _Wrong(f"{where} needs values of axes")
    known = {each.name: {value.name for value in each.values} for each in axes}
    chosen = {str(name): str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}
    for name, value in chosen.items():
        if value not in known.get(name, ()):
            raise _Wrong(f"{where}: there is no {name} = {value} in [axes]")
    return chosen


def _budget(found: object) -> Budget:
    if not isinstance(found, Mapping):
        raise _Wrong("budget is a table")
    _check_keys(found, _BUDGET, "budget.")
    numbers = {key: _number(value, f"budget.{key}", least=1) for key, value in found.items()}
    runs = numbers.get("runs")
    return Budget(
        time_s=numbers.get("time_s"),
        runs=None if runs is None else int(runs),
        run_time_s=numbers.get("run_time_s", RUN_TIME_S),
        repeats=int(numbers.get("repeats", 1)),
        most_repeats=int(numbers.get("most_repeats", MOST_REPEATS)),
    )


def _words(found: object, where: str, *, empty: bool = False) -> tuple[str, ...]:
    try:
        words = (
            shlex.split(found) if isinstance(found, str) else tuple(_text(each, where) for each in _list(found, where))
        )
    except ValueError as error:
        raise _Wrong(f"{where} cannot be split into words: {error}") from error
    if not words and not empty:
        raise _Wrong(f"{where} is missing")
    return tuple(words)


def _list(found: object, where: str) -> list[Any]:
    if not isinstance(found, list):
        raise _Wrong(f"{where} is missing" if found is None else f"{where} is a list")
    return found


def _text(found: object, where: str) -> str:
    if not isinstance(found, str) or "\0" in found:
        raise _Wrong(f"{where} is a text")
    return found


def _number(found: object, where: str, *, least: float) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not found >= least:
        raise _Wrong(f"{where} is a number of at least {least:g}")
    return float(found)
