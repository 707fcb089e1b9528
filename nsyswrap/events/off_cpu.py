"""When a thread does not run outside its calls: it has no core, or it waits for pages of memory.

Switches of cores are recorded only on demand. Without them, both follow from sampled times. Where calls of the
operating system were not traced, a thread that is off its core may as well wait in such a call.

The kernel counts for each thread how long it was ready without a core. A sample gives the time since the previous
sample, but not when it passed. A thread without a core makes no calls, so the time is placed on the longest intervals
between two moments at which the thread did something, the longest first::

    samples    |.............. 100 ms, 9 ms without a core ..............|
    calls      ||| |  ||| |               |||| |  |        |||  || | ||||
    placed                |--- 6 ms -----|         |-3 ms-|

Waits for the GPU and in the operating system are left out: there the thread was not ready. Source: sched_info in the
kernel's Documentation/scheduler/sched-stats.rst (second number of schedstat).

A thread that touches a page which is not in memory waits for the disk, too, without any call. While its process has
such page faults, that is the time in which the thread did not run, was not ready and did not wait in a call. It is
placed in the same way.
"""

from typing import NamedTuple

import numpy as np

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, Window, covered, gaps, merge, overlay
from nsyswrap.base.memo import memo
from nsyswrap.events.host_record import Samples
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

# The kernel adds up the time of a running thread once a tick, so that a sample may lack up to a tick. Source: the
# longest tick that Linux can be built with (CONFIG_HZ=100).
TICK_NS = 10_000_000


class Moments(NamedTuple):
    """What one thread did.

    Attributes:
        at: Begins and ends of its calls, in ns, ascending.
        waits: When it waited for the GPU or in the operating system.
    """

    at: Times
    waits: Spans


def has_switches(trace: Trace, thread: int) -> bool:
    """Return whether the capture shows when a thread got a core and lost it."""
    return thread in _places(trace)


def find_off_cpu(trace: Trace, window: Window, thread: int) -> Spans:
    """Return when a thread is off the CPU, in a call or not, from recorded switches; empty where none were recorded."""
    frame = trace[tables.SCHEDULING]
    place = _places(trace).get(thread, slice(0, 0))
    mine = array(frame, "thread")[place] == thread
    start, running = array(frame, "start")[place][mine], array(frame, "running")[place][mine]
    end = np.append(start[1:], window.end_ns) if len(start) else start
    return merge(start[~running], end[~running])


@memo
def _places(trace: Trace) -> dict[int, slice]:
    """Return the rows from the first to the last switch of each thread."""
    return coded(trace[tables.SCHEDULING], "thread").places()


def find_core_waits(samples: Samples, moments: Moments, start_ns: int, end_ns: int) -> Spans:
    """Return when a thread was ready without a core inside an interval."""
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
        placed = _placed(wanted, _free(moments, low, high))
        left = wanted - int((placed.end - placed.start).sum())
        starts.append(placed.start)
        ends.append(placed.end)
    if not starts:
        return NOTHING
    return merge(np.concatenate(starts), np.concatenate(ends))


def find_fault_waits(samples: Samples, faults: Samples, moments: Moments, taken: Spans, window: Window) -> Spans:
    """Return when a thread waited for pages of memory that its process read from disk.

    Args:
        samples: Its run time and its time without a core.
        faults: The page faults of its process that read from disk.
        moments: What it did.
        taken: When it was in a call, or is known to have had no core: there is no such wait.
        window: Interval of time. What a thread did before and after it is not known, so a sample must lie inside.
    """
    at = samples.at
    if len(at) < 2 or len(faults.at) < 2:  # noqa: PLR2004 - a difference needs two samples
        return NOTHING
    faulted = np.diff(np.interp(at, faults.at, faults.values["major_faults"])) > 0
    known = (at[:-1] >= window.start_ns) & (at[1:] <= window.end_ns)
    explained = np.diff(samples.values["on_cpu_ns"]) + np.diff(samples.values["delay_ns"])
    blocked = np.diff(at) - explained - covered(moments.waits, at[:-1], at[1:])
    free = Moments(moments.at, taken)
    parts = [NOTHING]
    left = -TICK_NS
    for number in np.flatnonzero(known & faulted).tolist():
        # What a sample lacks of the run time, the next one has, so the sums of samples in succession are exact.
        left = (left if number and faulted[number - 1] else -TICK_NS) + int(blocked[number])
        if left > 0:
            parts.append(_placed(left, _free(free, int(at[number]), int(at[number + 1]))))
            left = 0
    return merge(*(np.concatenate(sides) for sides in zip(*parts, strict=True)))


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
