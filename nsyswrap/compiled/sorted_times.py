"""Times and sorted spans with the compiled functions; None where numpy has to do the work.

All times are int64 arrays, in ns. ``intervals`` and ``attribution.cuts`` say what each function returns.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.compiled.library import LIBRARY, UNUSUAL

Times = npt.NDArray[np.int64]
# For fewer rows a call of a compiled function takes as long as numpy. Measured: 5 us a call, 5 ns a row.
FEW_ROWS = 1 << 11
LOOSE, IN_ORDER, APART = range(3)


def _functions(rows: int, *arrays: npt.NDArray[Any]) -> ctypes.CDLL | None:
    """Return the functions where there are so many rows that they save time, and the arrays are times as stored."""
    if rows < FEW_ROWS or not all(each.dtype == np.int64 and each.flags.c_contiguous for each in arrays):
        return None
    return LIBRARY.functions()


def placed(edges: Times, at: Times, *, right: bool) -> Times | None:
    """Return where times belong among sorted edges: after equal ones with ``right``."""
    functions = _functions(len(at), edges, at)
    if functions is None:
        return None
    found = np.empty(len(at), np.int64)
    functions.place_times(edges.ctypes.data, len(edges), at.ctypes.data, len(at), right, found.ctypes.data)
    return found


def lengths_covered(spans: tuple[Times, Times], whole: Times, start: Times, end: Times) -> Times | None:
    """Return how much of each interval some spans cover; ``whole`` has the length of all spans before each one."""
    if len(spans[0]) != len(spans[1]) or len(whole) != len(spans[0]) + 1 or len(start) != len(end):
        return None
    functions = _functions(len(start), *spans, whole, start, end)
    if functions is None:
        return None
    found = np.empty(len(start), np.int64)
    of_spans = (spans[0].ctypes.data, spans[1].ctypes.data, whole.ctypes.data, len(spans[0]))
    functions.cover_times(*of_spans, start.ctypes.data, end.ctypes.data, len(start), found.ctypes.data)
    return found


def overlaps(one: tuple[Times, Times], other: tuple[Times, Times]) -> tuple[Times, Times, Times, Times] | None:
    """Return each overlap of spans of two sets: the number of both, its start and end."""
    if len(one[0]) != len(one[1]) or len(other[0]) != len(other[1]):
        return None
    functions = _functions(len(one[0]), *one, *other)
    if functions is None:
        return None
    given = [value for side in (one, other) for value in (side[0].ctypes.data, side[1].ctypes.data, len(side[0]))]
    count = functions.overlap_spans(*given, None, None, None, None, 0)
    left, right, start, end = (np.empty(count, np.int64) for _ in range(4))
    written = functions.overlap_spans(*given, *(each.ctypes.data for each in (left, right, start, end)), count)
    return (left, right, start, end) if written == count else None


def order_of(start: Times, end: Times) -> int | None:
    """Return ``APART`` for spans that are sorted and apart, ``IN_ORDER`` for sorted intervals, else ``LOOSE``."""
    functions = _functions(len(start), start, end) if len(start) == len(end) else None
    return None if functions is None else int(functions.order_of(start.ctypes.data, end.ctypes.data, len(start)))


def merged(start: Times, end: Times) -> tuple[Times, Times] | None:
    """Return the union of intervals in order of start."""
    functions = _functions(len(start), start, end) if len(start) == len(end) else None
    if functions is None:
        return None
    found = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    written = (each.ctypes.data for each in found)
    count = functions.merge_in_order(start.ctypes.data, end.ctypes.data, len(start), *written)
    # A part of an array holds the memory of all of it.
    return (
        (found[0][:count], found[1][:count])
        if 2 * count > len(start)
        else (found[0][:count].copy(), found[1][:count].copy())
    )


def pieces(
    spans: tuple[Times, Times], labels: tuple[Times, Times], codes: npt.NDArray[np.int32], otherwise: int
) -> tuple[Times, npt.NDArray[np.int32], Times, Times] | None:
    """Return the parts of sorted spans between the changes of their label: number of the span, label, start and end."""
    count, room = len(spans[0]), len(spans[0]) + 2 * len(codes)
    fit = len(spans[1]) == count and len(labels[0]) == len(labels[1]) == len(codes) and codes.dtype == np.int32
    functions = _functions(count, *spans, *labels) if fit and codes.flags.c_contiguous else None
    if functions is None:
        return None
    part, start, end = (np.empty(room, np.int64) for _ in range(3))
    code = np.empty(room, np.int32)
    of_spans = (spans[0].ctypes.data, spans[1].ctypes.data, count)
    of_labels = (labels[0].ctypes.data, labels[1].ctypes.data, codes.ctypes.data, len(codes))
    written = (each.ctypes.data for each in (part, code, start, end))
    found = functions.cut_spans(*of_spans, *of_labels, otherwise, *written, room)
    return None if found == UNUSUAL else (part[:found], code[:found], start[:found], end[:found])
