"""The leaf pages of a table are found in order of its rows."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from nsyswrap.trace.table_pages import UnknownFormatError, find_leaves, read_pages

Written = Callable[..., tuple[Path, int]]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write a table of whole numbers, and return the file and the table's first page."""

    def write(rows: int) -> tuple[Path, int]:
        path = tmp_path / "t.sqlite"
        with closing(sqlite3.connect(path)) as db:
            db.execute("pragma page_size = 512")
            db.execute("create table t (a, b)")
            db.executemany("insert into t values (?, 5)", ((number,) for number in range(rows)))
            db.commit()
            ((root,),) = db.execute("select rootpage from sqlite_master")
        return path, root

    return write


def test_a_table_of_one_page_is_left_to_sqlite(written: Written) -> None:
    assert find_leaves(*written(3), 2) is None


@pytest.mark.parametrize("rows", [100, 20_000])
def test_the_last_row_of_each_page_is_known_but_for_the_last_page(written: Written, rows: int) -> None:
    leaves = find_leaves(*written(rows), 2)
    assert leaves is not None
    assert len(set(leaves.pages.tolist())) == len(leaves.pages)
    assert leaves.last_rows[-1] == -1
    assert (np.diff(leaves.last_rows[:-1]) > 0).all()
    assert rows - 100 < leaves.last_rows[-2] < rows or rows == 100


def test_pages_are_read_in_the_order_in_which_they_are_named(written: Written) -> None:
    path, root = written(20_000)
    leaves = find_leaves(path, root, 2)
    assert leaves is not None
    whole = np.fromfile(path, np.uint8).reshape(-1, 512)
    for pages in (leaves.pages, leaves.pages[::-1], leaves.pages[[0, -1]], leaves.pages[:1]):
        with path.open("rb") as file:
            assert np.array_equal(read_pages(file.fileno(), pages, 512), whole[pages - 1])


def test_a_page_behind_the_end_of_the_file_is_an_error(written: Written) -> None:
    path, _ = written(100)
    with path.open("rb") as file, pytest.raises(UnknownFormatError):
        read_pages(file.fileno(), np.array([10_000]), 512)


@pytest.mark.parametrize("root", [0, -5, 1, 10_000])
def test_a_wrong_first_page_is_left_to_sqlite(written: Written, root: int) -> None:
    assert find_leaves(written(1000)[0], root, 2) is None


def test_a_tree_that_leads_in_a_circle_is_left_to_sqlite(written: Written) -> None:
    path, root = written(20_000)
    damaged = bytearray(path.read_bytes())
    # The last child of the first page is the page itself.
    damaged[(root - 1) * 512 + 8 : (root - 1) * 512 + 12] = root.to_bytes(4, "big")
    path.write_bytes(damaged)
    leaves = find_leaves(path, root, 2)
    assert leaves is None or len(leaves.pages) * 512 <= path.stat().st_size


def test_pages_with_reserved_bytes_are_left_to_sqlite(written: Written) -> None:
    path, root = written(1000)
    changed = bytearray(path.read_bytes())
    changed[20] = 8
    path.write_bytes(changed)
    assert find_leaves(path, root, 2) is None
