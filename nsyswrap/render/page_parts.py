"""The parts of the page, ready for the template: each is a tuple of texts and of places in a chart."""

from collections.abc import Sequence
from typing import NamedTuple

from nsyswrap import units
from nsyswrap.model import Report, Section
from nsyswrap.render import charts, summary_model, vocabulary
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.gaps import Gap
from nsyswrap.render.page_tables import Span, TableView, table_view
from nsyswrap.render.page_tensor import PARTS

_PHASE_WIDTH = 40
_MOST_CAUSES = 6
_SEEN_CAUSES = 2
_SPECIAL = {
    "ledger": ("devices", "over_time"),
    "idle": ("causes", "gaps"),
    "steps": ("steps",),
    "counters": ("over_time",),
    "tensor_cores": ("phases",),
    "phases": ("phases",),
}
_BY_CAUSE = ["cause", "phase", "idle_ns", "gap_count"]
# Of two facts that were not measured, one says so.
_SAID_BY_ITS_TWIN = "counter_share_low"
_TOLD_BY_BAR = {
    "ledger": frozenset({"window_ns", "busy_share", "idle_share"}),
    "idle": frozenset({"idle_ns"}),
    "tensor_cores": frozenset({"kernel_ns", *(part.fact for part in PARTS)}),
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
    phases: TableView


class PieceView(NamedTuple):
    """One cause of a gap in one phase, how long, and what shows it."""

    cause: str
    phase: str
    time: str
    evidence: str


class GapView(NamedTuple):
    """One gap: where, how long, its causes, and how many of them are seen only when it is unfolded."""

    anchor: str
    span: Span
    device_id: int
    start: str
    length: str
    share: str
    ratio: float
    pieces: tuple[PieceView, ...]
    more: int


class GapsView(NamedTuple):
    """The longest gaps and which part of all they are."""

    gaps: tuple[GapView, ...]
    cut: str


class SectionView(NamedTuple):
    """A section as it is printed; one that measured nothing says in its notes why."""

    key: str
    title: str
    window: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[TableView, ...]
    notes: tuple[str, ...]
    measured: bool


def devices(report: Report, ledgers: Sequence[summary_model.DeviceLedger]) -> tuple[Device, ...]:
    """Return the bars of each GPU."""
    return tuple(
        Device(
            title=f"GPU {one.device_id}" + (f", {visible(one.name)}" if one.name else ""),
            window=units.duration(one.window_ns),
            parts=_ledger_bar(one),
            causes=_cause_bar(one),
            zoom=_zoom(one),
            area=_area(report, one.device_id),
            phases=_by_phase(report, one.device_id),
        )
        for one in ledgers
    )


def worst_gaps(report: Report, most: int) -> GapsView:
    """Return the longest gaps."""
    found, count, total_ns = summary_model.worst_gaps(report, most)
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
    values = [facts.get(part.fact) for part in PARTS]
    times = [0 if value is None or isinstance(value, str) else int(value) for value in values]
    whole = sum(times)
    if not whole:
        return ()
    return tuple(
        LegendRow(
            part.key, part.label, "", part.fill, units.duration(ns), units.share_of(ns, whole), segment.x, segment.width
        )
        for part, ns, segment in zip(PARTS, times, charts.bar(times), strict=True)
    )


def section(section: Section) -> SectionView:
    """Return a section's facts, notes and those of its tables that have no picture of their own."""
    special = _SPECIAL.get(section.key, ())
    tables = [(str(name), table) for name, table in section.tables.items() if name not in special and len(table)]
    return SectionView(
        key=visible(section.key),
        title=visible(section.title),
        window=visible(summary_model.short(section.window)),
        facts=facts(section),
        tables=tuple(table_view(table, _caption(section, name), name, section.key) for name, table in tables),
        notes=() if section.key in ("ledger", "idle") else tuple(visible(note) for note in section.notes),
        measured=any(len(table) for table in section.tables.values())
        or any(fact.value and not units.is_missing(fact.value) for fact in section.facts),
    )


def facts(section: Section | None) -> tuple[tuple[str, str], ...]:
    """Return label and value of a section's facts, less those that its bar says already."""
    if section is None:
        return ()
    told = _TOLD_BY_BAR.get(section.key, frozenset())
    return tuple(
        (visible(vocabulary.fact_label(fact.label)), visible(units.text(fact.value, fact.unit)))
        for fact in section.facts
        if fact.label not in told and not (fact.label == _SAID_BY_ITS_TWIN and units.is_missing(fact.value))
    )


def _ledger_bar(ledger: summary_model.DeviceLedger) -> tuple[LegendRow, ...]:
    segments = charts.bar([amount.ns for amount in ledger.parts])
    return tuple(
        LegendRow(
            key=amount.part.key,
            label=amount.part.label,
            meaning="",
            fill=vocabulary.fill(amount.part),
            time=units.duration(amount.ns),
            share=units.share(amount.share),
            x=segment.x,
            width=segment.width,
        )
        for amount, segment in zip(ledger.parts, segments, strict=True)
    )


def _cause_bar(ledger: summary_model.DeviceLedger) -> tuple[LegendRow, ...]:
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


def _zoom(ledger: summary_model.DeviceLedger) -> str:
    idle = charts.bar([amount.ns for amount in ledger.parts])[-1]
    left, right = float(idle.x) * 10, (float(idle.x) + float(idle.width)) * 10
    return f"{left:.2f},0 {right:.2f},0 1000,24 0,24"


def _area(report: Report, device_id: int) -> str:
    section = report.section("ledger")
    if section is None or "over_time" not in section.tables:
        return ""
    table = section.tables["over_time"]
    mine = table[table["device_id"] == device_id].sort_values("start_ns")
    return charts.busy_area(mine["start_ns"].tolist(), mine["end_ns"].tolist(), summary_model.plain(mine["busy_share"]))


def _by_phase(report: Report, device_id: int) -> TableView:
    """Return the idle time of one GPU by cause and phase, dearest first."""
    section = report.section("idle")
    if section is None or "causes" not in section.tables:
        return TableView("causes", "", (), (), "")
    table = section.tables["causes"]
    mine = table[table["device_id"] == device_id].sort_values("idle_ns", ascending=False, kind="stable")
    return table_view(mine[_BY_CAUSE], "", "causes", "idle")


def _gap(gap: Gap, window_ns: int) -> GapView:
    pieces = tuple(
        PieceView(visible(one.cause), elide(one.phase, _PHASE_WIDTH), units.duration(one.ns), visible(one.evidence))
        for one in gap.causes()
    )
    length, share = units.duration(gap.length_ns), units.share_of(gap.length_ns, window_ns)
    ratio = gap.length_ns / window_ns
    more = max(len(pieces) - _SEEN_CAUSES, 0)
    anchor, span = f"gap-{gap.device_id}-{gap.start_ns}", Span(gap.start_ns, gap.end_ns)
    return GapView(anchor, span, gap.device_id, units.point(gap.start_ns), length, share, ratio, pieces, more)


def _caption(section: Section, name: str) -> str:
    """Return a table's heading; none where it is the only one and the section's title says it all."""
    if len(section.tables) == 1:
        return ""
    return vocabulary.CAPTIONS.get((section.key, name), name.replace("_", " ").capitalize())
