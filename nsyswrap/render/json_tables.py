"""The tables of a report in report.json: the rows that are listed, and back to data frames, checked value by value."""

import json
from typing import Any

import numpy as np
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.json_codec import DamagedError, Tree, read_scalar
from nsyswrap.render import gaps
from nsyswrap.render.rows import weight_column
from nsyswrap.render.section_heads import columns_of, is_required, known_columns, known_tables
from nsyswrap.sections.spec import Kind

MOST_ROWS = 20_000
_NUMERIC = ("_ns", "_share", "_bytes", "_count")
# What a column of each kind holds in Python, and in JSON Schema.
_TYPES: dict[Kind, tuple[tuple[type, ...], str]] = {
    Kind.FLAG: ((bool,), "boolean"),
    Kind.WHOLE: ((int,), "integer"),
    Kind.NUMBER: ((float, int), "number"),
    Kind.TEXT: ((str,), "string"),
}


def listed_rows(key: str, name: str, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the listed rows of a table, and a sentence about the rest; the sentence is empty if no row is left out.

    A table of more than ``MOST_ROWS`` rows is cut to its longest gaps or its largest rows.
    """
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


def tables_schema(section: str) -> Tree:
    """Return the JSON Schema of the tables of a section: what each column holds."""
    tables = {}
    for table in known_tables(section):
        fields = {}
        for name, kind in known_columns(section, table).items():
            of_kind = _TYPES[kind][1]
            fields[name] = {"type": of_kind if is_required(name) and kind is not Kind.NUMBER else [of_kind, "null"]}
        row = {"type": "object", "required": list(columns_of(section, table)), "properties": fields}
        tables[table] = {"type": "array", "items": row}
    return {"type": "object", "properties": tables}


def read_table(section: str, name: str, rows: object, place: str) -> pd.DataFrame:
    """Return a table with the columns of this version, also where it has no rows; other columns are read as they are.

    Number columns are int64, Int64 (with missing values) or float64.

    Raises:
        DamagedError: A column is missing or holds wrong values.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DamagedError(f"{place} is not a list of rows")
    needed, known = columns_of(section, name), known_columns(section, name)
    columns = list(rows[0]) if rows else list(needed)
    if any(row.keys() != rows[0].keys() for row in rows):
        raise DamagedError(f"rows of {place} have different columns")
    if lacking := [column for column in needed if column not in columns]:
        raise DamagedError(f"{place} has no column {lacking[0]}")
    found = {}
    for column in columns:
        values = [row[column] for row in rows]
        kind = known.get(column) or _guessed_kind(column, values)
        found[column] = _column(f"column {column} of {place}", values, kind, column)
    return pd.DataFrame(found)


def _guessed_kind(name: str, values: list[Any]) -> Kind:
    """Return what a column of another version holds, by its unit or its first value."""
    if name.endswith(_NUMERIC):
        return Kind.WHOLE if {type(value) for value in values} == {int} else Kind.NUMBER
    present = {type(value) for value in values} - {type(None)}
    if len(present) > 1 and present <= {int, float}:
        return Kind.NUMBER
    return next((kind for kind, (types, _) in _TYPES.items() if present <= set(types)), Kind.TEXT)


def _column(place: str, values: list[Any], kind: Kind, name: str) -> "pd.Series[Any]":
    present = {type(value) for value in values}
    is_missing = type(None) in present
    allowed = {*_TYPES[kind][0], *([type(None)] if kind is Kind.NUMBER or not is_required(name) else [])}
    if not present <= allowed:
        row, value = next((at, each) for at, each in enumerate(values, 1) if type(each) not in allowed)
        raise DamagedError(f"{place} holds {json.dumps(value)[:40]} in row {row}, and must hold {kind}")
    whole = [value for value in values if type(value) is int]
    for value in (min(whole, default=0), max(whole, default=0)):
        read_scalar(value, place)
    if kind is Kind.WHOLE or present == {int}:
        return pd.Series(values, dtype="Int64" if is_missing else "int64")
    if kind is Kind.NUMBER:
        return pd.Series(values, dtype="float64")
    return pd.Series(values, dtype="bool" if kind is Kind.FLAG and not is_missing else "object")
