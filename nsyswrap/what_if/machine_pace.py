"""How fast the machine was while a program was recorded: slower in some steps than in others, for the same code.

Other threads of the machine, perhaps those of nsys that write what was recorded, share cores and caches with the
program. While they run, its CPU code is slower. From the launch of one kernel to the launch of the next, a
thread runs the same code in each step, so how long that takes shows the pace::

    step       |   fast    |   fast    |       slow        |       slow        |
    launches    a   b c  d  a   b c  d  a     b   c    d    a     b   c    d
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.operations import SOURCES
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.tables import array

# Fewer steps, or fewer launches in a step, show no pace. Source: ours; medians of fewer values vary by more than a
# tenth.
FEWEST_STEPS = 10
FEWEST_LAUNCHES = 20
# The pace of the fastest steps; the very fastest may be an error of the clock.
FASTEST_PERCENTILE = 5


def slowdown(context: TraceContext, window: Window, sample: Window) -> float:
    """Return how much slower the machine was in a sample than in the fastest steps of a window; 1 where not known.

    Args:
        context: The trace, its events and its loop.
        window: The window whose measured steps are compared.
        sample: The simulated part of it.
    """
    at, relative = _launches(context, window)
    steps = context.steps.measured_inside(window)
    first, last = (np.searchsorted(at, array(steps, side)) for side in ("start", "end"))
    enough = last - first >= FEWEST_LAUNCHES
    inside = relative[slice(*np.searchsorted(at, [sample.start_ns, sample.end_ns]))]
    if enough.sum() < FEWEST_STEPS or len(inside) < FEWEST_LAUNCHES:
        return 1.0
    paces = [float(np.median(relative[a:b])) for a, b in zip(first[enough], last[enough], strict=True)]
    return max(float(np.median(inside) / np.percentile(paces, FASTEST_PERCENTILE)), 1.0)


def _launches(context: TraceContext, window: Window) -> tuple[Times, npt.NDArray[np.float64]]:
    """Return when each kernel of a window was launched, ascending, and how long it took to the thread's next launch.

    The length is relative to the median of all launches of the same kernel that the same kernel follows.
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    kernels: Indices = np.flatnonzero((operations.table == SOURCES.index(tables.KERNELS)) & (operations.call >= 0))
    call = operations.call[kernels]
    # The nodes of a graph have one call, which says nothing about any of them.
    kernels = kernels[np.bincount(call, minlength=len(calls))[call] == 1]
    start, thread = (array(calls, column)[operations.call[kernels]] for column in ("start", "thread"))
    inside = np.flatnonzero((start >= window.start_ns) & (start < window.end_ns))
    order = inside[np.lexsort((start[inside], thread[inside]))]
    start, thread = start[order], thread[order]
    name = array(context.trace[tables.KERNELS], "name_id")[operations.row[kernels[order]]]
    same = thread[1:] == thread[:-1]
    length = pd.Series(np.diff(start)[same].astype(np.float64))
    usual = length.groupby([name[:-1][same], name[1:][same]]).transform("median")
    relative = (length / usual.clip(lower=1.0)).to_numpy()
    by_time = np.argsort(start[:-1][same], kind="stable")
    return start[:-1][same][by_time], relative[by_time]
