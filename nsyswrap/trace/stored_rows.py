"""Decode the rows of whole numbers of many pages at once.

A leaf page of a table begins with a header and the places of its cells. A cell holds one row::

    length | row number | header bytes | type of column 1 | type of column 2 | .. | value 1 | value 2 | ..
    1 or 2 |   1 to 9   |      1       |        1         |        1         |    | 0 to 8 bytes each, by type

All is checked: the values of a row must end where its length says, inside its page. Source: sqlite.org/fileformat2,
1.6 and 2.1.
"""

from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.trace.table_pages import LEAF, LEAF_HEADER_BYTES, UnknownFormatError

Array = npt.NDArray[Any]

# Room for each column behind the last page: a broken row points outside its page by the bytes of its columns at most.
SPARE_BYTES = 64
# The first bit of a byte that says that a number of variable length goes on.
MORE = 0x80
LONGEST_ROW_NUMBER = 9
# Types: none, whole numbers of 1, 2, 3, 4, 6 and 8 bytes, a floating point number, the constants 0 and 1, two that are
# reserved, then blobs and texts by length.
NULL, REAL, ZERO, ONE, LAST_RESERVED = 0, 7, 8, 9, 11
_FIXED = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)
_BYTES = np.array([*_FIXED, *((kind - 12) // 2 for kind in range(12, MORE))], np.int32)
# How far the eight bytes that begin with a value are shifted, so that only the value is left.
_SHIFT = np.array([63 if size == 0 else 64 - 8 * size for size in _FIXED], np.int64)


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
    row_end = at + length
    if np.any(row_end > page_end) or np.any(length <= column_count) or np.any(stored[at] != column_count + 1):
        raise UnknownFormatError
    kinds = _windows(stored, f"V{column_count}")[at + 1].view(np.uint8).reshape(len(cell), column_count)
    if int(kinds.max(initial=0)) >= MORE:
        raise UnknownFormatError
    values, nulls, words = {}, {}, _windows(stored, ">i8")
    # Columns whose values have one length in all rows add it here.
    behind = column_count + 1
    for column, kind in enumerate(np.ascontiguousarray(kinds.T)):
        least, most = int(kind.min(initial=MORE)), int(kind.max(initial=NULL))
        if column in wanted:
            values[column] = _numbers(words[behind:], at, kind[:1] if least == most else kind)
            if least == NULL:
                nulls[column] = kind == NULL
        if least == most:
            behind += int(_BYTES[most])
        else:
            at += _BYTES.take(kind)
    if not np.array_equal(at + behind, row_end):
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


def _numbers(words: Array, at: Array, kind: Array) -> Array:
    """Return the number of each row.

    Args:
        words: The eight bytes that begin at each place.
        at: Where each number begins.
        kind: Type of each number, or the one of all.
    """
    if int(kind.max(initial=0)) > ONE or (kind == REAL).any():
        raise UnknownFormatError
    stored = (kind != NULL) & (kind < ZERO)
    if stored.all():
        found: Array = words[at].astype(np.int64)
        found >>= _SHIFT[kind]
        return found
    found = np.empty(len(at), np.int64)
    found[:] = kind == ONE
    rows = np.flatnonzero(stored)
    found[rows] = words[at[rows]].astype(np.int64) >> _SHIFT[kind[rows]]
    return found
