"""What page and terminal show of a sweep: a verdict of some sentences, notes, and tables with headings."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from nsyswrap import units
from nsyswrap.render.vocabulary import rule_name
from nsyswrap.sweep.advice import best_of
from nsyswrap.sweep.limits import Group, limit_changes, limit_of
from nsyswrap.sweep.results import CONFIDENCE, FEWEST_RUNS, CellResult, StepInterval, Sweep
from nsyswrap.sweep.scaling import STRONG, WEAK, kinds, scaling
from nsyswrap.sweep.spec import BATCH_OF_ALL, GPUS

NOT_RUN = "not run"
TITLES = MappingProxyType({STRONG: "Strong scaling", WEAK: "Weak scaling"})
_ABOUT = MappingProxyType(
    {
        STRONG: "the same batch on more GPUs; full efficiency: a step becomes shorter as the GPUs become more",
        WEAK: "the same batch on each of more GPUs; full efficiency: a step stays as long",
    }
)
# Headings of columns that are not those of a report.
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "ending": "ending",
        "mean_ns": "time per step",
        "low_ns": "at least",
        "high_ns": "at most",
        "median_ns": "median step",
        "per_s": "samples/s",
        "best_share": "of the best",
        "limit": "limited by",
        "limit_share": "of a step",
        "finding": "first finding",
        "text": "why",
        "base_gpus": "GPUs, base",
        "base_ns": "step, base",
        "step_ns": "step",
        "speedup": "speedup",
        "efficiency_share": "efficiency",
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


class Table(NamedTuple):
    """A table: its key, its heading, what its numbers are about, and its rows."""

    key: str
    title: str
    of: str
    frame: pd.DataFrame


def verdict(sweep: Sweep) -> str:
    """Return which cell is best, in some sentences."""
    best, own = best_of(sweep), [each for each in sweep.cells if not each.cell.same_as]
    if best is None or best.result.step is None:
        return f"No cell of {len(own)} was measured."
    result, limit = best.result, limit_of(best.result)
    measured = sum(each.step is not None for each in own)
    among = cells(len(own)) if measured == len(own) else f"the measured cells ({measured} of {len(own)})"
    sentences = [f"The best of {among} is {result.cell.label}: {speed(result)}."]
    if limit is not None:
        sentences.append(f"It is limited by {limit.words}, {units.share(limit.share)} of a step.")
    if best.equal:
        sentences.append(f"{len(best.equal)} more may be as good: the difference is within the noise.")
    return " ".join(sentences)


def speed(result: CellResult) -> str:
    """Return the throughput, where it is known, and the time per step of a cell, each with its interval."""
    step = result.step
    if step is None:
        return ending_of(result)
    found = f"{units.duration(step.mean_ns)} a step ({units.duration_range(step.low_ns, step.high_ns)})"
    if result.samples_per_s is None or result.cell.batch is None:
        return found
    low, high = (per_second(result.cell.batch, ns) for ns in (step.high_ns, step.low_ns))
    return f"{per_second(result.cell.batch, step.mean_ns)} samples/s ({low} to {high}), {found}"


def per_second(batch: float, step_ns: float) -> str:
    """Return a throughput with three significant digits."""
    return units.number(float(f"{1e9 * batch / step_ns:.3g}"))


def cells(number: int) -> str:
    """Return a number of cells in words: ``1 cell``."""
    return f"{number} cell{'' if number == 1 else 's'}"


def ending_of(result: CellResult) -> str:
    """Return how a cell ended: measured, not run, or why not."""
    if result.step is not None:
        return "measured"
    return result.failed.ending.value if result.failed else NOT_RUN


def machines(sweep: Sweep) -> tuple[tuple[str, str], ...]:
    """Return GPUs and versions of all runs; several values of one are listed."""
    found: dict[str, list[str]] = {}
    for run in sweep.runs:
        for label, value in run.machine.items():
            if value and label != "GPUs" and value not in found.setdefault(label, []):
                found[label].append(value)
    return tuple((label, ", ".join(values)) for label, values in found.items() if values)


def notes(sweep: Sweep) -> Iterator[str]:
    """Yield how the numbers were measured, and what is missing."""
    steps = [each.step for each in sweep.measured() if each.step is not None]
    missing = [each for each in sweep.cells if each.step is None and not each.cell.same_as]
    not_run = sum(not each.runs for each in missing)
    if missing:
        more = f", {not_run} not run" if not_run else ""
        yield f"Without a time per step: {len(missing)} of {cells(len(sweep.cells))}{more}."
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
        yield f"Taken from another cell, as the sweep says: {cells(same)}."


def _interval_note(steps: Sequence[StepInterval]) -> Iterator[str]:
    own = sum(step.from_runs for step in steps)
    words = f"Intervals hold the time per step with {units.share(CONFIDENCE)} confidence"
    if own == len(steps):
        yield f"{words}: Student's t over the runs of a cell."
    elif own:
        yield f"{words}: Student's t over the runs of a cell; with fewer than {FEWEST_RUNS}, the usual noise of runs."
    else:
        yield f"{words}, from the usual noise between runs: cells have fewer than {FEWEST_RUNS} runs."


def tables(sweep: Sweep) -> Iterator[Table]:
    """Yield the tables that have rows, in the order of the page."""
    every = (_failed(sweep), _changes(sweep), _scaling(sweep, STRONG), _scaling(sweep, WEAK), _cells(sweep))
    yield from (each for each in every if len(each.frame))


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a table; times are whole ns, also where some are missing."""
    frame = pd.DataFrame(list(rows))
    for name in frame.columns:
        if name.endswith("_ns"):
            frame[name] = pd.array([None if pd.isna(one) else round(one) for one in frame[name]], dtype="Int64")
    return frame


def _failed(sweep: Sweep) -> Table:
    rows = [
        {**_values(each), "ending": ending_of(each), "text": each.failed.reason if each.failed else ""}
        for each in sweep.cells
        if each.step is None and not each.cell.same_as
    ]
    return Table("failed", "Not measured", "", _frame(rows))


def _values(result: CellResult) -> dict[str, Any]:
    return dict(result.cell.values)


def _changes(sweep: Sweep) -> Table:
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
    return Table("changes", "Where the limit changes", about, _used(_frame(rows)))


def _scaling(sweep: Sweep, kind: str) -> Table:
    rows = [
        {
            **dict(each.others),
            "kept": "" if each.kept is None else f"{each.kept:g}",
            "base_gpus": each.base_gpus,
            "gpus": each.gpus,
            "base_ns": each.base_ns,
            "step_ns": each.step_ns,
            "speedup": each.speedup,
            "efficiency_share": each.efficiency,
            "low_share": each.low,
            "high_share": each.high,
            **{f"{group.name.lower()}_added_ns": value for group, value in each.groups_ns.items()},
        }
        for each in scaling(sweep, kind)
    ]
    about = f"{_ABOUT[kind]}; the last columns say how much longer each part of the step is"
    return Table(kind, TITLES[kind], about, _used(_frame(rows)))


def _used(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table without texts that are all empty, and without parts that are 0 in all rows."""
    empty = [name for name in frame.columns if name in {"with", "kept"} or name.endswith("_added_ns")]
    return frame.drop(columns=[name for name in empty if not frame[name].astype(bool).any()])


def _cells(sweep: Sweep) -> Table:
    best = best_of(sweep)
    most = best.result.rate if best else None
    rows = []
    for each in sweep.cells:
        step, limit, last = each.step, limit_of(each), each.runs[-1] if each.runs else None
        rows.append(
            {
                **_values(each),
                "ending": "as another" if each.cell.same_as else ending_of(each),
                "runs": len(each.runs),
                "per_s": None if each.samples_per_s is None else float(f"{each.samples_per_s:.4g}"),
                "best_share": each.rate / most if each.rate and most else None,
                "mean_ns": step.mean_ns if step else None,
                "low_ns": step.low_ns if step else None,
                "high_ns": step.high_ns if step else None,
                "median_ns": each.median_ns,
                "limit": limit.words if limit else "",
                "limit_share": limit.share if limit else None,
                "finding": rule_name(last.rule) if last and last.rule else "",
            }
        )
    frame = _frame(rows)
    empty = [name for name in frame.columns if frame[name].isna().all()]
    return Table("cells", "Cells", "in the order of the axes", frame.drop(columns=empty))
