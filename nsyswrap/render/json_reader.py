"""Reads a report.json back to a report and checks it field by field."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

import pandas as pd

from nsyswrap.base.errors import ExportError
from nsyswrap.base.interval import NAMES, Interval
from nsyswrap.base.intervals import Window
from nsyswrap.base.text_file import read_text_file
from nsyswrap.model import (
    AloneSource,
    Capture,
    Fact,
    Finding,
    Gpu,
    Plan,
    PlannedChange,
    PlanSource,
    Report,
    SavingMethod,
    Section,
    Session,
    Severity,
    StepTimes,
    Unit,
)
from nsyswrap.render.json_report import SCHEMA
from nsyswrap.render.json_writer import Tree
from nsyswrap.render.table_columns import columns_of, is_required, known_columns
from nsyswrap.rules.program_kind import UNKNOWN, Framework, ProgramKind
from nsyswrap.sections.spec import Kind

Value = TypeVar("Value")

_FAMILY, _, _VERSION = SCHEMA.rpartition("/")
_INT64_END = 1 << 63
_AGAIN = "write it again from the capture: nsyswrap analyze CAPTURE --format json -o report.json"
_KINDS = {str: "a text", int: "a whole number", dict: "an object", list: "a list"}
_NUMERIC = ("_ns", "_share", "_bytes", "_count")
_TYPES: Mapping[Kind, tuple[type, ...]] = {
    Kind.FLAG: (bool,),
    Kind.WHOLE: (int,),
    Kind.NUMBER: (float, int),
    Kind.TEXT: (str,),
}
_WINDOW_SOURCES = frozenset({"steps", "pattern", "operations", "session", "user"})


class _DamagedError(Exception):
    """A field is missing or holds a wrong value; the message names its place."""


def read_report(path: Path) -> Report:
    """Return the report in a report.json.

    The names of secrets and the limits and rates of GPUs are not in report.json, so they are empty.

    Args:
        path: The file.

    Raises:
        ExportError: The file cannot be read, is not JSON, is cut short or damaged, or was written by another program or
            version.
    """
    try:
        text = read_text_file(path)
    except OSError as error:
        raise ExportError(f"cannot read {path}: {error.strerror}", hint="check the name and the permissions") from error
    except UnicodeDecodeError as error:
        raise ExportError(f"{path} is not text, so it is not a report.json", hint=_AGAIN) from error
    return parse_report(text, str(path))


def parse_report(text: str, name: str) -> Report:
    """Return the report in the text of a report.json.

    Args:
        text: JSON.
        name: Name of the file in error messages.

    Raises:
        ExportError: It is not JSON, is cut short or damaged, or was written by another program or version.
    """
    try:
        tree = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{name} is cut short or not JSON: {error}", hint=_AGAIN) from error
    _check_schema(tree, name)
    try:
        return _report(tree)
    except _DamagedError as error:
        raise ExportError(f"{name} is damaged: {error}", hint=_AGAIN) from error


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_schema(tree: object, name: str) -> None:
    schema = tree.get("schema") if isinstance(tree, Mapping) else None
    if schema == SCHEMA:
        return
    family, _, version = schema.rpartition("/") if isinstance(schema, str) else ("", "", "")
    if family != _FAMILY:
        raise ExportError(f"{name} is not a report of nsyswrap", hint=f'its "schema" must be "{SCHEMA}"; {_AGAIN}')
    older = version.isascii() and version.isdigit() and int(version[:9]) < int(_VERSION)
    action = "analyze the capture again" if older else "update nsyswrap, or analyze the capture again"
    message = f"{name} is a report of version {version[:20]!r}, and this nsyswrap reads version {_VERSION}: {action}"
    raise ExportError(message, hint="nsyswrap analyze CAPTURE --format json -o report.json")


def _report(tree: Tree) -> Report:
    return Report(
        capture=_capture(_field(tree, "capture", dict)),
        session=_session(_field(tree, "session", dict)),
        gpus=tuple(_gpu(one) for one in _dicts(tree, "gpus")),
        window=_window(tree),
        verdict=_field(tree, "verdict", str),
        sections=tuple(_named_section(key, one) for key, one in _field(tree, "sections", dict).items()),
        findings=tuple(_finding(one) for one in _dicts(tree, "findings")),
        notes=_texts(tree, "notes"),
        verdict_rule=_optional(tree, "verdict_rule", str),
        step=_step(tree),
        plan=_plan(tree),
        program_kind=_program_kind(tree),
    )


def _program_kind(tree: Tree) -> ProgramKind:
    """Return the kind of the program; unknown for one of a newer nsyswrap."""
    found = _field(tree, "program_kind", dict)
    framework = _field(found, "framework", str)
    return (
        ProgramKind(Framework(framework), found.get("uses_graphs") is True) if framework in set(Framework) else UNKNOWN
    )


def _plan(tree: Tree) -> Plan:
    base = _field(tree, "plan_base", dict)
    changes = tuple(map(_planned, _dicts(tree, "plan")))
    return Plan(_optional(base, "step_ns", int), changes, _texts(tree, "plan_notes"))


def _planned(tree: Tree) -> PlannedChange:
    """Return a planned change; what it saves follows from its step."""
    source = _one_of(tree, "source", PlanSource)
    step = _interval(tree, "step")
    if step is None or source is None:
        raise _DamagedError("a planned change has no step or no source")
    return PlannedChange(_field(tree, "rule", str), step, source)


def _interval(tree: Tree, label: str) -> Interval[int] | None:
    """Return an estimate of a time with its range; None where it is null."""
    found = _optional(tree, label, dict)
    if found is None:
        return None
    try:
        return Interval(*(_field(found, f"{name}_ns", int) for name in NAMES))
    except ValueError as error:
        raise _DamagedError(f"{label} is {error}") from error


def _one_of(tree: Tree, label: str, allowed: Any) -> Any:  # noqa: ANN401 - a Literal type, and one of its values
    """Return one of the values of a Literal type; None where it is null."""
    found = _optional(tree, label, str)
    if found is not None and found not in get_args(allowed):
        raise _DamagedError(f"{label} is {found[:20]!r}")
    return found


def _step(tree: Tree) -> StepTimes:
    found = _field(tree, "step", dict)
    return StepTimes(
        count=_optional(found, "count", int),
        recorded_ns=_optional(found, "recorded_ns", int),
        alone=_interval(found, "alone"),
        alone_source=_one_of(found, "alone_source", AloneSource),
        total_ns=_optional(found, "total_ns", int),
        alone_total_ns=_optional(found, "alone_total_ns", int),
    )


def _named_section(key: str, tree: object) -> Section:
    try:
        return _section(key, tree)
    except _DamagedError as error:
        raise _DamagedError(f"section {key}: {error}") from error


def _capture(tree: Tree) -> Capture:
    return Capture(_field(tree, "name", str), _field(tree, "bytes", int))


def _session(tree: Tree) -> Session:
    return Session(
        nsys_version=_field(tree, "nsys_version", str),
        schema_version=_field(tree, "schema_version", str),
        started_utc=_field(tree, "started_utc", str),
        duration_ns=_field(tree, "duration_ns", int),
        command=_texts(tree, "command"),
        traces=_texts(tree, "traces"),
        graph_trace=_field(tree, "graph_trace", str),
        driver_version=_field(tree, "driver_version", str),
        cuda_version=_field(tree, "cuda_version", str),
    )


def _gpu(tree: Tree) -> Gpu:
    numbers = [_field(tree, label, int) for label in ("sm_count", "memory_bytes")]
    found = Gpu(_field(tree, "device_id", int), _field(tree, "name", str), _capability(tree), *numbers)
    return replace(found, rank=_optional(tree, "rank", int))


def _capability(tree: Tree) -> tuple[int, int] | None:
    if tree.get("compute_capability") is None:
        return None
    text = _field(tree, "compute_capability", str)
    major, _, minor = text.partition(".")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        raise _DamagedError(f"compute_capability is {text[:20]!r}")
    return int(major), int(minor)


def _window(tree: Tree) -> Window:
    found = _field(tree, "window", dict)
    start, end = (_field(found, label, int) for label in ("start_ns", "end_ns"))
    source = _field(found, "source", str)
    if source not in _WINDOW_SOURCES or end <= start:
        raise _DamagedError("window has an unknown source or does not end after its start")
    return Window(start, end, _field(found, "label", str), source)  # type: ignore[arg-type]


def _section(key: str, tree: object) -> Section:
    if not isinstance(tree, dict):
        raise _DamagedError("is not an object")
    tables = _field(tree, "tables", dict)
    return Section(
        key=key,
        title=_field(tree, "title", str),
        window=_window(tree),
        facts=tuple(_fact(label, one) for label, one in _field(tree, "facts", dict).items()),
        tables={name: _table(key, name, rows) for name, rows in tables.items()},
        findings=tuple(_finding(one) for one in _dicts(tree, "findings")),
        notes=_texts(tree, "notes"),
    )


def _fact(label: str, tree: object) -> Fact:
    if not isinstance(tree, dict) or tree.get("unit") not in get_args(Unit):
        raise _DamagedError(f"fact {label} has no known unit")
    value, kind = _scalar(tree.get("value"), f"fact {label}"), Kind.TEXT if tree["unit"] == "text" else Kind.NUMBER
    if value is not None and type(value) not in _TYPES[kind]:
        raise _DamagedError(f"fact {label} is {json.dumps(value)[:40]}, and must be one of {kind}")
    return Fact(label, value, tree["unit"])


def _table(section: str, name: str, rows: object) -> pd.DataFrame:
    """Return a table with the columns of this version, also where it has no rows; other columns are read as they are.

    Number columns are int64, Int64 (with missing values) or float64.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _DamagedError(f"table {name} is not a list of rows")
    needed, known = columns_of(section, name), known_columns(section, name)
    columns = list(rows[0]) if rows else list(needed)
    if any(row.keys() != rows[0].keys() for row in rows):
        raise _DamagedError(f"rows of table {name} have different columns")
    if lacking := [column for column in needed if column not in columns]:
        raise _DamagedError(f"table {name} has no column {lacking[0]}")
    found = {}
    for column in columns:
        values = [row[column] for row in rows]
        place = f"column {column} of table {name}"
        found[column] = _column(place, values, known.get(column) or _guessed_kind(column, values), column)
    return pd.DataFrame(found)


def _guessed_kind(name: str, values: list[Any]) -> Kind:
    """Return what a column of another version holds, by its unit or its first value."""
    if name.endswith(_NUMERIC):
        return Kind.WHOLE if {type(value) for value in values} == {int} else Kind.NUMBER
    present = {type(value) for value in values} - {type(None)}
    if len(present) > 1 and present <= {int, float}:
        return Kind.NUMBER
    return next((kind for kind, types in _TYPES.items() if present <= set(types)), Kind.TEXT)


def _column(place: str, values: list[Any], kind: Kind, name: str) -> "pd.Series[Any]":
    """Return a column of a table, checked value by value."""
    present = {type(value) for value in values}
    is_missing = type(None) in present
    allowed = {*_TYPES[kind], *([type(None)] if kind is Kind.NUMBER or not is_required(name) else [])}
    if not present <= allowed:
        row, value = next((at, each) for at, each in enumerate(values, 1) if type(each) not in allowed)
        raise _DamagedError(f"{place} holds {json.dumps(value)[:40]} in row {row}, and must hold {kind}")
    whole = [value for value in values if type(value) is int]
    for value in (min(whole, default=0), max(whole, default=0)):
        _scalar(value, place)
    if kind is Kind.WHOLE or present == {int}:
        return pd.Series(values, dtype="Int64" if is_missing else "int64")
    if kind is Kind.NUMBER:
        return pd.Series(values, dtype="float64")
    return pd.Series(values, dtype="bool" if kind is Kind.FLAG and not is_missing else "object")


def _finding(tree: Tree) -> Finding:
    severity = _field(tree, "severity", str)
    if severity not in {one.value for one in Severity}:
        raise _DamagedError(f"severity is {severity[:20]!r}")
    return Finding(
        rule=_field(tree, "rule", str),
        severity=Severity(severity),
        headline=_field(tree, "headline", str),
        lost_ns=_field(tree, "lost_ns", int),
        saving=_interval(tree, "saving"),
        advice=_field(tree, "advice", str),
        evidence=_texts(tree, "evidence"),
        device_id=_optional(tree, "device_id", int),
        window=_window(tree),
        saving_method=_one_of(tree, "saving_method", SavingMethod),
    )


def _field(tree: Tree, label: str, kind: type[Value]) -> Value:
    value = tree.get(label)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise _DamagedError(f"{label} is {'missing' if label not in tree else f'not {_KINDS[kind]}'}")
    if isinstance(value, int):
        _scalar(value, label)
    return value


def _optional(tree: Tree, label: str, kind: type[Value]) -> Value | None:
    """Return a field that may be null; it must be there."""
    return None if label in tree and tree[label] is None else _field(tree, label, kind)


def _scalar(value: object, place: str) -> Any:  # noqa: ANN401 - whatever JSON holds that is not nested
    if isinstance(value, dict | list):
        raise _DamagedError(f"{place} is nested")
    if type(value) is int and not -_INT64_END <= value < _INT64_END:
        raise _DamagedError(f"{place} is not a 64-bit number")
    return value


def _texts(tree: Tree, label: str) -> tuple[str, ...]:
    values = _field(tree, label, list)
    if not all(isinstance(value, str) for value in values):
        raise _DamagedError(f"{label} holds values that are not texts")
    return tuple(values)


def _dicts(tree: Tree, label: str) -> Iterator[Tree]:
    for value in _field(tree, label, list):
        if not isinstance(value, dict):
            raise _DamagedError(f"{label} holds values that are not objects")
        yield value
