"""The change "less CPU work between launches", on all ranks.

::

    rank 0   host  |launch|== works ==|launch|            its GPU waits for rank 1, and so hides what its host does
             GPU          [...waits...[sum]
    rank 1   host  ....|== works ==|launch|               its GPU is idle
             GPU                          [sum]

Ranks run the same program. Where a GPU waits for another rank, it is not idle, but its host may do the same work: if
one rank alone had less of it, the other one would be late instead.
"""

import numpy as np

from nsyswrap.attribution.launch_pace import usual_gap_ns
from nsyswrap.base.intervals import Spans, intersect, merge, subtract, union
from nsyswrap.rules import idle
from nsyswrap.trace import tables
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def less_cpu_work(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change: the host saves its work where its GPU is idle for it, or waits for another rank meanwhile."""
    host, graph = lost.on_host(simulation), simulation.graph
    processes = tables.process_of(np.array(simulation.threads, np.int64))
    for process, waits, longest in _waits_of_ranks(simulation):
        for thread in np.array(simulation.threads)[processes == process].tolist():
            mine = np.flatnonzero((graph.thread == thread) & (graph.work_end - graph.work_start > longest))
            works = subtract(merge(graph.work_start[mine], graph.work_end[mine]), simulation.states.of(thread).spans)
            host[thread] = union(host[thread], intersect(works, waits))
    return WhatIf(Change(host=host), "the hosts of all ranks save this time")


def _waits_of_ranks(simulation: Simulation) -> list[tuple[int, Spans, float]]:
    """Return when the GPU of each process waits for another rank, and the longest gap of its usual pace, in ns."""
    context, collectives, found = simulation.context, simulation.collectives, []
    operations = context.operations
    for device in operations.devices:
        rows = collectives.row[collectives.on(device)]
        waits = merge(operations.start[rows], collectives.begun(operations, rows))
        longest = usual_gap_ns(context, device, simulation.sample)
        found += [(process, waits, longest) for process in np.unique(operations.process[rows]).tolist()]
    return found


FIXES = (Fix((idle.CPU,), less_cpu_work),)
