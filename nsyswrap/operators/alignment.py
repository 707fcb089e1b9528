"""The longest common subsequence of two sequences of launches, so that lost, added and moved launches shift no others.

::

    X-ray step    a b c d e f
    other step    a b d e x f          c is lost, x is added
    aligned       0 1 3 4 - 5

Sequences that hardly differ are aligned in time that grows with their length and with the square of the differences.
Source: E. W. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1, 1986. All diagonals advance at
once; how far each goes without a difference is looked up.
"""

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices

Codes = npt.NDArray[np.int64]

# More cells, of diagonals by launches, are not compared. Ours: 16 MB; 10,000 launches may differ in 800.
MOST_CELLS = 1 << 24
# Differences to try first; then four times as many, and so on.
FIRST_DIFFERENCES = 32
_NEVER = np.iinfo(np.int64).min // 2


def aligned(pattern: Codes, other: Codes) -> Indices:
    """Return the place in a pattern of each item of another sequence; -1 where it has none.

    Places ascend, and equal places have equal codes. Where two sequences differ in too much, nothing is aligned.

    Args:
        pattern: Codes of the pattern, shape (n,).
        other: Codes of the other sequence, shape (m,).
    """
    found = np.full(len(other), -1, np.intp)
    both = min(len(pattern), len(other))
    same = pattern[:both] == other[:both]
    head = both if same.all() else int(np.argmin(same))
    same = (pattern[len(pattern) - both :] == other[len(other) - both :])[head:][::-1]
    tail = len(same) if same.all() else int(np.argmin(same))
    found[:head] = np.arange(head)
    found[len(other) - tail :] = np.arange(len(pattern) - tail, len(pattern))
    inner = _aligned(pattern[head : len(pattern) - tail], other[head : len(other) - tail])
    found[head : len(other) - tail] = np.where(inner >= 0, inner + head, -1)
    return found


def aligned_twice(
    pattern: Codes, other: Codes, names: Codes, other_names: Codes
) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Return the places of another sequence as ``aligned`` does, and which of them are exact.

    Launches are compared by all that is known of them. What is left between two of those that are equal is compared by
    name alone::

        pattern    a1 b1 c1 d1
        other      a1 b2 c2 d1      b and c have another size
        places     0  1  2  3       a and d are exact

    Args:
        pattern: Codes of the pattern.
        other: Codes of the other sequence.
        names: Codes of the names alone, of the pattern.
        other_names: And of the other sequence.
    """
    place = aligned(pattern, other)
    exact = place >= 0
    anchors = np.concatenate([[-1], np.flatnonzero(exact), [len(other)]])
    sides = np.concatenate([[-1], place[exact], [len(pattern)]])
    for at in np.flatnonzero((np.diff(anchors) > 1) & (np.diff(sides) > 1)).tolist():
        low, high, first, last = anchors[at] + 1, anchors[at + 1], sides[at] + 1, sides[at + 1]
        inner = aligned(names[first:last], other_names[low:high])
        place[low:high] = np.where(inner >= 0, inner + first, -1)
    return place, exact


def _aligned(pattern: Codes, other: Codes) -> Indices:
    """Return ``aligned`` of sequences that differ at both ends."""
    found = np.full(len(other), -1, np.intp)
    count = int(max(pattern.max(initial=0), other.max(initial=0))) + 1
    apart = int(np.abs(np.bincount(pattern, minlength=count) - np.bincount(other, minlength=count)).sum())
    if not len(pattern) or not len(other) or apart == len(pattern) + len(other):
        return found
    most = min(len(pattern) + len(other), MOST_CELLS // (2 * len(pattern) + 2))
    allowed = min(max(FIRST_DIFFERENCES, apart), most)
    while allowed >= apart:
        reached = _reached(pattern, other, allowed)
        if reached:
            _trace_back(found, reached, (len(pattern), len(other)), allowed)
        if reached or allowed == most:
            break
        allowed = min(4 * allowed, most)
    return found


def _reached(pattern: Codes, other: Codes, allowed: int) -> list[Indices]:
    """Return how far each diagonal reaches in the pattern after 0, 1, ... differences, until the ends are reached.

    A diagonal has a fixed distance of the places in both sequences, from ``-allowed`` to ``allowed``.

    Returns:
        One array for each number of differences; empty where more than ``allowed`` are needed.
    """
    size, others = len(pattern), len(other)
    diagonal = np.arange(-allowed, allowed + 1)
    padded = np.full(size + others + 2 * allowed + 2, -1, np.int64)
    padded[allowed : allowed + others] = other
    # Row r holds what the diagonal compares with each item of the pattern; the item after the last one always differs.
    windows = np.lib.stride_tricks.sliding_window_view(padded, size + 1)[: 2 * allowed + 1][::-1]
    differs = windows != np.append(pattern, -2)
    cells = np.flatnonzero(differs)
    first_cell = np.arange(2 * allowed + 1) * (size + 1)
    furthest = np.full(2 * allowed + 3, _NEVER, np.int64)
    furthest[allowed + 2] = 0  # so that the first diagonal begins at 0
    history = []
    for differences in range(allowed + 1):
        left, right = furthest[:-2] + 1, furthest[2:]
        at = np.maximum(left, right)
        usable = (at >= 0) & (at <= size) & (at - diagonal <= others) & (at - diagonal >= 0)
        usable &= (diagonal - differences) % 2 == 0
        rows = np.flatnonzero(usable)
        start = first_cell[rows] + at[rows]
        now = np.full(len(diagonal), _NEVER, np.int64)
        now[rows] = cells[np.searchsorted(cells, start)] - first_cell[rows]
        history.append(now)
        if abs(size - others) <= allowed and now[allowed + size - others] >= size:
            return history
        furthest[1:-1] = now
    return []


def _trace_back(found: Indices, reached: list[Indices], ends: tuple[int, int], allowed: int) -> None:
    """Write the place of each aligned item into ``found``, from the end of the way to its begin."""
    (at, other), row = ends, ends[0] - ends[1] + allowed
    for before in [*reached[-2::-1], None]:
        if before is None:
            begin = 0
        else:
            left = before[row - 1] + 1 if row > 0 else _NEVER
            right = before[row + 1] if row + 1 < len(before) else _NEVER
            begin = int(max(left, right))
        length = at - begin
        found[other - length : other] = np.arange(begin, at)
        if before is None:
            return
        row += -1 if left >= right else 1
        at = begin - 1 if left >= right else begin
        other = at - (row - allowed)
