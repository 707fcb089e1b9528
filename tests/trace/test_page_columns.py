"""A table reads the same from its pages as with SQLite, and what is unusual is read with SQLite."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from export_builder import ExportBuilder
from stored_tables import changed_export

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import read_table, schema, table_pages, tables
from nsyswrap.trace.connection import opened
from nsyswrap.trace.read_table import TableReader
from nsyswrap.trace.table_pages import UnknownFormatError, fitting

CALLS = next(source for source in schema.SOURCES if source.table == "OSRT_API")
KERNELS = next(source for source in schema.SOURCES if source.table == "CUPTI_ACTIVITY_KIND_KERNEL")


@pytest.fixture
def export_with(tmp_path: Path) -> Callable[..., Path]:
    """Write an export of many system calls and kernels, and run statements on it."""
    return lambda *statements: changed_export(ExportBuilder(), tmp_path, statements)


def read(path: Path, source: schema.Source = CALLS) -> tuple[bool, dict[str, list[int]]]:
    """Return whether all was read from pages, and the columns of a table."""
    with opened(path) as export:
        reader = TableReader.begin(export, source)
        from_pages = reader.pages is not None
        for part in reader.parts:
            try:
                assert reader.pages is not None
                list(reader.pages.batches(part.pages))
            except (AssertionError, UnknownFormatError):
                from_pages = False
        found = reader.end([reader.read(part) for part in reader.parts])
    return from_pages, {name: values.tolist() for name, values in found.items()}


def with_sqlite(path: Path, source: schema.Source, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Return the columns of a table as SQLite reads them."""
    with monkeypatch.context() as patch:
        patch.setattr(read_table, "find_leaves", lambda *_: None)
        return read(path, source)[1]


@pytest.mark.parametrize("source", [CALLS, KERNELS])
@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("delete from {} where rowid % 3 = 0",),
        ("delete from {} where rowid < 1000", "delete from {} where rowid between 1500 and 2500"),
        ("update {} set start = -start, end = 140737488355328 + end",),
        ("update {} set end = NULL where rowid % 7 = 0",),
    ],
)
def test_columns_are_as_sqlite_reads_them(
    export_with: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    source: schema.Source,
    statements: tuple[str, ...],
) -> None:
    monkeypatch.setattr(read_table, "PART_ROWS", 700)
    monkeypatch.setattr(table_pages, "BYTES_AT_ONCE", 1 << 14)
    path = export_with(*(each.format(source.table) for each in statements))
    from_pages, columns = read(path, source)
    assert from_pages
    assert columns == with_sqlite(path, source, monkeypatch)


@pytest.mark.parametrize(
    "statement",
    [
        "update OSRT_API set start = 1.0 * start",
        "alter table OSRT_API add column more integer default 3",
        "update OSRT_API set end = 5000.0 where rowid = 2999",
    ],
)
def test_unusual_rows_are_read_with_sqlite(
    export_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    path = export_with(statement)
    from_pages, columns = read(path)
    # SQLite keeps a whole number as such in a column of whole numbers.
    assert from_pages is (not statement.startswith("alter"))
    assert columns == with_sqlite(path, CALLS, monkeypatch)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("update OSRT_API set nameId = 'poll' where rowid = 2000", "column nameId of OSRT_API holds a value"),
        ("update OSRT_API set start = 0.5 where rowid = 2000", "column start of OSRT_API holds a value"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_column(
    export_with: Callable[..., Path], statement: str, message: str
) -> None:
    with pytest.raises(ExportError, match=message):
        read(export_with(statement))


def test_a_product_that_overflows_is_left_to_sqlite() -> None:
    large = np.array([1 << 40, 3])
    with pytest.raises(UnknownFormatError):
        table_pages._combined([large, large], is_product=True)  # noqa: SLF001 - no export overflows
    assert table_pages._combined([large, large], is_product=False).tolist() == [1 << 41, 6]  # noqa: SLF001


def test_numbers_that_do_not_fit_are_left_to_sqlite() -> None:
    for values, dtype in (([-(1 << 31), (1 << 31) - 1], "int32"), ([1 << 40], "int64")):
        assert fitting(np.array(values), dtype, None).tolist() == values
    for value, none in ((1 << 31, -1), (tables.NO_ID, None), (1 << 40, -1)):
        with pytest.raises(UnknownFormatError):
            fitting(np.array([7, value]), "int32", none)


def test_what_cupti_writes_for_no_stream_is_a_missing_value() -> None:
    assert fitting(np.array([7, tables.NO_ID]), "int32", -1).tolist() == [7, -1]
