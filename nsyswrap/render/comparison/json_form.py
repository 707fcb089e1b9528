"""The comparison as JSON: everything, unrounded, for other programs; one row of a table is one line."""

from nsyswrap.compare import AmountChange, ChangeTable, Comparison, Estimate, FindingChange, FindingPair, Side
from nsyswrap.render.comparison import summary_model
from nsyswrap.render.json_report import section_tree
from nsyswrap.render.json_writer import Tree, write

SCHEMA = "nsyswrap.comparison/2"


def render(comparison: Comparison) -> str:
    """Return the comparison as JSON text that ends in a line break."""
    return write(tree(comparison))


def tree(comparison: Comparison) -> Tree:
    """Return the comparison as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "outcome": comparison.outcome.value,
        "verdict": comparison.verdict,
        "margin_share": comparison.options.margin,
        "accepted": sorted(one.value for one in comparison.options.accept),
        "base": _side(comparison.base),
        "new": _side(comparison.new),
        "issues": [
            {"kind": one.kind.value, "blocks": one.blocks, "message": one.message, "hint": one.hint}
            for one in comparison.issues
        ],
        "step_time": [_estimate(one) for one in comparison.estimates],
        "basis": comparison.basis,
        "tables": {table.key: _table(table) for table in comparison.tables},
        "facts": [
            {"section": one.section, "label": one.label, "unit": one.unit, "base": one.base, "new": one.new}
            for one in comparison.facts
        ],
        "findings": {
            change.value: [_pair(one) for one in comparison.findings_that_are(change)] for change in FindingChange
        },
        "plan_score": None if comparison.plan_score is None else section_tree(comparison.plan_score),
    }


def _side(side: Side) -> Tree:
    report = side.report
    return {
        "name": side.name,
        "verdict": report.verdict,
        "step_count": side.step_count,
        "run_count": len(side.runs),
        "window": {
            "label": report.window.label,
            "source": report.window.source,
            "start_ns": report.window.start_ns,
            "end_ns": report.window.end_ns,
        },
        "gpus": [gpu.name for gpu in report.gpus],
        "nsys_version": report.session.nsys_version,
        "schema_version": report.session.schema_version,
        "started_utc": report.session.started_utc,
        "command": list(report.session.command),
    }


def _estimate(one: Estimate) -> Tree:
    return {
        "label": one.label,
        "base_ns": one.base_ns,
        "new_ns": one.new_ns,
        "change_share": one.change,
        "low_share": one.low,
        "high_share": one.high,
        "drift_share": one.drift,
        "run_noise_share": one.noise,
        "outcome": one.outcome.value,
    }


def _table(table: ChangeTable) -> Tree:
    return {"title": table.title, "of": table.of, "unit": table.unit, "rows": [_change(one) for one in table.changes]}


def _change(one: AmountChange) -> Tree:
    return {
        "name": one.name,
        "base": one.base,
        "new": one.new,
        "delta": one.delta,
        "low": one.low,
        "high": one.high,
        "base_count": one.base_count,
        "new_count": one.new_count,
    }


def _pair(pair: FindingPair) -> Tree:
    return {
        "rule": pair.rule,
        "device_id": pair.device_id,
        "base_severity": None if pair.base is None else pair.base.severity.value,
        "new_severity": None if pair.new is None else pair.new.severity.value,
        "base_lost": pair.base_lost,
        "new_lost": pair.new_lost,
        "moved": [{"rule": one.rule, "amount": one.amount, "to_other": one.to_other} for one in pair.moved],
        "headline": summary_model.headline_of(pair),
    }
