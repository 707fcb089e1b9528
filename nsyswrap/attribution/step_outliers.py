"""Outlier steps: which steps take longer than the others, and how much of that no other finding explains.

The unexplained part is the time lost to uneven steps. The same amount of idle time in them, longest gaps first, is
attributed to uneven steps.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Spans, Times, Window, containing, covered, merge
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import taken
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace.tables import CALLS, array

Mask = npt.NDArray[np.bool_]

# An outlier is above the upper quartile by one and a half times the distance of the quartiles. Source: J. Tukey,
# Exploratory Data Analysis, 1977. It is also at least a tenth above the median, since steps after warm-up differ by
# less. Source: ours.
FENCE = 1.5
LEAST = 0.10


def is_outlier(length: Times) -> Mask:
    """Return which steps of one process are outliers: longer than the others by Tukey's fence and by a tenth."""
    if not len(length):
        return np.zeros(0, bool)
    low, median, high = np.percentile(length, [25, 50, 75])
    found: Mask = length > max(high + FENCE * (high - low), (1 + LEAST) * median)
    return found


def unexplained(length: Times, explained: Times) -> Times:
    """Return the unexplained time of each outlier beyond the median step, in ns; 0 for other steps.

    Args:
        length: Length of each measured step of one process, in ns.
        explained: Idle time of each step that another finding counts, in ns. Where an outlier has more of it than the
            median step, the difference is not counted again.
    """
    if not len(length):
        return length
    excess = np.where(is_outlier(length), np.round(length - np.median(length)), 0)
    grown = np.maximum(explained - np.median(explained), 0)
    return np.maximum(excess - np.round(grown), 0).astype(np.int64)


def lost_to_outliers(context: TraceContext, process: int, window: Window, left: Times) -> int:
    """Return the time lost to the outliers of one process, in ns; shorter steps reduce it.

    A host that waits one step later than usual makes one step long and the next one short, and loses no time. Nor does
    one that waits in each tenth step, to log a loss, for the work of all ten::

        host  |1|2|3|4| wait      |5|6|7|8| wait      |
        GPU     | 1  | 2  | 3  | 4  | 5  | 6  | 7  | 8  |

    So no more is lost than the GPU is idle for longer, or has more work from some steps than from others. ``left`` is
    the unexplained time of each measured step of the process in the window, in ns.
    """
    return min(int(left.sum()), *_most_lost(context, process, window)) if left.any() else 0


@memo
def _most_lost(context: TraceContext, process: int, window: Window) -> tuple[int, int]:
    """Return how much longer the steps are than the median, and the largest such sum of a device, in ns.

    That of a device is how much longer it is idle in outliers, and how much more work some steps launch.
    """
    steps = context.steps.measured_inside(window)
    mine = np.flatnonzero(array(steps, "process") == process)
    spans = Spans(*(array(steps, side)[mine] for side in ("start", "end")))
    operations, length, lost = context.operations, spans.end - spans.start, []
    call_start, outlier = array(context.trace[CALLS], "start"), is_outlier(length)
    net = max(float(_above_median(length).sum()), 0)
    for device in operations.devices:
        rows = operations.on(device)
        if operations.processes_of(device).tolist() != [process]:
            rows = taken(rows, taken(operations.process, rows) == process)
        if not len(rows):
            continue
        start, end, call = (taken(each, rows) for each in (operations.start, operations.end, operations.call))
        idle = length - covered(merge(start, end), spans.start, spans.end)
        end -= start
        known = call >= 0
        if len(call_start):
            start[known] = taken(call_start, taken(call, known))
        step = containing(spans, start)
        inside = step >= 0
        work = np.bincount(taken(step, inside), taken(end, inside), len(length))
        lost.append(float(np.maximum(_above_median(idle), 0)[outlier].sum() + np.maximum(_above_median(work), 0).sum()))
    return round(net), round(max(lost, default=net))


def _above_median(times: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return how much each time is above the median; negative where it is below."""
    above: npt.NDArray[np.float64] = times - np.median(times) if len(times) else np.zeros(0)
    return above


def longest_in(steps: Spans, left: Times, start: Times, length: Times) -> Mask:
    """Return which idle intervals are attributed to outliers: the longest of each step, up to its unexplained time."""
    found = np.zeros(len(start), bool)
    step = containing(steps, start)
    rows = np.flatnonzero((step >= 0) & (left[np.maximum(step, 0)] > 0)) if len(left) else np.empty(0, np.intp)
    rows = rows[np.lexsort((-length[rows], step[rows]))]
    before = np.cumsum(length[rows]) - length[rows]
    if not len(rows):
        return found
    first = np.flatnonzero(np.append(True, step[rows][1:] != step[rows][:-1]))
    before -= np.repeat(before[first], np.diff(np.append(first, len(rows))))
    # An interval counts as a whole where at least half of it fits into the unexplained time.
    found[rows] = before + length[rows] // 2 <= left[step[rows]]
    return found
