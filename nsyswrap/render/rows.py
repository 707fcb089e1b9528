"""Tables of any section as rows of text, with headings, units, and a note about rows that are left out.

The suffix of a column's name is its unit, so unknown tables are formatted correctly, too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.render.escape import visible
from nsyswrap.render.vocabulary import WEIGHTS, column_label

if TYPE_CHECKING:
    import pandas as pd

_PROSE = frozenset({"text", "why", "reasons"})
_STATISTICS = ("mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns", "alone_ns", "low_ns", "usual_ns", "high_ns")
# NCCL does not record the size of each message. Source: docs/sections/communication.md.
UNKNOWN_SIZE = -1
MISSING = "–"  # noqa: RUF001 (an en dash stands for an empty cell)


class ShownColumn(NamedTuple):
    """One column of a table as text.

    Attributes:
        label: Its heading, without the unit.
        unit: The unit of all cells, such as "ms"; empty where each cell has its own or none.
        kind: Unit of its values; ``text`` is aligned left, all others right.
        raw: Plain values of the rows that are shown.
        cells: The same as text.
    """

    name: str
    label: str
    unit: str
    kind: units.ColumnUnit
    raw: list[Any]
    cells: list[str]


def plain_columns(table: "pd.DataFrame") -> list[tuple[str, units.ColumnUnit, list[Any]]]:
    """Return name, unit and plain values of each column of a table."""
    return [
        (str(name), unit_of(str(name), numeric=column.dtype.kind in "iuf"), plain(column))
        for name, column in table.items()
    ]


def written(columns: Sequence[tuple[str, units.ColumnUnit, list[Any]]], *, aligned: bool) -> tuple[ShownColumn, ...]:
    """Return columns as text.

    Args:
        columns: Name, unit and plain values of each column.
        aligned: Whether a column has one unit in its heading, so that digits align; otherwise each cell has a unit.
    """
    scales = _scales(columns) if aligned else {}
    return tuple(_column(name, kind, values, scales) for name, kind, values in columns)


def part_of(shown: int, count: int, times: tuple[float, float] | None) -> str:
    """Return the part of a table that is shown: ``50 of 1,234 rows, 99.1 % of the time``; empty for all rows."""
    if count <= shown:
        return ""
    note = f"{units.count(shown)} of {units.count(count)} rows"
    return note if times is None else f"{note}, {units.share_of(*times)} of the time"


def weight_column(table: "pd.DataFrame") -> str | None:
    """Return the column that measures the time of a row; None where the table has none."""
    return next((name for name in WEIGHTS if name in table.columns and table[name].dtype.kind in "iuf"), None)


def plain(column: "pd.Series[Any]") -> list[Any]:
    """Return a column as plain Python values; NaN, NA and infinities become None."""
    values: list[Any] = column.tolist()
    kind = column.dtype.kind
    if kind in "iub" and (isinstance(column.dtype, np.dtype) or not column.hasnans):
        return values
    if kind == "f":
        return [value if -float("inf") < value < float("inf") else None for value in values]
    if set(map(type, values)) <= {str, int, bool}:
        return values
    return [None if units.is_missing(value) else value for value in values]


def _scales(columns: Sequence[tuple[str, units.ColumnUnit, list[Any]]]) -> dict[str, units.Scale]:
    """Return the scale of each column of times and sizes.

    Columns of times have one unit, so that they can be compared. The statistics of single calls also have one unit,
    that of their mean; where that is too large for one of them, each cell has its own.
    """
    of_name = {name: values for name, _, values in columns}
    times = [name for name, kind, _ in columns if kind == "ns" and name not in _STATISTICS]
    single = [name for name in of_name if name in _STATISTICS]
    scales = {name: units.scale_for(values, "bytes") for name, kind, values in columns if kind == "bytes"}
    for names, measure in ((times, times), (single, single[:1])):
        scale = units.scale_for([value for name in measure for value in of_name[name]], "ns")
        if names is times or not any(scale.hides(value) for name in names for value in of_name[name]):
            scales |= dict.fromkeys(names, scale)
    return scales


def unit_of(name: str, *, numeric: bool) -> units.ColumnUnit:
    """Return the unit of a column from its name."""
    from nsyswrap.render.section_heads import UNITS  # noqa: PLC0415 - loads all sections

    return UNITS[name] if numeric and name in UNITS else units.column_unit(name, numeric=numeric)


def is_prose(name: str) -> bool:
    """Return whether a column holds sentences, which may take several lines, and no names."""
    return name in _PROSE or name.endswith("_text")


def _column(name: str, kind: units.ColumnUnit, values: list[Any], scales: dict[str, units.Scale]) -> ShownColumn:
    label = column_label(name)
    if name == "bytes":
        values = [None if value == UNKNOWN_SIZE else value for value in values]
    if kind == "number" and (name.endswith("_id") or name == "process"):
        return ShownColumn(name, label, "", kind, values, [_cell(value, "text") for value in values])
    if name in scales:
        scale = scales[name]
        cells = [MISSING if value is None else scale.text(value) for value in values]
        return ShownColumn(name, label, scale.unit if any(values) else "", kind, values, cells)
    return ShownColumn(name, label, "", kind, values, [_cell(value, kind) for value in values])


def _cell(value: object, kind: str) -> str:
    return MISSING if value is None else visible(units.text(value, kind))
