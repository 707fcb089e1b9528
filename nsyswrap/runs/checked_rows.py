"""The rows of a query to the history, each value of the type of its column.

SQLite keeps whatever is written into a column, and anybody can write into its file.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, Connection, Double, Integer, Row, Select, String
from sqlalchemy.schema import Column

from nsyswrap.runs.database import WrongValueError

# As many digits of a run's id as `history list` shows.
_ID_DIGITS = 10
# Boolean before the others: it is none of them.
_TYPES: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (Boolean, (bool,), "true or false"),
    (Integer, (int,), "whole numbers"),
    (Double, (float, int), "numbers"),
    (String, (str,), "texts"),
)


def rows_of(connection: Connection, query: Select[Any], run_id: str = "") -> Sequence[Any]:
    """Return the rows that a query finds.

    Args:
        connection: The database.
        query: The query.
        run_id: The run that all rows are about; empty where the rows name their runs.

    Raises:
        WrongValueError: A value is not of its column's type; the message names the column and the run.
    """
    rows = connection.execute(query).all()
    check_rows(query, rows, run_id)
    return rows


def check_rows(query: Select[Any], rows: Sequence[Row[Any]], run_id: str = "") -> None:
    """Check that the values of some rows of a query are of the types of their columns.

    Raises:
        WrongValueError: One is not.
    """
    for column, values in zip(query.selected_columns, zip(*rows, strict=True), strict=False):
        types, words = next((each[1:] for each in _TYPES if isinstance(column.type, each[0])), ((), ""))
        may_be_missing = not isinstance(column, Column) or bool(column.nullable)
        allowed = {*types, *([type(None)] if may_be_missing else [])}
        if types and not set(map(type, values)) <= allowed:
            row, wrong = next(pair for pair in zip(rows, values, strict=True) if type(pair[1]) not in allowed)
            table = getattr(getattr(column, "table", None), "name", "")
            name = f"{table}.{column.key}" if table else column.key
            found = row._mapping  # noqa: SLF001 - the public name of a row's columns
            run = run_id or found.get("run_id")
            of_run = f" of run {run[:_ID_DIGITS]}" if isinstance(run, str) else ""
            raise WrongValueError(f"column {name}{of_run} holds {str(wrong)[:40]!r}, and must hold {words}")
