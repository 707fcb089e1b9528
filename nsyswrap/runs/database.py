"""The database of a history: where it is, its connections, whole transactions, and rows whose values are checked.

SQLite keeps whatever is written into a column, and anybody can write into its file.
"""

import importlib.util
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    Double,
    Engine,
    Integer,
    Row,
    Select,
    String,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.base.privacy import neutral

# The variable with the URL of the database, or the path of an SQLite file.
VARIABLE = "NSYSWRAP_DB"
FOLDER = ".nsyswrap"
FILE = "history.sqlite"
# A writer waits this long for another one. A run is written in milliseconds, so only a stopped process takes longer.
BUSY_S = 60
_WRITES = "nsyswrap_writes"
# As many digits of a run's id as `history list` shows.
_ID_DIGITS = 10
# Boolean before the others: it is none of them.
_TYPES: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (Boolean, (bool,), "true or false"),
    (Integer, (int,), "whole numbers"),
    (Double, (float, int), "numbers"),
    (String, (str,), "texts"),
)


class HistoryError(NsyswrapError):
    """The history cannot be opened, read or written."""


class WrongValueError(ValueError):
    """A column of the history holds a value of another type."""


def project_folder(start: Path) -> Path:
    """Return the folder of a project: the nearest one with `.nsyswrap` or `.git`, from a folder upwards; else it."""
    start = start.absolute()
    marks = (FOLDER, ".git")
    return next((each for each in (start, *start.parents) if any((each / name).exists() for name in marks)), start)


def database_url(url: str | None = None, start: Path | None = None) -> URL:
    """Return the URL of the history.

    Args:
        url: A URL, or the path of an SQLite file; None for `NSYSWRAP_DB`, else a file in the project.
        start: A folder of the project; None for the working folder.

    Raises:
        HistoryError: It is no URL of SQLite or PostgreSQL, or its driver is missing.
    """
    given = os.environ.get(VARIABLE, "") if url is None else str(url)
    if not given:
        return URL.create("sqlite", database=str(project_folder(start or Path.cwd()) / FOLDER / FILE))
    if "://" not in given:
        return URL.create("sqlite", database=str(Path(given).absolute()))
    try:
        found = make_url(given)
    except (ArgumentError, ValueError) as error:
        raise HistoryError("the address of the history is not a URL", hint=_FORMS) from error
    kind = found.drivername.partition("+")[0]
    if kind == "sqlite" and found.database not in {None, "", ":memory:"}:
        return URL.create("sqlite", database=str(Path(str(found.database)).absolute()))
    if kind not in {"postgres", "postgresql"}:
        raise HistoryError(f"a history cannot be kept in {kind}", hint=_FORMS)
    if importlib.util.find_spec("psycopg") is None:
        raise HistoryError("PostgreSQL needs psycopg", hint="install it: pip install 'nsyswrap[postgres]'")
    return found.set(drivername="postgresql+psycopg")


_FORMS = f"set {VARIABLE} to the path of a file, or to postgresql://USER@HOST/DATABASE"


def shown(url: URL) -> str:
    """Return a URL without its password, or the path of a file."""
    return neutral(str(url.database) if url.drivername == "sqlite" else url.render_as_string(hide_password=True))


def exists(url: URL) -> bool:
    """Return whether there is something to read; true for any server."""
    return url.drivername != "sqlite" or Path(str(url.database)).is_file()


def connect(url: URL) -> Engine:
    """Return an engine; a file and its folder are made where they are missing, for their owner only.

    Raises:
        HistoryError: The folder cannot be made.
    """
    if url.drivername != "sqlite":
        return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10})
    path = Path(str(url.database))
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, mode=0o700)
            if path.parent.name == FOLDER:
                (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        path.touch(mode=0o600)
    except OSError as error:
        raise HistoryError(f"cannot make the history {path}: {error.strerror}", hint=_FORMS) from error
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def check_owner(url: URL) -> None:
    """Check that an SQLite file is a history, or empty, without changing it.

    Raises:
        HistoryError: Another program keeps its tables there.
    """
    path = Path(str(url.database))
    if url.drivername != "sqlite" or not path.is_file() or not path.stat().st_size:
        return
    # What is no database at all is an error of the first query.
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if names and not names >= _OWN:
            listed = ", ".join(sorted(names)[:3])
            hint = f"give another file; {_FORMS}"
            raise HistoryError(
                f"{shown(url)} is no history: another program keeps its tables there ({listed})", hint=hint
            )


# Tables that every version has.
_OWN = {"alembic_version", "runs", "accounts"}


def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - a connection of sqlite3
    """Prepare a connection: readers and a writer do not wait for each other, and what is committed is on the disk.

    Source: https://docs.sqlalchemy.org/en/21/dialects/sqlite.html#enabling-non-legacy-sqlite-transactional-modes
    """
    connection.isolation_level = None  # `_begin` begins transactions, so that a writer has the lock from the start
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees one state of the database.

    Raises:
        HistoryError: It cannot be read.
    """
    # PostgreSQL needs an option to read one state, as SQLite always does.
    isolation = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    with _errors_of(engine, "read"), engine.execution_options(**isolation).begin() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection whose changes are kept together at the end of the block; after an error, none is.

    Raises:
        HistoryError: It cannot be written.
    """
    with _errors_of(engine, "write"), engine.execution_options(**{_WRITES: True}).begin() as connection:
        yield connection


@contextmanager
def _errors_of(engine: Engine, what: str) -> Iterator[None]:
    """Turn an error of the database into a message without a password."""
    try:
        yield
    except (SQLAlchemyError, OverflowError, WrongValueError) as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        line = next((each.strip() for each in str(cause).splitlines() if each.strip()), type(cause).__name__)
        password = engine.url.password
        text = line.replace(str(password), "***") if password else line
        hint = "check the disk, the permissions and the address; nothing was changed by this step"
        if isinstance(error, WrongValueError):
            hint = "take the run from its report again: nsyswrap history add --replace REPORT"
        raise HistoryError(f"cannot {what} the history {shown(engine.url)}: {neutral(text)}", hint=hint) from error


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
