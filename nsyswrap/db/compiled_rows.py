"""Reads the rows of leaf pages with the compiled functions, straight into the arrays of a table."""

import ctypes
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.compiled.library import MOST_PARTS, UNUSUAL, Target
from nsyswrap.db import schema
from nsyswrap.db.page_columns import BYTES_AT_ONCE, PageColumns
from nsyswrap.db.table_pages import SPARSE, UnknownFormatError

Array = npt.NDArray[Any]
_COLUMN, _PRODUCT, _SUM = range(3)
# Types of columns that the compiled function writes; each has its size in bytes.
_WRITTEN = {"int64": 8, "int32": 4, "bool": 1}
# A row takes at least its place in the header of the page, its length, its row number, and a byte for its own header.
LEAST_ROW_BYTES = 2 + 1 + 1 + 1


class CompiledRows:
    """Reads columns of whole numbers from leaf pages.

    Args:
        functions: The compiled functions.
        pages: The columns and the leaf pages.
        types: dtype of each column, by our names.
        coded: Names of the columns that the caller turns into codes; they are held for some pages only.
    """

    def __init__(
        self, functions: ctypes.CDLL, pages: PageColumns, types: Mapping[str, str], coded: Mapping[str, Any]
    ) -> None:
        self.functions, self._pages = functions, pages
        self._step = max(BYTES_AT_ONCE // pages.leaves.page_bytes, 1)
        self._most = self._step * pages.leaves.page_bytes // (LEAST_ROW_BYTES + pages.leaves.column_count)
        self._types = {name: "int64" if name in coded else types[name] for name in pages.columns}
        self._scratch = {name: np.empty(self._most, np.int64) for name in pages.columns if name in coded}

    def is_known(self) -> bool:
        """Return whether all columns have a type that can be written."""
        counts = [len(schema.columns_in(stored)) for stored in self._pages.columns.values()]
        return set(self._types.values()) <= set(_WRITTEN) and max(counts, default=0) <= MOST_PARTS

    def batches(self, pages: range, columns: Mapping[str, Array]) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the number of rows of some pages, and the ids of columns that the caller turns into codes.

        Args:
            pages: The pages, counted from the first one of the table.
            columns: Room for all rows of the other columns, which is filled from the first row on.

        Raises:
            UnknownFormatError: A row has to be read with SQLite, or there are more rows than room.
        """
        leaves, rows = self._pages.leaves, 0
        read = np.empty(SPARSE * self._step * leaves.page_bytes, np.uint8)
        room = min((len(each) for each in columns.values()), default=np.iinfo(np.int64).max)
        targets = (Target * len(self._types))(*(self._target(name) for name in self._types))
        try:
            with self._pages.path.open("rb", 0) as file:
                for first in range(pages.start, pages.stop, self._step):
                    some = leaves.pages[first : min(first + self._step, pages.stop)]
                    places, length = _read(file.fileno(), some, leaves.page_bytes, read)
                    for target, name in zip(targets, self._types, strict=True):
                        target.out = self._address(name, columns, rows)
                    count = self._decode(read[:length], places, targets, min(room - rows, self._most))
                    yield count, {name: ids[:count] for name, ids in self._scratch.items()}
                    rows += count
        except OSError as error:
            raise UnknownFormatError from error

    def _decode(self, read: Array, places: Array, targets: "ctypes.Array[Target]", room: int) -> int:
        leaves = self._pages.leaves
        count = self.functions.decode_rows(
            read.ctypes.data, len(read), places.ctypes.data, len(places), leaves.page_bytes, leaves.column_count,
            ctypes.addressof(targets), len(targets), room,
        )  # fmt: skip
        if count == UNUSUAL:
            raise UnknownFormatError
        return int(count)

    def _address(self, name: str, columns: Mapping[str, Array], rows: int) -> int:
        if name in self._scratch:
            return int(self._scratch[name].ctypes.data)
        return int(columns[name].ctypes.data) + rows * columns[name].itemsize

    def _target(self, name: str) -> Target:
        stored, missing = self._pages.columns[name], self._pages.missing.get(name)
        parts = [self._pages.stored[each] for each in stored.replace("*", " ").replace("+", " ").split()]
        operation = _PRODUCT if "*" in stored else _SUM if "+" in stored else _COLUMN
        held = (ctypes.c_int32 * MOST_PARTS)(*parts)
        return Target(None, missing or 0, _WRITTEN[self._types[name]], missing is not None, operation, len(parts), held)


def _read(descriptor: int, pages: Array, page_bytes: int, into: Array) -> tuple[Array, int]:
    """Read some pages; return where each begins in the bytes, and the number of bytes.

    Raises:
        UnknownFormatError: The file ends before.
    """
    first, last = int(pages.min()), int(pages.max())
    if last - first < SPARSE * len(pages):
        span = (last - first + 1) * page_bytes
        _fill(descriptor, (first - 1) * page_bytes, into[:span])
        return ((pages - first) * page_bytes).astype(np.int64), span
    for number, page in enumerate(pages.tolist()):
        _fill(descriptor, (page - 1) * page_bytes, into[number * page_bytes : (number + 1) * page_bytes])
    return np.arange(len(pages), dtype=np.int64) * page_bytes, len(pages) * page_bytes


def _fill(descriptor: int, at: int, into: Array) -> None:
    if at < 0 or os.preadv(descriptor, [into.data], at) != len(into):
        raise UnknownFormatError
