"""What changed between two reports: ledger, idle time by rule, phases, kernel families, kernels, copies and calls.

Amounts are for one step where both windows are made of steps, else shares of the window. GPU time is the mean over
GPUs; CPU time is the sum over threads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.interval import Interval
from nsyswrap.compare.bootstrap import difference_interval, runs_interval
from nsyswrap.compare.comparison import AmountChange, Basis, ChangeTable, FactChange, Side
from nsyswrap.compare.scaling import scaling_table
from nsyswrap.compare.step_times import LEDGER_ROWS, MOST_BETWEEN, MeasuredSteps
from nsyswrap.model import Report, Unit
from nsyswrap.rules.work_names import TENSOR_USES, operation_name

CONFIDENCE = 0.95
OF_GPUS = {"step": "a step, mean over GPUs", "window": "share of the window, mean over GPUs"}
OF_CPU = {"step": "a step, sum over processes", "window": "share of the window, sum over processes"}

Row = dict[Any, Any]


class Amount(NamedTuple):
    """A total, and how often it occurs; None where that is unknown."""

    total: float | None = None
    times: float | None = None


class ChangeSource(NamedTuple):
    """The source of a table of changes.

    Attributes:
        place: Section and table of the report.
        name: Function from a row of the report to its name; rows of one name are added.
        of_gpus: Whether it is GPU time, which is the mean over GPUs.
    """

    key: str
    title: str
    place: tuple[str, str]
    column: str
    name: Callable[[Row], str]
    of_gpus: bool
    unit: Unit = "ns"


def _family(row: Row) -> str:
    """Return operation, library and precision of a kernel: ``matrix products, cublas, fp16``."""
    known = operation_name(str(row["op"])) if row["op"] else ""
    parts = [known, *(str(row[key] or "") for key in ("library", "precision"))]
    return ", ".join(part for part in parts if part) or TENSOR_USES.get(row["verdict"], str(row["verdict"]))


def _copy(row: Row) -> str:
    return f"{row['kind']}, {row['source_memory']} to {row['target_memory']}"


def _called(column: str) -> Callable[[Row], str]:
    return lambda row: str(row[column])


SOURCES = (
    ChangeSource("idle", "Why the GPU was idle", ("idle", "attribution"), "idle_ns", _called("rule"), of_gpus=True),
    ChangeSource(
        "idle_in_phases",
        "Why the GPU was idle, by phase",
        ("idle", "attribution"),
        "idle_ns",
        lambda row: f"{row['rule']} in {row['phase']}",
        of_gpus=True,
    ),
    ChangeSource("phases", "Phases on the CPU", ("phases", "phases"), "host_ns", _called("phase"), of_gpus=False),
    ChangeSource("phases_on_gpu", "Phases on the GPU", ("phases", "phases"), "gpu_ns", _called("phase"), of_gpus=True),
    ChangeSource("families", "Kernel families", ("tensor_cores", "kernels"), "total_ns", _family, of_gpus=True),
    ChangeSource("kernels", "Kernels", ("kernels", "summary"), "total_ns", _called("name"), of_gpus=True),
    ChangeSource("copies", "Memory copies and memsets", ("copies", "summary"), "total_ns", _copy, of_gpus=True),
    ChangeSource(
        "copied", "Bytes of copies and memsets", ("copies", "summary"), "bytes", _copy, of_gpus=True, unit="bytes"
    ),
    ChangeSource("host_calls", "CUDA calls", ("host_calls", "summary"), "total_ns", _called("name"), of_gpus=False),
)
_LEDGER, _IDLE = ("ledger", "devices"), ("idle", "attribution")
_OF_ALL = (_LEDGER, _IDLE)
TENSOR_FACTS = ("share_low", "share_high", "counter_share_low", "counter_share")


def basis_of(base: Side, new: Side) -> Basis:
    """Return "step" where both windows are made of steps, else "window"."""
    steps = all(side.report.window.is_of_steps and side.step_count for side in (base, new))
    return "step" if steps else "window"


def change_tables(base: Side, new: Side, basis: Basis) -> tuple[ChangeTable, ...]:
    """Return the tables of changes; a table without rows on both sides is left out."""
    scaling = scaling_table(base, new, basis)
    sides = [_ledger_rows(side, basis) for side in (base, new)]
    names = [row for row in LEDGER_ROWS if row in sides[0] and row in sides[1]]
    # Intervals come from the steps, so they fit the ledger only where little time lies between steps.
    known = basis == "step" and all(
        run.parts and run.count > 1 and abs(run.between_share) < MOST_BETWEEN for run in (*base.runs, *new.runs)
    )
    changes = []
    for name in names:
        change = AmountChange(name, sides[0][name], sides[1][name])
        if known:
            change = replace(change, difference=_interval(base.runs, new.runs, name, change.delta))
        changes.append(change)
    tables = [
        ChangeTable("ledger", "GPU time breakdown", OF_GPUS[basis], _unit("ns", basis), tuple(changes)),
        *([scaling] if scaling is not None else []),
        _tensor_share(base.report, new.report),
        *(_table(source, base, new, basis) for source in SOURCES if basis == "step" or source.unit == "ns"),
    ]
    return tuple(table for table in tables if table.changes)


def fact_changes(base: Report, new: Report) -> tuple[FactChange, ...]:
    """Return the facts of all sections on both sides: in the order of base, then those that only new has."""
    found = []
    for key in dict.fromkeys(section.key for report in (base, new) for section in report.sections):
        sections = [report.section(key) for report in (base, new)]
        title = next(section.title for section in sections if section is not None)
        labels = dict.fromkeys(fact.label for section in sections if section is not None for fact in section.facts)
        for label in labels:
            before, now = (section.fact(label) if section is not None else None for section in sections)
            known = before or now
            if known is not None:
                values = (fact.value if fact is not None else None for fact in (before, now))
                found.append(FactChange(key, title, label, known.unit, *values))
    return tuple(found)


def _interval(base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], row: str, shown: float) -> Interval[float]:
    """Return the difference of one ledger row that is shown, in ns a step, with its range.

    The one that is shown has the time between steps, and is that of one run of each side.
    """
    before, now = (np.array([float(run.parts[row].mean()) for run in runs]) for runs in (base, new))
    if len(base) == len(new) == 1:
        found = difference_interval(base[0].parts[row], new[0].parts[row], CONFIDENCE)
    else:
        found = runs_interval(before, now, CONFIDENCE)
    return found.map(lambda mean: mean - found.point + shown)


def _ledger_rows(side: Side, basis: Basis) -> Mapping[str, float]:
    table = side.report.rows("ledger", "devices")
    if table is None:
        return {}
    divisor = _divisor(side, basis, _LEDGER)
    return {row: float(table[row].sum()) / divisor for row in LEDGER_ROWS if row in table}


def _tensor_share(base: Report, new: Report) -> ChangeTable:
    changes = []
    for label in TENSOR_FACTS:
        sections = (report.section("tensor_cores") for report in (base, new))
        facts = (section.fact(label) if section is not None else None for section in sections)
        known = (fact.value if fact is not None else None for fact in facts)
        values = [None if value is None or isinstance(value, str) else float(value) for value in known]
        if values != [None, None]:
            changes.append(AmountChange(label, values[0], values[1]))
    return ChangeTable("tensor_cores", "Tensor-core share", "of kernel time", "share", tuple(changes))


def _table(source: ChangeSource, base: Side, new: Side, basis: Basis) -> ChangeTable:
    before, now = (_amounts(source, side, basis) for side in (base, new))
    changes = []
    for name in dict.fromkeys([*before, *now]):
        (base_total, base_times), (new_total, new_times) = (side.get(name, Amount()) for side in (before, now))
        changes.append(AmountChange(name, base_total, new_total, base_times, new_times))
    changes.sort(key=lambda one: (-abs(one.delta), one.name))
    of = (OF_GPUS if source.of_gpus else OF_CPU)[basis]
    return ChangeTable(source.key, source.title, of, _unit(source.unit, basis), tuple(changes))


def _amounts(source: ChangeSource, side: Side, basis: Basis) -> dict[str, Amount]:
    """Return the amounts of a table by name; rows of one name are added."""
    table = side.report.rows(*source.place)
    if table is None or source.column not in table:
        return {}
    named = pd.Series([source.name(dict(row)) for row in table.to_dict("records")], dtype=object)
    columns = [source.column, *(["count"] if basis == "step" and "count" in table else [])]
    sums = table[columns].groupby(named.to_numpy(), sort=False).sum()
    divisor = _divisor(side, basis, source.place if source.of_gpus else None)
    counts = (sums["count"] / divisor).tolist() if "count" in sums else [None] * len(sums)
    totals = (sums[source.column] / divisor).tolist()
    return {str(name): Amount(total, count) for name, total, count in zip(sums.index, totals, counts, strict=True)}


def _divisor(side: Side, basis: Basis, table: tuple[str, str] | None = None) -> float:
    """Return the divisor of a sum over the window: its steps or its ns, times the GPUs of a table of GPU time.

    Of a job of many ranks, ledger and idle time are of all GPUs, and other tables of those shown in detail.
    """
    rows = table and side.report.rows("ledger", "devices" if table in _OF_ALL else "over_time")
    gpu_count = 1 if rows is None else rows["device_id"].nunique()
    return gpu_count * (side.step_count if basis == "step" else side.report.window.length_ns)


def _unit(unit: Unit, basis: Basis) -> Unit:
    return "share" if basis == "window" and unit == "ns" else unit
