"""The columns of a table of whole numbers from its leaf pages, under our names and with our values for NULL."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.trace import schema, tables
from nsyswrap.trace.stored_rows import decode
from nsyswrap.trace.table_pages import Leaves, UnknownFormatError, read_pages

Array = npt.NDArray[Any]

# Decoding is fastest where the bytes and all intermediate arrays of one call fit into the cache of a core.
BYTES_AT_ONCE = 1 << 20
# Numbers that are read with SQLite, so that products and sums cannot overflow here.
LARGE = 1 << 62


@dataclass(frozen=True, slots=True)
class PageColumns:
    """Reads columns from the leaf pages of a table.

    Attributes:
        path: The file.
        leaves: The leaf pages.
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
