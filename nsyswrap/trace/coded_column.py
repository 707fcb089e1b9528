"""Columns of ids that repeat, such as threads and names, as codes while they are read: a byte or two a row, not eight.

::

    part 1    ids 7 9 7       codes 0 1 0   of 7, 9
    part 2    ids 8 7 8       codes 0 1 0   of 8, 7
    joined                    codes 0 2 0 1 0 1   of 7, 8, 9
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[Any]


class PartCodes:
    """The ids of one part of a table as codes, in the order in which the ids first occur."""

    def __init__(self, length: int) -> None:
        self._codes = np.empty(length, np.int32)
        self._known: dict[int, int] = {}

    def write(self, first: int, ids: Array) -> None:
        """Write the ids of some rows."""
        codes, unique = pd.factorize(ids)
        numbers = [self._known.setdefault(each, len(self._known)) for each in unique.tolist()]
        self._codes[first : first + len(ids)] = np.array(numbers, np.int32)[codes]

    def finish(self, count: int) -> tuple[Array, Array]:
        """Return the codes of the rows that were written, in as few bytes as they need, and the id of each code."""
        ids = np.array([*self._known], np.int64)
        return self._codes[:count].astype(_codes_of(len(ids))), ids


def joined(parts: Sequence[tuple[Array, Array]]) -> "pd.Categorical[Any]":
    """Return the column of all parts, whose categories are the ids, ascending."""
    ids = np.unique(np.concatenate([np.empty(0, np.int64), *(ids for _, ids in parts)]))
    kind = _codes_of(len(ids))
    codes = [np.searchsorted(ids, of_part).astype(kind)[some] for some, of_part in parts]
    whole = np.concatenate([np.empty(0, kind), *codes])
    return pd.Categorical.from_codes(whole, dtype=pd.CategoricalDtype(pd.Index(ids)), validate=False)


def _codes_of(count: int) -> np.dtype[Any]:
    """Return the type that pandas has for some codes."""
    return np.dtype(np.min_scalar_type(-2 - count))
