# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Write the JSON Schema of report.json from its types and the columns of its tables: `make docs`.

With --check, compare it only. `nsyswrap schema` prints the file.
"""

import json
import sys
from typing import Any, get_args

from nsyswrap.base.interval import NAMES
from nsyswrap.base.intervals import Window
from nsyswrap.model import AloneSource, PlanSource, SavingMethod, Severity, Unit
from nsyswrap.render import SCHEMA_FILE
from nsyswrap.render.json_report import SCHEMA
from nsyswrap.render.table_columns import columns_of, is_required, known_columns, known_tables
from nsyswrap.sections.spec import Kind

Tree = dict[str, Any]
WIDTH = 120

KINDS = {Kind.TEXT: "string", Kind.WHOLE: "integer", Kind.NUMBER: "number", Kind.FLAG: "boolean"}
TEXT, WHOLE, FLAG = ({"type": name} for name in ("string", "integer", "boolean"))
MAY_BE_TEXT, MAY_BE_WHOLE = ({"type": [name, "null"]} for name in ("string", "integer"))
TEXTS = {"type": "array", "items": TEXT}


def of(**fields: Tree) -> Tree:
    """Return the schema of an object that has all of these fields, and may have others."""
    return {"type": "object", "required": list(fields), "properties": fields}


def ref(name: str) -> Tree:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def null_or(one: Tree) -> Tree:
    """Return the schema of a value that may be null."""
    return {"anyOf": [one, {"type": "null"}]}


def list_of(one: Tree) -> Tree:
    """Return the schema of a list."""
    return {"type": "array", "items": one}


def one_of(literal: object, *, may_be_missing: bool = False) -> Tree:
    """Return the schema of a value of a Literal type or an enumeration."""
    return {"enum": [*get_args(literal), *([None] if may_be_missing else [])]}


def row(section: str, table: str) -> Tree:
    """Return the schema of the rows of a table: what each of its columns holds."""
    columns = known_columns(section, table)
    fields = {
        name: {"type": KINDS[kind] if is_required(name) and kind is not Kind.NUMBER else [KINDS[kind], "null"]}
        for name, kind in columns.items()
    }
    return {"type": "object", "required": list(columns_of(section, table)), "properties": fields}


def section(key: str) -> Tree:
    """Return the schema of a section with known tables."""
    tables = {name: list_of(row(key, name)) for name in known_tables(key)}
    return {"allOf": [ref("section")], "properties": {"tables": {"properties": tables}}}


def schema() -> Tree:
    """Return the JSON Schema of report.json."""
    window = of(label=TEXT, source=one_of(Window.__annotations__["source"]), start_ns=WHOLE, end_ns=WHOLE)
    finding = of(
        rule=TEXT,
        severity={"enum": [each.value for each in Severity]},
        headline=TEXT,
        lost_ns=WHOLE,
        saving=null_or(ref("interval")),
        saving_method=one_of(SavingMethod, may_be_missing=True),
        line=MAY_BE_TEXT,
        advice=TEXT,
        evidence=TEXTS,
        device_id=MAY_BE_WHOLE,
        rank=MAY_BE_WHOLE,
        section=MAY_BE_TEXT,
        window=ref("window"),
    )
    session = dict.fromkeys(("nsys_version", "schema_version", "started_utc", "hostname", "graph_trace"), TEXT)
    gpu = of(
        device_id=WHOLE,
        name=TEXT,
        compute_capability=MAY_BE_TEXT,
        sm_count=WHOLE,
        memory_bytes=WHOLE,
        rank=MAY_BE_WHOLE,
    )
    fact = of(value={"type": ["number", "string", "null"]}, unit=one_of(Unit))
    rows = list_of({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}})
    sections = {key: section(key) for key in known_tables()}
    step = of(
        count=MAY_BE_WHOLE,
        recorded_ns=MAY_BE_WHOLE,
        alone=null_or(ref("interval")),
        alone_source=one_of(AloneSource, may_be_missing=True),
        total_ns=MAY_BE_WHOLE,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "report.json of nsyswrap",
        **of(
            schema={"const": SCHEMA},
            capture=of(name=TEXT, bytes=WHOLE),
            session=of(
                **session, duration_ns=WHOLE, command=TEXTS, traces=TEXTS, driver_version=TEXT, cuda_version=TEXT
            ),
            gpus=list_of(gpu),
            window=ref("window"),
            step=step,
            verdict=TEXT,
            verdict_rule=MAY_BE_TEXT,
            plan=list_of(of(rule=TEXT, step=ref("interval"), saving=ref("interval"), source=one_of(PlanSource))),
            plan_base=of(step_ns=MAY_BE_WHOLE),
            plan_notes=TEXTS,
            sections={"type": "object", "properties": sections, "additionalProperties": ref("section")},
            findings=list_of(ref("finding")),
            notes=TEXTS,
            program_kind=of(framework=TEXT, uses_graphs=FLAG),
        ),
        "$defs": {
            "interval": of(**{f"{name}_ns": WHOLE for name in NAMES}),
            "window": window,
            "finding": finding,
            "section": of(
                title=TEXT,
                window=ref("window"),
                facts={"type": "object", "additionalProperties": fact},
                tables={"type": "object", "additionalProperties": rows},
                findings=list_of(ref("finding")),
                notes=TEXTS,
            ),
        },
    }


def laid_out(value: Any, indent: str = "") -> str:  # noqa: ANN401 - any JSON
    """Return a value as JSON: on one line where it fits."""
    flat = json.dumps(value)
    if len(indent + flat) <= WIDTH or not isinstance(value, dict | list):
        return flat
    inner = f"{indent} "
    parts = (
        [f"{json.dumps(key)}: {laid_out(each, inner)}" for key, each in value.items()]
        if isinstance(value, dict)
        else [laid_out(each, inner) for each in value]
    )
    begin, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{begin}\n" + ",\n".join(inner + each for each in parts) + f"\n{indent}{end}"


def main(arguments: list[str]) -> int:
    """Write the file, or with ``--check`` compare it; return the exit code."""
    text = laid_out(schema()) + "\n"
    if "--check" not in arguments:
        SCHEMA_FILE.write_text(text, encoding="utf-8")
        return 0
    if SCHEMA_FILE.is_file() and SCHEMA_FILE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{SCHEMA_FILE.name} is not what the types of a report say: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
