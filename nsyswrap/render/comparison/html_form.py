"""The comparison as one HTML page in the style of the report: no network, no script, readable without styles.

The template escapes all values; names that programs chose go through ``visible`` first.
"""

import functools
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import jinja2

from nsyswrap import units
from nsyswrap.compare import ChangeTable, Comparison, FindingPair, Side
from nsyswrap.render import hues, vocabulary
from nsyswrap.render.comparison import drawings, plan_check, step_pair, summary_model
from nsyswrap.render.content_policy import policy
from nsyswrap.render.escape import elide, shorten, visible
from nsyswrap.render.page_files import environment, static

_NAME_WIDTH = 60
_TITLE_WIDTH = 80
_MOST_ROWS = 30
_SEEN_ROWS = 10
_STYLES = ("page.css", "tables.css", "step.css", "compare.css")
_OPEN = ("scaling", "phases", "families", "kernels")
_FOLDED = ("idle_in_phases", "phases_on_gpu", "copies", "copied", "host_calls")


class ChangeView(NamedTuple):
    """A change: its name, cut and in full, its amounts, and the bar of its difference."""

    name: str
    whole: str
    base: str
    new: str
    delta: str
    interval: str
    counts: str
    tag: str
    bar: drawings.Bar


class TableView(NamedTuple):
    """A table of changes; a click shows the folded rows."""

    key: str
    title: str
    of: str
    counted: bool
    sure: bool
    rows: tuple[ChangeView, ...]
    folded: tuple[ChangeView, ...]
    cut: str


class EstimateView(NamedTuple):
    """One measure of step time and the drawing of its interval."""

    label: str
    base: str
    new: str
    change: str
    times: str
    interval: str
    drift: str
    result: str
    picture: drawings.Interval


class FindingView(NamedTuple):
    """A finding as it is printed."""

    severity: str
    rule: str
    place: str
    headline: str
    lost: str
    moved: str
    advice: str


class ProvenanceRow(NamedTuple):
    """One property of both sides, and whether they differ."""

    label: str
    base: str
    new: str
    differs: bool


def render(comparison: Comparison) -> str:
    """Return the comparison as one self-contained HTML page."""
    page: str = _environment().get_template("compare.html.j2").render(**_context(comparison))
    return page


@functools.cache
def _environment() -> jinja2.Environment:
    return environment()


@functools.cache
def _style() -> str:
    return "\n".join(static(name) for name in _STYLES)


def _context(comparison: Comparison) -> dict[str, Any]:
    scale = summary_model.scale_of(comparison)
    bars = drawings.ledger(comparison.table("ledger"), comparison.table("idle"))
    return {
        "style": _style(),
        "policy": policy((_style(),), ()),
        "base": visible(comparison.base.name),
        "new": visible(comparison.new.name),
        "title": elide(f"{comparison.base.name} → {comparison.new.name}", _TITLE_WIDTH),
        "sides": tuple(_side(side) for side in (comparison.base, comparison.new)),
        "outcome": comparison.outcome.value,
        "verdict": visible(comparison.verdict),
        "plan": plan_check.plan_check(comparison),
        "pair": (pair := step_pair.step_pair(comparison)),
        "no_pair": "" if pair else step_pair.why_none(comparison),
        "idle_fills": hues.patterns(one.key for one in bars.legend if one.key.startswith("idle-")) if bars else (),
        "blocked": comparison.blocked,
        "issues": [(one.blocks, visible(one.message), visible(one.hint)) for one in comparison.issues],
        "margin": units.share(comparison.options.margin),
        "estimates": _estimates(comparison),
        "intervals": summary_model.intervals_of(comparison),
        "curves": drawings.curves(comparison.base.steps.length, comparison.new.steps.length),
        "ledger": bars,
        "ledger_table": _table(comparison.table("ledger"), scale),
        "tensor": visible(summary_model.tensor_words(comparison)),
        "moved": _table(summary_model.moved(comparison), scale),
        "tables": [view for key in _OPEN if (view := _table(comparison.table(key), scale)) is not None],
        "folded": [view for key in _FOLDED if (view := _table(comparison.table(key), scale)) is not None],
        "findings": [
            (word, [_finding(pair, comparison) for pair in pairs])
            for word, pairs in summary_model.findings_of(comparison)
        ],
        "any_findings": bool(comparison.findings),
        "facts": list(_facts(comparison)),
        "provenance": list(_provenance(comparison)),
        "parts_note": summary_model.PARTS,
    }


def _side(side: Side) -> tuple[str, str]:
    return visible(side.name), visible(f"{summary_model.gpus_of(side)}, {summary_model.steps_of(side)}")


def _estimates(comparison: Comparison) -> tuple[EstimateView, ...]:
    pictures = drawings.intervals(comparison.estimates, comparison.options.margin)
    return tuple(
        EstimateView(
            label=one.label,
            base=units.duration(one.base_ns),
            new=units.duration(one.new_ns),
            change=units.change(one.change),
            times=summary_model.times_of(one),
            interval=summary_model.interval_of(one),
            drift=units.share(one.drift),
            result=one.outcome.value,
            picture=picture,
        )
        for one, picture in zip(comparison.estimates, pictures, strict=True)
    )


def _table(table: ChangeTable | None, scale: float) -> TableView | None:
    """Return a table of changes as it is printed; None where nothing changed."""
    if table is None:
        return None
    shown = summary_model.lines_of(table, _MOST_ROWS)
    if not shown.lines:
        return None
    deltas = [change.delta for change in shown.changes]
    bars = drawings.bars(deltas, max(map(abs, deltas)) if table.unit == "bytes" else scale)
    rows = tuple(
        ChangeView(
            name=(brief := shorten(line.name, _NAME_WIDTH)),
            whole="" if brief == line.name else visible(line.name),
            base=line.base,
            new=line.new,
            delta=line.delta,
            interval=line.interval,
            counts=line.counts,
            tag="new" if change.base is None else "gone" if change.new is None else "",
            bar=bar,
        )
        for line, change, bar in zip(shown.lines, shown.changes, bars, strict=True)
    )
    counted, sure = any(row.counts for row in rows), any(row.interval for row in rows)
    seen = len(rows) if len(rows) <= _SEEN_ROWS + 2 else _SEEN_ROWS
    return TableView(shown.key, shown.title, shown.of, counted, sure, rows[:seen], rows[seen:], shown.cut)


def _finding(pair: FindingPair, comparison: Comparison) -> FindingView:
    finding = pair.new or pair.base
    return FindingView(
        severity=finding.severity.value if finding is not None else "",
        rule=visible(vocabulary.rule_name(pair.rule)),
        place=summary_model.place_of(pair),
        headline=visible(summary_model.headline_of(pair)),
        lost=summary_model.lost_of(pair, comparison),
        moved=visible(summary_model.moved_of(pair, comparison)),
        advice=visible(pair.new.advice) if pair.new is not None else "",
    )


def _facts(comparison: Comparison) -> Iterator[tuple[str, str, str, str]]:
    for one in comparison.facts:
        label = visible(vocabulary.fact_label(one.label))
        before, now = (visible(units.text(value, one.unit)) for value in (one.base, one.new))
        yield visible(one.title), label, before, now


def _provenance(comparison: Comparison) -> Iterator[ProvenanceRow]:
    sides = (comparison.base.report, comparison.new.report)
    rows = {
        "command": [shlex.join(report.session.command) for report in sides],
        "capture": [f"{report.capture.name}, {units.size(report.capture.bytes)}" for report in sides],
        "started": [report.session.started_utc for report in sides],
        "window": [f"{report.window.label}, {units.duration(report.window.length_ns)}" for report in sides],
        "GPU": [summary_model.gpus_of(side) for side in (comparison.base, comparison.new)],
        "nsys": [report.session.nsys_version for report in sides],
        "export schema": [report.session.schema_version for report in sides],
        "driver": [report.session.driver_version for report in sides],
        "CUDA": [report.session.cuda_version for report in sides],
        "traced": [", ".join(report.session.traces) for report in sides],
        "CUDA graphs by": [report.session.graph_trace for report in sides],
        "verdict": [report.verdict for report in sides],
    }
    for label, (base, new) in rows.items():
        yield ProvenanceRow(label, visible(base) or "unknown", visible(new) or "unknown", base != new)
