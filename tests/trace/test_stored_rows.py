"""Rows of whole numbers decode to what SQLite returns; anything else is left to SQLite."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_tables import PAGE_BYTES, leaves_of

from nsyswrap.trace.table_pages import Leaves, UnknownFormatError, decode, find_leaves, read_pages

# Numbers of each stored length, their borders, and those that SQLite stores as constants or not at all.
NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, 128, -128, -129, 2**47 - 1, 2**47, -(2**47), 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
)


def decoded(path: Path, leaves: Leaves) -> list[tuple[int | None, ...]]:
    """Return all rows of a table as ``decode`` reads them."""
    with path.open("rb") as file:
        pages = read_pages(file.fileno(), leaves.pages, leaves.page_bytes)
    rows, values, nulls = decode(pages, leaves.column_count, range(leaves.column_count))
    columns = [
        [None if nulls.get(column, np.zeros(rows, bool))[row] else int(values[column][row]) for row in range(rows)]
        for column in range(leaves.column_count)
    ]
    return list(zip(*columns, strict=True))


@given(
    some=st.integers(3, 30).flatmap(lambda n: st.lists(st.tuples(*[NUMBERS] * n), min_size=1, max_size=8)),
    first_row=st.sampled_from([1, 100, 16_300, 2_097_100, 2**40, 2**55]),
)
def test_rows_are_what_sqlite_returns(some: list[tuple[int | None, ...]], first_row: int) -> None:
    rows = (some * 120)[:120]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.sqlite"
        leaves = leaves_of(path, list(rows), first_row)
        assert leaves is not None
        assert decoded(path, leaves) == rows


@given(flips=st.lists(st.tuples(st.integers(0, PAGE_BYTES - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_page_is_left_to_sqlite_or_read_within_its_bounds(flips: list[tuple[int, int]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.sqlite"
        leaves = leaves_of(path, [(number, -number, 10**12) for number in range(200)])
        assert leaves is not None
        with path.open("rb") as file:
            pages = read_pages(file.fileno(), leaves.pages[:2], PAGE_BYTES).copy()
    for place, value in flips:
        pages[1, place] = value
    try:
        rows, values, _ = decode(pages, 3, range(3))
    except (UnknownFormatError, IndexError):
        return
    assert {len(column) for column in values.values()} == {rows}


@pytest.mark.parametrize("value", [1.5, "text", b"bytes", "x" * 100, "x" * 5000])
def test_other_values_are_left_to_sqlite(tmp_path: Path, value: object) -> None:
    path = tmp_path / "t.sqlite"
    leaves = leaves_of(path, [*((number, number) for number in range(100)), (1, value)])
    assert leaves is not None
    with pytest.raises(UnknownFormatError):
        decoded(path, leaves)


def test_rows_without_the_last_columns_are_left_to_sqlite(tmp_path: Path) -> None:
    """SQLite adds a column without writing the rows again."""
    path = tmp_path / "t.sqlite"
    leaves_of(path, [(number,) for number in range(200)])
    with closing(sqlite3.connect(path)) as db:
        db.execute("alter table t add column c1 integer default 7")
        db.commit()
    leaves = find_leaves(path, 2, 2)
    assert leaves is not None
    with pytest.raises(UnknownFormatError):
        decoded(path, leaves)
