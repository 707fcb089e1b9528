"""The cells of a sweep: the values of one run on each axis, its command and its environment."""

import itertools
import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from nsyswrap.base.errors import UsageError
from nsyswrap.sweep.spec import BATCH, BATCH_OF_EACH, GPUS, PLACEHOLDER, VISIBLE_GPUS, SweepSpec

# Placeholders stand for words with placeholders at most this deep. Ours; deeper ones name each other in a circle.
_DEEPEST = 4


class Cell(NamedTuple):
    """One cell of the grid.

    Attributes:
        key: Name of its folder; no other cell has it.
        values: The name of its value on each axis, in the order of the axes.
        label: Its values on the axes that have several, in words: ``gpus 2, batch 32``.
        gpus: Number of GPUs; None if the sweep has no such axis.
        batch: Batch size of all GPUs together; None if the sweep has no such axis.
        same_as: Key of the cell that is run in its place; empty for one that is run itself.
    """

    key: str
    values: tuple[tuple[str, str], ...]
    label: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    gpus: int | None
    batch: float | None
    same_as: str = ""

    def value(self, axis: str) -> str:
        """Return the name of its value on an axis."""
        return dict(self.values)[axis]

    def others(self, *axes: str) -> tuple[tuple[str, str], ...]:
        """Return its values on all other axes."""
        return tuple(each for each in self.values if each[0] not in axes)


def cells_of(spec: SweepSpec) -> tuple[Cell, ...]:
    """Return the cells of a sweep in the order of the axes, without those that are left out.

    Raises:
        UsageError: No cell is left, or one is the same as a cell that does not exist.
    """
    names = [[value.name for value in axis.values] for axis in spec.axes]
    grid = [dict(zip((axis.name for axis in spec.axes), each, strict=True)) for each in itertools.product(*names)]
    kept = [each for each in grid if not any(_matches(each, skipped) for skipped in spec.skip)]
    if not kept:
        raise UsageError("the sweep has no cells: all are skipped", hint="remove an entry of skip")
    keys: dict[tuple[str, ...], str] = {}
    for values in kept:
        words = "_".join(f"{axis}-{value}" for axis, value in values.items())
        plain = re.sub(r"[^a-z0-9._-]+", "-", words.lower())[:120].strip("-.")
        key = plain
        for number in itertools.count(2):
            if key not in keys.values():
                break
            key = f"{plain}-{number}"
        keys[tuple(values.values())] = key
    return tuple(_cell(spec, values, keys) for values in kept)


def _matches(values: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(values[name] == value for name, value in wanted.items())


def _cell(spec: SweepSpec, values: Mapping[str, str], keys: Mapping[tuple[str, ...], str]) -> Cell:
    texts = {axis.name: axis.value(values[axis.name]).words for axis in spec.axes}
    gpus, batch = (float(values[name]) if name in values else None for name in (GPUS, BATCH))
    if gpus is not None:
        texts[VISIBLE_GPUS] = ",".join(map(str, range(int(gpus))))
    if batch is not None and spec.batch_of == BATCH_OF_EACH:
        batch *= gpus or 1
    varied = [axis.name for axis in spec.axes if len(axis.values) > 1] or list(values)
    return Cell(
        key=keys[tuple(values.values())],
        values=tuple(values.items()),
        label=", ".join(f"{name} {values[name]}" for name in varied),
        command=tuple(word for each in spec.command for word in _expanded(each, texts)),
        environment={name: " ".join(_expanded(text, texts)) for name, text in spec.environment.items()},
        gpus=None if gpus is None else int(gpus),
        batch=batch,
        same_as=_same_as(spec, values, keys),
    )


def _same_as(spec: SweepSpec, values: Mapping[str, str], keys: Mapping[tuple[str, ...], str]) -> str:
    """Return the key of the cell that is run in place of this one; empty for none."""
    own = keys[tuple(values.values())]
    for alias in spec.same:
        if not _matches(values, alias.where):
            continue
        other = keys.get(tuple((dict(values) | dict(alias.other)).values()))
        if other is None or other == own:
            raise UsageError(f"{own} is the same as no other cell", hint="correct 'as' in same, or remove it")
        return other
    return ""


def _expanded(word: str, texts: Mapping[str, str], depth: int = 0) -> list[str]:
    """Return the words that one word stands for; a placeholder inside a word is a part of it."""
    if depth > _DEEPEST:
        raise UsageError(f"the placeholders in {word!r} name each other", hint="correct the words of the axes")
    whole = PLACEHOLDER.fullmatch(word)
    if whole:
        return [found for each in shlex.split(texts[whole[1]]) for found in _expanded(each, texts, depth + 1)]
    if not PLACEHOLDER.search(word):
        return [word]
    return [PLACEHOLDER.sub(lambda match: " ".join(_expanded(match[0], texts, depth + 1)), word)]
