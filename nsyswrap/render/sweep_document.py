"""A sweep: the best cell, rate and step over each axis, where each step goes, the cells, limits and scaling."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree
from nsyswrap.render import hues, vocabulary
from nsyswrap.render.charts import LegendRow, stacked
from nsyswrap.render.document import (
    PAGE,
    Bar,
    Bars,
    Document,
    DocumentSection,
    Form,
    Hero,
    Lines,
    Pictures,
    Table,
    columns,
    table_section,
)
from nsyswrap.render.drawings import Picture, Shape, shape
from nsyswrap.render.measured_hero import MeasuredTime, hero
from nsyswrap.render.vocabulary import rule_name
from nsyswrap.rules.rule import Group
from nsyswrap.sweep.advice import advice, best_of
from nsyswrap.sweep.document import measured_tree
from nsyswrap.sweep.limits import Limit, groups_of, limit_changes, limit_of, lines_of
from nsyswrap.sweep.results import CONFIDENCE, FEWEST_RUNS, CellResult, StepInterval, StepPart, Sweep
from nsyswrap.sweep.scaling import STRONG, WEAK, ScalingRow, kinds, scaling
from nsyswrap.sweep.spec import BATCH_OF_ALL, GPUS, Axis

_NOT_RUN = "not run"
_TITLES = MappingProxyType({STRONG: "Strong scaling", WEAK: "Weak scaling"})
_ABOUT = MappingProxyType(
    {
        STRONG: "the same batch on more GPUs; full efficiency: a step becomes shorter as the GPUs become more",
        WEAK: "the same batch on each of more GPUs; full efficiency: a step stays as long",
    }
)
# Headings of columns that are not those of a report.
_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "mean_ns": "time per step",
        "low_ns": "at least",
        "high_ns": "at most",
        "median_ns": "median step",
        "half_width": "+- %",
        "per_s": "samples/s",
        "best_share": "of the best",
        "limit": "limited by",
        "limit_share": "of a step",
        "finding": "first finding",
        "text": "why",
        "base_gpus": "GPUs, base",
        "base_ns": "step, base",
        "low_share": "at least",
        "high_share": "at most",
        "kept": "batch kept",
        "before": "from",
        "after": "to",
        "limit_before": "limited by",
        "limit_after": "then by",
        "limit_after_share": "of a step",
        **{f"{group.name.lower()}_added_ns": group.value for group in Group},
    }
)
_HEIGHT = 92
# So many lines of one axis have a drawing; the table has all. Ours: more fill several screens.
_MOST_LINES, _MOST_CELLS = 16, 40
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


def document(sweep: Sweep) -> Document:
    """Return the sweep as a document."""
    # The parts of a bar add up to the step.
    bars = tuple(
        Bar(each.cell.label, f"{units.duration(each.step_ns)} a step", _bar(each.parts))
        for each in sweep.measured()
        if each.parts and not each.cell.same_as
    )
    of_bars = "each bar is one step of a cell, means over its GPUs"
    toml = Lines(tuple(sweep.spec.text.splitlines()), "code", PAGE)
    return Document(
        command="sweep",
        title=sweep.spec.name,
        about=_machines(sweep),
        verdict=verdict(sweep),
        lead=(*_hero(sweep), Lines(advice(sweep), "bullets"), Lines(tuple(_notes(sweep)), "notes")),
        sections=(
            *_axes(sweep),
            DocumentSection("accounts", "Where each step goes", of_bars, (Bars(bars, _legend(bars)),)),
            _cells(sweep),
            _failed(sweep),
            _changes(sweep),
            _scaling(sweep, STRONG),
            _scaling(sweep, WEAK),
            DocumentSection("sweep", "The sweep", "run it again: nsyswrap sweep FILE.toml", (toml,)),
        ),
    )


def _hero(sweep: Sweep) -> tuple[Hero, ...]:
    """Return a step of the first cell and of the best one on one scale."""
    best, first = best_of(sweep), next((each for each in sweep.cells if each.step is not None), None)
    if best is None or first is None:
        return ()
    found = {each.cell.label: each.step for each in (first, best.result) if each.step is not None}
    return hero(*(MeasuredTime(name, step.ns.point, step.ns) for name, step in found.items()), sure="measured")


def verdict(sweep: Sweep) -> str:
    """Return which cell is best, in some sentences."""
    best, own = best_of(sweep), [each for each in sweep.cells if not each.cell.same_as]
    if best is None or best.result.step is None:
        return f"No cell of {len(own)} was measured."
    result, limit = best.result, limit_of(best.result)
    measured = sum(each.step is not None for each in own)
    among = (
        units.counted(len(own), "cell") if measured == len(own) else f"the measured cells ({measured} of {len(own)})"
    )
    sentences = [f"The best of {among} is {result.cell.label}: {_speed(result)}."]
    if limit is not None:
        sentences.append(f"It is limited by {limit.words}, {units.share(limit.share)} of a step.")
    if best.equal:
        sentences.append(f"{len(best.equal)} more may be as good: the difference is within the noise.")
    return " ".join(sentences)


def _speed(result: CellResult) -> str:
    """Return the throughput, where it is known, and the time per step of a cell, each with its interval."""
    step = result.step
    if step is None:
        return _ending(result)
    found = f"{units.duration(step.ns.point)} a step ({units.duration_range(*step.ns.ends)})"
    if result.samples_per_s is None or result.cell.batch is None:
        return found
    low, high = (_per_second(result.cell.batch, ns) for ns in reversed(step.ns.ends))
    return f"{_per_second(result.cell.batch, step.ns.point)} samples/s ({low} to {high}), {found}"


def _per_second(batch: float, step_ns: float) -> str:
    """Return a throughput with three significant digits."""
    return units.number(float(f"{1e9 * batch / step_ns:.3g}"))


def _ending(result: CellResult) -> str:
    """Return how a cell ended: measured, not run, or why not."""
    if result.step is not None:
        return "measured"
    return result.failed.ending.value if result.failed else _NOT_RUN


def _machines(sweep: Sweep) -> tuple[tuple[str, str], ...]:
    """Return GPUs and versions of all runs; several values of one are listed."""
    found: dict[str, list[str]] = {}
    for run in sweep.runs:
        for label, value in run.machine.items():
            if value and label != "GPUs" and value not in found.setdefault(label, []):
                found[label].append(value)
    return tuple((label, ", ".join(values)) for label, values in found.items() if values)


def _notes(sweep: Sweep) -> Iterator[str]:
    """Yield how the numbers were measured, and what is missing."""
    steps = [each.step for each in sweep.measured() if each.step is not None]
    missing = [each for each in sweep.cells if each.step is None and not each.cell.same_as]
    not_run = sum(not each.runs for each in missing)
    if missing:
        more = f", {not_run} not run" if not_run else ""
        yield f"Without a time per step: {len(missing)} of {units.counted(len(sweep.cells), 'cell')}{more}."
    yield f"Runs were in random order, seed {sweep.seed}, each cell once a round, so that drift changes all alike."
    if steps:
        yield from _interval_note(steps)
    if sweep.measured():
        yield "Times are under nsys, which makes steps with many short launches longer than without it."
    axis = sweep.spec.axis(GPUS)
    if axis is not None and len(axis.values) > 1:
        whose = "of all GPUs together" if sweep.spec.batch_of == BATCH_OF_ALL else "of each GPU"
        shown = " and ".join(kinds(sweep)) or "no"
        yield f"The batch size is that {whose}; the measured cells show {shown} scaling."
    same = sum(bool(each.cell.same_as) for each in sweep.cells)
    if same:
        yield f"Taken from another cell, as the sweep says: {units.counted(same, 'cell')}."


def _interval_note(steps: Sequence[StepInterval]) -> Iterator[str]:
    own = sum(step.from_runs for step in steps)
    words = f"Intervals hold the time per step with {units.percent(CONFIDENCE)} confidence"
    if own == len(steps):
        yield f"{words}: Student's t over the runs of a cell."
    elif own:
        yield f"{words}: Student's t over the runs of a cell; with fewer than {FEWEST_RUNS}, the usual noise of runs."
    else:
        yield f"{words}, from the usual noise between runs: cells have fewer than {FEWEST_RUNS} runs."


def _failed(sweep: Sweep) -> DocumentSection:
    rows = [
        {**dict(each.cell.values), "ending": _ending(each), "text": each.failed.reason if each.failed else ""}
        for each in sweep.cells
        if each.step is None and not each.cell.same_as
    ]
    return table_section("failed", "Not measured", "", rows, _LABELS, most={"text": _MOST_CELLS})


def _changes(sweep: Sweep) -> DocumentSection:
    rows = [
        {
            "axis": each.axis,
            "before": each.before,
            "after": each.after,
            "with": ", ".join(f"{axis} {value}" for axis, value in each.others),
            "limit_before": each.limit_before.words,
            "limit_share": each.limit_before.share,
            "limit_after": each.limit_after.words,
            "limit_after_share": each.limit_after.share,
        }
        for each in limit_changes(sweep)
    ]
    about = "the largest part of a step, from one value of an axis to the next"
    brief = ("axis", "before", "after", "with", "limit_before", "limit_after")
    return table_section(
        "changes", "Where the limit changes", about, _used(rows, {"with"}), _LABELS, brief=brief, most={"text": 10}
    )


def _scaling(sweep: Sweep, kind: str) -> DocumentSection:
    added = {group: f"{group.name.lower()}_added_ns" for group in Group}
    rows = [
        {
            **dict(each.others),
            "kept": "" if each.kept is None else f"{each.kept:g}",
            "base_gpus": each.base_gpus,
            "gpus": each.gpus,
            "base_ns": round(each.base_ns),
            "step_ns": round(each.step_ns),
            "speedup": each.speedup,
            "efficiency_share": each.efficiency.point,
            "low_share": each.efficiency.low,
            "high_share": each.efficiency.high,
            **{added[group]: round(value) for group, value in each.groups_ns.items()},
        }
        for each in scaling(sweep, kind)
    ]
    about = f"{_ABOUT[kind]}; the last columns say how much longer each part of the step is"
    brief = (
        *_varied(sweep),
        *("kept", "base_gpus", "gpus", "step_ns", "speedup", "efficiency_share", "low_share", "high_share"),
    )
    used = _used(rows, {"kept", *added.values()})
    return table_section(kind, _TITLES[kind], about, used, _LABELS, brief=brief, most={"text": 16})


def _used(rows: Sequence[Mapping[str, Any]], names: set[str]) -> list[dict[str, Any]]:
    """Return rows without the optional columns that are empty, or 0, in every row."""
    empty = {name for name in names if not any(row.get(name) for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def _varied(sweep: Sweep) -> list[str]:
    """Return the axes with several values; the first one where none has."""
    return [axis.name for axis in sweep.spec.axes if len(axis.values) > 1] or [sweep.spec.axes[0].name]


def _cells(sweep: Sweep) -> DocumentSection:
    best = best_of(sweep)
    most = best.result.rate if best else None
    rows = []
    for each in sweep.cells:
        step, limit, last = each.step, limit_of(each), each.runs[-1] if each.runs else None
        times = (step.ns.point, *step.ns.ends, each.median_ns) if step else (None,) * 4
        rows.append(
            {
                **dict(each.cell.values),
                "ending": "as another" if each.cell.same_as else _ending(each),
                "runs": len(each.runs),
                "per_s": None if each.samples_per_s is None else float(f"{each.samples_per_s:.4g}"),
                "best_share": each.rate / most if each.rate and most else None,
                **{
                    name: None if ns is None else round(ns)
                    for name, ns in zip(("mean_ns", "low_ns", "high_ns", "median_ns"), times, strict=True)
                },
                "limit": limit.words if limit else "",
                "limit_share": limit.share if limit else None,
                "finding": rule_name(last.rule) if last and last.rule else "",
            }
        )
    unknown = {name for name in rows[0] if all(row[name] is None for row in rows)} if rows else set()
    own = [
        {
            **{axis: each.cell.value(axis) for axis in _varied(sweep)},
            "runs": len(each.runs),
            "per_s": row["per_s"],
            "mean_ns": row["mean_ns"],
            "half_width": round(100 * each.step.half_width, 1),
            "limit": f"{limit.group.value} {units.share(limit.share)}" if (limit := limit_of(each)) else "",
        }
        for each, row in zip(sweep.cells, rows, strict=True)
        if each.step and not each.cell.same_as
    ]
    brief = Table(
        "cells", "Cells", columns(own, _LABELS), most={"html": 0, "text": _MOST_CELLS, "markdown": _MOST_CELLS}
    )
    only_page: Mapping[Form, int] = {"text": 0, "markdown": 0}
    return table_section(
        "cells", "Cells", "in the order of the axes", _used(rows, unknown), _LABELS, brief, most=only_page
    )


def _axes(sweep: Sweep) -> Iterator[DocumentSection]:
    """Yield the drawings of each axis with several measured values; all drawings of an axis have one scale."""
    varied = {axis.name for axis in sweep.spec.axes if len(axis.values) > 1}
    for at, axis in enumerate(sweep.spec.axes):
        # The base of a scaling may be a cell that is the same as another one; elsewhere that cell would be drawn twice.
        own = [each for each in sweep.cells if axis.name == GPUS or not each.cell.same_as]
        lines = [(others, line) for others, line in lines_of(own, axis) if len(line) > 1]
        measured = [each for _, line in lines for each in line if each.step]
        slowest = max((each.step.ns.high for each in measured if each.step), default=0.0)
        rates = [1e9 * each.cell.batch / each.step.ns.low for each in measured if each.step and each.cell.batch]
        pictures = [
            picture
            for others, line in (lines if measured else [])[:_MOST_LINES]
            for picture in _pictures(_line_title(others, varied), line, axis, slowest, max(rates, default=0.0))
        ]
        left = len(lines) > _MOST_LINES
        cut = (f"{_MOST_LINES} of {len(lines)} lines are drawn; the table has all.",) if left else ()
        of = "one scale for all; vertical lines are intervals; × was not measured"
        blocks = (Pictures(tuple(pictures)), Lines(cut, "fine", PAGE))
        yield DocumentSection(f"axis-{at}", f"By {axis.name}", of, blocks, axis.name)


def _line_title(others: Sequence[tuple[str, str]], varied: set[str]) -> str:
    return ", ".join(f"{axis} {value}" for axis, value in others if axis in varied) or "all cells"


def _pictures(
    title: str, cells: Sequence[CellResult], axis: Axis, slowest_ns: float, fastest: float
) -> Iterator[Picture]:
    """Yield the rate, where it is known, and the step of the cells of a line."""
    line = [each for each in cells if each.step]
    if fastest and all(each.cell.batch for each in line):
        top = fastest * _HEADROOM
        rates = [
            [1e9 * (each.cell.batch or 0.0) / ns for ns in (each.step.ns.point, *reversed(each.step.ns.ends))]
            for each in line
            if each.step
        ]
        yield _picture(f"{title}: samples/s, 0 to {_per_second(1.0, 1e9 / top)}", top, rates, cells, axis)
    top = slowest_ns * _HEADROOM
    times = [[each.step.ns.point, *each.step.ns.ends] for each in line if each.step]
    yield _picture(f"{title}: time per step, 0 to {units.duration(top)}", top, times, cells, axis)


def _picture(
    title: str, most: float, values: Sequence[Sequence[float]], cells: Sequence[CellResult], axis: Axis
) -> Picture:
    """Return a drawing of value and interval of each measured cell; ``most`` is at the upper edge."""
    places = [value.name for value in axis.values]
    said, ends, shapes = [], [], [
        shape("line", "ground", x2="100%", y1=0, y2=0, stroke="#929292", stroke_opacity=".4"),
        shape("line", "ground", x2="100%", y1=_HEIGHT, y2=_HEIGHT, stroke="#929292"),
    ]  # fmt: skip
    measured = iter(values)
    for each in cells:
        name = each.cell.value(axis.name)
        x = f"{100 * (places.index(name) + 0.5) / len(places):.2f}%"
        shapes.append(_label(name, x, _HEIGHT + 14))
        if each.step is None:
            why = f"{_ending(each)}: {each.failed.reason}" if each.failed else _ending(each)
            shapes.append(_label("×", x, _HEIGHT - 6, f"{name}: {why}"))
            continue
        y, low, high = (f"{_HEIGHT * (1 - value / most):.1f}" for value in next(measured))
        said.append(f"{name}: {_speed(each)}")
        ends.append((x, y))
        shapes.append(
            shape("line", "s-compute", title=said[-1], x1=x, x2=x, y1=low, y2=high, stroke="#0054A9", stroke_width=2)
        )
        shapes.append(shape("circle", "p-compute", title=said[-1], cx=x, cy=y, r=3.5, fill="#0054A9"))
    if all(value.number is not None for value in axis.values):
        shapes[2:2] = [
            shape("line", "s-compute", x1=x, y1=y, x2=to_x, y2=to_y, stroke="#0054A9", stroke_opacity=".55")
            for (x, y), (to_x, to_y) in pairwise(ends)
        ]
    return Picture(tuple(shapes), _HEIGHT + 18, f"{title}: {'; '.join(said)}", caption=title)


def _label(words: str, x: str, y: int, title: str = "") -> Shape:
    return shape("text", "word", words=words, title=title, x=x, y=y, text_anchor="middle", font_size=12, fill="#16202C")


def _bar(parts: Sequence[StepPart]) -> tuple[LegendRow, ...]:
    """Return the ledger without idle time, then the families of idle time."""
    sums = [
        (
            part.key,
            part.label,
            part.colour,
            sum(one.step_ns for one in parts if one.row == part.column and not one.rule),
        )
        for part in vocabulary.LEDGER_PARTS
        if part.key != "idle"
    ]
    sums += [
        (hue, name, f"url(#{hue})", sum(one.step_ns for one in parts if one.rule and hues.idle_hue(one.rule) == hue))
        for hue, name in _IDLE_NAMES.items()
    ]
    return stacked([each for each in sums if each[-1]])


def _legend(bars: Sequence[Bar]) -> tuple[LegendRow, ...]:
    """Return one row for each fill that a bar has."""
    found = {row.key: row for bar in bars for row in bar.parts}
    order = [*(part.key for part in vocabulary.LEDGER_PARTS), *_IDLE_NAMES]
    return tuple(found[key] for key in order if key in found)


def tree(sweep: Sweep) -> Tree:
    """Return the sweep as nested dictionaries and lists of plain Python values."""
    best = best_of(sweep)
    changes = [
        {
            "axis": each.axis,
            "others": dict(each.others),
            "before": each.before,
            "after": each.after,
            "limit_before": _limit_tree(each.limit_before),
            "limit_after": _limit_tree(each.limit_after),
        }
        for each in limit_changes(sweep)
    ]
    return {
        **measured_tree(sweep),
        "verdict": verdict(sweep),
        "advice": list(advice(sweep)),
        "best": None if best is None else best.result.cell.key,
        "as_good": [] if best is None else [each.cell.key for each in best.equal],
        "cells": [_cell_tree(each) for each in sweep.cells],
        "limit_changes": changes,
        "scaling": {kind: [_scaling_tree(each) for each in scaling(sweep, kind)] for kind in (STRONG, WEAK)},
    }


def _cell_tree(result: CellResult) -> dict[str, Any]:
    step, failed = result.step, result.failed
    return {
        "cell": result.cell.key,
        "values": dict(result.cell.values),
        "same_as": result.cell.same_as,
        "ending": _ending(result),
        "reason": failed.reason if failed else "",
        "step": None if step is None else _step_tree(step, result.median_ns),
        "samples_per_s": result.samples_per_s,
        "limit": _limit_tree(limit_of(result)),
        "groups_ns": {group.name.lower(): value for group, value in groups_of(result).items()},
    }


def _step_tree(step: StepInterval, median_ns: float | None) -> dict[str, Any]:
    return {
        "mean_ns": step.ns.point,
        "low_ns": step.ns.low,
        "high_ns": step.ns.high,
        "runs": step.runs,
        "from_runs": step.from_runs,
        "median_ns": median_ns,
    }


def _limit_tree(limit: Limit | None) -> dict[str, Any] | None:
    return None if limit is None else {"group": limit.group.name.lower(), "share": limit.share, "rule": limit.rule}


def _scaling_tree(row: ScalingRow) -> dict[str, Any]:
    fields = row._asdict()
    groups_ns = fields.pop("groups_ns")
    return {
        **fields,
        "efficiency": row.efficiency.point,
        "low": row.efficiency.low,
        "high": row.efficiency.high,
        "others": dict(row.others),
        "groups_ns": {group.name.lower(): value for group, value in groups_ns.items()},
    }
