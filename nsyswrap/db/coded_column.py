"""Columns of ids that repeat, such as threads and names, as codes while they are read: a byte or two a row, not eight.

::

    part 1    ids 7 9 7       codes 0 1 0   of 7, 9
    part 2    ids 8 7 8       codes 0 1 0   of 8, 7
    joined                    codes 0 2 0 1 0 1   of 7, 8, 9
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[Any]


# Places of a new table of ids for the compiled functions; it grows when half of them are taken.
PLACES = 1 << 10


class PartCodes:
    """The ids of one part of a table as codes, in the order in which the ids first occur.

    Args:
        length: Number of rows at most.
        functions: The compiled functions; None for pandas.
    """

    def __init__(self, length: int, functions: ctypes.CDLL | None = None) -> None:
        self._codes = np.empty(length, np.int32)
        self._known: dict[int, int] = {}
        self._table = _IdTable(functions, PLACES) if functions else None

    def write(self, first: int, ids: Array) -> None:
        """Write the ids of some rows.

        Args:
            first: The first of the rows.
            ids: Their ids, int64.
        """
        if self._table is not None:
            self._table = self._table.write(ids, self._codes[first : first + len(ids)])
            return
        codes, unique = pd.factorize(ids)
        numbers = [self._known.setdefault(each, len(self._known)) for each in unique.tolist()]
        self._codes[first : first + len(ids)] = np.array(numbers, np.int32)[codes]

    def finish(self, count: int) -> tuple[Array, Array]:
        """Return the codes of the rows that were written, in as few bytes as they need, and the id of each code."""
        ids = np.array([*self._known], np.int64) if self._table is None else self._table.ids()
        return self._codes[:count].astype(_codes_of(len(ids))), ids


class _IdTable:
    """The codes of ids as a hash table of the compiled functions.

    Args:
        functions: The compiled functions.
        places: Number of places, a power of two; half of them can be taken.
    """

    def __init__(self, functions: ctypes.CDLL, places: int) -> None:
        self._functions = functions
        self._keys = np.empty(places, np.int64)
        self._codes = np.full(places, -1, np.int32)
        self._order = np.empty(places // 2, np.int64)
        self._known = np.zeros(1, np.int64)

    def ids(self) -> Array:
        """Return the id of each code."""
        return self._order[: int(self._known[0])]

    def write(self, ids: Array, codes: Array) -> "_IdTable":
        """Write the codes of some ids; return the table that knows them, which is a larger one if this one is full."""
        table, done, ids = self, 0, np.ascontiguousarray(ids, np.int64)
        while True:
            done += table._code(ids[done:], codes[done:])
            if done == len(ids):
                return table
            larger = _IdTable(self._functions, 2 * len(table._keys))
            larger._code(table.ids(), np.empty(len(table.ids()), np.int32))
            table = larger

    def _code(self, ids: Array, codes: Array) -> int:
        """Write the codes of as many ids as the table has room for; return their number."""
        arrays = self._keys, self._codes, self._order, self._known
        keys, codes_of, order, known = (each.ctypes.data for each in arrays)
        mask = len(self._keys) - 1
        return int(
            self._functions.code_ids(ids.ctypes.data, len(ids), codes.ctypes.data, keys, codes_of, mask, order, known)
        )


def joined(parts: Sequence[tuple[Array, Array]]) -> "pd.Categorical[Any]":
    """Return the column of all parts, whose categories are the ids, ascending.

    Args:
        parts: Codes and ids of each part.
    """
    ids = np.unique(np.concatenate([np.empty(0, np.int64), *(ids for _, ids in parts)]))
    kind = _codes_of(len(ids))
    codes = [np.searchsorted(ids, of_part).astype(kind)[some] for some, of_part in parts]
    whole = np.concatenate([np.empty(0, kind), *codes])
    return pd.Categorical.from_codes(whole, dtype=pd.CategoricalDtype(pd.Index(ids)), validate=False)


def _codes_of(count: int) -> np.dtype[Any]:
    """Return the type that pandas has for some codes."""
    return np.dtype(np.min_scalar_type(-2 - count))
