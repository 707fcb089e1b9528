"""The dependency graph of host and GPU, which can be run again with some of its times changed.

::

    host      --own--> launch --own--> launch --own--> wait returns --own--> launch
                       |own            |own            ^ held until the operation has ended
    stream           [####] -held-> [####]-------------|

A node happens when all nodes that it waits for have happened and its own time has passed. So the length of the sample
is the longest path through the graph. The input is the times of single calls, operations and gaps. The simulation
without a change is compared with the measured time before any change is tried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, clip, covered, union

# Value of ``held`` for a node that no other node delays.
FREE = np.int64(-(1 << 60))
NO_ROWS = np.empty(0, np.intp)

Factors = float | npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Change:
    """What a fix changes; all other times stay as measured. A change equals only itself.

    Attributes:
        host: Time that the launching threads save, in ns: spans for all of them, or spans by thread. It does not
            include waits for the GPU, which follow from the simulation.
        host_factor: Share of that time that remains; 0 for none.
        operations: Rows of the context's operations whose length changes.
        factor: Factor for their length: one number, or one for each of them. With 0 the operation is removed, with its
            latency and the gap before it.
        waits: Rows in ``trace[CALLS]`` of calls that no longer wait for the GPU.
        loader_factor: Factor for the time from one batch of the data loader to the next; 0 for a loader that is always
            ahead.
        latency_factor: Factor for the time from a launch to the begin of its operation.
        pace_factor: Factor for all work of the host that remains, and for the pace of a data loader.
        waited: How much of each node's work has no pace, since it is a wait in the operating system, in ns.
        host_work: The host's own work in each node, in ns, where it is not as measured; None for as measured.
        sooner_ns: How much sooner each operation of a queue ends after the one before it: one number, or one for each
            row of the context's operations. First the gap between the two gets shorter; the rest shortens the
            operation. Operations that run at the same time save nothing.
        least_ns: The least time that the sample takes then, such as that in which the cores prepare its batches.
    """

    host: Spans | Mapping[int, Spans] = NOTHING
    host_factor: float = 0.0
    operations: Indices = field(default_factory=lambda: NO_ROWS)
    factor: Factors = 1.0
    waits: Indices = field(default_factory=lambda: NO_ROWS)
    loader_factor: float = 1.0
    latency_factor: float = 1.0
    pace_factor: float = 1.0
    waited: Times | None = None
    host_work: Times | None = None
    sooner_ns: Factors = 0.0
    least_ns: int = 0


NO_CHANGE = Change()


@dataclass(frozen=True)
class DependencyGraph:
    """Nodes in topological order: no node waits for a later one. Arrays of equal length.

    A node happens at the later of two moments: that of ``after`` plus ``own``, and that of ``held_by`` plus ``held``.

    Attributes:
        after: Node that it follows. Node 0 is the start of the sample and follows itself.
        own: ns from that node to this one.
        held_by: Another node that it waits for; node 0 where there is none.
        held: ns from ``held_by`` to this node; ``FREE`` where there is none.
        thread: Global id of the thread of a node of the host; 0 for operations.
        work_start: Start of the host's own work in ``own``, in ns since capture start.
        work_end: Its end; not after the start where there is no such work.
        moment: When a node of the host happened as recorded, in ns since capture start; the start of the sample for
            other nodes.
        operation: Row of the context's operations that ends with this node; -1 for none.
        length: Length of that operation in ns, included in ``own`` and in ``held``.
        call: Row in ``trace[CALLS]`` of the call that waits for the GPU in this node; -1 for none.
        is_batch: Whether this node is the loader's next batch; ``held`` is then the loader's own pace.
        is_end: Whether the sample is over only when this node has happened.
    """

    after: Indices
    own: Times
    held_by: Indices
    held: Times
    thread: Times
    work_start: Times
    work_end: Times
    moment: Times
    operation: Indices
    length: Times
    call: Indices
    is_batch: npt.NDArray[np.bool_]
    is_end: npt.NDArray[np.bool_]

    def run(self, *changes: Change) -> Times:
        """Return when each node happens after some changes, in ns since the start of the sample."""
        own, held = self.weights(*changes) if changes else (self.own, self.held)
        happened = [0]
        columns = (self.after, own, self.held_by, held)
        for after, work, holder, hold in zip(*(column[1:].tolist() for column in columns), strict=True):
            moment, other = happened[after] + work, happened[holder] + hold
            happened.append(moment if moment > other else other)  # noqa: FURB136 - max() takes twice the time
        return np.array(happened, np.int64)

    def weights(self, *changes: Change) -> tuple[Times, Times]:
        """Return ``own`` and ``held`` after some changes.

        Where several changes touch the same time, operation or call, the strongest of them counts. So the order of
        changes does not matter, a change that is made twice counts once, and changes of different things add up.
        """
        factors = self.factors(*changes)
        latency = min((each.latency_factor for each in changes), default=1.0)
        paced = max(changes, key=lambda each: abs(each.pace_factor - 1), default=NO_CHANGE)
        pace = paced.pace_factor
        loader = min((each.loader_factor for each in changes), default=1.0) * pace
        shorter = self.length * (1 - factors)
        waited = np.maximum(np.where(self.operation >= 0, self.own - self.length, 0), 0) * (1 - latency)
        own = self.own - np.rint(self._saved(changes) + shorter + waited).astype(np.int64)
        if pace != 1:
            worked = np.maximum(own - (0 if paced.waited is None else paced.waited), 0)
            own += np.where(self.thread != 0, np.rint(worked * (pace - 1)), 0).astype(np.int64)
        shorter += self._sooner(changes)
        held = np.where(self.held > FREE, self.held - np.rint(shorter).astype(np.int64), FREE)
        batches = self.is_batch & (held > FREE)
        held[batches] = np.rint(held[batches] * loader)
        gone = (self.operation >= 0) & (factors == 0)
        own = np.where(gone, np.minimum(own, 0), own)
        held = np.where(gone & (held > FREE), 0, held)
        freed = np.zeros(len(self.call), bool)
        for each in changes:
            freed |= (self.call >= 0) & np.isin(self.call, each.waits)
        if loader == 0:
            freed |= self.is_batch
        return own, np.where(freed, FREE, held)

    def _saved(self, changes: Sequence[Change]) -> npt.NDArray[np.float64]:
        """Return how much of each node's work the changes save, in ns; where they overlap, the strongest one counts."""
        saved = np.zeros(len(self.own))
        for factor, next_factor in pairwise([*sorted({each.host_factor for each in changes}), 1.0]):
            hosts = [each.host for each in changes if each.host_factor <= factor]
            saved += (next_factor - factor) * self._inside(hosts)
        for each in changes:
            if each.host_work is not None:
                saved = np.maximum(saved, self.own - each.host_work)
        return saved

    def _sooner(self, changes: Sequence[Change]) -> npt.NDArray[np.float64]:
        """Return how much sooner each operation ends after the one before it in its queue, in ns."""
        at = np.flatnonzero((self.operation >= 0) & (self.held >= self.length))
        found = np.zeros(len(self.held))
        for each in changes:
            sooner = each.sooner_ns if isinstance(each.sooner_ns, float) else each.sooner_ns[self.operation[at]]
            found[at] = np.maximum(found[at], np.minimum(self.held[at], sooner))
        return found

    def _inside(self, hosts: Sequence[Spans | Mapping[int, Spans]]) -> Times:
        """Return how much of each node's work is inside any of the spans, in ns."""
        first, last = int(self.work_start.min()), int(self.work_end.max())
        everywhere = [each for each in hosts if isinstance(each, Spans)]
        by_thread = [each for each in hosts if not isinstance(each, Spans)]
        found = covered(clip(union(*everywhere), first, last), self.work_start, self.work_end)
        for thread in {thread for each in by_thread for thread in each}:
            mine = np.flatnonzero(self.thread == thread)
            spans = union(*everywhere, *(each[thread] for each in by_thread if thread in each))
            found[mine] = covered(clip(spans, first, last), self.work_start[mine], self.work_end[mine])
        return found

    def factors(self, *changes: Change) -> npt.NDArray[np.float64]:
        """Return the factor for the length of each node's operation: the smallest of all that change it, else 1."""
        factors = np.full(len(self.operation), np.inf)
        for each in changes:
            if not len(each.operations):
                continue
            order = np.argsort(each.operations)
            rows, given = each.operations[order], np.broadcast_to(each.factor, len(order))[order]
            at = np.minimum(np.searchsorted(rows, self.operation), len(rows) - 1)
            changed = rows[at] == self.operation
            factors = np.where(changed, np.minimum(given[at], factors), factors)
        return np.where(np.isinf(factors), 1.0, factors)


_NO_TIMES, _NO_FLAGS = np.zeros(1, np.int64), np.zeros(1, bool)
EMPTY = DependencyGraph(
    after=_NO_TIMES,
    own=_NO_TIMES,
    held_by=_NO_TIMES,
    held=_NO_TIMES,
    thread=_NO_TIMES,
    work_start=_NO_TIMES,
    work_end=_NO_TIMES,
    moment=_NO_TIMES,
    operation=_NO_TIMES - 1,
    length=_NO_TIMES,
    call=_NO_TIMES,
    is_batch=_NO_FLAGS,
    is_end=_NO_FLAGS,
)
