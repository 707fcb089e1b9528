"""Which steps take longer than the others, how much of that nothing else explains, and which idle time it is.

A step is long for a reason of its own, or because of what another finding counts already. What is left is the cost of
uneven steps, and of the idle time in them as much belongs to it: the longest stretches, which the other steps lack.
"""

import numpy as np
import numpy.typing as npt

from nsyswrap.intervals import Spans, Times, containing

Mask = npt.NDArray[np.bool_]

# Beyond the outer quartile by one and a half times the distance of the quartiles. Source: J. Tukey, Exploratory Data
# Analysis, 1977. Ours: at least a tenth more than the median, since warmed-up steps differ by less.
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
    """Return what each outlier takes more than the median step and nothing else explains, in ns; 0 for other steps.

    Args:
        length: Of each measured step of one process, in ns.
        explained: How much of it is idle time that another finding counts: what an outlier has more of it than the
            median step is not counted again.
    """
    if not len(length):
        return length
    excess = np.where(is_outlier(length), np.round(length - np.median(length)), 0)
    grown = np.maximum(explained - np.median(explained), 0)
    return np.maximum(excess - np.round(grown), 0).astype(np.int64)


def cost_of(length: Times, left: Times) -> int:
    """Return what the outliers of one process cost, in ns, short steps made up against long ones.

    A host that waits a step later than usual makes one step long and the next one short, and loses nothing.

    Args:
        length: Of each measured step, in ns.
        left: What ``unexplained`` returns for them.
    """
    net = max(round(float((length - np.median(length)).sum())), 0) if len(length) else 0
    return min(int(left.sum()), net)


def longest_in(steps: Spans, left: Times, start: Times, length: Times) -> Mask:
    """Return which stretches of idle time make outliers long: in each the longest, until they last as long as is left.

    Args:
        steps: Disjoint steps in order.
        left: What is left of each of them, in ns.
        start: Start of each stretch, in ns.
        length: Its length, in ns.
    """
    found = np.zeros(len(start), bool)
    step = containing(steps, start)
    rows = np.flatnonzero((step >= 0) & (left[np.maximum(step, 0)] > 0)) if len(left) else np.empty(0, np.intp)
    rows = rows[np.lexsort((-length[rows], step[rows]))]
    before = np.cumsum(length[rows]) - length[rows]
    if not len(rows):
        return found
    first = np.flatnonzero(np.append(True, step[rows][1:] != step[rows][:-1]))
    before -= np.repeat(before[first], np.diff(np.append(first, len(rows))))
    # A stretch is taken whole where more than half of it is still to be found.
    found[rows] = before + length[rows] // 2 <= left[step[rows]]
    return found
