"""What bounds a simulated run: the kinds of work on its critical path.

The critical path goes from the end of the sample back to its begin: from each node to the one that it waited for last.
Only what is on it makes the run longer::

    host     --work--> launch --work--> launch ............ wait returns
                       |                                     |
    stream             +--latency--[##########]--[##########]+        the path: work, latency, two kernels
"""

from enum import StrEnum

import numpy as np

from nsyswrap.events.operations import COMMUNICATION, COMPUTE
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.simulate import Simulation

NOTHING_LEFT = "After that, nothing is left that the simulation can change"


class PathKind(StrEnum):
    """A kind of work on the critical path."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPIES = "memory copies"
    LOADER = "the data loader"
    CPU = "the CPU"
    DELAYS = "delays between operations"


def bounds_after(simulation: Simulation, *changes: Change) -> str:
    """Return in words what limits the run after the changes."""
    found = critical_path(simulation, *changes)
    if not sum(found.values()):
        return NOTHING_LEFT
    most = max(found, key=lambda kind: found[kind])
    return f"After that, {most.value} set{'' if most.value.endswith('s') else 's'} the pace"


def critical_path(simulation: Simulation, *changes: Change) -> dict[PathKind, int]:
    """Return the time of each kind of work on the critical path of the sample after some changes, in ns."""
    graph = simulation.graph
    own, held = graph.weights(*changes)
    happened = graph.run(*changes)
    lengths = np.rint(graph.length * graph.factors(*changes)).astype(np.int64)
    kinds = simulation.context.operations.kind
    found = dict.fromkeys(PathKind, 0)
    ends = np.flatnonzero(simulation.graph.is_end)
    at = int(ends[np.argmax(happened[ends])]) if len(ends) else 0
    while at > 0:
        by_own = happened[graph.after[at]] + own[at] >= happened[graph.held_by[at]] + held[at]
        before = int((graph.after if by_own else graph.held_by)[at])
        # What ran before the sample does not count.
        spent = int(happened[at] - max(happened[before], simulation.begun_ns))
        length = 0
        if graph.operation[at] >= 0:
            length = min(max(spent, 0), int(lengths[at]))
            found[_OF_OPERATIONS.get(int(kinds[graph.operation[at]]), PathKind.COPIES)] += length
        rest = PathKind.DELAYS
        if graph.thread[at]:
            rest = PathKind.CPU if by_own else PathKind.LOADER if graph.is_batch[at] else PathKind.DELAYS
        found[rest] += max(spent - length, 0)
        at = before
    return found


_OF_OPERATIONS = {COMPUTE: PathKind.COMPUTE, COMMUNICATION: PathKind.COMMUNICATION}
