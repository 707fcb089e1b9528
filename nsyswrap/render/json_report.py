"""The report as JSON, schema ``nsyswrap.report/1``: every number unrounded, for other programs.

One row of a table is one line, so that two reports can be compared line by line. ``session.hostname`` is always
empty: the name of the machine is withheld on purpose, since reports are attached to public issues.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from nsyswrap import units
from nsyswrap.intervals import Window
from nsyswrap.model import Fact, Finding, Gpu, Report, Section, Session
from nsyswrap.render import gaps
from nsyswrap.render.escape import escape_in_json
from nsyswrap.render.rows import weight_column
from nsyswrap.render.summary_model import records

SCHEMA = "nsyswrap.report/1"
MOST_ROWS = 20_000

Tree = dict[str, Any]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "), default=str)


def render(report: Report) -> str:
    """Return the report as JSON text that ends in a line break."""
    return laid_out(tree(report))


def laid_out(document: Tree) -> str:
    """Return JSON that ends in a line break: nested objects over several lines, a row of a table on one."""
    return escape_in_json(_lay_out(document, "")) + "\n"


def tree(report: Report) -> Tree:
    """Return the report as nested dictionaries and lists of plain Python values.

    Tables of more than ``MOST_ROWS`` rows are cut to their longest gaps or dearest rows; a note of their section
    then says how many rows, and how many ns, are left out.
    """
    return {
        "schema": SCHEMA,
        "capture": {"name": report.capture.name, "bytes": report.capture.bytes},
        "session": _session(report.session),
        "gpus": [_gpu(gpu) for gpu in report.gpus],
        "window": _window(report.window),
        "verdict": report.verdict,
        "sections": {section.key: _section(section) for section in report.sections},
        "findings": [_finding(finding) for finding in report.findings],
        "notes": list(report.notes),
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
    }


def _window(window: Window) -> Tree:
    return {"label": window.label, "source": window.source, "start_ns": window.start_ns, "end_ns": window.end_ns}


def _section(section: Section) -> Tree:
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
        "findings": [_finding(finding) for finding in section.findings],
        "notes": notes,
    }


def _fact_value(fact: Fact) -> object:
    """Return a fact's value as JSON knows it: numpy's numbers as Python's, what was not measured as None."""
    return records(pd.DataFrame({"value": [fact.value]}))[0]["value"]


def _finding(finding: Finding) -> Tree:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "headline": finding.headline,
        "lost_ns": int(finding.lost_ns),
        "saving_low_ns": None if finding.saving_low_ns is None else int(finding.saving_low_ns),
        "saving_high_ns": None if finding.saving_high_ns is None else int(finding.saving_high_ns),
        "advice": finding.advice,
        "evidence": list(finding.evidence),
        "device_id": None if finding.device_id is None else int(finding.device_id),
        "window": _window(finding.window),
    }


def _cut(key: str, name: str, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a table's rows that are listed, and the sentence that says what is not; empty where all are."""
    if len(table) <= MOST_ROWS:
        return table, ""
    left_ns: int | None = None
    weight = weight_column(table)
    if (key, name) == ("idle", "gaps"):
        kept, _, left_ns = gaps.cut(table, MOST_ROWS)
        which = "those of the longest gaps"
    elif weight is None:
        kept, which = table.head(MOST_ROWS), "the first"
    else:
        dearest = np.argsort(-table[weight].to_numpy(), kind="stable")[:MOST_ROWS]
        kept, which = table.iloc[np.sort(dearest)], f"those of most {weight}"
        left_ns = int(table[weight].sum() - kept[weight].sum())
    rest = "" if left_ns is None else f" with {left_ns} ns in all"
    listed = f"{units.count(len(kept))} of {units.count(len(table))} rows are listed, {which}"
    return kept, f"Table {name}: {listed}; {units.count(len(table) - len(kept))} rows{rest} are left out."


def _lay_out(value: object, indent: str) -> str:
    """Return JSON in which nested dictionaries take lines of their own and each row of a table takes one."""
    inner = indent + "  "
    if isinstance(value, Mapping) and any(isinstance(item, Mapping | list) for item in value.values()):
        lines = [f"{inner}{_ENCODER.encode(key)}: {_lay_out(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        lines = [inner + line for line in _one_line_each(value)]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return _ENCODER.encode(value)


def _one_line_each(items: list[Tree]) -> list[str]:
    """Return each item on one line; column by column, since an encoder call for each row takes seconds."""
    keys = list(items[0])
    known: dict[object, str] = {}
    columns = [[_cell(item[key], known) for item in items] for key in keys]
    form = ", ".join(_ENCODER.encode(key).replace("%", "%%") + ": %s" for key in keys)
    return [f"{{{form % row}}}" for row in zip(*columns, strict=True)]


def _cell(value: object, known: dict[object, str]) -> str:
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        return _ENCODER.encode(value)
    if value not in known:
        known[value] = _ENCODER.encode(value)
    return known[value]
