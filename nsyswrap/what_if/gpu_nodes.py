"""The GPU nodes of a simulation: the order in which operations were launched, and what each waited for.

::

    launch   |call|                          an operation begins when its latency since the launch has passed
                   .latency.                 and the operation before it in its stream has ended
    stream   ####|gap|[######]

Latencies and gaps are the medians of the sample for each kind of launch. A long call may have launched before it
returned: then the operation's own latency counts. An operation of another stream that it waits for is known where the
export records CUDA events. Else an operation that began later than the rest explains waited for another stream, if an
operation there ended just then. Unexplained time is missing in the simulation, and appears as its error.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import Operations
from nsyswrap.ranks.in_step import GATED_NS
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, coded, groups
from nsyswrap.what_if.cpu_nodes import BLOCKING_LAUNCH, LAUNCH, HostNodes

NONE = -1
EARLY = np.int64(-(1 << 50))


@dataclass(frozen=True)
class Queued:
    """The operations of a sample in launch order, as arrays of equal length.

    Operations that were launched before the sample come first.

    Attributes:
        row: Row in the context's operations.
        start: ns since capture start.
        end: ns since capture start.
        launch: Index of the host node that launched it; ``NONE`` where that was before the sample.
        launched: When it was launched, in ns.
        process: Global id of its process.
        stream: Number of its stream, unique over devices and processes.
        before: Index of the operation before it in its stream; ``NONE`` for the first.
        group: Number of its kind of launch: name of the call and table of the operation.
        staged: Whether its launch call waits for it. The driver may then stage the data first.
    """

    row: Indices
    start: Times
    end: Times
    launch: Indices
    launched: Times
    process: Times
    stream: Indices
    before: Indices
    group: Indices
    staged: npt.NDArray[np.bool_]

    @property
    def before_end(self) -> Times:
        """Return when the operation before in the stream ended, in ns; ``EARLY`` for the first."""
        return np.where(self.before >= 0, self.end[self.before], EARLY)


@dataclass(frozen=True)
class Starts:
    """What each operation of a sample waits for before it begins: arrays of one value an operation.

    Attributes:
        latency: ns from its launch to its begin, where nothing else delays it.
        gap: ns from the end of the operation before in its stream to its begin, where only that delays it.
        other: Index of an operation of another stream that it waits for; ``NONE`` for none.
        other_gap: ns from the end of ``other`` to its begin.
    """

    latency: Times
    gap: Times
    other: Indices
    other_gap: Times


def queue_operations(
    trace: Trace, operations: Operations, nodes: HostNodes, launched: Indices, backlog: Indices
) -> Queued:
    """Return the operations of a sample.

    Args:
        trace: The tables of one export.
        operations: All that ran on the GPUs.
        nodes: Moments of the host.
        launched: Rows of the operations launched in the sample.
        backlog: Rows of the operations that were launched before the sample and end in it.
    """
    launching = np.flatnonzero((nodes.kind == LAUNCH) | (nodes.kind == BLOCKING_LAUNCH))
    by_call = launching[np.argsort(nodes.call[launching])]
    node = by_call[np.searchsorted(nodes.call[by_call], operations.call[launched])]
    order = np.lexsort((operations.start[launched], node))
    backlog = backlog[np.argsort(operations.start[backlog], kind="stable")]
    row = np.concatenate([backlog, launched[order]])
    launch = np.concatenate([np.full(len(backlog), NONE, np.intp), node[order]])
    staged = (launch >= 0) & (nodes.kind[launch] == BLOCKING_LAUNCH)
    process, stream = operations.process[row], taken(operations.stream, row)
    streams = groups([process, operations.device_id[row], stream])[0]
    call_names = coded(trace[tables.CALLS], "name_id")[operations.call[row]]
    return Queued(
        row=row,
        start=operations.start[row],
        end=operations.end[row],
        launch=launch,
        launched=np.where(launch >= 0, nodes.moment[launch], EARLY),
        process=process,
        stream=streams,
        before=_before(streams),
        group=groups([call_names, operations.table[row], staged])[0],
        staged=staged,
    )


def _before(stream: Indices) -> Indices:
    """Return the operation before each operation in its stream; ``NONE`` for the first."""
    order = np.argsort(stream, kind="stable")
    same = stream[order][1:] == stream[order][:-1]
    found = np.full(len(stream), NONE, np.intp)
    found[order[1:]] = np.where(same, order[:-1], NONE)
    return found


def find_starts(queued: Queued, awaited: Indices) -> Starts:
    """Return what each operation waits for, with the typical latencies and gaps of its kind of launch.

    Args:
        queued: The operations of the sample.
        awaited: Index of the operation of another stream whose event each waits for; ``NONE`` for none.
    """
    inside = queued.launch >= 0
    since_launch = queued.start - queued.launched
    since_before = queued.start - queued.before_end
    awaited_end = np.where(awaited >= 0, queued.end[awaited], EARLY)
    just_in_time = inside & (np.maximum(queued.before_end, awaited_end) <= queued.launched)
    latency = np.minimum(medians(since_launch, queued.group, just_in_time), since_launch)
    latency = np.where(just_in_time & queued.staged, since_launch, latency)
    ready = queued.launched + latency
    in_line = (queued.before >= 0) & (np.maximum(ready, awaited_end) <= queued.before_end)
    gap = medians(since_before, queued.group, in_line)
    explained = np.maximum(ready, queued.before_end + gap)
    late = inside & (queued.start - explained > GATED_NS)
    # A late operation may wait for one of another stream that ended just before: one of the same process that was
    # launched before it. Of several, it is the last to end.
    guessed = np.full(len(queued.row), NONE, np.intp)
    by_end = np.argsort(queued.end, kind="stable")
    ends = queued.end[by_end]
    for each in np.flatnonzero(late & (awaited == NONE)):
        first, last = np.searchsorted(ends, [queued.start[each] - GATED_NS, queued.start[each] + 1])
        near = by_end[first:last]
        fits = (near < each) & (queued.stream[near] != queued.stream[each])
        near = near[fits & (queued.process[near] == queued.process[each])]
        if len(near):
            guessed[each] = near[-1]
    other = np.where(awaited >= 0, awaited, guessed)
    # The gap after that is as measured where the wait decided when the operation began. Elsewhere it is the median of
    # those, at most as measured.
    measured = np.where(other >= 0, queued.start - queued.end[other], 0)
    decided = (other >= 0) & (queued.end[other] > explained)
    typical = medians(measured, queued.group, decided)
    return Starts(latency, gap, other, np.where(decided, measured, np.minimum(typical, measured)))


def medians(values: Times, group: Indices, chosen: npt.NDArray[np.bool_]) -> Times:
    """Return the median of the chosen values in the group of each value; of all chosen where its group has none."""
    found = np.full(int(group.max(initial=-1)) + 1, np.median(values[chosen]) if chosen.any() else 0.0)
    order = np.lexsort((values[chosen], group[chosen]))
    known, first, count = np.unique(group[chosen][order], return_index=True, return_counts=True)
    ordered = values[chosen][order]
    found[known] = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    result: Times = found[group].astype(np.int64)
    return result
