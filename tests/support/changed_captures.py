"""Copies of real captures with other times, another day and another host: as if the program had run again elsewhere."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

# Columns of nsys that hold times, all of them since capture start.
TIMES = ("start", "end", "timestamp", "rawTimestamp", "startTime", "stopTime", "duration")
SESSION, SYSTEM = "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV"


class Change(NamedTuple):
    """What differs in a copy: all times are longer by a factor, in millionths; the day; the host."""

    factor: int = 1_000_000
    day: str = "2026-11-21"
    host: str = ""


def write_changed(source: Path, target: Path, change: Change) -> None:
    """Write a copy of an export with other times, another day and another host."""
    target.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(target, isolation_level=None)) as export:
        export.execute("PRAGMA journal_mode = OFF")
        export.execute("BEGIN")
        for table, columns in _times_of(export):
            assigned = ", ".join(f'"{name}" = "{name}" * {change.factor} / 1000000' for name in columns)
            export.execute(f'UPDATE "{table}" SET {assigned}')  # noqa: S608 - names from the file itself
        export.execute(f"UPDATE {SESSION} SET utcTime = ? || substr(utcTime, 11)", (change.day,))  # noqa: S608
        if change.host:
            # Another fact of the machine becomes its host; its columns differ between versions of nsys.
            export.execute(f"UPDATE {SYSTEM} SET name = 'Hostname', value = ? WHERE name = 'CpuCores'", (change.host,))  # noqa: S608
        export.execute("COMMIT")


def _times_of(export: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """Yield the tables with times, and the columns that hold them."""
    for (table,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        names = [row[1] for row in export.execute(f'PRAGMA table_info("{table}")')]
        if times := [name for name in names if name in TIMES]:
            yield table, times
