"""The JSON Schema (2020-12) of report.json, from the types of a report and the columns of its tables."""

import json
from typing import get_args

from nsyswrap.base.interval import NAMES
from nsyswrap.base.intervals import Window
from nsyswrap.model import AloneSource, PlanSource, SavingMethod, Severity, Unit
from nsyswrap.render.json_report import SCHEMA
from nsyswrap.render.json_writer import Tree
from nsyswrap.render.table_columns import columns_of, is_required, known_columns, known_tables
from nsyswrap.sections.spec import Kind

_KINDS = {Kind.TEXT: "string", Kind.WHOLE: "integer", Kind.NUMBER: "number", Kind.FLAG: "boolean"}
_TEXT, _WHOLE, _FLAG = ({"type": name} for name in ("string", "integer", "boolean"))
_MAY_BE_TEXT, _MAY_BE_WHOLE = ({"type": [name, "null"]} for name in ("string", "integer"))
_TEXTS = {"type": "array", "items": _TEXT}


def _of(**fields: Tree) -> Tree:
    """Return the schema of an object that has all of these fields, and may have others."""
    return {"type": "object", "required": list(fields), "properties": fields}


def _ref(name: str) -> Tree:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def _null_or(one: Tree) -> Tree:
    """Return the schema of a value that may be null."""
    return {"anyOf": [one, {"type": "null"}]}


def _list_of(one: Tree) -> Tree:
    """Return the schema of a list."""
    return {"type": "array", "items": one}


def _one_of(literal: object, *, may_be_missing: bool = False) -> Tree:
    """Return the schema of a value of a Literal type or an enumeration."""
    return {"enum": [*get_args(literal), *([None] if may_be_missing else [])]}


def _row(section: str, table: str) -> Tree:
    """Return the schema of the rows of a table: what each of its columns holds."""
    columns = known_columns(section, table)
    fields = {
        name: {"type": _KINDS[kind] if is_required(name) and kind is not Kind.NUMBER else [_KINDS[kind], "null"]}
        for name, kind in columns.items()
    }
    return {"type": "object", "required": list(columns_of(section, table)), "properties": fields}


def _section(key: str) -> Tree:
    """Return the schema of a section with known tables."""
    tables = {name: _list_of(_row(key, name)) for name in known_tables(key)}
    return {"allOf": [_ref("section")], "properties": {"tables": {"properties": tables}}}


def render() -> str:
    """Return the schema as JSON text."""
    return json.dumps(schema(), indent=1) + "\n"


def schema() -> Tree:
    """Return the schema of report.json."""
    window = _of(label=_TEXT, source=_one_of(Window.__annotations__["source"]), start_ns=_WHOLE, end_ns=_WHOLE)
    finding = _of(
        rule=_TEXT,
        severity={"enum": [each.value for each in Severity]},
        headline=_TEXT,
        lost_ns=_WHOLE,
        saving=_null_or(_ref("interval")),
        saving_method=_one_of(SavingMethod, may_be_missing=True),
        line=_MAY_BE_TEXT,
        advice=_TEXT,
        evidence=_TEXTS,
        device_id=_MAY_BE_WHOLE,
        rank=_MAY_BE_WHOLE,
        section=_MAY_BE_TEXT,
        window=_ref("window"),
    )
    session = dict.fromkeys(("nsys_version", "schema_version", "started_utc", "hostname", "graph_trace"), _TEXT)
    gpu = _of(
        device_id=_WHOLE,
        name=_TEXT,
        compute_capability=_MAY_BE_TEXT,
        sm_count=_WHOLE,
        memory_bytes=_WHOLE,
        rank=_MAY_BE_WHOLE,
    )
    fact = _of(value={"type": ["number", "string", "null"]}, unit=_one_of(Unit))
    rows = _list_of({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}})
    sections = {key: _section(key) for key in known_tables()}
    step = _of(
        count=_MAY_BE_WHOLE,
        recorded_ns=_MAY_BE_WHOLE,
        alone=_null_or(_ref("interval")),
        alone_source=_one_of(AloneSource, may_be_missing=True),
        total_ns=_MAY_BE_WHOLE,
        alone_total_ns=_MAY_BE_WHOLE,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of nsyswrap",
        **_of(
            schema={"const": SCHEMA},
            capture=_of(name=_TEXT, bytes=_WHOLE),
            session=_of(
                **session, duration_ns=_WHOLE, command=_TEXTS, traces=_TEXTS, driver_version=_TEXT, cuda_version=_TEXT
            ),
            gpus=_list_of(gpu),
            window=_ref("window"),
            step=step,
            verdict=_TEXT,
            verdict_rule=_MAY_BE_TEXT,
            plan=_list_of(_of(rule=_TEXT, step=_ref("interval"), saving=_ref("interval"), source=_one_of(PlanSource))),
            plan_base=_of(step_ns=_MAY_BE_WHOLE),
            plan_notes=_TEXTS,
            sections={"type": "object", "properties": sections, "additionalProperties": _ref("section")},
            findings=_list_of(_ref("finding")),
            notes=_TEXTS,
            program_kind=_of(framework=_TEXT, uses_graphs=_FLAG),
        ),
        "$defs": {
            "interval": _of(**{f"{name}_ns": _WHOLE for name in NAMES}),
            "window": window,
            "finding": finding,
            "section": _of(
                title=_TEXT,
                window=_ref("window"),
                facts={"type": "object", "additionalProperties": fact},
                tables={"type": "object", "additionalProperties": rows},
                findings=_list_of(_ref("finding")),
                notes=_TEXTS,
            ),
        },
    }
