"""A read-only connection to an export: checks the file, lists its tables, and returns rows as Arrow batches."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi
import pyarrow as pa

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import queries, schema

MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100
WAL_MODE = b"\x02\x02"
BATCH_ROWS = 1 << 16
# A row has at least eight columns, and each has a type byte.
LEAST_ROW_BYTES = 8

# Returns the texts of some string ids.
Lookup = Callable[[Iterable[int]], Mapping[int, str]]

AGAIN = "export it afresh: nsys export --type sqlite --force-overwrite true --output FILE.sqlite FILE.nsys-rep"


@dataclass(frozen=True, slots=True)
class Export:
    """An open export.

    Attributes:
        connection: The ADBC connection. Threads do not share one.
        small: A connection for small tables: a query takes a tenth of the time of one with ADBC.
        columns: Table name to the names of its columns.
    """

    path: Path
    connection: Any
    small: sqlite3.Connection
    columns: Mapping[str, frozenset[str]]

    def batches(self, query: str, table: str = "") -> Iterator[pa.RecordBatch]:
        """Run a query and stream its rows.

        Args:
            query: The query.
            table: The table that an error names; empty to name only the file.

        Raises:
            ExportError: The file is damaged.
        """
        place = f"table {table} of {self.path.name}" if table else self.path.name
        try:
            with self.connection.cursor(adbc_stmt_kwargs={"adbc.sqlite.query.batch_rows": BATCH_ROWS}) as cursor:
                cursor.execute(query)
                yield from cursor.fetch_record_batch()
        except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
            raise ExportError(f"cannot read {place}: {_first_line(error)}", hint=AGAIN) from error

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over a small table; bytes that are not UTF-8 read as U+FFFD.

        Raises:
            ExportError: The file is damaged.
        """
        try:
            found = self.small.execute(query).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise ExportError(f"cannot read {self.path.name}: {_first_line(error)}", hint=AGAIN) from error
        return [tuple(text_of(value) if isinstance(value, bytes) else value for value in row) for row in found]

    def row_count(self, table: str) -> int:
        """Return how many rows a table has."""
        ((count,),) = self.rows(queries.row_count(table))
        return int(count)

    def row_numbers(self, table: str) -> range:
        """Return the range of a table's row numbers; some may be unused. Empty where rows have no numbers."""
        try:
            ((first, last),) = self.rows(queries.row_numbers(table))
        except ExportError:
            return range(0)
        if not isinstance(first, int) or not isinstance(last, int):
            return range(0)
        numbers = range(first, last + 1)
        # A damaged number must not allocate more rows than the file can hold.
        return numbers if len(numbers) <= self.path.stat().st_size // LEAST_ROW_BYTES else range(0)

    def pairs(self, table: str) -> list[tuple[str, str]]:
        """Return the names and values of a table of properties; nothing where the export lacks the table."""
        if not self.has(table, "name", "value"):
            return []
        found = self.rows(queries.columns_of(table, ("name", "value")))
        return [("" if name is None else str(name), "" if value is None else str(value)) for name, value in found]

    def whole(self, value: Any, table: str, column: str) -> int:  # noqa: ANN401 - SQLite stores anything anywhere
        """Return a stored value as a whole number, NULL as 0.

        Raises:
            ExportError: The value is not a whole number.
        """
        if value is None:
            return 0
        if not isinstance(value, int):
            raise wrong_type(self.path, table, column)
        return value

    def has(self, table: str, *names: str) -> bool:
        """Return whether the export has the table and these columns of it."""
        return set(names) <= self.columns.get(table, frozenset()) and table in self.columns


def wrong_type(path: Path, table: str, column: str) -> ExportError:
    """Return the error for a column that holds a value of the wrong type."""
    return ExportError(f"{path.name}: column {column} of {table} holds a value that is not a whole number", hint=AGAIN)


def text_of(value: bytes) -> str:
    """Return a stored text; bytes that are not UTF-8 read as U+FFFD."""
    return value.decode("utf-8", errors="replace")


@contextmanager
def opened(path: Path) -> Iterator[Export]:
    """Open an export read-only and immutable, so that SQLite writes nothing, not even a lock file.

    Raises:
        ExportError: The file is missing, empty, truncated, locked, damaged or not an export of nsys.
    """
    check(path)
    with connected(path, {}) as bare:
        columns: dict[str, set[str]] = {}
        for table, name in bare.rows(queries.table_columns()):
            columns.setdefault(table, set()).add(name)
        export = replace(bare, columns={table: frozenset(names) for table, names in columns.items()})
        if not any(marker in export.columns for marker in schema.MARKERS):
            raise ExportError(
                f"{path.name} is a SQLite file, but not an export of nsys: it has none of its tables",
                hint="give the .nsys-rep, or the .sqlite that nsys export made from it",
            )
        yield export


def address_of(path: Path) -> str:
    """Return the URI with which SQLite opens a file for reading; the path may hold bytes that are not UTF-8."""
    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"


@contextmanager
def connected(path: Path, columns: Mapping[str, frozenset[str]]) -> Iterator[Export]:
    """Connect to a file that passed ``check``.

    Args:
        path: The file.
        columns: Table name to the names of its columns, where they are known already.
    """
    address = f"{address_of(path)}&immutable=1"
    try:
        connection = adbc_driver_sqlite.dbapi.connect(address)
        small = sqlite3.connect(address, uri=True)
    except (adbc_driver_manager.Error, sqlite3.Error) as error:
        raise ExportError(f"cannot open {path.name}: {_first_line(error)}", hint=AGAIN) from error
    small.text_factory = bytes
    with connection, closing(small):
        yield Export(path, connection, small, columns)


def check(path: Path) -> None:
    """Check a file before SQLite opens it.

    Raises:
        ExportError: The file is missing, not a file, unreadable, empty, foreign, truncated or locked.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ExportError(f"{path} is not a file", hint="give a .nsys-rep or a .sqlite export")
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError as error:
        raise ExportError(f"{path} does not exist", hint="give a .nsys-rep or a .sqlite export") from error
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ExportError(f"cannot read {path}: {reason}", hint="check the file's permissions") from error
    if not header:
        raise ExportError(f"{path.name} is empty", hint=AGAIN)
    if not header.startswith(MAGIC[: len(header)]):
        raise ExportError(
            f"{path.name} is not an export of nsys: it is not a SQLite file",
            hint="give the .nsys-rep, or the .sqlite that nsys export made from it",
        )
    promised = _promised_bytes(header)
    if status.st_size < promised:
        raise ExportError(f"{path.name} is truncated: {status.st_size} bytes of {promised}", hint=AGAIN)
    if Path(f"{path}-journal").exists() or Path(f"{path}-wal").exists():
        raise _writing(path)
    # A file in WAL mode without a log has no writer, and a lock check would create files next to it.
    if header[18:20] != WAL_MODE:
        _check_unlocked(path)


def _promised_bytes(header: bytes) -> int:
    """Return the file size in the header: page size times page count. Source: sqlite.org/fileformat2, 1.3."""
    if len(header) < HEADER_BYTES:
        return HEADER_BYTES
    page = int.from_bytes(header[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")


def _check_unlocked(path: Path) -> None:
    """Check with SQLite, without the immutable flag, that no process is writing the file."""
    try:
        probe = sqlite3.connect(address_of(path), uri=True, timeout=0)
        try:
            probe.execute("select count(*) from sqlite_master").fetchone()
        finally:
            probe.close()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _writing(path) from error
        raise ExportError(f"cannot read {path.name}: {error}", hint=AGAIN) from error
    except UnicodeDecodeError as error:
        # SQLite's message quotes the damaged name of a table, which Python cannot decode.
        raise ExportError(f"cannot read {path.name}: the list of its tables is damaged", hint=AGAIN) from error


def _writing(path: Path) -> ExportError:
    return ExportError(
        f"{path.name} is locked: an export into it is still running, or stopped before its end",
        hint=f"wait until it has finished, or {AGAIN}",
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
