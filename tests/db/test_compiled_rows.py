"""The compiled functions read the rows that ``decode`` reads, and leave the same to SQLite."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from export_builder import ExportBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_tables import PAGE_BYTES, changed_export, leaves_of

from nsyswrap.compiled.library import LIBRARY, UNUSUAL, Target
from nsyswrap.db import compiled_rows, read_table, schema
from nsyswrap.db.compiled_rows import CompiledRows
from nsyswrap.db.connection import opened
from nsyswrap.db.page_columns import PageColumns
from nsyswrap.db.read_table import TableReader
from nsyswrap.db.stored_rows import decode
from nsyswrap.db.table_pages import Leaves, UnknownFormatError, read_pages

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, 128, -129, 2**31, 2**47 - 1, -(2**47), 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
)
MISSING, BEHIND = -77, 123_456
CALLS = next(source for source in schema.SOURCES if source.table == "OSRT_API")
KERNELS = next(source for source in schema.SOURCES if source.table == "CUPTI_ACTIVITY_KIND_KERNEL")


def written(path: Path, rows: list[tuple[object, ...]], first_row: int = 1) -> Leaves:
    """Write a table into a file with small pages, and return its leaf pages."""
    leaves = leaves_of(path, rows, first_row)
    assert leaves is not None
    return leaves


def decoded(functions: ctypes.CDLL, pages: np.ndarray, column_count: int) -> list[list[int]] | None:
    """Return all columns of some pages as the compiled function reads them; None where it leaves them to SQLite.

    Nothing may be written behind the rows that there is room for.
    """
    room = pages.size // (5 + column_count)
    out = np.full((column_count, room + 1), BEHIND, np.int64)
    targets = (Target * column_count)(
        *(
            Target(out[column].ctypes.data, MISSING, 8, 1, 0, 1, (ctypes.c_int32 * 4)(column))
            for column in range(column_count)
        )
    )
    places = np.arange(len(pages)) * pages.shape[1]
    stored = np.ascontiguousarray(pages)
    rows = functions.decode_rows(
        stored.ctypes.data, stored.size, places.ctypes.data, len(places), pages.shape[1], column_count,
        ctypes.addressof(targets), column_count, room,
    )  # fmt: skip
    assert (out[:, -1] == BEHIND).all()
    assert UNUSUAL <= rows <= room
    return None if rows == UNUSUAL else out[:, :rows].tolist()


def by_numpy(pages: np.ndarray, column_count: int) -> list[list[int]] | None:
    """Return the same as ``decode`` reads it."""
    try:
        rows, values, nulls = decode(pages, column_count, range(column_count))
    except (UnknownFormatError, IndexError):
        return None
    none = np.zeros(rows, bool)
    return [np.where(nulls.get(each, none), MISSING, values[each]).tolist() for each in range(column_count)]


@settings(max_examples=20)
@given(
    some=st.integers(3, 30).flatmap(lambda n: st.lists(st.tuples(*[NUMBERS] * n), min_size=1, max_size=8)),
    first_row=st.sampled_from([1, 100, 16_300, 2_097_100, 2**40, 2**55]),
)
def test_rows_are_what_numpy_reads(functions: ctypes.CDLL, some: list[tuple[int | None, ...]], first_row: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.sqlite"
        leaves = written(path, list((some * 120)[:120]), first_row)
        with path.open("rb") as file:
            pages = read_pages(file.fileno(), leaves.pages, leaves.page_bytes)
    found = decoded(functions, pages, leaves.column_count)
    assert found is not None
    assert found == by_numpy(pages, leaves.column_count)


@given(flips=st.lists(st.tuples(st.integers(0, PAGE_BYTES - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_page_is_left_to_sqlite_or_read_as_numpy_reads_it(
    functions: ctypes.CDLL, flips: list[tuple[int, int]]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.sqlite"
        leaves = written(path, [(number, -number, 10**12) for number in range(200)])
        with path.open("rb") as file:
            pages = read_pages(file.fileno(), leaves.pages[:2], PAGE_BYTES).copy()
    for place, value in flips:
        pages[1, place] = value
    found = decoded(functions, pages, 3)
    assert found is None or found == by_numpy(pages, 3)


@given(content=st.binary(min_size=64, max_size=64), cells=st.integers(0, 40), column_count=st.integers(1, 126))
def test_random_bytes_are_read_within_their_bounds(
    functions: ctypes.CDLL, content: bytes, cells: int, column_count: int
) -> None:
    page = np.frombuffer(content, np.uint8).copy()
    page[[0, 3, 4]] = 13, 0, cells
    found = decoded(functions, page.reshape(1, -1), column_count)
    assert found is None or found == by_numpy(page.reshape(1, -1), column_count)


@pytest.mark.parametrize("value", [1.5, "text", b"bytes", "x" * 100, "x" * 5000])
def test_other_values_are_left_to_sqlite(functions: ctypes.CDLL, tmp_path: Path, value: object) -> None:
    path = tmp_path / "t.sqlite"
    leaves = written(path, [*((number, number) for number in range(100)), (1, value)])
    with path.open("rb") as file:
        pages = read_pages(file.fileno(), leaves.pages, leaves.page_bytes)
    assert decoded(functions, pages, 2) is None


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("a", [(5, 1), (1 << 31, 1)]),
        ("a * b", [(1 << 40, 1 << 40)]),
        ("a + b", [(1 << 62, 1 << 62)]),
        ("a", [(None, 1)]),
    ],
)
def test_numbers_that_do_not_fit_are_left_to_sqlite(
    functions: ctypes.CDLL, tmp_path: Path, column: str, rows: list[tuple[int | None, int]]
) -> None:
    """A product or sum that may overflow, a number of more than 32 bits, and NULL where the column has none."""
    path = tmp_path / "t.sqlite"
    leaves = written(path, [*((1, 2) for _ in range(200)), *rows])
    pages = PageColumns(path, leaves, {"a": 0, "b": 1}, {"x": column}, {})
    compiled = CompiledRows(functions, pages, {"x": "int32"}, {})
    with pytest.raises(UnknownFormatError):
        list(compiled.batches(range(len(leaves.pages)), {"x": np.empty(300, np.int32)}))


def read(path: Path, source: schema.Source) -> dict[str, list[int]]:
    """Return the columns of a table."""
    with opened(path) as export:
        reader = TableReader.begin(export, source)
        found = reader.end([reader.read(part) for part in reader.parts])
    return {name: values.tolist() for name, values in found.items()}


@pytest.fixture
def export_with(build: Callable[..., ExportBuilder], tmp_path: Path) -> Callable[..., Path]:
    """Write an export of many system calls and kernels, and run statements on it."""
    return lambda *statements: changed_export(build(), tmp_path, statements)


@pytest.mark.parametrize("source", [CALLS, KERNELS])
@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("delete from {} where rowid % 3 = 0",),
        ("delete from {} where rowid < 1000", "delete from {} where rowid between 1500 and 2500"),
        ("update {} set start = -start, end = 140737488355328 + end",),
        ("update {} set end = NULL where rowid % 7 = 0",),
        ("update {} set end = 5000.0 where rowid = 2999",),
    ],
)
def test_a_table_reads_the_same_with_and_without_the_functions(
    functions: ctypes.CDLL,
    export_with: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    source: schema.Source,
    statements: tuple[str, ...],
) -> None:
    path = export_with(*(each.format(source.table) for each in statements))
    wanted = read(path, source)
    monkeypatch.setattr(LIBRARY, "functions", lambda: functions)
    monkeypatch.setattr(read_table, "MANY_PAGES", 1)
    monkeypatch.setattr(read_table, "PART_ROWS", 700)
    monkeypatch.setattr(compiled_rows, "BYTES_AT_ONCE", 1 << 14)
    assert read(path, source) == wanted
