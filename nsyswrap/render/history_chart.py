"""Geometry of the chart of a program's runs, for inline SVG: per cent of the width, pixels of the height."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nsyswrap import units
from nsyswrap.gate.change_points import Shape
from nsyswrap.gate.recorded import run_name
from nsyswrap.gate.trends import Level, Trend
from nsyswrap.render.escape import visible
from nsyswrap.runs.run import RunRow, SeriesRun

HEIGHT = 190
# Room above the highest and below the lowest run, as a share of the scale; a flat series has a scale of this much.
_ROOM = 0.08
_LEAST_SCALE = 0.04
# A run this many times as long as the longest level is drawn at the edge: it would press all others together.
_MOST = 1.5
_BAND = 4.0


class Dot(NamedTuple):
    """A run: its place, where its link leads, what it is, and whether it lies above the edge."""

    x: str
    y: str
    href: str
    words: str
    is_above: bool


class LevelLine(NamedTuple):
    """A level: its ends and its height, and the edges of its noise; an empty band where the noise is unknown."""

    left: str
    width: str
    right: str
    y: str
    band_y: str
    band_height: str


class ChangeMark(NamedTuple):
    """Where the level changes: its place and its number."""

    x: str
    number: int


class RunChart(NamedTuple):
    """Time per step of each run, in order.

    Attributes:
        dots: The runs.
        levels: The levels.
        changes: Where they change.
        commits: Places at which the commit changes.
        top, bottom: Texts of the edges of the scale.
        first, last: Names of the first and the last run.
        above: How many runs lie above the edge.
    """

    dots: tuple[Dot, ...]
    levels: tuple[LevelLine, ...]
    changes: tuple[ChangeMark, ...]
    commits: tuple[str, ...]
    top: str
    bottom: str
    first: str
    last: str
    above: int


def run_chart(trend: Trend, links: Mapping[str, str]) -> RunChart:
    """Return the chart of a program with at least one run.

    Args:
        trend: The program.
        links: Where each run leads, by its id.
    """
    times = [one.row.mean_ns or 0.0 for one in trend.runs]
    low, high = _scale(times, trend.levels)

    def y(value: float) -> float:
        return HEIGHT * (1 - (min(max(value, low), high) - low) / (high - low))

    count = len(times)
    dots = tuple(
        Dot(_number(100 * (at + 0.5) / count), _number(y(ns)), links[one.row.run_id], describe(one.row), ns > high)
        for at, (one, ns) in enumerate(zip(trend.runs, times, strict=True))
    )
    levels = () if trend.shape is Shape.DRIFT else trend.levels
    return RunChart(
        dots=dots,
        levels=tuple(_line(one, count, y(one.middle_ns), [y(edge) for edge in _edges(one)]) for one in levels),
        changes=tuple(ChangeMark(_number(100 * one.first / count), at) for at, one in enumerate(trend.changes, 1)),
        commits=tuple(_number(100 * at / count) for at in _new_commits(trend.runs)),
        top=units.duration(high),
        bottom=units.duration(low),
        first=visible(run_name(trend.runs[0].row)),
        last=visible(run_name(trend.runs[-1].row)),
        above=sum(dot.is_above for dot in dots),
    )


def _scale(times: Sequence[float], levels: Sequence[Level]) -> tuple[float, float]:
    """Return the edges of the scale: it holds the runs and the levels, and not much more."""
    longest = max(one.middle_ns for one in levels)
    most = min(max(times), _MOST * longest)
    low, high = min(times), max(most, longest)
    room = max(_ROOM * (high - low), _LEAST_SCALE / 2 * high)
    return max(low - room, 0.0), high + room


def _edges(level: Level) -> tuple[float, float]:
    """Return the upper and the lower edge of the noise; the level itself where the noise is unknown."""
    noise = level.noise if math.isfinite(level.noise) and level.noise < _BAND else 0.0
    return level.middle_ns * (1 + noise), level.middle_ns / (1 + noise)


def _line(level: Level, count: int, y: float, edges: Sequence[float]) -> LevelLine:
    left, right = 100 * level.first / count, 100 * level.end / count
    top, bottom = edges
    return LevelLine(
        _number(left), _number(right - left), _number(right), _number(y), _number(top), _number(bottom - top)
    )


def _new_commits(runs: Sequence[SeriesRun]) -> list[int]:
    states = [(one.row.commit, one.row.is_dirty) for one in runs]
    return [at for at in range(1, len(states)) if states[at] != states[at - 1]]


def describe(row: RunRow) -> str:
    """Return a run in words: its name, its start and its time per step."""
    started = row.started_utc[:16].replace("T", " ")
    changes = " with changes" if row.is_dirty else ""
    when = f", {started} UTC" if started else ""
    return visible(f"{run_name(row)}{changes}{when}: {units.duration(row.mean_ns or 0.0)} a step")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
