"""Rows of columns of numbers: those that a mask chooses, those of given numbers, and those of each group.

Each function returns what numpy would; compiled functions do it where there are many rows.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.compiled.library import LIBRARY

Array = npt.NDArray[Any]
Whole = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]
# For fewer rows a call of a compiled function takes as long as numpy. Measured: 5 us a call, 1 ns a row.
FEW_ROWS = 1 << 12
# Rows that numpy chooses at a time, so that intermediate arrays fit into the cache of a core.
BLOCK = 1 << 16


# Types of values that can be grouped and counted.
_COUNTED = (np.dtype(np.int64), np.dtype(np.uint32))


def _functions(rows: int, *arrays: Array) -> ctypes.CDLL | None:
    """Return the functions where there are so many rows that they save time, and the arrays are numbers as stored."""
    if rows < FEW_ROWS or not all(each.ndim == 1 and each.flags.c_contiguous for each in arrays):
        return None
    are_numbers = all(each.dtype.isnative and each.dtype.kind in "iubf" for each in arrays)
    return LIBRARY.functions() if are_numbers else None


def chosen(mask: Mask, *columns: Array) -> tuple[Array, ...]:
    """Return the values of some columns where a mask is set; the columns themselves where it is set everywhere.

    With an irregular mask this takes an eighth of the time of ``column[mask]``, with numpy alone a quarter.
    """
    count = int(np.count_nonzero(mask))
    if count == len(mask):
        return columns
    found = tuple(np.empty(count, column.dtype) for column in columns)
    rest = [(column, into) for column, into in zip(columns, found, strict=True) if not _chosen(mask, column, into)]
    at = 0
    for first in range(0, len(mask) if count and rest else 0, BLOCK):
        rows = np.flatnonzero(mask[first : first + BLOCK])
        for column, into in rest:
            into[at : at + len(rows)] = column[first : first + BLOCK][rows]
        at += len(rows)
    return found


def _chosen(mask: Mask, column: Array, into: Array) -> bool:
    """Write the chosen values with the compiled functions; return whether they could."""
    functions = _functions(len(mask), mask, column) if len(mask) == len(column) and mask.dtype == np.bool_ else None
    if functions is None:
        return False
    given = (mask.ctypes.data, len(mask), column.ctypes.data, column.itemsize, into.ctypes.data, len(into))
    return bool(functions.choose_values(*given) == len(into))


def taken(values: Array, rows: Array | slice) -> Array:
    """Return ``values[rows]`` for the numbers of some rows, for a mask of them, or for a slice.

    Raises:
        IndexError: There is no such row.
    """
    result: Array
    if isinstance(rows, slice):
        result = values[rows]
        return result
    if rows.dtype == np.bool_:
        (found,) = chosen(rows, values) if len(rows) == len(values) else (values[rows],)
        return found.copy() if found is values else found
    functions = _functions(len(rows), values, rows) if rows.dtype.kind == "i" else None
    if functions is not None:
        found = np.empty(len(rows), values.dtype)
        of_rows = (rows.ctypes.data, rows.itemsize, len(rows))
        given = (values.ctypes.data, len(values), values.itemsize, *of_rows, found.ctypes.data)
        if functions.take_values(*given) == len(rows):
            return found
    result = values[rows]
    return result


def is_constant(values: Array) -> bool:
    """Return whether there is a value, and all rows have it. They may share the memory of one."""
    if not len(values) or values[0] != values[-1]:
        return False
    return not values.strides[0] or bool((values == values[0]).all())


def in_ranges(begin: Whole, end: Whole, count: int) -> Mask:
    """Return which of some rows are in ranges of them, which do not overlap and are not empty.

    Args:
        begin: The first row of each range.
        end: One past its last row.
        count: Number of rows.
    """
    begins, ends = (np.ascontiguousarray(each, np.int64) for each in (begin, end))
    functions = _functions(count, begins, ends)
    if functions is not None:
        mask = np.zeros(count, bool)
        if functions.mark_ranges(begins.ctypes.data, ends.ctypes.data, len(begins), mask.ctypes.data, count) >= 0:
            return mask
    change = np.zeros(count + 1, np.int8)
    change[begins] += 1
    change[ends] -= 1
    return np.cumsum(change[:-1], dtype=np.int8).view(np.bool_)


def grouped(codes: Whole, values: Whole, first: npt.NDArray[np.int64], into: Array) -> bool:
    """Write values group after group, in the given order inside each; return whether the compiled functions could.

    Args:
        codes: The group of each value.
        values: The values, int64 or uint32.
        first: Where each group begins.
        into: Room for all values: int64, or uint32 where they fit.
    """
    if values.dtype not in _COUNTED or into.dtype not in _COUNTED or not len(codes) == len(values) == len(into):
        return False
    functions = _functions(len(codes), codes, values, into) if codes.dtype.kind in "iu" else None
    if functions is None:
        return False
    place = first.astype(np.int64)
    of_codes = (codes.ctypes.data, codes.itemsize if codes.dtype.kind == "i" else -codes.itemsize)
    of_values = (values.ctypes.data, values.itemsize, len(values))
    given = (*of_codes, *of_values, place.ctypes.data, len(place), into.ctypes.data, into.itemsize)
    return bool(functions.group_values(*given) == len(values))


def median(values: Array) -> float:
    """Return the median of at least one number, as ``np.median`` does."""
    functions = _functions(len(values), values) if values.dtype in _COUNTED else None
    found = np.empty(2, np.int64)
    if functions and functions.middle_values(values.ctypes.data, values.itemsize, len(values), found.ctypes.data) >= 0:
        low, high = found.tolist()
        return (float(low) + float(high)) / 2
    return float(np.median(values))
