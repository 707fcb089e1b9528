"""The report as JSON, schema ``nsyswrap.report/3``: every number unrounded, for other programs.

Each row of a table is one line, so that two reports can be compared line by line. ``session.hostname`` is always
empty: reports are attached to public issues, so the name of the machine is withheld.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.interval import NAMES, Interval
from nsyswrap.base.intervals import Window
from nsyswrap.model import Fact, Finding, Gpu, Plan, Report, Section, Session, StepTimes
from nsyswrap.render import gaps
from nsyswrap.render.json_writer import Tree, write
from nsyswrap.render.rows import weight_column
from nsyswrap.render.summary_model import records

SCHEMA = "nsyswrap.report/3"
MOST_ROWS = 20_000

# The number of the rank on each GPU.
Ranks = Mapping[int, int | None]
NO_RANKS: Ranks = MappingProxyType({})


_INFINITE = (float("inf"), -float("inf"))


def render(report: Report) -> str:
    """Return the report as JSON text that ends in a line break."""
    return write(tree(report))


def tree(report: Report) -> Tree:
    """Return the report as nested dictionaries and lists of plain Python values.

    A table of more than ``MOST_ROWS`` rows is cut to its longest gaps or its largest rows. A note of its section then
    says how many rows, and how many ns, are left out.
    """
    ranks = {gpu.device_id: gpu.rank for gpu in report.gpus}
    section_of = sections_of(report)
    return {
        "schema": SCHEMA,
        "capture": {"name": report.capture.name, "bytes": report.capture.bytes},
        "session": _session(report.session),
        "gpus": [_gpu(gpu) for gpu in report.gpus],
        "window": _window(report.window),
        "step": _step(report.step),
        "verdict": report.verdict,
        "verdict_rule": report.verdict_rule,
        "plan": _plan(report.plan),
        "plan_base": _plan_base(report.plan),
        "plan_notes": list(report.plan.notes),
        "sections": {section.key: section_tree(section, ranks) for section in report.sections},
        "findings": [_finding(finding, section_of.get(finding), ranks) for finding in report.findings],
        "notes": list(report.notes),
        "program_kind": {
            "framework": report.program_kind.framework.value,
            "uses_graphs": report.program_kind.uses_graphs,
        },
    }


def _session(session: Session) -> Tree:
    return {
        "nsys_version": session.nsys_version,
        "schema_version": session.schema_version,
        "started_utc": session.started_utc,
        "duration_ns": session.duration_ns,
        "hostname": "",
        "command": list(session.command),
        "traces": list(session.traces),
        "graph_trace": session.graph_trace,
        "driver_version": session.driver_version,
        "cuda_version": session.cuda_version,
    }


def _gpu(gpu: Gpu) -> Tree:
    capability = gpu.compute_capability
    return {
        "device_id": gpu.device_id,
        "name": gpu.name,
        "compute_capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "sm_count": gpu.sm_count,
        "memory_bytes": gpu.memory_bytes,
        "rank": _whole(gpu.rank),
    }


def _window(window: Window) -> Tree:
    return {"label": window.label, "source": window.source, "start_ns": window.start_ns, "end_ns": window.end_ns}


def _step(step: StepTimes) -> Tree:
    return {
        "count": _whole(step.count),
        "recorded_ns": _whole(step.recorded_ns),
        "alone": _interval(step.alone),
        "alone_source": step.alone_source,
        "total_ns": _whole(step.total_ns),
        "alone_total_ns": _whole(step.alone_total_ns),
    }


def _plan(plan: Plan) -> list[Tree]:
    return [
        {
            "rule": each.rule,
            "step": _interval(each.step),
            "saving": _interval(each.saving(plan.step_ns or 0)),
            "source": each.source,
        }
        for each in plan.changes
    ]


def _plan_base(plan: Plan) -> Tree:
    """Return the step time that the plan begins with."""
    return {"step_ns": _whole(plan.step_ns)}


def section_tree(section: Section, ranks: Ranks = NO_RANKS) -> Tree:
    """Return a section as nested dictionaries and lists of plain Python values.

    Args:
        section: The section.
        ranks: The number of the rank on each GPU.
    """
    tables: dict[str, list[Tree]] = {}
    notes = list(section.notes)
    for name, table in section.tables.items():
        kept, note = _cut(section.key, name, table)
        tables[name] = records(kept)
        notes.extend([note] if note else [])
    return {
        "title": section.title,
        "window": _window(section.window),
        "facts": {fact.label: {"value": _fact_value(fact), "unit": fact.unit} for fact in section.facts},
        "tables": tables,
        "findings": [_finding(finding, section.key, ranks) for finding in section.findings],
        "notes": notes,
    }


def _fact_value(fact: Fact) -> object:
    """Return a fact's value for JSON: a numpy number becomes a Python number, a missing value None."""
    value = fact.value.item() if isinstance(fact.value, np.generic) else fact.value
    return None if units.is_missing(value) or value in _INFINITE else value


def sections_of(report: Report) -> dict[Finding, str]:
    """Return the key of the first section that holds each finding."""
    return {finding: section.key for section in reversed(report.sections) for finding in section.findings}


def _finding(finding: Finding, section: str | None, ranks: Ranks) -> Tree:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "headline": finding.headline,
        "lost_ns": int(finding.lost_ns),
        "saving": _interval(finding.saving),
        "saving_method": finding.saving_method,
        "line": finding.line,
        "advice": finding.advice,
        "evidence": list(finding.evidence),
        "device_id": _whole(finding.device_id),
        "rank": None if finding.device_id is None else _whole(ranks.get(finding.device_id)),
        "section": section,
        "window": _window(finding.window),
    }


def _interval(ns: Interval[int] | None) -> Tree | None:
    """Return an estimate of a time with its range; None stays None."""
    return None if ns is None else {f"{name}_ns": int(value) for name, value in zip(NAMES, ns.in_order, strict=True)}


def _whole(value: int | None) -> int | None:
    """Return a whole number as Python's int, which JSON can hold; None stays None."""
    return None if value is None else int(value)


def _cut(key: str, name: str, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the listed rows of a table, and a sentence about the rest; the sentence is empty if no row is left out."""
    if len(table) <= MOST_ROWS:
        return table, ""
    left_ns: int | None = None
    weight = weight_column(table)
    if (key, name) == ("idle", "gaps"):
        kept, left_ns = gaps.cut(table, MOST_ROWS)
        which = "those of the longest gaps"
    elif weight is None:
        kept, which = table.head(MOST_ROWS), "the first"
    else:
        largest = np.argsort(-table[weight].to_numpy(), kind="stable")[:MOST_ROWS]
        kept, which = table.iloc[np.sort(largest)], f"those of most {weight}"
        left_ns = int(table[weight].sum() - kept[weight].sum())
    rest = "" if left_ns is None else f" with {units.count(left_ns)} ns in all"
    listed = f"{units.count(len(kept))} of {units.count(len(table))} rows are listed, {which}"
    left = len(table) - len(kept)
    return kept, f"Table {name}: {listed}; {units.counted(left, 'row')}{rest} {'is' if left == 1 else 'are'} left out."
