"""The drawings of a sweep: rate and step over each axis, and the account of each cell as a bar."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nsyswrap import units
from nsyswrap.render import charts, hues, vocabulary
from nsyswrap.render.escape import visible
from nsyswrap.render.page_parts import LegendRow
from nsyswrap.render.sweep.summary_model import ending_of, per_second, speed
from nsyswrap.sweep.limits import lines_of
from nsyswrap.sweep.results import CellResult, Part, Sweep
from nsyswrap.sweep.spec import GPUS, Axis

HEIGHT = 92
# So many lines of one axis have a drawing; the table has all. Ours: more fill several screens.
_MOST_LINES = 16
_HEADROOM = 1.12
# Names of the families of idle time, by the hue that they have on the report.
_IDLE_NAMES = {
    "idle-data": "idle: data loading",
    "idle-cpu": "idle: CPU outside CUDA calls",
    "idle-launch": "idle: launches and queued work",
    "idle-wait": "idle: synchronization and blocking copies",
    "idle-setup": "idle: compilation and allocation",
    "idle-other": "idle: other or unknown",
}


class Point(NamedTuple):
    """One cell in a drawing: positions of value and interval, in per cent across and pixels down, and its words."""

    x: str
    y: str
    low: str
    high: str
    label: str
    words: str


class Missing(NamedTuple):
    """A cell without a time per step: its position across in per cent, its value on the axis, and why."""

    x: str
    label: str
    words: str


class Panel(NamedTuple):
    """Rate or step of the cells of one line.

    Attributes:
        title: Its heading.
        top: The value at its upper edge.
        points: The cells that were measured.
        lines: Pairs of neighbouring points; none on an axis of names.
        missing: The cells that were not measured.
    """

    title: str
    top: str
    points: tuple[Point, ...]
    lines: tuple[tuple[Point, Point], ...]
    missing: tuple[Missing, ...]


class LineChart(NamedTuple):
    """The cells that differ on one axis only: what they have in common, and their panels."""

    title: str
    panels: tuple[Panel, ...]


class AxisCharts(NamedTuple):
    """The drawings of one axis, and a note on those that are left out."""

    axis: str
    charts: tuple[LineChart, ...]
    cut: str


class CellBar(NamedTuple):
    """The account of one cell: its name, its step, and the parts of its step."""

    name: str
    amount: str
    parts: tuple[LegendRow, ...]


def axis_charts(sweep: Sweep) -> tuple[AxisCharts, ...]:
    """Return the drawings of each axis with several measured values; all panels of an axis have one scale."""
    varied = {axis.name for axis in sweep.spec.axes if len(axis.values) > 1}
    found = []
    for axis in sweep.spec.axes:
        # The base of a scaling may be a cell that is the same as another one; elsewhere that cell would be drawn twice.
        own = [each for each in sweep.cells if axis.name == GPUS or not each.cell.same_as]
        lines = [(others, line) for others, line in lines_of(own, axis) if len(line) > 1]
        cells = [each for _, line in lines for each in line if each.step]
        if not cells:
            continue
        slowest = max(each.step.high_ns for each in cells if each.step)
        rates = [1e9 * each.cell.batch / each.step.low_ns for each in cells if each.step and each.cell.batch]
        drawn = tuple(
            LineChart(_title(others, varied), tuple(_panels(line, axis, slowest, max(rates, default=0.0))))
            for others, line in lines[:_MOST_LINES]
        )
        cut = f"{len(drawn)} of {len(lines)} lines are drawn; the table has all." if len(drawn) < len(lines) else ""
        found.append(AxisCharts(visible(axis.name), drawn, cut))
    return tuple(found)


def _title(others: Sequence[tuple[str, str]], varied: set[str]) -> str:
    return visible(", ".join(f"{axis} {value}" for axis, value in others if axis in varied)) or "all cells"


def _panels(cells: Sequence[CellResult], axis: Axis, slowest_ns: float, fastest: float) -> Iterator[Panel]:
    line = [each for each in cells if each.step]
    missing = tuple(
        Missing(_across(each, axis), visible(each.cell.value(axis.name)), visible(_why(each)))
        for each in cells
        if not each.step
    )
    if fastest and all(each.cell.batch for each in line):
        top = fastest * _HEADROOM
        values = [
            tuple(
                1e9 * (each.cell.batch or 0.0) / ns for ns in (each.step.mean_ns, each.step.high_ns, each.step.low_ns)
            )
            for each in line
            if each.step
        ]
        yield _panel("samples/s", per_second(1.0, 1e9 / top), _points(values, line, axis, top), axis, missing)
    top = slowest_ns * _HEADROOM
    values = [(each.step.mean_ns, each.step.low_ns, each.step.high_ns) for each in line if each.step]
    yield _panel("time per step", units.duration(top), _points(values, line, axis, top), axis, missing)


def _why(result: CellResult) -> str:
    """Return why a cell has no time per step."""
    return f"{ending_of(result)}: {result.failed.reason}" if result.failed else ending_of(result)


def _across(result: CellResult, axis: Axis) -> str:
    """Return the position of a cell across, in per cent; values have equal distances, in the order of the axis."""
    place = [value.name for value in axis.values].index(result.cell.value(axis.name))
    return f"{100 * (place + 0.5) / len(axis.values):.2f}"


def _points(
    values: Sequence[tuple[float, ...]], line: Sequence[CellResult], axis: Axis, most: float
) -> tuple[Point, ...]:
    """Return the points of cells, each from its value and its bounds; ``most`` is at the upper edge."""
    points = []
    for (value, low, high), each in zip(values, line, strict=True):
        name = visible(each.cell.value(axis.name))
        y, low_y, high_y = (f"{HEIGHT * (1 - one / most):.1f}" for one in (value, low, high))
        points.append(Point(_across(each, axis), y, low_y, high_y, name, f"{name}: {speed(each)}"))
    return tuple(points)


def _panel(title: str, top: str, points: tuple[Point, ...], axis: Axis, missing: tuple[Missing, ...]) -> Panel:
    is_number = all(value.number is not None for value in axis.values)
    return Panel(title, top, points, tuple(pairwise(points)) if is_number else (), missing)


def cell_bars(sweep: Sweep) -> tuple[CellBar, ...]:
    """Return the account of each cell with GPU work; its parts add up to the step."""
    return tuple(
        CellBar(visible(each.cell.label), f"{units.duration(each.step_ns)} a step", _bar(each.parts))
        for each in sweep.measured()
        if each.parts and not each.cell.same_as
    )


def _bar(parts: Sequence[Part]) -> tuple[LegendRow, ...]:
    sums = _by_fill(parts)
    whole = sum(sums.values())
    segments = charts.bar([round(value) for value in sums.values()])
    return tuple(
        LegendRow(
            key=key,
            label=label,
            meaning="",
            fill=fill,
            time=units.duration(value),
            share=units.share_of(value, whole),
            x=segment.x,
            width=segment.width,
        )
        for ((key, label, fill), value), segment in zip(sums.items(), segments, strict=True)
    )


def _by_fill(parts: Sequence[Part]) -> dict[tuple[str, str, str], float]:
    """Return the time of each fill, by its key, label and fill: the ledger first, then the families of idle time."""
    sums: dict[tuple[str, str, str], float] = {}
    for part in vocabulary.LEDGER_PARTS:
        own = sum(each.step_ns for each in parts if each.row == part.column and not each.rule)
        if own and part.key != "idle":
            sums[part.key, part.label, part.colour] = own
    for hue, name in _IDLE_NAMES.items():
        own = sum(each.step_ns for each in parts if each.rule and hues.idle_hue(each.rule) == hue)
        if own:
            sums[hue, name, f"url(#{hue})"] = own
    return sums


def legend(bars: Sequence[CellBar]) -> tuple[LegendRow, ...]:
    """Return one row for each fill that a bar has."""
    found: dict[str, LegendRow] = {}
    for bar in bars:
        for row in bar.parts:
            found.setdefault(row.key, row._replace(time="", share=""))
    order = [*(part.key for part in vocabulary.LEDGER_PARTS), *_IDLE_NAMES]
    return tuple(sorted(found.values(), key=lambda row: order.index(row.key)))


def idle_fills() -> tuple[hues.IdleFill, ...]:
    """Return the patterns of the families of idle time."""
    return tuple(hues.IdleFill(hue, hue, hues.LIGHT[hue], "1") for hue in _IDLE_NAMES)
