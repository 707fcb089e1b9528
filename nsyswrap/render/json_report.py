"""The report as JSON, schema ``nsyswrap.report/3``: every number unrounded, for other programs.

Writing, reading and the JSON Schema follow from the types of the report, with what differs from them here. Each row of
a table is one line, so that two reports can be compared line by line. ``session.hostname`` is always empty: reports are
attached to public issues, so the name of the machine is withheld.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from nsyswrap.base.intervals import Window
from nsyswrap.base.json_codec import (
    NS_INTERVAL,
    TEXT,
    WHOLE,
    Codec,
    DamagedError,
    Field,
    Tree,
    codec_of,
    keyed,
    list_of,
    mapping_of,
    null_or,
    read_scalar,
    record_of,
)
from nsyswrap.model import Capture, Fact, Finding, Gpu, Plan, PlannedChange, Report, Section, Session, StepTimes, Unit
from nsyswrap.render.json_tables import listed_rows, read_table, tables_schema
from nsyswrap.render.json_writer import plain, write
from nsyswrap.render.section_heads import known_tables
from nsyswrap.render.summary_model import records
from nsyswrap.rules.program_kind import Framework, ProgramKind

SCHEMA = "nsyswrap.report/3"

# The number of the rank on each GPU.
Ranks = Mapping[int, int | None]
NO_RANKS: Ranks = MappingProxyType({})


def _written(codec: Codec, get: Any = lambda _: None) -> Field:  # noqa: ANN401 - of any record
    """Return a field that follows from others, or from the whole report."""
    return Field(codec, get, is_read=False)


def _capability(text: Any, place: str) -> tuple[int, int]:  # noqa: ANN401 - a value of JSON
    major, _, minor = TEXT.read(text, place).partition(".")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        raise DamagedError(f"{place} is {text[:20]!r}")
    return int(major), int(minor)


def _fact(label: str, value: object, unit: Unit) -> Fact:
    of_text = unit == "text"
    if value is not None and (isinstance(value, bool) or isinstance(value, str) != of_text):
        raise ValueError(f"its value is {json.dumps(value)[:40]} and its unit {unit}")
    return Fact(label, value, unit)  # type: ignore[arg-type]  # a text or a number


def _framework(text: Any, place: str) -> Framework:  # noqa: ANN401 - a value of JSON
    """Return what launches kernels; unknown for a framework of a newer nsyswrap."""
    return Framework(text) if TEXT.read(text, place) in set(Framework) else Framework.UNKNOWN


NULL_OR_WHOLE = null_or(WHOLE)
FRAMEWORK = Codec(TEXT.schema, _framework, attrgetter("value"))
WINDOW = record_of(Window, "label source start_ns end_ns", "window")
CAPABILITY = Codec(TEXT.schema, _capability, lambda known: f"{known[0]}.{known[1]}")
FINDING = record_of(
    Finding,
    "rule severity headline lost_ns saving saving_method line module advice evidence device_id rank section window",
    "finding",
    line=_written(null_or(TEXT), attrgetter("line")),
    module=_written(null_or(TEXT), attrgetter("module")),
    rank=_written(NULL_OR_WHOLE),
    section=_written(null_or(TEXT)),
    window=WINDOW,
)
VALUE = Field(Codec({"type": ["number", "string", "null"]}, read_scalar), lambda fact: plain(fact.value))
CELL = Codec({"type": ["string", "number", "boolean", "null"]}, lambda value, _: value)
ROWS = Codec({"type": "array", "items": mapping_of(CELL).schema}, CELL.read, records)


def _section(key: str, tables: Mapping[str, object], **fields: Any) -> Section:  # noqa: ANN401 - each of its own type
    found = {name: read_table(key, name, rows, f"sections.{key}.tables.{name}") for name, rows in tables.items()}
    return Section(key, tables=found, **fields)


SECTION = record_of(
    Section,
    "title window facts tables findings notes",
    "section",
    make=_section,
    title=TEXT,
    window=WINDOW,
    facts=keyed(record_of(Fact, "value unit", make=_fact, value=VALUE), "label"),
    tables=mapping_of(ROWS),
    findings=list_of(FINDING),
)
PLANNED = record_of(
    PlannedChange, "rule step saving source", saving=_written(NS_INTERVAL, lambda change: change.saving(0))
)


def _plan(plan: Plan) -> list[Tree]:
    return [
        {**PLANNED.write(each), "saving": NS_INTERVAL.write(each.saving(plan.step_ns or 0))} for each in plan.changes
    ]


def _report(plan: Any, plan_base: Any, plan_notes: Any, **fields: Any) -> Report:  # noqa: ANN401 - as read
    return Report(plan=Plan(plan_base, plan, plan_notes), **fields)


REPORT = record_of(
    Report,
    "schema capture session gpus window step verdict verdict_rule plan plan_base plan_notes sections findings notes "
    "program_kind",
    make=_report,
    schema=_written(replace(TEXT, schema={"const": SCHEMA}), lambda _: SCHEMA),
    capture=record_of(Capture, "name bytes"),
    session=record_of(
        Session,
        "nsys_version schema_version started_utc duration_ns hostname command traces graph_trace driver_version "
        "cuda_version",
        hostname=_written(TEXT, lambda _: ""),
    ),
    gpus=list_of(
        record_of(
            Gpu,
            "device_id name compute_capability sm_count memory_bytes rank",
            compute_capability=null_or(CAPABILITY),
        )
    ),
    window=WINDOW,
    # Older reports of this version have no time of all steps alone.
    step=record_of(StepTimes, alone_total_ns=Field(NULL_OR_WHOLE, attrgetter("alone_total_ns"), is_required=False)),
    plan=replace(list_of(PLANNED), write=_plan),
    plan_base=Field(record_of(Plan, "step_ns", make=lambda step_ns: step_ns), attrgetter("plan")),
    plan_notes=Field(codec_of(tuple[str, ...]), attrgetter("plan.notes")),
    sections=keyed(SECTION, "key"),
    findings=list_of(FINDING),
    program_kind=record_of(ProgramKind, framework=FRAMEWORK),
)


def render(report: Report) -> str:
    """Return the report as JSON text that ends in a line break."""
    return write(tree(report))


def tree(report: Report) -> Tree:
    """Return the report as nested dictionaries and lists of plain Python values.

    A table of many rows is cut. A note of its section then says how many rows, and how many ns, are left out.
    """
    ranks = {gpu.device_id: gpu.rank for gpu in report.gpus}
    section_of = sections_of(report)
    return {
        **REPORT.write(replace(report, sections=(), findings=())),
        "sections": {section.key: section_tree(section, ranks) for section in report.sections},
        "findings": _findings(report.findings, section_of, ranks),
    }


def section_tree(section: Section, ranks: Ranks = NO_RANKS) -> Tree:
    """Return a section as nested dictionaries and lists of plain Python values."""
    listed = {name: listed_rows(section.key, name, table) for name, table in section.tables.items()}
    cut = replace(
        section,
        tables={name: table for name, (table, _) in listed.items()},
        findings=(),
        notes=(*section.notes, *(note for _, note in listed.values() if note)),
    )
    section_of = dict.fromkeys(section.findings, section.key)
    return {**SECTION.write(cut), "findings": _findings(section.findings, section_of, ranks)}


def _findings(findings: Sequence[Finding], section_of: Mapping[Finding, str], ranks: Ranks) -> list[Tree]:
    return [
        {
            **FINDING.write(each),
            "rank": None if each.device_id is None else NULL_OR_WHOLE.write(ranks.get(each.device_id)),
            "section": section_of.get(each),
        }
        for each in findings
    ]


def sections_of(report: Report) -> dict[Finding, str]:
    """Return the key of the first section that holds each finding."""
    return {finding: section.key for section in reversed(report.sections) for finding in section.findings}


def schema() -> Tree:
    """Return the JSON Schema (2020-12) of report.json, from the types of a report and the columns of its tables."""
    fields = dict(REPORT.schema["properties"])
    known = {
        key: {"allOf": [SECTION.reference], "properties": {"tables": tables_schema(key)}} for key in known_tables()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of nsyswrap",
        **REPORT.schema,
        "properties": {**fields, "sections": {**fields["sections"], "properties": known}},
        "$defs": {each.name: each.schema for each in (NS_INTERVAL, WINDOW, FINDING, SECTION)},
    }
