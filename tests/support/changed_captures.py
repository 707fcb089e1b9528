"""Copies of real captures with other times, another day and another host: as if the program had run again elsewhere."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
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


class Planted(NamedTuple):
    """What was planted in many captures: paths, by what is wrong with them."""

    captures: tuple[Path, ...]
    slow: tuple[Path, ...]
    broken: tuple[Path, ...]
    slow_host: str


def write_many(sources: Sequence[Path], folder: Path, count: int, broken: int, slow: int) -> Planted:
    """Write many captures of some programs, on ten hosts and seven days; the same ones each time.

    Steps differ by up to 2 %. On one host all times are longer by a tenth; in some captures by two fifths.

    Args:
        sources: Small real captures, whose copies take turns.
        folder: Where to write.
        count: How many captures, with the broken ones.
        broken: How many cannot be read: empty, cut, of another kind, of another program.
        slow: How many are slow.
    """
    draw = random.Random(15)  # noqa: S311 - the same captures each time
    chosen = draw.sample(range(count), broken + slow)
    bad, late = set(chosen[:broken]), set(chosen[broken:])
    paths = tuple(folder / f"run-{number:04d}.sqlite" for number in range(count))
    for number, path in enumerate(paths):
        host = number % 10
        factor = draw.randint(980_000, 1_020_000) + 100_000 * (host == 3) + 400_000 * (number in late)
        # Sources and hosts must not take turns together.
        source = sources[(number // 10) % len(sources)]
        write_changed(source, path, Change(factor, f"2026-11-{15 + number % 7:02d}", f"node-{host}.cluster.example"))
        if number in bad:
            _break(path, number)
    slow_ones, broken_ones = (tuple(paths[number] for number in sorted(some)) for some in (late, bad))
    return Planted(paths, slow_ones, broken_ones, "node-3.cluster.example")


def _break(path: Path, number: int) -> None:
    """Make a capture unreadable, in one of four ways."""
    whole = path.read_bytes()
    path.unlink()
    match number % 4:
        case 0:
            path.write_bytes(b"")
        case 1:
            path.write_bytes(whole[: len(whole) // 2])
        case 2:
            path.write_text("no export\n")
        case _:
            with closing(sqlite3.connect(path)) as foreign:
                foreign.execute("CREATE TABLE customers (name TEXT)")
