"""How a program develops over the runs of the history: its levels, the noise at each, and what moved between them."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nsyswrap.gate.change_points import SeriesShape, change_points, trend_of
from nsyswrap.gate.noise import FEWEST, limit
from nsyswrap.gate.recorded import differences
from nsyswrap.gate.timed_runs import FALSE_ALARMS, parts_of_accounts
from nsyswrap.runs.run import Program, SeriesRun

# Parts that make less than this share of all that moved are added up. Ours: a reader asks for the large ones.
LEAST_SHARE = 0.05
OTHER = "all other parts"


class Level(NamedTuple):
    """Runs in a row whose step has one level.

    Attributes:
        first, end: Positions of the first run and after the last one.
        middle_ns: Median of their times per step.
        noise: How far an unchanged run may lie from the middle, as a share; infinite for fewer than three runs.
    """

    first: int
    end: int
    middle_ns: float
    noise: float


class PartMove(NamedTuple):
    """A part of a step before and after, ns a step."""

    words: str
    before_ns: float
    after_ns: float

    @property
    def delta_ns(self) -> float:
        """Return after less before."""
        return self.after_ns - self.before_ns


class LevelChange(NamedTuple):
    """A change from one level to the next.

    Attributes:
        first: Position of the first run of the new level.
        share: New level over old level, less 1.
        is_of_commit: Whether the commit changed there, or one run beside it; None where a commit is unknown.
        moved: The parts of a step that differ most, the largest first, and the sum of all others; they add up to the
            difference of the two levels' mean parts.
        others: Sentences about what else changed there, such as the driver.
    """

    first: int
    share: float
    is_of_commit: bool | None
    moved: tuple[PartMove, ...]
    others: tuple[str, ...] = ()


class Trend(NamedTuple):
    """The last runs of one program.

    Attributes:
        runs: Its last runs that have steps, in order of commits.
        without_steps: How many of its last runs have none.
        drift: Change over the whole series where it drifts, as a share; else 0.
        levels: Its levels in order; one for a series without a change.
    """

    program: Program
    run_count: int
    runs: tuple[SeriesRun, ...]
    without_steps: int
    shape: SeriesShape
    drift: float
    levels: tuple[Level, ...]
    changes: tuple[LevelChange, ...]


def trend_of_runs(program: Program, run_count: int, runs: Sequence[SeriesRun]) -> Trend:
    """Return how a program develops."""
    timed = tuple(one for one in runs if one.row.mean_ns)
    without = len(runs) - len(timed)
    if not timed:
        return Trend(program, run_count, (), without, SeriesShape.LEVEL, 0.0, (), ())
    series = np.log([one.row.mean_ns or 1.0 for one in timed])
    points = change_points(series)
    trend = trend_of(series, points)
    # A drift has no levels: its change points are where a line was cut.
    cuts = [] if trend.shape is SeriesShape.DRIFT else [point.first for point in points]
    bounds = [0, *cuts, len(timed)]
    levels = tuple(_level(series, first, end) for first, end in pairwise(bounds))
    changes = tuple(_change(timed, before, after) for before, after in pairwise(levels))
    drift = math.expm1(trend.change) if trend.shape is SeriesShape.DRIFT else 0.0
    return Trend(program, run_count, timed, without, trend.shape, drift, levels, changes)


def _level(series: np.ndarray, first: int, end: int) -> Level:
    runs = series[first:end]
    # As wide as the gate allows for one new run.
    noise = math.expm1(min(limit(runs, 1, FALSE_ALARMS / 2), 700.0)) if len(runs) >= FEWEST else math.inf
    return Level(first, end, math.exp(float(np.median(runs))), noise)


def _change(runs: Sequence[SeriesRun], before: Level, after: Level) -> LevelChange:
    # Noise can move a change point by a run.
    commits = [one.row for one in runs[max(after.first - 2, 0) : after.first + 2]]
    known = all(row.commit for row in commits)
    states = {(row.commit, row.is_dirty) for row in commits}
    sides = []
    for level in (before, after):
        every = [parts_of_accounts(one.accounts) for one in runs[level.first : level.end]]
        names = dict.fromkeys(name for parts in every for name in parts)
        # The means add up to the mean step.
        sides.append({name: sum(parts.get(name, 0.0) for parts in every) / len(every) for name in names})
    return LevelChange(
        first=after.first,
        share=after.middle_ns / before.middle_ns - 1,
        is_of_commit=len(states) > 1 if known else None,
        moved=moved(*sides),
        others=tuple(words for _, words in differences(runs[after.first - 1].row, runs[after.first].row)),
    )


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[PartMove, ...]:
    """Return the parts that differ most, the largest first, and the sum of all others last."""
    every = [PartMove(name, before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}]
    every.sort(key=lambda one: (-abs(one.delta_ns), one.words))
    least = LEAST_SHARE * sum(abs(one.delta_ns) for one in every)
    large = [one for one in every if abs(one.delta_ns) > least]
    rest = every[len(large) :]
    others = PartMove(OTHER, sum(one.before_ns for one in rest), sum(one.after_ns for one in rest))
    return (*large, others) if rest else tuple(large)
