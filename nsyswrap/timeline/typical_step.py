"""The typical step: the one of median length, with its neighbours, and the fastest and slowest ones."""

import numpy as np

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.model import Flags


def by_length(start: Times, end: Times, warm_up: Flags, window: Window) -> Indices:
    """Return the measured steps whose middle is inside a window, the fastest first; on a tie the earlier one.

    The typical step is the one in the middle: at ``(count - 1) // 2``.

    Args:
        start: Start of each step in ns, shape (steps,).
        end: End of each, shape (steps,).
        warm_up: Whether each is a warm-up step, shape (steps,).
        window: Window of the report.
    """
    middle = start + (end - start) // 2
    inside = ~warm_up & (middle >= window.start_ns) & (middle < window.end_ns) & (end > start)
    rows = np.flatnonzero(inside)
    ordered: Indices = rows[np.lexsort((start[rows], (end - start)[rows]))]
    return ordered


def shown_first(start: Times, end: Times, warm_up: Flags, window: Window) -> Indices:
    """Return the steps that a page shows first: the typical one, its neighbours, the slowest and the fastest one."""
    ordered = by_length(start, end, warm_up, window)
    if not len(ordered):
        return ordered
    middle = int(ordered[(len(ordered) - 1) // 2])
    wanted = [middle, middle - 1, middle + 1, int(ordered[-1]), int(ordered[0])]
    steps: Indices = np.array([at for at in dict.fromkeys(wanted) if 0 <= at < len(start)], ordered.dtype)
    return steps
