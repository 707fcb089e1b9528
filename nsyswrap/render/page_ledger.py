"""Where the time of each GPU went, as a page shows it: bars, why the GPU was idle, and its gaps."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, hues, rank_rows, summary_model, vocabulary
from nsyswrap.render.charts import LegendRow, stacked
from nsyswrap.render.document import (
    PAGE,
    PAGES,
    SLIM,
    Block,
    Column,
    Fold,
    Form,
    Lines,
    PagePart,
    Pictures,
    Span,
    Table,
    frame_columns,
    shown,
    times,
)
from nsyswrap.render.drawings import Picture
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.gaps import Gap, Piece, longest
from nsyswrap.render.rows import plain
from nsyswrap.rules import CAUSES

# Accounts of idle time in a bar. Ours: more are too narrow.
_MOST_RULES = 6
# Parts that a folded GPU names. Ours: they fit in a line.
_LARGEST_PARTS = 3
# GPUs whose bars are drawn, those in sight of more than that, and those of the slim page. Ours: more fill many screens.
_MOST_GPUS, _ALL_OPEN, _OPEN_GPUS, SLIM_GPUS = 32, 8, 4, 2
_MOST_GAPS, _SHOWN_PIECES = 20, 2
_PHASE_WIDTH = 40
_ATTRIBUTION = ["rule", "cause", "phase", "idle_ns", "gap_count"]


class Device(NamedTuple):
    """The ledger of one GPU as bars.

    Attributes:
        title: Such as "GPU 0, NVIDIA H200".
        note: The length of its window.
        parts: The bar that adds up to the window.
        idle: The bar below its idle part, by rule, on the same scale.
    """

    title: str
    note: str
    parts: tuple[LegendRow, ...]
    idle: tuple[LegendRow, ...]

    @property
    def colours(self) -> tuple[LegendRow, ...]:
        """Return the parts that have a colour."""
        return (*self.parts, *self.idle)

    @property
    def largest(self) -> str:
        """Return its largest parts in words, and the root cause of most of its idle time."""
        parts = sorted(self.parts, key=lambda row: -float(row.width))[:_LARGEST_PARTS]
        why = f"; idle mostly by {self.idle[0].label}" if self.idle and self.parts[-1] in parts else ""
        return ", ".join(f"{row.label} {row.share}" for row in parts if row.width != "0") + why


def gpus(report: Report) -> Iterator[Block]:
    """Yield the bars of the GPUs; beside a table of ranks, which has a bar of each, they are folded."""
    every = summary_model.ledgers(report)
    ledgers = rank_rows.first_ledgers(report, every, _MOST_GPUS)
    in_sight = len(every) if len(every) <= _ALL_OPEN else _OPEN_GPUS
    is_short = len(ledgers) > 1 and bool(summary_model.rows(report.section("ranks"), "ranks"))
    found = [tuple(_gpu(report, each, at, is_short=is_short)) for at, each in enumerate(ledgers)]
    yield from (block for blocks in found[:in_sight] for block in blocks)
    rest = len(found) - in_sight
    yield Fold(f"{rest} more GPU{'s' * (rest > 1)}", tuple(block for blocks in found[in_sight:] for block in blocks))
    drawn = f"{len(found)} of {units.count(len(every))} GPUs are drawn; report.json has all."
    yield Lines((drawn,) if len(found) < len(every) else (), "fine", PAGE)
    yield Lines((vocabulary.ADDS_UP,), "fine", PAGES) if every else Lines((vocabulary.NO_GPU,), forms=PAGES)


def _gpu(report: Report, ledger: summary_model.DeviceLedger, at: int, *, is_short: bool) -> Iterator[Block]:
    forms: frozenset[Form] = PAGES if at < SLIM_GPUS else PAGE
    its, of = device(report, ledger), window_of(report)
    if not is_short:
        yield from _parts(report, ledger, its, of, forms)
        return
    words = f"{its.title}: {its.largest}"
    yield Lines((words,), "fine", forms & SLIM)
    yield Fold(words, tuple(_parts(report, ledger, its, of, PAGE)), "one-gpu")


def _parts(
    report: Report, ledger: summary_model.DeviceLedger, its: Device, of: str, forms: frozenset[Form]
) -> Iterator[Block]:
    """Yield the bars of a GPU, and what they do not say: why it was idle, and when it was busy."""
    yield PagePart("device", its, forms)
    busy, accounts = _over_time(report, ledger.device_id, its.title), attribution(report, ledger.device_id, its.title)
    yield Pictures(busy, forms & SLIM if its.idle else forms)
    more = (", by phase" if accounts.columns else "") + (", busy share over time" if busy else "")
    folded = (
        causes(ledger, its, of),
        Fold("Idle time by root cause, cause and phase", (accounts,) if accounts.columns else ()),
        Pictures(busy),
    )
    yield Fold(f"Why the GPU was idle: what the CPU did{more}", folded if its.idle else (), "why-idle")


def device(report: Report, ledger: summary_model.DeviceLedger) -> Device:
    """Return the bars of a GPU."""
    rank = () if ledger.rank is None else (f"rank {ledger.rank}",)
    kept = _accounts(ledger)
    work = [amount.ns for amount in ledger.parts[:-1]]
    segments = charts.bar([*work, *(ns for _, _, ns, _ in kept)])[len(work) :]
    own = [hues.idle_hue(one.rule) for one in ledger.idle[: len(kept)]]
    if len(ledger.idle) > _MOST_RULES:
        own[-1] = "idle-other"
    fills = [hue + hues.LIGHTER * (hue in own[:at]) for at, hue in enumerate(own)]
    return Device(
        title=", ".join((f"GPU {ledger.device_id}", *rank, *filter(None, (ledger.name,)))),
        note=f"{units.duration(ledger.window_ns)} = 100 % of {window_of(report)}",
        parts=stacked([(one.part.key, one.part.label, vocabulary.fill(one.part), one.ns) for one in ledger.parts]),
        idle=tuple(
            LegendRow(
                fill, name, meaning, f"url(#{fill})", units.duration(ns), units.share(share), segment.x, segment.width
            )
            for fill, (name, meaning, ns, share), segment in zip(fills, kept, segments, strict=True)
        ),
    )


def window_of(report: Report) -> str:
    """Return the window of the breakdown."""
    ledger = report.section("ledger")
    return summary_model.short((report if ledger is None else ledger).window)


def _window_ns(report: Report) -> int:
    ledger = report.section("ledger")
    return (report if ledger is None else ledger).window.length_ns


def _accounts(ledger: summary_model.DeviceLedger) -> list[tuple[str, str, int, float]]:
    """Return name, meaning, time and share of each account of idle time; the smallest ones are merged into one."""
    found = [(vocabulary.rule_name(one.rule), _meaning(one), one.ns, one.share) for one in ledger.idle]
    if len(found) <= _MOST_RULES:
        return found
    rest = found[_MOST_RULES - 1 :]
    names, times_ns, shares = ", ".join(name for name, *_ in rest), [r[2] for r in rest], [r[3] for r in rest]
    return [*found[: _MOST_RULES - 1], ("other", names, sum(times_ns), sum(shares))]


def _meaning(part: summary_model.IdlePart) -> str:
    """Return what the CPU did in this idle time: the meaning of a single cause, or each cause with its time."""
    if len(part.causes) == 1 and part.causes[0][0] in CAUSES:
        return CAUSES[part.causes[0][0]].meaning
    return ", ".join(f"{vocabulary.cause_name(cause)} {units.duration(ns)}" for cause, ns in part.causes)


def causes(ledger: summary_model.DeviceLedger, its: Device, of: str) -> Table:
    """Return the idle time of a GPU by root cause, with what the CPU did."""
    found = _accounts(ledger)
    columns = (
        Column("", "colour", "picture", [charts.swatch(row) for row in its.idle]),
        Column("rule", "why", "text", [row.label for row in its.idle]),
        Column("cause_text", "what the CPU did", "text", [row.meaning for row in its.idle]),
        Column("share", f"share of {of}", "number", [one[3] for one in found], [row.share for row in its.idle]),
        times("idle_ns", "time", [one[2] for one in found]),
    )
    return Table("causes", f"Idle time of {its.title} by root cause", columns)


def _over_time(report: Report, device_id: int, title: str) -> tuple[Picture, ...]:
    """Return the busy share of a GPU over the window, where the ledger has it."""
    table = report.rows("ledger", "over_time")
    if table is None:
        return ()
    mine = table[table["device_id"] == device_id].sort_values("start_ns")
    path = charts.busy_area(mine["start_ns"].tolist(), mine["end_ns"].tolist(), plain(mine["busy_share"]))
    if not path:
        return ()
    alt = f"Busy share of {title} over the window"
    return (charts.area(path, 48, alt)._replace(caption="Busy over time, 0 to 100 %"),)


def attribution(report: Report, device_id: int, title: str) -> Table:
    """Return the idle time of one GPU by rule, cause and phase, largest first."""
    table, name = report.rows("idle", "attribution"), f"Idle time of {title} by root cause, cause and phase"
    if table is None:
        return Table("idle-attribution", name, ())
    mine = table[table["device_id"] == device_id].sort_values("idle_ns", ascending=False, kind="stable")
    columns = frame_columns(vocabulary.named(mine[_ATTRIBUTION]))
    return Table("idle-attribution", name, columns if len(mine) else (), has_row_heads=False)


def gaps(report: Report) -> Iterator[Table]:
    """Yield the gaps that recur, and the longest ones; nothing without gaps."""
    longest = longest_gaps(report)
    if longest.row_count:
        yield patterns(report)
        yield longest


def patterns(report: Report) -> Table:
    """Return the gaps that recur, by GPU, rule and phase, largest first."""
    table = report.rows("idle", "patterns")
    if table is not None:
        table = table.sort_values("idle_ns", ascending=False, kind="stable")
        shares = table["idle_ns"] / max(_window_ns(report), 1)
        table.insert(list(table.columns).index("idle_ns") + 1, "idle_of_window_share", shares)
    columns = () if table is None else frame_columns(vocabulary.named(table))
    return Table("idle-patterns", "Gaps by reason", columns, is_titled=True, has_row_heads=False)


def longest_gaps(report: Report, most: int = _MOST_GAPS) -> Table:
    """Return the longest gaps; a click on the reasons of one opens its evidence."""
    table = report.rows("idle", "gaps")
    found, count, total_ns = ((), 0, 0) if table is None else longest(table, most)
    lengths = [gap.length_ns for gap in found]
    part = units.share_of(sum(lengths), total_ns)
    pieces = [gap.pieces for gap in found]
    spans, shares = [Span(gap.start_ns, gap.end_ns) for gap in found], [ns / _window_ns(report) for ns in lengths]
    starts = [gap.start_ns for gap in found]
    columns = (
        Column("device_id", "GPU", "number", [gap.device_id for gap in found]),
        shown("start_ns", "start", "ns", starts, units.point)._replace(spans=spans),
        times("length_ns", "gap length", lengths),
        shown("share", "share of window", "number", shares, units.share),
        Column(
            "reasons",
            "why, largest first; open a row for evidence",
            "text",
            list(map(_reasons, pieces)),
            more=[tuple(map(_evidence, some)) for some in pieces],
        ),
    )
    return Table(
        "gaps",
        "Longest gaps",
        columns,
        is_titled=True,
        cut=f"{len(found)} of {units.count(count)} gaps, {part} of the idle time" if count > len(found) else "",
        row_attributes=tuple(map(_row, found, pieces)),
    )


def _reasons(pieces: Sequence[Piece]) -> str:
    """Return why the GPU was idle in a gap, largest first, and how many more reasons there are."""
    more = len(pieces) - _SHOWN_PIECES
    return ", ".join([*map(_piece, pieces[:_SHOWN_PIECES]), *([f"{more} more"] if more > 0 else [])])


def _piece(piece: Piece) -> str:
    phase = f" in {elide(piece.phase, _PHASE_WIDTH)}" if piece.phase not in ("", "none") else ""
    return f"{vocabulary.rule_name(piece.rule)}{phase} {units.duration(piece.ns)}"


def _evidence(piece: Piece) -> str:
    cause = "" if piece.rule.startswith("idle/") else f" ({vocabulary.cause_name(piece.cause)})"
    return f"{_piece(piece)}{cause}{': ' if piece.evidence else ''}{piece.evidence}"


def _row(gap: Gap, pieces: Sequence[Piece]) -> dict[str, str]:
    """Return the place of a gap, and what the script reads: the rule and the phase of each part."""
    parts = [(vocabulary.rule_name(one.rule), elide(one.phase, _PHASE_WIDTH)) for one in pieces]
    return {
        "id": f"gap-{gap.device_id}-{gap.start_ns}",
        "data-start": str(gap.start_ns),
        "data-end": str(gap.end_ns),
        "data-parts": json.dumps([list(map(visible, each)) for each in parts], ensure_ascii=False),
    }
