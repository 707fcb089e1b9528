"""The best cell of a sweep, and what to choose on each axis."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.sweep.limits import Limit, limit_of, lines_of
from nsyswrap.sweep.results import CellResult, Sweep, difference_is_shown
from nsyswrap.sweep.scaling import STRONG, WEAK, ScalingRow, scaling
from nsyswrap.sweep.spec import GPUS, Axis

# So many sentences are worth reading; the tables have the rest.
MOST_ADVICE = 8
# An interval that reaches farther than this is too wide to say that a value is enough. Ours.
_WIDEST = 0.15


class Best(NamedTuple):
    """The best cell of a sweep.

    Attributes:
        result: The cell with the highest throughput; without a batch size, with the shortest step.
        equal: Cells that may be as good: their difference is within the noise of both.
    """

    result: CellResult
    equal: tuple[CellResult, ...]


class Choice(NamedTuple):
    """What to choose on one axis while the others stay.

    Attributes:
        others: The values on the other axes that have more than one.
        chosen: The smallest value that no larger one beats beyond the noise; on an axis of names, the best one.
        is_last: Whether no larger value than the chosen one was measured, so that a larger one may be faster.
        beyond: The next larger value that was not measured, and why not; empty for none.
        is_faster: Whether it is faster beyond the noise than the first value; on an axis of names, than the next best.
        possible: By how much a larger value may be faster, noise included, as a share; 0 on an axis of names.
    """

    axis: Axis
    others: tuple[tuple[str, str], ...]
    chosen: CellResult
    best: CellResult
    is_last: bool
    beyond: str
    is_faster: bool
    possible: float
    limit: Limit | None


def best_of(sweep: Sweep) -> Best | None:
    """Return the best cell; None if none was measured.

    Cells that are the same as others do not count. Throughput decides where the sweep has a batch axis.
    """
    own = [each for each in sweep.measured() if not each.cell.same_as]
    if not own:
        return None
    best = max(own, key=_rate)
    return Best(best, tuple(each for each in own if each is not best and not _is_better(best, each)))


def _rate(result: CellResult) -> float:
    return result.rate or 0.0


def _is_better(one: CellResult, other: CellResult) -> bool:
    """Return whether the rate of one cell is higher beyond the noise of both."""
    if one.step is None or other.step is None:
        return one.step is not None
    scale = (one.cell.batch or 1.0) / (other.cell.batch or 1.0)
    longer = other.step._replace(ns=other.step.ns.map(lambda ns: ns * scale))
    return difference_is_shown(one.step, longer)


def choices(sweep: Sweep) -> tuple[Choice, ...]:
    """Return what to choose on each axis with several values, for each line of cells; GPUs are in the scaling."""
    found: list[Choice] = []
    for axis in sweep.spec.axes:
        if axis.name == GPUS or len(axis.values) == 1:
            continue
        varied = {each.name for each in sweep.spec.axes if len(each.values) > 1}
        for others, line in lines_of(sweep.cells, axis):
            # A cell that is the same as another one of the line is no choice.
            own = [each for each in line if each.cell.same_as not in {one.cell.key for one in line}]
            if sum(each.step is not None for each in own) > 1:
                shown = tuple(each for each in others if each[0] in varied)
                found.append(_choice(axis, shown, own))
    return tuple(found)


def _choice(axis: Axis, others: tuple[tuple[str, str], ...], line: Sequence[CellResult]) -> Choice:
    tried, line = line, [each for each in line if each.step is not None]
    best = max(line, key=_rate)
    if all(value.number is not None for value in axis.values):
        tried, line = (sorted(some, key=lambda each: float(each.cell.value(axis.name))) for some in (tried, line))
        chosen, other = next(each for each in line if not _is_better(best, each)), line[0]
    else:
        chosen, other = best, max((each for each in line if each is not best), key=_rate)
    larger = line[line.index(chosen) + 1 :] if all(value.number is not None for value in axis.values) else []
    beyond, missing = "", next((each for each in tried[tried.index(chosen) + 1 :] if each.step is None), None)
    if missing is not None:
        ending = missing.failed.ending.value if missing.failed else "not run"
        beyond = f"{axis.name} {missing.cell.value(axis.name)}: {ending}"
    return Choice(
        axis=axis,
        others=others,
        chosen=chosen,
        best=best,
        is_last=chosen is line[-1],
        beyond=beyond,
        is_faster=_is_better(chosen, other),
        possible=max((_possible(chosen, each) for each in larger), default=0.0),
        limit=limit_of(chosen),
    )


def _possible(one: CellResult, other: CellResult) -> float:
    """Return by how much another cell may be faster than one, as a share: the difference and the noise of both."""
    if one.step is None or other.step is None:
        return 0.0
    noise = math.hypot(one.step.half_width, other.step.half_width)
    return max(_rate(other) / _rate(one) * math.exp(noise) - 1, 0.0)


def advice(sweep: Sweep) -> tuple[str, ...]:
    """Return what to do, in sentences: on each axis, and on the number of GPUs.

    The same choice in several lines of cells is one sentence.
    """
    alike: dict[str, list[Choice]] = {}
    for each in choices(sweep):
        alike.setdefault(_choice_words(each), []).append(each)
    lines = {axis.name: 0 for axis in sweep.spec.axes}
    for some in alike.values():
        lines[some[0].axis.name] += len(some)
    found = [_sentence(words, some, lines[some[0].axis.name]) for words, some in alike.items()]
    return tuple([*found, *_on_gpus(sweep)][:MOST_ADVICE])


def _choice_words(choice: Choice) -> str:
    """Return a choice in words, without where it holds."""
    value = f"{choice.axis.name} {choice.chosen.cell.value(choice.axis.name)}"
    if any(each.number is None for each in choice.axis.values):
        return f"{value} is the fastest" if choice.is_faster else f"{choice.axis.name}: no difference is shown"
    if choice.is_last:
        return f"{value} is the best that was measured; {choice.beyond or 'larger values were not tried'}"
    if choice.possible > _WIDEST:
        return (
            f"{value} may be enough: these runs neither show nor exclude that a larger value is faster; more runs "
            "would tell"
        )
    return f"{value} is enough: larger values are not faster beyond the noise"


def _sentence(words: str, some: Sequence[Choice], lines: int) -> str:
    """Return a choice with where it holds and what limits the chosen cells."""
    where = "" if len(some) == lines else " and".join(_where(each.others) for each in some)
    limits = [each.limit for each in some if each.limit is not None]
    if not limits or len({each.words for each in limits}) > 1:
        return f"{words}{where}."
    low, high = (units.share(choose(each.share for each in limits)) for choose in (min, max))
    share = low if low == high else f"{low.removesuffix(' %')} to {high}"
    return f"{words}{where}. It is limited by {limits[0].words}, {share} of a step."


def _where(others: tuple[tuple[str, str], ...]) -> str:
    return f" with {', '.join(f'{axis} {value}' for axis, value in others)}" if others else ""


def _on_gpus(sweep: Sweep) -> Iterator[str]:
    """Yield the best and the worst scaling of each kind, one sentence for each."""
    for kind, title in ((STRONG, "Strong scaling"), (WEAK, "Weak scaling")):
        rows = scaling(sweep, kind)
        if not rows:
            continue
        best, worst = (choose(rows, key=lambda row: row.efficiency.point) for choose in (max, min))
        yield f"{title}: at best {_efficiency(best)}{_where_of(best)}."
        if worst is not best:
            yield f"{title}: at worst {_efficiency(worst)}{_where_of(worst)}."


def _efficiency(row: ScalingRow) -> str:
    """Return the throughput of more GPUs in words."""
    gpus = f"{row.gpus} GPUs do {row.speedup:.2f} times the work of {row.base_gpus}"
    return f"{gpus} ({units.share(row.efficiency.point)} efficiency)"


def _where_of(row: ScalingRow) -> str:
    kept = () if row.kept is None else (("batch", f"{row.kept:g}"),)
    return _where((*kept, *row.others))
