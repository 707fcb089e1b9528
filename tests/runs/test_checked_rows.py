"""A history that was changed by hand: the column with the wrong value is named."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from made_runs import STEPS, made_run
from sqlalchemy import Boolean, Column, Double, Integer

from nsyswrap.runs.database import HistoryError
from nsyswrap.runs.frames import COLUMNS, write_parquet
from nsyswrap.runs.history import History, open_history
from nsyswrap.runs.tables import ACCOUNTS, FACTS, FINDINGS, RUNS

# What tells equal runs apart is only written. SQLAlchemy takes anything for true or false.
EVERY_COLUMN = [
    column
    for table in (RUNS, ACCOUNTS, FINDINGS, FACTS)
    for column in table.columns
    if column.name not in {"number", "content", "is_dirty"}
]


def changed(path: Path, *values: tuple["Column[object]", object]) -> History:
    """Return a history of two runs in whose file a value was written into each of some columns, in one row."""
    history = open_history(str(path))
    for number in (1, 2):
        history.add(made_run(number))
    with closing(sqlite3.connect(path)) as database:
        for column, value in values:
            keys = ", ".join(f'"{each.name}"' for each in column.table.primary_key.columns)
            one = f'({keys}) in (select {keys} from "{column.table.name}" limit 1)'  # noqa: S608
            database.execute(f'update "{column.table.name}" set "{column.name}" = ? where {one}', (value,))  # noqa: S608
        database.commit()
    return history


def read_all(history: History, folder: Path) -> None:
    for row in history.runs():
        history.accounts(row), history.findings(row), history.facts(row)
        assert not row.has_steps or row.step_count
    for each in history.programs():
        history.series(each.program)
        history.last_runs([each.program], 3)
    for name in COLUMNS:
        history.frame(name)
    write_parquet(history.engine, folder)


@pytest.mark.parametrize("column", EVERY_COLUMN, ids=str)
def test_a_value_of_another_type_is_an_error_that_names_its_column(tmp_path: Path, column: "Column[object]") -> None:
    """SQLite keeps bytes in a column of texts, and a text in a column of numbers."""
    history = changed(tmp_path / "x.sqlite", (column, b"\xff" if is_text(column) else "much"))
    with pytest.raises(HistoryError) as caught:
        read_all(history, tmp_path)
    assert re.search(rf"column {column.table.name}\.{column.name}( of run [0-9a-f]+)? holds", caught.value.message)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("table", ["runs", "accounts", "findings", "facts"])
def test_a_wrong_value_is_named_with_its_run(tmp_path: Path, table: str) -> None:
    name = {"runs": "step_count", "accounts": "total_ns", "findings": "lost_ns", "facts": "value"}[table]
    column = next(each for each in EVERY_COLUMN if (each.table.name, each.name) == (table, name))
    history = changed(tmp_path / "x.sqlite", (column, "much"))
    read = {"accounts": history.accounts, "findings": history.findings, "facts": history.facts}
    with pytest.raises(HistoryError, match=rf"column {table}\.{name} of run 0000000[0-9a-f]ee holds 'much'"):
        history.runs() if table == "runs" else [read[table](each) for each in history.runs()]


def test_a_wrong_value_goes_where_its_run_is_taken_again(tmp_path: Path) -> None:
    """As the hint says. The digest of the run does not show that a value was changed."""
    column = next(each for each in EVERY_COLUMN if each.name == "step_count")
    history = changed(tmp_path / "x.sqlite", (column, "much"))
    with pytest.raises(HistoryError) as caught:
        history.runs()
    assert "history add --replace REPORT" in caught.value.hint
    for number in (1, 2):
        history.add(made_run(number), replace=True)
    assert [row.step_count for row in history.runs()] == [STEPS, STEPS]


def is_text(column: "Column[object]") -> bool:
    return not isinstance(column.type, Boolean | Integer | Double)


@pytest.mark.parametrize("value", [0, -1, 1 << 62, "", None])
def test_any_value_of_the_type_of_its_column_can_be_read(tmp_path: Path, value: object) -> None:
    """Numbers and texts that this program does not write are read as they are."""
    chosen = [
        column
        for column in EVERY_COLUMN
        if (column.nullable if value is None else is_text(column) == isinstance(value, str))
        if column.name not in {"position", "run_id"}
    ]
    read_all(changed(tmp_path / "x.sqlite", *((column, value) for column in chosen)), tmp_path)
