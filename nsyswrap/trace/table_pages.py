"""Where the rows of a large table are in the file: the leaf pages of its B-tree, and the bytes of these.

SQLite returns one value at a time, which takes most of the time of reading millions of rows. Rows of whole numbers have
a simple format, so ``stored_rows`` decodes many of them at once from the pages that are found here. What these two
modules do not know is read with SQLite. Source: sqlite.org/fileformat2, 1.5 and 1.6.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HEADER_BYTES = 100
INTERIOR, LEAF = 5, 13
INTERIOR_HEADER_BYTES, LEAF_HEADER_BYTES = 12, 8
# A cell of an interior page is a page number and a row number. Larger row numbers have nine bytes.
LONGEST_NUMBER = 8
CELL_BYTES = 4 + LONGEST_NUMBER
# A file of 16 TB in the smallest usual pages needs fewer levels.
MOST_LEVELS = 8
# Reading up to so many times the bytes that are needed, in one call, is faster than one call for each page.
SPARSE = 2


class UnknownFormatError(Exception):
    """The file holds something that only SQLite is trusted to read."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaf pages of one table in order of row numbers.

    Attributes:
        pages: Number of each page in the file, from 1.
        last_rows: Largest row number that each page may hold; the last one has none in the file, and holds -1.
        page_bytes: Size of a page.
        column_count: Number of columns that each row stores.
    """

    pages: Array
    last_rows: Array
    page_bytes: int
    column_count: int


def find_leaves(path: Path, root: int, column_count: int) -> Leaves | None:
    """Return the leaf pages of a table; None where it has only one, or the file is not as expected.

    Args:
        path: The file.
        root: Number of the first page of the table.
        column_count: Number of its columns.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        page_bytes = _page_bytes(os.pread(descriptor, HEADER_BYTES, 0))
        pages, keys = np.array([root]), np.array([-1])
        for level in range(MOST_LEVELS):
            kinds = {_page(descriptor, int(page), page_bytes)[_start(int(page))] for page in pages[:1]}
            if kinds == {LEAF}:
                return Leaves(pages, keys, page_bytes, column_count) if level else None
            below = [
                _children(_page(descriptor, int(page), page_bytes), _start(int(page)), key)
                for page, key in zip(pages, keys.tolist(), strict=True)
            ]
            pages, keys = (np.concatenate(each) for each in zip(*below, strict=True))
            if len(pages) * page_bytes > os.fstat(descriptor).st_size:
                return None
    except (UnknownFormatError, OSError):
        return None
    finally:
        os.close(descriptor)
    return None


def read_pages(descriptor: int, pages: Array, page_bytes: int) -> Array:
    """Return the bytes of some pages, shape (pages, page_bytes), uint8.

    Raises:
        UnknownFormatError: The file ends before.
    """
    first, last = int(pages.min()), int(pages.max())
    if last - first < SPARSE * len(pages):
        whole = _bytes(descriptor, first, last - first + 1, page_bytes)
        return whole if last - first == len(pages) - 1 and (np.diff(pages) == 1).all() else whole[pages - first]
    return np.concatenate([_bytes(descriptor, int(page), 1, page_bytes) for page in pages])


def _bytes(descriptor: int, first: int, count: int, page_bytes: int) -> Array:
    read = os.pread(descriptor, count * page_bytes, (first - 1) * page_bytes)
    if len(read) != count * page_bytes:
        raise UnknownFormatError
    return np.frombuffer(read, np.uint8).reshape(count, page_bytes)


def _page_bytes(header: bytes) -> int:
    """Return the size of a page. Pages with reserved bytes, as encryption needs them, are not known."""
    size = int.from_bytes(header[16:18], "big")
    if len(header) < HEADER_BYTES or header[20] or size < 512 or size & (size - 1):  # noqa: PLR2004 - the least size
        raise UnknownFormatError
    return size


def _start(page: int) -> int:
    """Return where the header of a page starts: the first page of the file begins with that of the file."""
    return HEADER_BYTES if page == 1 else 0


def _page(descriptor: int, page: int, page_bytes: int) -> bytes:
    read = os.pread(descriptor, page_bytes, (page - 1) * page_bytes) if page > 0 else b""
    if len(read) != page_bytes:
        raise UnknownFormatError
    return read


def _children(page: bytes, start: int, key: int) -> tuple[Array, Array]:
    """Return the pages below an interior page, and the largest row number of each.

    Args:
        page: Its bytes.
        start: Where its header starts.
        key: The largest row number of the page itself.
    """
    if page[start] != INTERIOR:
        raise UnknownFormatError
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    first = start + INTERIOR_HEADER_BYTES
    if first + 2 * count > len(page):
        raise UnknownFormatError
    # The bytes behind the page end no number.
    stored = np.frombuffer(page + b"\xff" * CELL_BYTES, np.uint8)
    cell = stored[first : first + 2 * count].view(">u2").astype(np.intp)
    if count and int(cell.max()) >= len(page):
        raise UnknownFormatError
    words = stored[cell[:, None] + np.arange(4)].astype(np.int64)
    pages = words @ (1 << np.arange(24, -1, -8))
    last = int.from_bytes(page[start + 8 : start + 12], "big")
    return np.append(pages, last), np.append(_varints(stored, cell + 4), key)


def _varints(stored: Array, at: Array) -> Array:
    """Return numbers of variable length, each with its highest part first: seven bits a byte."""
    value, goes_on = np.zeros(len(at), np.int64), np.ones(len(at), bool)
    for byte in range(LONGEST_NUMBER):
        part = stored[at + byte]
        value = np.where(goes_on, value << 7 | (part & 0x7F), value)
        goes_on &= part >= 0x80  # noqa: PLR2004 - the bit of a byte that is not the last
        if not goes_on.any():
            return value
    raise UnknownFormatError
