"""Reading a table in parts by row number gives the same result as reading it at once."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import ExportBuilder

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import read_table, schema
from nsyswrap.trace.connection import opened
from nsyswrap.trace.read_table import UNKNOWN, TablePart, TableReader

CALLS = next(source for source in schema.SOURCES if source.table == "OSRT_API")
ROWS = 50


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read seven rows at a time."""
    monkeypatch.setattr(read_table, "PART_ROWS", 7)


@pytest.fixture
def export_with(tmp_path: Path) -> Callable[..., Path]:
    """Write an export of 50 system calls, and run statements on it."""

    def written(*statements: str) -> Path:
        builder = ExportBuilder()
        for index in range(ROWS):
            builder.os_call("poll", index, 2 * index)
        path = builder.write(tmp_path / "calls.sqlite")
        with closing(sqlite3.connect(path)) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()
        return path

    return written


def read(
    path: Path, order: Callable[[Iterable[TablePart]], Iterable[TablePart]] = list
) -> tuple[int, list[int], list[int]]:
    """Return the number of parts, and starts and ends; the parts are read in the given order."""
    with opened(path) as export:
        reader = TableReader.begin(export, CALLS)
        counts = {part: reader.read(part) for part in order(reader.parts)}
        found = reader.end([counts[part] for part in reader.parts])
    return len(reader.parts), found["start"].tolist(), found["end"].tolist()


@pytest.mark.usefixtures("small_parts")
def test_parts_may_be_read_in_any_order(export_with: Callable[..., Path]) -> None:
    path = export_with()
    for order in (list, lambda parts: reversed(list(parts))):
        assert read(path, order) == (8, list(range(ROWS)), [2 * index for index in range(ROWS)])


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("delete from OSRT_API where start % 3 = 0", [at for at in range(ROWS) if at % 3]),
        ("delete from OSRT_API where start between 3 and 30", [*range(3), *range(31, ROWS)]),
        ("delete from OSRT_API where start < 20", list(range(20, ROWS))),
        ("delete from OSRT_API", []),
    ],
)
def test_gaps_between_row_numbers_lose_no_rows(
    export_with: Callable[..., Path], statement: str, kept: list[int]
) -> None:
    _, start, end = read(export_with(statement))
    assert (start, end) == (kept, [2 * at for at in kept])


@pytest.mark.usefixtures("small_parts")
def test_row_numbers_too_far_apart_are_not_used(export_with: Callable[..., Path]) -> None:
    path = export_with("update OSRT_API set rowid = 1000000000000 where start = 20")
    parts, start, _ = read(path)
    assert parts == 1
    assert sorted(start) == list(range(ROWS))


@pytest.mark.usefixtures("small_parts")
def test_a_column_that_begins_with_nulls_in_some_parts_stays_a_column_of_numbers(
    export_with: Callable[..., Path],
) -> None:
    """The driver guesses a column's type again in each part."""
    _, start, end = read(export_with("update OSRT_API set end = null where start between 14 and 20"))
    assert start == list(range(ROWS))
    assert end == [int(UNKNOWN) if 14 <= at <= 20 else 2 * at for at in start]


@pytest.mark.usefixtures("small_parts")
def test_a_value_that_is_not_a_number_is_named_in_any_part(export_with: Callable[..., Path]) -> None:
    path = export_with("update OSRT_API set end = 'soon' where start = 40")
    with pytest.raises(ExportError, match="column end of OSRT_API holds a value that is not a whole number"):
        read(path)


def test_more_rows_than_row_numbers_is_damage(export_with: Callable[..., Path]) -> None:
    with opened(export_with()) as export:
        reader = TableReader.begin(export, CALLS)
        with pytest.raises(ExportError, match="it has more rows than"):
            reader.read(TablePart(0, ROWS - 1))
