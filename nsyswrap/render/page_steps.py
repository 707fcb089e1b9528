"""The chart of step times, its outliers, and the slowest steps."""

from typing import NamedTuple

import pandas as pd

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import charts, key_numbers, vocabulary
from nsyswrap.render.escape import elide
from nsyswrap.render.page_tables import Span, TableView, table_view

_NAME_WIDTH = 40
_CHART_HEIGHT = 160
_SLOWEST = 10


class StepsView(NamedTuple):
    """The chart of step times with its scale, and the slowest steps; the mean over GPUs where there are several.

    Attributes:
        chart: Columns, dots or ranges.
        top: Time at the upper edge.
        median: Median of the measured steps; empty where it was not measured.
        keys: Colour of each part of a column.
        fills: The same colours as ``fill`` attributes.
        slowest: The slowest measured steps.
        step_count: Number of steps.
        warm_up: Number of warm-up steps.
        outliers: Number of outliers.
        first: Name of the first step.
        last: Name of the last one.
    """

    chart: charts.StepChart
    top: str
    median: str
    keys: tuple[str, ...]
    fills: tuple[str, ...]
    slowest: TableView
    step_count: int
    warm_up: int
    outliers: int
    first: str
    last: str


def steps(report: Report) -> StepsView | None:
    """Return the chart of step times; None where no steps were found."""
    section = report.section("steps")
    if section is None or "steps" not in section.tables or section.tables["steps"].empty:
        return None
    table = _one_row_a_step(section.tables["steps"])
    drawn = _drawn(section, table)
    chart = charts.step_chart(drawn, _CHART_HEIGHT)
    measured = table[~table["warm_up"].astype(bool)].drop(columns="warm_up")
    slowest = measured.sort_values("length_ns", ascending=False, kind="stable").head(_SLOWEST)
    median = key_numbers.median_step(report)
    shown = table_view(slowest, "Slowest steps", "slowest", "steps")
    return StepsView(
        chart=chart,
        top=units.duration(chart.top_ns),
        median="" if median is None else units.text(median.value, "ns"),
        keys=tuple(part.key for part in vocabulary.LEDGER_PARTS),
        fills=tuple(vocabulary.fill(part) for part in vocabulary.LEDGER_PARTS),
        slowest=shown._replace(cut=f"{len(shown.rows)} of {units.count(len(measured))} steps" if len(measured) else ""),
        step_count=len(table),
        warm_up=sum(drawn.warm_up),
        outliers=sum(drawn.outlier),
        first=drawn.names[0],
        last=drawn.names[-1],
    )


def _drawn(section: Section, table: pd.DataFrame) -> charts.ChartedSteps:
    columns = [part.column for part in vocabulary.LEDGER_PARTS]
    # A table without rows that comes from a report.json has no columns.
    outliers = set(section.tables.get("outliers", pd.DataFrame()).get("start_ns", ()))
    starts, ends = table["start_ns"].tolist(), table["end_ns"].tolist()
    return charts.ChartedSteps(
        names=[elide(str(name), _NAME_WIDTH) for name in table["name"].tolist()],
        lengths_ns=table["length_ns"].tolist(),
        warm_up=[bool(one) for one in table["warm_up"].tolist()],
        parts_ns=[table[column].tolist() for column in columns] if set(columns) <= set(table.columns) else [],
        outlier=[start in outliers for start in starts],
        spans=[Span(start, end).anchor for start, end in zip(starts, ends, strict=True)],
    )


def _one_row_a_step(table: pd.DataFrame) -> pd.DataFrame:
    """Return the steps with their length, and with the mean over GPUs where each GPU has a row."""
    table = table.drop(columns="number", errors="ignore")
    if "process" in table and len(table["process"].unique()) == 1:
        table = table.drop(columns="process")
    if "device_id" in table:
        keys = ["start_ns", "end_ns", "name", "warm_up", *(["process"] if "process" in table else [])]
        table = table.groupby(keys, as_index=False, sort=True, observed=True).mean().drop(columns="device_id")
    table = table.assign(length_ns=table["end_ns"] - table["start_ns"])
    first = ["name", "start_ns", "end_ns", "length_ns", "warm_up"]
    return table[[*first, *(name for name in table.columns if name not in first)]]
