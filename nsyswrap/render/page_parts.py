"""The parts of the page, ready for the template: tuples of texts and of positions in charts."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import charts, hues, summary_model, vocabulary
from nsyswrap.render.charts import LegendRow, stacked
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.gaps import Gap
from nsyswrap.render.page_tables import Span, TableView, table_view
from nsyswrap.render.page_tensor import PARTS
from nsyswrap.render.rows import plain
from nsyswrap.render.section_heads import caption_of
from nsyswrap.rules import CAUSES
from nsyswrap.rules.work_names import TENSOR_REASONS, TENSOR_USES, operation_name

_PHASE_WIDTH = 40
# Accounts of idle time in a bar. Ours: more are too narrow.
_MOST_RULES = 6
# Parts that a folded GPU names. Ours: they fit in a line.
_LARGEST_PARTS = 3
_SHOWN_PIECES = 2
_SPECIAL = {
    "ledger": ("devices", "over_time"),
    "idle": ("attribution", "gaps", "patterns"),
    "steps": ("steps",),
    "counters": ("over_time",),
    "tensor_cores": ("phases",),
    "phases": ("phases",),
    "python_lines": ("stacks",),
    "ranks": ("ranks", "matrix", "steps", "segments", "collectives"),
}
_ATTRIBUTION = ["rule", "cause", "phase", "idle_ns", "gap_count"]
# Where the counter was not measured, the fact ``counter_share`` says so once for both bounds.
_LOWER_BOUND = "counter_share_low"
_SHOWN_BY_BAR = {
    "ledger": frozenset({"window_ns", "busy_share", "idle_share"}),
    "idle": frozenset({"idle_ns"}),
    "tensor_cores": frozenset({"kernel_ns", *(part.fact for part in PARTS)}),
}


class Device(NamedTuple):
    """The ledger of one GPU as bars.

    Attributes:
        title: Such as "GPU 0, NVIDIA H200".
        window: Length of its window.
        parts: The bar that adds up to the window.
        idle: The bar below its idle part, by rule, on the same scale.
        area: Busy share over time, an SVG path in a box 1000 wide and 100 high; empty where not given.
        attribution: Idle time by rule, cause and phase.
    """

    title: str
    window: str
    parts: tuple[LegendRow, ...]
    idle: tuple[LegendRow, ...]
    area: str
    attribution: TableView

    @property
    def largest(self) -> str:
        """Return its largest parts in words, and the root cause of most of its idle time."""
        parts = sorted(self.parts, key=lambda row: -float(row.width))[:_LARGEST_PARTS]
        why = f"; idle mostly by {self.idle[0].label}" if self.idle and self.parts[-1] in parts else ""
        return ", ".join(f"{row.label} {row.share}" for row in parts if row.width != "0") + why


class PieceView(NamedTuple):
    """The part of a gap that belongs to one rule and phase: names, time and evidence."""

    rule: str
    cause: str
    phase: str
    time: str
    evidence: str


class GapView(NamedTuple):
    """One gap: its position and length, its parts, and how many of them show only when the row is unfolded."""

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
    """The longest gaps, and which part of all gaps they are."""

    gaps: tuple[GapView, ...]
    cut: str


NO_TABLE = TableView("", "", (), (), "")


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
            title=", ".join(
                (f"GPU {one.device_id}", *ranked(one), *([visible(one.name)] if one.name else [])),
            ),
            window=units.duration(one.window_ns),
            parts=_ledger_bar(one),
            idle=_idle_bar(one),
            area=_area(report, one.device_id),
            attribution=_attribution(report, one.device_id),
        )
        for one in ledgers
    )


def ranked(ledger: summary_model.DeviceLedger) -> tuple[str, ...]:
    """Return the rank of a GPU in words; nothing where none is known."""
    return () if ledger.rank is None else (f"rank {ledger.rank}",)


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
    """Return kernel time by tensor-core use according to the kernels' names; empty where it was not analysed."""
    section = report.section("tensor_cores")
    if section is None:
        return ()
    facts = {fact.label: fact.value for fact in section.facts}
    values = [facts.get(part.fact) for part in PARTS]
    times = [0 if value is None or isinstance(value, str) else int(value) for value in values]
    whole = sum(times)
    if not whole:
        return ()
    return stacked([(part.key, part.label, part.fill, ns) for part, ns in zip(PARTS, times, strict=True)])


def section(section: Section) -> SectionView:
    """Return a section's facts, notes, and the tables that have no chart of their own."""
    special = _SPECIAL.get(section.key, ())
    tables = [
        (str(name), _named(table)) for name, table in section.tables.items() if name not in special and len(table)
    ]
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
    """Return label and value of a section's facts, without those that its bar shows already."""
    if section is None:
        return ()
    shown = _SHOWN_BY_BAR.get(section.key, frozenset())
    return tuple(
        (visible(vocabulary.fact_label(fact.label)), visible(units.text(fact.value, fact.unit)))
        for fact in section.facts
        if fact.label not in shown and not (fact.label == _LOWER_BOUND and units.is_missing(fact.value))
    )


def _ledger_bar(ledger: summary_model.DeviceLedger) -> tuple[LegendRow, ...]:
    return stacked([(one.part.key, one.part.label, vocabulary.fill(one.part), one.ns) for one in ledger.parts])


def _idle_bar(ledger: summary_model.DeviceLedger) -> tuple[LegendRow, ...]:
    """Return the idle time by rule, below the idle part of the ledger; the smallest parts are merged into one shade."""
    kept = [(vocabulary.rule_name(one.rule), _meaning(one), one.ns, one.share) for one in ledger.idle]
    if len(kept) > _MOST_RULES:
        rest = kept[_MOST_RULES - 1 :]
        names = ", ".join(name for name, *_ in rest)
        kept = [*kept[: _MOST_RULES - 1], ("other", names, sum(r[2] for r in rest), sum(r[3] for r in rest))]
    work = [amount.ns for amount in ledger.parts[:-1]]
    segments = charts.bar([*work, *(ns for _, _, ns, _ in kept)])[len(work) :]
    own = [hues.idle_hue(one.rule) for one in ledger.idle[: len(kept)]]
    if len(ledger.idle) > _MOST_RULES:
        own[-1] = "idle-other"
    fills = [hue + hues.LIGHTER * (hue in own[:at]) for at, hue in enumerate(own)]
    return tuple(
        LegendRow(
            fill, visible(name), visible(meaning), f"url(#{fill})", units.duration(ns), units.share(share),
            segment.x, segment.width,
        )
        for fill, (name, meaning, ns, share), segment in zip(fills, kept, segments, strict=True)
    )  # fmt: skip


def _meaning(part: summary_model.IdlePart) -> str:
    """Return what the CPU did in this idle time: the meaning of a single cause, or each cause with its time."""
    if len(part.causes) == 1 and part.causes[0][0] in CAUSES:
        return CAUSES[part.causes[0][0]].meaning
    return ", ".join(f"{vocabulary.cause_name(cause)} {units.duration(ns)}" for cause, ns in part.causes)


def _area(report: Report, device_id: int) -> str:
    section = report.section("ledger")
    if section is None or "over_time" not in section.tables:
        return ""
    table = section.tables["over_time"]
    mine = table[table["device_id"] == device_id].sort_values("start_ns")
    return charts.busy_area(mine["start_ns"].tolist(), mine["end_ns"].tolist(), plain(mine["busy_share"]))


def _attribution(report: Report, device_id: int) -> TableView:
    """Return the idle time of one GPU by rule, cause and phase, largest first."""
    section = report.section("idle")
    if section is None or "attribution" not in section.tables:
        return NO_TABLE
    table = section.tables["attribution"]
    mine = table[table["device_id"] == device_id].sort_values("idle_ns", ascending=False, kind="stable")
    return table_view(_named(mine[_ATTRIBUTION]), "", "attribution", "idle")


def patterns(report: Report) -> TableView | None:
    """Return the gaps that recur, by GPU, rule and phase, largest first; None where there are none."""
    section = report.section("idle")
    table = None if section is None else section.tables.get("patterns")
    if table is None or table.empty:
        return None
    table = table.sort_values("idle_ns", ascending=False, kind="stable")
    ledger = report.section("ledger")
    window_ns = (report if ledger is None else ledger).window.length_ns
    shares = table["idle_ns"] / max(window_ns, 1)
    table.insert(list(table.columns).index("idle_ns") + 1, "idle_of_window_share", shares)
    return table_view(_named(table), "Gaps by reason", "patterns", "idle")


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with names in place of keys: rules, causes, uses of tensor cores, operations, parts of steps."""
    names = {
        "rule": vocabulary.rule_name,
        "cause": vocabulary.cause_name,
        "verdict": lambda key: TENSOR_USES.get(key, key),
        "reason": lambda key: TENSOR_REASONS.get(key, key),
        "op": lambda key: operation_name(key) if key else "",
        "part": vocabulary.column_label,
        "role": lambda key: vocabulary.column_label(f"{key}_ns"),
    }
    return table.assign(
        **{column: table[column].astype(str).map(name) for column, name in names.items() if column in table}
    )


def _gap(gap: Gap, window_ns: int) -> GapView:
    pieces = tuple(
        PieceView(
            visible(vocabulary.rule_name(one.rule)),
            "" if one.rule.startswith("idle/") else visible(vocabulary.cause_name(one.cause)),
            elide(one.phase, _PHASE_WIDTH),
            units.duration(one.ns),
            visible(one.evidence),
        )
        for one in gap.by_rule()
    )
    length, share = units.duration(gap.length_ns), units.share_of(gap.length_ns, window_ns)
    ratio = gap.length_ns / window_ns
    more = max(len(pieces) - _SHOWN_PIECES, 0)
    anchor, span = f"gap-{gap.device_id}-{gap.start_ns}", Span(gap.start_ns, gap.end_ns)
    return GapView(anchor, span, gap.device_id, units.point(gap.start_ns), length, share, ratio, pieces, more)


def _caption(section: Section, name: str) -> str:
    """Return a table's heading; empty where it is the only table of its section."""
    if len(section.tables) == 1:
        return ""
    return caption_of(section.key, name)
