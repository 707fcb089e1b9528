"""Adds runs to a history and removes them, each in one transaction."""

import datetime as dt
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from nsyswrap.runs.database import writing
from nsyswrap.runs.run import Run
from nsyswrap.runs.tables import ACCOUNTS, FACTS, FINDINGS, RUNS


class Added(StrEnum):
    """The result of adding a run to the history."""

    NEW = "added"
    SAME = "is in the history already"
    OTHER = "is in the history already, with other numbers or in another series"
    REPLACED = "replaced"


def add_run(engine: Engine, run: Run, *, replace: bool = False) -> Added:
    """Add a run, unless it is there. When this returns, the run is on the disk.

    Args:
        engine: The database.
        run: The run.
        replace: Take the new numbers where the run is there.

    Raises:
        HistoryError: It cannot be written; the history is as it was.
    """
    with writing(engine) as connection:
        number = _insert(connection, run)
        if number is not None:
            _insert_rows(connection, number, run)
            return Added.NEW
        if not replace:
            known = connection.execute(select(RUNS.c.content).where(RUNS.c.run_id == run.row.run_id)).scalar()
            return Added.SAME if known == run.content else Added.OTHER
        connection.execute(delete(RUNS).where(RUNS.c.run_id == run.row.run_id))
        number = _insert(connection, run)
        if number is None:  # another process has replaced it in the same moment
            return Added.OTHER
        _insert_rows(connection, number, run)
        return Added.REPLACED


def _insert(connection: Connection, run: Run) -> int | None:
    """Insert the row of a run and return its number; None where the run is there already."""
    insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    values = {**run.row._asdict(), "added_utc": now.removesuffix("+00:00"), "content": run.content}
    statement = insert(RUNS).values(values).on_conflict_do_nothing(index_elements=["run_id"])
    number: int | None = connection.execute(statement.returning(RUNS.c.number)).scalar()
    return number


def _insert_rows(connection: Connection, number: int, run: Run) -> None:
    """Insert the rows that belong to a run."""
    of_tables: tuple[tuple[Table, Sequence[Any]], ...] = (
        (ACCOUNTS, run.accounts),
        (FINDINGS, run.findings),
        (FACTS, run.facts),
    )
    for table, rows in of_tables:
        names = [column.name for column in table.columns if column.name != "number"]
        values = [{"number": number, **{name: getattr(row, name) for name in names}} for row in rows]
        if values:
            connection.execute(table.insert(), values)


def remove_runs(engine: Engine, run_ids: Collection[str]) -> int:
    """Remove runs with all their rows, all of them or none, and return how many were there.

    Raises:
        HistoryError: It cannot be written.
    """
    with writing(engine) as connection:
        return connection.execute(delete(RUNS).where(RUNS.c.run_id.in_(run_ids))).rowcount
