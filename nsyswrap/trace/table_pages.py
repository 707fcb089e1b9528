"""The rows of a large table of whole numbers, from the leaf pages of its B-tree in the file.

SQLite returns one value at a time, which takes most of the time of reading millions of rows. Rows of whole numbers have
a simple format, so many of them are decoded at once. What is not known here is read with SQLite.

A leaf page of a table begins with a header and the places of its cells. A cell holds one row::

    length | row number | header bytes | type of column 1 | type of column 2 | .. | value 1 | value 2 | ..
    1 or 2 |   1 to 9   |      1       |        1         |        1         |    | 0 to 8 bytes each, by type

All is checked: the values of a row must end where its length says, inside its page. Source: sqlite.org/fileformat2,
1.5, 1.6 and 2.1.
"""

import math
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.trace import schema, tables

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


# Room for each column behind the last page: a broken row points outside its page by the bytes of its columns at most.
SPARE_BYTES = 64
# The first bit of a byte that says that a number of variable length goes on.
MORE = 0x80
LONGEST_ROW_NUMBER = 9
# Types: none, whole numbers of 1, 2, 3, 4, 6 and 8 bytes, a floating point number, the constants 0 and 1, two that are
# reserved, then blobs and texts by length.
NULL, REAL, ZERO, ONE = 0, 7, 8, 9
_FIXED = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)
_BYTES = np.array([*_FIXED, *((kind - 12) // 2 for kind in range(12, MORE))], np.int32)
# How far the eight bytes that begin with a value are shifted, so that only the value is left.
_SHIFT = np.array([63 if size == 0 else 64 - 8 * size for size in _FIXED], np.int64)
# All bits where a value is stored, none where its type says it.
_STORED = np.array([-1 if size else 0 for size in _FIXED], np.int64)
# Decoding is fastest where the bytes and all intermediate arrays of one call fit into the cache of a core.
BYTES_AT_ONCE = 1 << 20
# Numbers that are read with SQLite, so that products and sums cannot overflow here.
LARGE = 1 << 62


class UnknownFormatError(Exception):
    """The file holds something that only SQLite is trusted to read."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaf pages of one table in order of row numbers.

    Attributes:
        pages: Number of each page in the file, from 1.
        last_rows: Largest row number that each page may hold; the last one has none in the file, and holds -1.
        column_count: Number of columns that each row stores.
    """

    pages: Array
    last_rows: Array
    page_bytes: int
    column_count: int


def find_leaves(path: Path, root: int, column_count: int) -> Leaves | None:
    """Return the leaf pages of a table; None where it has only one, or the file is not as expected."""
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
    """Return the pages below an interior page, and the largest row number of each."""
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


def decode(
    pages: Array, column_count: int, wanted: Container[int]
) -> tuple[int, Mapping[int, Array], Mapping[int, Array]]:
    """Return the number of rows in some leaf pages, and the values of some columns.

    Args:
        pages: Bytes of the pages, shape (pages, page_bytes), uint8.
        column_count: Number of columns of the table.
        wanted: Numbers of the columns, from 0.

    Returns:
        The number of rows; by column the values, int64; by column that has any, a mask of its NULLs, whose values have
        no meaning.

    Raises:
        UnknownFormatError: A row is not made of whole numbers as expected.
    """
    stored = np.append(pages.ravel(), np.zeros(SPARE_BYTES * (column_count + 1), np.uint8))
    cell, page_end = _cells(pages)
    length, at = _payload(stored, cell)
    most = int(length.max(initial=0))
    if np.any(at + length > page_end) or np.any(length <= column_count) or most > 1 + 9 * column_count:
        raise UnknownFormatError
    # All rows as lines of equal length, with the eight bytes that are read at the last value.
    width = most + 8
    lines = _windows(stored, f"V{width}")[at].view(np.uint8)
    kinds = np.ascontiguousarray(lines.reshape(-1, width)[:, : column_count + 1].T)
    if np.any(kinds[0] != column_count + 1) or int(kinds.max(initial=0)) >= MORE:
        raise UnknownFormatError
    values, nulls, words = {}, {}, _windows(lines, ">i8")
    # Where the next value is in a line: columns whose values have one length in all rows add it to the first.
    behind, place = column_count + 1, np.zeros(1, np.int64)
    for column, kind in enumerate(kinds[1:]):
        least, most = int(kind.min(initial=MORE)), int(kind.max(initial=NULL))
        if column in wanted:
            some = words[behind::width] if len(place) == 1 else words[place + behind]
            values[column] = _numbers(some[: len(cell)], kind[:1] if least == most else kind)
            if least == NULL:
                nulls[column] = kind == NULL
        if least == most or (least, most) == (ZERO, ONE):
            behind += int(_BYTES[most])
        else:
            place = (place if len(place) > 1 else np.arange(0, len(lines), width)) + _BYTES.take(kind)
    if np.any((place - np.arange(0, len(lines), width) if len(place) > 1 else 0) + behind != length):
        raise UnknownFormatError
    return len(cell), values, nulls


def _windows(stored: Array, dtype: str) -> Array:
    """Return the item of a type that begins at each byte."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(len(stored) - size + 1, dtype, stored, strides=(1,))


def _cells(pages: Array) -> tuple[Array, Array]:
    """Return where each cell starts and where its page ends, in bytes from the first page."""
    count, page_bytes = pages.shape
    if (pages[:, 0] != LEAF).any():
        raise UnknownFormatError
    cells = pages[:, 3].astype(np.int32) << 8 | pages[:, 4]
    most = int(cells.max(initial=0))
    if LEAF_HEADER_BYTES + 2 * most > page_bytes:
        raise UnknownFormatError
    places = np.ascontiguousarray(pages[:, LEAF_HEADER_BYTES : LEAF_HEADER_BYTES + 2 * most]).view(">u2")
    there = np.arange(most) < cells[:, None]
    begins = np.arange(0, count * page_bytes, page_bytes)
    found = (places + begins[:, None])[there]
    ends = np.repeat(begins + page_bytes, cells)
    # A cell has at least a length, a row number and a header.
    if (found + 3 > ends).any():
        raise UnknownFormatError
    return found, ends


def _payload(stored: Array, at: Array) -> tuple[Array, Array]:
    """Return the length of each row and where it starts, behind its row number."""
    first = stored[at]
    length, at = first.astype(np.int64), at + 1
    long = first >= MORE
    if long.any():
        second = stored[at]
        if (second[long] >= MORE).any():
            raise UnknownFormatError
        length = np.where(long, (length & (MORE - 1)) << 7 | second, length)
        at += long
    more = stored[at] >= MORE
    at += 1
    for _ in range(LONGEST_ROW_NUMBER - 1):
        if not more.any():
            break
        behind = stored[at] >= MORE
        at += more
        more &= behind
    return length, at


def _numbers(words: Array, kind: Array) -> Array:
    """Return the number of each row from the eight bytes that begin with it, and its type or that of all rows."""
    if int(kind.max(initial=0)) > ONE or (kind == REAL).any():
        raise UnknownFormatError
    found: Array = words.astype(np.int64)
    found >>= _SHIFT.take(kind)
    if not _BYTES.take(kind).all():
        found &= _STORED.take(kind)
        found |= kind == ONE
    return found


@dataclass(frozen=True, slots=True)
class PageColumns:
    """Reads columns from the leaf pages of a table.

    Attributes:
        stored: Number of each stored column, by its name in the export.
        columns: Our name -> the column of the export, or a product or sum of columns.
        missing: Our name -> the value of NULL; names that are absent have none.
    """

    path: Path
    leaves: Leaves
    stored: Mapping[str, int]
    columns: Mapping[str, str]
    missing: Mapping[str, int]

    def batches(self, pages: range) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the number of rows and the columns of some pages, several pages at a time.

        Raises:
            UnknownFormatError: A row has to be read with SQLite.
        """
        leaves = self.leaves
        wanted = {self.stored[each] for stored in self.columns.values() for each in schema.columns_in(stored)}
        step = max(BYTES_AT_ONCE // leaves.page_bytes, 1)
        try:
            with self.path.open("rb", 0) as file:
                for first in range(pages.start, pages.stop, step):
                    some = leaves.pages[first : min(first + step, pages.stop)]
                    stored = read_pages(file.fileno(), some, leaves.page_bytes)
                    rows, values, nulls = decode(stored, leaves.column_count, wanted)
                    yield rows, {name: self._column(name, values, nulls) for name in self.columns}
        except (OSError, IndexError) as error:
            raise UnknownFormatError from error

    def _column(self, name: str, values: Mapping[int, Array], nulls: Mapping[int, Array]) -> Array:
        stored = self.columns[name]
        parts = [self.stored[each] for each in stored.replace("*", " ").replace("+", " ").split()]
        found = _combined([values[part] for part in parts], is_product="*" in stored)
        masks = [nulls[part] for part in parts if part in nulls]
        if masks:
            if name not in self.missing:
                raise UnknownFormatError
            found = np.where(np.logical_or.reduce(masks), self.missing[name], found)
        return found


def _combined(values: list[Array], *, is_product: bool) -> Array:
    """Return the product or the sum of columns."""
    if len(values) == 1:
        return values[0]
    reach = [max(int(each.max(initial=1)), -int(each.min(initial=-1))) for each in values]
    if (math.prod(reach) if is_product else sum(reach)) >= LARGE:
        raise UnknownFormatError
    found: Array = (np.multiply if is_product else np.add).reduce(values)
    return found


def first_rows(leaves: Leaves, rows: range) -> Array | None:
    """Return the number of the first row that each page may hold, and one past the last; None where these disagree."""
    found = np.concatenate([[rows.start], leaves.last_rows[:-1] + 1, [rows.stop]])
    return found if (found[1:] >= found[:-1]).all() else None


def fitting(values: Array, dtype: str, none: int | None) -> Array:
    """Return whole numbers that fit into a type.

    Args:
        values: The numbers.
        dtype: The type.
        none: What takes the place of ``tables.NO_ID`` in a type of 32 bits; None where that is no number either.

    Raises:
        UnknownFormatError: They do not fit; reading with SQLite names the column.
    """
    kind = np.dtype(dtype)
    if kind.kind == "i" and kind.itemsize < values.itemsize and len(values):
        bounds = np.iinfo(kind)
        if none is not None and values.max() > bounds.max:
            values = np.where(values == tables.NO_ID, none, values)
        if values.min() < bounds.min or values.max() > bounds.max:
            raise UnknownFormatError
    return values
