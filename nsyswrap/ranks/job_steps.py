"""The steps of a job on the GPUs of its ranks, and the step that stands for all of them.

A step of a rank lasts from the end of the last operation of the step before to the end of its own last operation. So
the steps of a rank follow one another without a gap, also where the host is ahead of its GPU::

    host       |-- step 3 --|-- step 4 --|
    GPU             |##### step 3 ####|....##### step 4 ####|
                                      ^ it begins           ^ it ends
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.identity import Rank, Ranks
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

# The median step stands for the job unless it has less than this share of the mean wait. Ours; it selects a picture.
TYPICAL_SHARE = 0.5


@dataclass(frozen=True)
class JobSteps:
    """The measured steps of a job.

    Attributes:
        names: Name of each step, as its first rank has it.
        ranks: The ranks.
        begin: When each step begins on the GPU of each rank, in ns since capture start, shape (steps, ranks).
        end: When it ends there.
    """

    names: tuple[str, ...]
    ranks: tuple[Rank, ...]
    begin: Times
    end: Times

    @property
    def length(self) -> Times:
        """Return the time from when the last rank begins each step to when the last one ends it, in ns."""
        length: Times = self.end.max(axis=1) - self.begin.max(axis=1)
        return length

    def waits(self, collectives: Collectives, exposed_wait: Times) -> Times:
        """Return how long all ranks together wait in each step, in ns.

        Args:
            collectives: The collectives of all ranks.
            exposed_wait: Exposed wait of each of their kernels; a kernel belongs to the step in which it ends.
        """
        waits = np.zeros(len(self.names), np.int64)
        for place, rank in enumerate(self.ranks):
            mine = collectives.on(rank.device_id)
            ended = collectives.end[mine]
            step = np.searchsorted(self.begin[:, place], ended) - 1
            inside = (step >= 0) & (ended <= self.end[np.maximum(step, 0), place])
            np.add.at(waits, step[inside], exposed_wait[mine[inside]])
        return waits

    def chosen(self, waits: Times) -> tuple[int, ...]:
        """Return the step of median length; with it, where it has unusually little waiting, the one with most.

        Args:
            waits: How long all ranks wait in each step.
        """
        order = np.argsort(self.length, kind="stable")
        median, longest = int(order[(len(order) - 1) // 2]), int(np.argmax(waits))
        is_typical = waits[median] >= TYPICAL_SHARE * waits.mean()
        return (median,) if is_typical or median == longest else (median, longest)


def find_job_steps(context: TraceContext, ranks: Ranks, window: Window) -> JobSteps | None:
    """Return the measured steps of a job inside a window; None without any.

    The rank with most steps names them. On each other rank a step is the one in the middle of it. A rank without steps
    of its own has those of that rank. Where no step ends in the window on all ranks, those that touch it are cut.

    Args:
        context: The trace, its events and its loop.
        ranks: The ranks.
        window: Interval of the steps.
    """
    counted = context.steps.counted.sort_values("start", kind="stable")
    frames = [counted[counted["process"] == rank.process] for rank in ranks.each]
    if not any(len(frame) for frame in frames):
        return None
    bounds = [_bounds(context, rank, frame) for rank, frame in zip(ranks.each, frames, strict=True)]
    first = int(np.argmax([int((~frame["warm_up"]).sum()) for frame in frames]))
    measured = np.flatnonzero(~array(frames[first], "warm_up"))
    # Begin and end of each of these steps on all ranks, shape (steps, ranks).
    own = bounds[first]
    middle = (own[measured] + own[measured + 1]) // 2
    begins, ends = [], []
    for its in bounds:
        edges = its if len(its) else own
        at = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(edges) - 2)
        begins.append(edges[at])
        ends.append(edges[at + 1])
    begin, end = np.stack(begins, axis=1), np.stack(ends, axis=1)
    whole = (begin.min(axis=1) >= window.start_ns) & (end.max(axis=1) <= window.end_ns)
    begin, end = (np.clip(each, window.start_ns, window.end_ns) for each in (begin, end))
    kept = whole if whole.any() else (end > begin).all(axis=1)
    if not kept.any():
        return None
    names = frames[first]["name"].astype(str).to_numpy()[measured[kept]]
    return JobSteps(tuple(names.tolist()), ranks.each, begin[kept], end[kept])


def _bounds(context: TraceContext, rank: Rank, frame: pd.DataFrame) -> Times:
    """Return when the GPU of a rank begins each step, and when it ends the last one, in ns, shape (steps + 1,)."""
    if not len(frame):
        return np.empty(0, np.int64)
    operations = context.operations
    rows = operations.on(rank.device_id)
    rows = rows[operations.process[rows] == rank.process]
    # When each was launched; its start where the call is not known.
    calls = context.trace[tables.CALLS]
    launched = operations.start[rows].copy()
    known = operations.call[rows] >= 0
    launched[known] = array(calls, "start")[operations.call[rows[known]]]
    order = np.argsort(launched, kind="stable")
    ended = np.maximum.accumulate(operations.end[rows[order]])
    edges = np.append(array(frame, "start"), array(frame, "end")[-1])
    before = np.searchsorted(launched[order], edges)
    edges_on_gpu: Times = np.where(before > 0, ended[before - 1], edges)
    return edges_on_gpu
