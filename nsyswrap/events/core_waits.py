"""When a thread was ready but had no core, from its sampled run-queue time.

The kernel counts for each thread how long it was ready without a core. A sample gives the time since the previous
sample, but not when it passed. A thread without a core makes no calls, so the time is placed on the longest intervals
between two moments at which the thread did something, the longest first::

    samples    |.............. 100 ms, 9 ms without a core ..............|
    calls      ||| |  ||| |               |||| |  |        |||  || | ||||
    placed                |--- 6 ms -----|         |-3 ms-|

Waits for the GPU and in the operating system are left out: there the thread was not ready. Source: sched_info in the
kernel's Documentation/scheduler/sched-stats.rst (second number of schedstat).
"""

from typing import NamedTuple

import numpy as np

from nsyswrap.events.host_record import Samples
from nsyswrap.intervals import NOTHING, Indices, Spans, Times, gaps, merge, overlay


class Moments(NamedTuple):
    """What one thread did.

    Attributes:
        at: Begins and ends of its calls, in ns, ascending.
        waits: When it waited for the GPU or in the operating system.
    """

    at: Times
    waits: Spans


def find_core_waits(samples: Samples, moments: Moments, start_ns: int, end_ns: int) -> Spans:
    """Return when a thread was ready without a core inside an interval.

    Args:
        samples: Its run time and its time without a core.
        moments: What it did.
        start_ns: Begin of the interval.
        end_ns: End of the interval.
    """
    at = samples.at
    if len(at) < 2:  # noqa: PLR2004 - a difference needs two samples
        return NOTHING
    delay = np.diff(samples.values["delay_ns"])
    touching = np.flatnonzero((at[1:] > start_ns) & (at[:-1] < end_ns))
    starts, ends = [], []
    left = 0
    # The kernel adds a wait when it is over, so what does not fit into an interval belongs to the one before it.
    for number in touching[::-1].tolist():
        low, high = max(int(at[number]), start_ns), min(int(at[number + 1]), end_ns)
        # What a thread did outside the bounds is not known, so that part gets its proportional share of the time.
        inside = (high - low) / int(at[number + 1] - at[number])
        wanted = left + round(int(delay[number]) * inside)
        if wanted <= 0:
            continue
        found = _placed(wanted, _free(moments, low, high))
        left = wanted - int((found.end - found.start).sum())
        starts.append(found.start)
        ends.append(found.end)
    if not starts:
        return NOTHING
    return merge(np.concatenate(starts), np.concatenate(ends))


def _free(moments: Moments, start_ns: int, end_ns: int) -> Spans:
    """Return the intervals between two moments of a thread in which it did not wait."""
    first, last = np.searchsorted(moments.at, [start_ns, end_ns])
    edges = np.unique(np.concatenate([[start_ns], moments.at[first:last], [end_ns]]))
    ready = gaps(moments.waits, start_ns, end_ns)
    _, _, start, end = overlay(ready, Spans(edges[:-1], edges[1:]))
    return Spans(start, end)


def _placed(wanted_ns: int, free: Spans) -> Spans:
    """Return the longest free intervals, in all as long as wanted; the last of them is cut at its end."""
    length = free.end - free.start
    order: Indices = np.argsort(-length, kind="stable")
    before = np.cumsum(length[order]) - length[order]
    chosen, room = order[before < wanted_ns], wanted_ns - before[before < wanted_ns]
    start = free.start[chosen]
    return Spans(start, start + np.minimum(length[chosen], room))
