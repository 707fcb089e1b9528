"""The collectives of MPI: calls that no rank leaves before all ranks have begun theirs.

::

    rank 0    |MPI_Allreduce .........waits.........|transfer|
    rank 1                                          |transfer|
                                                    last rank arrives
"""

import re
from typing import NamedTuple

import numpy as np

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

# In these each rank needs something of each other rank. From others, such as a broadcast, some ranks return early.
# Source: the MPI standard 4.1, chapter 6.
_JOINT = re.compile(r"P?MPI_(?:Allreduce|Allgatherv?|Alltoall[vw]?|Barrier|Reduce_scatter(?:_block)?)")


class MpiCollectives(NamedTuple):
    """The calls of collectives that several ranks of the capture made: arrays of equal length.

    Attributes:
        thread: Global id of the thread of each call.
        start, end: When it began and returned, in ns since capture start.
        group: Number of its collective.
        arrival: When the last rank began the collective, in ns.
    """

    thread: Times
    start: Times
    end: Times
    group: Indices
    arrival: Times


@memo
def find_mpi_collectives(trace: Trace) -> MpiCollectives:
    """Return the calls of collectives that several processes of a capture made, matched by name and number.

    The n-th call of a name in one process is the n-th in the others, where all made as many. Where one of them returned
    before another began, they are not the same collective, and count as none.
    """
    calls = trace[tables.LIBRARY_CALLS]
    names, threads = coded(calls, "name_id"), coded(calls, "thread")
    rows: list[Indices] = []
    group = arrival = 0
    groups, arrivals = [], []
    start, end = array(calls, "start"), array(calls, "end")
    for code in [each for each in names.ids.tolist() if _JOINT.fullmatch(trace.text(int(each)))]:
        mine = np.flatnonzero(names.equal(code))
        owner = tables.process_of(threads[mine])
        by_process = [mine[owner == each] for each in tables.distinct(owner).tolist()]
        if len(by_process) < 2 or len({len(each) for each in by_process}) > 1:  # noqa: PLR2004 - of one rank alone
            continue
        together = np.stack([each[np.argsort(start[each], kind="stable")] for each in by_process])
        arrival = start[together].max(axis=0)
        whole = np.flatnonzero(arrival <= end[together].min(axis=0))
        rows.append(together[:, whole].ravel())
        groups.append(np.tile(group + np.arange(len(whole)), len(by_process)))
        arrivals.append(np.tile(arrival[whole], len(by_process)))
        group += len(whole)
    chosen = np.concatenate([np.empty(0, np.intp), *rows])
    return MpiCollectives(
        threads[chosen],
        start[chosen],
        end[chosen],
        np.concatenate([np.empty(0, np.intp), *groups]),
        np.concatenate([np.empty(0, np.int64), *arrivals]),
    )


class LastRank(NamedTuple):
    """The process that others wait for most, in collectives of MPI.

    Attributes:
        process: Its global id.
        last: In how many collectives it is the last to begin.
        collectives: The number of collectives.
    """

    process: int
    last: int
    collectives: int


def find_last_rank(trace: Trace, window: Window) -> LastRank | None:
    """Return the process for which the others wait for more than half of their time in collectives; None for none."""
    calls = find_mpi_collectives(trace)
    inside = (calls.start < window.end_ns) & (calls.end > window.start_ns)
    process, wait = tables.process_of(calls.thread[inside]), (calls.arrival - calls.start)[inside]
    groups, place = np.unique(calls.group[inside], return_inverse=True)
    is_last = wait == 0
    of_group = np.zeros(len(groups), np.int64)
    of_group[place[is_last]] = process[is_last]
    waited = np.bincount(place, weights=wait, minlength=len(groups))
    by_process = {each: float(waited[of_group == each].sum()) for each in tables.distinct(of_group).tolist()}
    most = max(by_process, key=lambda each: by_process[each], default=0)
    if not most or 2 * by_process[most] <= waited.sum():
        return None
    return LastRank(most, int((of_group == most).sum()), len(groups))
