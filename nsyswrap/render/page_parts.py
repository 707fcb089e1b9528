"""The parts of the page, ready for the template: each is a tuple of texts and of places in a chart."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from nsyswrap import units
from nsyswrap.model import Report, Section
from nsyswrap.render import charts, outline, rows, vocabulary
from nsyswrap.render.gaps import Gap
from nsyswrap.render.visible import elide, shorten, visible

MOST_ROWS = 50
_NAME_WIDTH = 60
_FOLDED_FROM = 20
_UNFOLDED = 15
_PHASE_WIDTH = 40
_STEP_CHART_HEIGHT = 140
_SLOWEST_STEPS = 10
_MOST_CAUSES = 6
_SEEN_CAUSES = 2
_SPECIAL = {
    "ledger": ("devices", "over_time"),
    "idle": ("causes", "gaps"),
    "steps": ("steps",),
}
_TENSOR_PARTS = (
    ("tensor_ns", "tensor", "on tensor cores", "#0054A9"),
    ("unknown_ns", "unknown", "cannot tell from the name", "url(#unsure)"),
    ("simt_eligible_ns", "eligible", "matrix work off tensor cores", "#0398CE"),
    ("not_eligible_ns", "other", "no matrix work", "#929292"),
)
_TOLD_BY_BAR = {
    "ledger": frozenset({"window_ns", "busy_share", "idle_share"}),
    "idle": frozenset({"idle_ns"}),
    "tensor_cores": frozenset({"kernel_ns", *(label for label, *_ in _TENSOR_PARTS)}),
}


class LegendRow(NamedTuple):
    """A part of a bar with its place in it and the texts beside it."""

    key: str
    label: str
    meaning: str
    fill: str
    time: str
    share: str
    x: str
    width: str


class Device(NamedTuple):
    """The ledger of one GPU as bars.

    Attributes:
        title: Such as "GPU 0, NVIDIA H200".
        window: Length of its window.
        parts: The bar that adds up to the window.
        causes: The bar that adds up to its idle part.
        zoom: Corners of the shape that ties the idle part to the bar of causes, in a box 1000 wide, 24 high.
        area: Busy share over time, an SVG path in a box 1000 wide and 100 high; empty where not given.
        phases: Idle time by cause and phase.
    """

    title: str
    window: str
    parts: tuple[LegendRow, ...]
    causes: tuple[LegendRow, ...]
    zoom: str
    area: str
    phases: tuple[tuple[str, str, str, str, str], ...]


class PieceView(NamedTuple):
    """One cause of a gap in one phase, how long, and what shows it."""

    cause: str
    phase: str
    time: str
    evidence: str


class GapView(NamedTuple):
    """One gap: where, how long, its causes, and how many of them are seen only when it is unfolded."""

    device_id: int
    start: str
    length: str
    share: str
    pieces: tuple[PieceView, ...]
    more: int


class GapsView(NamedTuple):
    """The longest gaps and which part of all they are."""

    gaps: tuple[GapView, ...]
    cut: str


class Cell(NamedTuple):
    """A cell: its text, the whole name where the text is cut, and the width of its bar in per cent."""

    text: str
    whole: str
    bar: str
    text_kind: bool


class TableView(NamedTuple):
    """A table as it is printed; columns are label, unit and whether they hold texts; folded rows need a click."""

    name: str
    caption: str
    columns: tuple[tuple[str, str, bool], ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: tuple[tuple[Cell, ...], ...]
    cut: str


class SectionView(NamedTuple):
    """A section as it is printed."""

    key: str
    title: str
    window: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[TableView, ...]
    notes: tuple[str, ...]


class StepsView(NamedTuple):
    """The chart of step times with its scale, and the slowest steps; the mean over GPUs where there are several."""

    chart: charts.StepChart
    top: str
    median: str
    keys: tuple[str, ...]
    fills: tuple[str, ...]
    slowest: TableView
    step_count: int
    warm_up: int


def devices(report: Report, ledgers: Sequence[outline.DeviceLedger]) -> tuple[Device, ...]:
    """Return the bars of each GPU."""
    found = outline.causes(report, {one.device_id: one.window_ns for one in ledgers})
    return tuple(
        Device(
            title=f"GPU {one.device_id}" + (f", {visible(one.name)}" if one.name else ""),
            window=units.duration(one.window_ns),
            parts=_ledger_bar(one),
            causes=_cause_bar(one),
            zoom=_zoom(one),
            area=_area(report, one.device_id),
            phases=tuple(_by_phase(cause) for cause in found if cause.device_id == one.device_id)[:MOST_ROWS],
        )
        for one in ledgers
    )


def worst_gaps(report: Report, most: int) -> GapsView:
    """Return the longest gaps."""
    found, count, total_ns = outline.worst_gaps(report, most)
    shown_ns = sum(gap.length_ns for gap in found)
    cut = ""
    if count > len(found):
        part = units.share_of(shown_ns, total_ns)
        cut = f"{len(found)} of {units.count(count)} gaps, {part} of the idle time"
    window_ns = report.window.length_ns
    ledger = report.section("ledger")
    if ledger is not None:
        window_ns = ledger.window.length_ns
    return GapsView(tuple(_gap(gap, window_ns) for gap in found), cut)


def tensor_bar(report: Report) -> tuple[LegendRow, ...]:
    """Return kernel time by what the kernels' names say of tensor cores; nothing where not analysed."""
    section = report.section("tensor_cores")
    if section is None:
        return ()
    facts = {fact.label: fact.value for fact in section.facts}
    values = [facts.get(label) for label, *_ in _TENSOR_PARTS]
    times = [0 if value is None or isinstance(value, str) else int(value) for value in values]
    whole = sum(times)
    if not whole:
        return ()
    return tuple(
        LegendRow(key, label, "", fill, units.duration(ns), units.share_of(ns, whole), segment.x, segment.width)
        for (_, key, label, fill), ns, segment in zip(_TENSOR_PARTS, times, charts.bar(times), strict=True)
    )


def steps(report: Report) -> StepsView | None:
    """Return the chart of step times; None where no steps were found."""
    section = report.section("steps")
    if section is None or "steps" not in section.tables or section.tables["steps"].empty:
        return None
    table = _one_row_a_step(section.tables["steps"])
    lengths = table["length_ns"].tolist()
    warm_up = [bool(one) for one in table["warm_up"].tolist()]
    names = [elide(str(name), _PHASE_WIDTH) for name in table["name"].tolist()]
    columns = [part.column for part in vocabulary.LEDGER_PARTS]
    parts = [table[column].tolist() for column in columns] if set(columns) <= set(table.columns) else []
    chart = charts.step_chart(charts.Steps(names, lengths, warm_up, parts), _STEP_CHART_HEIGHT)
    steady = table[[not one for one in warm_up]].drop(columns="warm_up")
    slowest = steady.sort_values("length_ns", ascending=False, kind="stable")
    median = outline.median_step(report)
    shown = table_view(slowest.head(_SLOWEST_STEPS), "Slowest steps", "steps")
    return StepsView(
        chart=chart,
        top=units.duration(chart.top_ns),
        median="" if median is None else units.text(median.value, "ns"),
        keys=tuple(part.key for part in vocabulary.LEDGER_PARTS),
        fills=tuple(_fill(part) for part in vocabulary.LEDGER_PARTS),
        slowest=shown._replace(cut=f"{len(shown.rows)} of {units.count(len(steady))} steps" if len(steady) else ""),
        step_count=len(table),
        warm_up=sum(warm_up),
    )


def _one_row_a_step(table: pd.DataFrame) -> pd.DataFrame:
    """Return the steps with their length, and with the mean over GPUs where each GPU has a row."""
    if "device_id" in table:
        table = table.groupby(
            ["start_ns", "end_ns", "name", "warm_up"], as_index=False, sort=True, observed=True
        ).mean()
        table = table.drop(columns="device_id")
    table = table.assign(length_ns=table["end_ns"] - table["start_ns"]).drop(columns="end_ns")
    first = ["name", "start_ns", "length_ns", "warm_up"]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def section(section: Section) -> SectionView:
    """Return a section's facts, notes and those of its tables that have no picture of their own."""
    special = _SPECIAL.get(section.key, ())
    tables = [(str(name), table) for name, table in section.tables.items() if name not in special]
    return SectionView(
        key=visible(section.key),
        title=visible(section.title),
        window=visible(outline.short(section.window)),
        facts=facts(section),
        tables=tuple(table_view(table, _caption(section, name), name) for name, table in tables),
        notes=() if section.key in ("ledger", "idle") else tuple(visible(note) for note in section.notes),
    )


def facts(section: Section | None) -> tuple[tuple[str, str], ...]:
    """Return label and value of a section's facts, less those that its bar says already."""
    if section is None:
        return ()
    told = _TOLD_BY_BAR.get(section.key, frozenset())
    return tuple(
        (visible(vocabulary.fact_label(fact.label)), visible(units.text(fact.value, fact.unit)))
        for fact in section.facts
        if fact.label not in told
    )


def table_view(table: pd.DataFrame, caption: str, name: str) -> TableView:
    """Return a table cut to ``MOST_ROWS``, one unit a column."""
    shown = rows.show(table, MOST_ROWS, aligned=True)
    columns = tuple((visible(one.label), one.unit, one.kind == "text") for one in shown.columns)
    lines = tuple(zip(*(_cells(column) for column in shown.columns), strict=True))
    seen = len(lines) if len(lines) <= _FOLDED_FROM else _UNFOLDED
    return TableView(visible(name), visible(caption), columns, lines[:seen], lines[seen:], shown.cut)


def _ledger_bar(ledger: outline.DeviceLedger) -> tuple[LegendRow, ...]:
    segments = charts.bar([amount.ns for amount in ledger.parts])
    return tuple(
        LegendRow(
            key=amount.part.key,
            label=amount.part.label,
            meaning="",
            fill=_fill(amount.part),
            time=units.duration(amount.ns),
            share=units.share(amount.share),
            x=segment.x,
            width=segment.width,
        )
        for amount, segment in zip(ledger.parts, segments, strict=True)
    )


def _cause_bar(ledger: outline.DeviceLedger) -> tuple[LegendRow, ...]:
    """Return the causes, the smallest ones taken together so that each keeps a shade of its own."""
    kept = [(one.cause, vocabulary.CAUSES.get(one.cause, ""), one.ns, one.share) for one in ledger.causes]
    if len(kept) > _MOST_CAUSES:
        rest = kept[_MOST_CAUSES - 1 :]
        names = ", ".join(cause for cause, *_ in rest)
        kept = [*kept[: _MOST_CAUSES - 1], ("other", names, sum(r[2] for r in rest), sum(r[3] for r in rest))]
    segments = charts.bar([ns for _, _, ns, _ in kept])
    return tuple(
        LegendRow(
            f"cause-{at}", visible(cause), visible(meaning), f"url(#cause-{at})", units.duration(ns),
            units.share(share), segment.x, segment.width,
        )
        for at, ((cause, meaning, ns, share), segment) in enumerate(zip(kept, segments, strict=True))
    )  # fmt: skip


def _fill(part: vocabulary.LedgerPart) -> str:
    """Return a part's fill; idle is always hatched, so that it is known without colour."""
    return "url(#idle)" if part.key == "idle" else part.colour


def _zoom(ledger: outline.DeviceLedger) -> str:
    idle = charts.bar([amount.ns for amount in ledger.parts])[-1]
    left, right = float(idle.x) * 10, (float(idle.x) + float(idle.width)) * 10
    return f"{left:.2f},0 {right:.2f},0 1000,24 0,24"


def _area(report: Report, device_id: int) -> str:
    section = report.section("ledger")
    if section is None or "over_time" not in section.tables:
        return ""
    table = section.tables["over_time"]
    mine = table[table["device_id"] == device_id].sort_values("start_ns")
    return charts.busy_area(mine["start_ns"].tolist(), mine["end_ns"].tolist(), outline.plain(mine["busy_share"]))


def _by_phase(cause: outline.Cause) -> tuple[str, str, str, str, str]:
    return (
        visible(cause.cause),
        elide(cause.phase, _PHASE_WIDTH),
        units.duration(cause.ns),
        units.share(cause.share),
        units.count(cause.gap_count),
    )


def _gap(gap: Gap, window_ns: int) -> GapView:
    pieces = tuple(
        PieceView(visible(one.cause), elide(one.phase, _PHASE_WIDTH), units.duration(one.ns), visible(one.evidence))
        for one in gap.causes()
    )
    length, share = units.duration(gap.length_ns), units.share_of(gap.length_ns, window_ns)
    more = max(len(pieces) - _SEEN_CAUSES, 0)
    return GapView(gap.device_id, units.point(gap.start_ns), length, share, pieces, more)


def _caption(section: Section, name: str) -> str:
    """Return a table's heading; none where it is the only one and the section's title says it all."""
    if len(section.tables) == 1:
        return ""
    return vocabulary.CAPTIONS.get((section.key, name), name.replace("_", " ").capitalize())


def _cells(column: rows.Column) -> list[Cell]:
    """Return a column's cells; shares have a bar, the largest one a full bar."""
    if column.kind == "text":
        brief = [shorten(text, _NAME_WIDTH) for text in column.cells]
        whole = zip(brief, column.cells, strict=True)
        return [Cell(short, "" if short == text else text, "", text_kind=True) for short, text in whole]
    if column.kind != "share":
        return [Cell(text, "", "", text_kind=False) for text in column.cells]
    most = max((value for value in column.raw if value), default=1.0)
    bars = (f"{100 * max(value or 0.0, 0.0) / most:.1f}" for value in column.raw)
    return [Cell(text, "", bar, text_kind=False) for text, bar in zip(column.cells, bars, strict=True)]
