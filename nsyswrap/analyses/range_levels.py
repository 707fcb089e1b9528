"""Which ranges enclose a call: NVTX ranges of one thread by depth, so that each level is disjoint."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.intervals import Indices, Times
from nsyswrap.tables import Trace, array


def enclosing(trace: Trace, thread: Times, start: Times, end: Times) -> Iterator[tuple[Indices, Indices]]:
    """Yield, level by level, which range encloses each call on the call's own thread.

    Args:
        trace: The tables of one export.
        thread: Thread of each call, shape (n,).
        start: Start of each call in ns.
        end: End of each call in ns.

    Yields:
        Indices of calls and, alongside, the row in ``trace[RANGES]`` of a range that contains them whole. Every
        range that contains a call is yielded once. Ranges that end on another thread are left out, as in nsys's
        own reports.
    """
    ranges = trace[tables.RANGES]
    one_thread = np.flatnonzero(array(ranges, "end_thread") == 0)
    range_thread = array(ranges, "thread")[one_thread]
    codes, threads = pd.factorize(thread)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(threads) + 1))
    for index, each in enumerate(threads):
        mine = one_thread[range_thread == each]
        if len(mine):
            calls = order[bounds[index] : bounds[index + 1]]
            for level in _levels(array(ranges, "start")[mine], array(ranges, "end")[mine]):
                rows = mine[level]
                at = np.searchsorted(array(ranges, "start")[rows], start[calls], side="right") - 1
                inside = (at >= 0) & (end[calls] <= array(ranges, "end")[rows[np.maximum(at, 0)]])
                yield calls[inside], rows[at[inside]]


def _levels(start: Times, end: Times) -> list[Indices]:
    """Return the ranges of each depth, by start; those of one depth do not overlap where ranges nest."""
    order = np.lexsort((-end, start))
    depth = np.arange(len(order)) - np.searchsorted(np.sort(end), start[order], side="right")
    return [order[depth == level] for level in range(int(depth.max(initial=-1)) + 1)]
