"""The change "CUDA graphs": a run of launches becomes one launch.

::

    as it is   host   |launch|  |launch|  |launch|     |copy|  |launch|  |launch|
               GPU          [#]       [#]       [#]        [=]        [#]       [#]
    changed    host   |launch|                         |copy|  |launch|
               GPU          [#][#][#]                      [=]        [#][#]

A run is what a thread launches in one phase of one step at its usual pace. It ends where the thread copies between host
and GPU or waits for the GPU, which the launch of a graph cannot hold, and where it did something else than launch. The
kernels stay as they are. So it is also the least that a compiler saves which puts the launches into a graph and fuses
kernels as well: how far it fuses, no capture shows.
"""

import numpy as np

from nsyswrap.attribution.copy_table import DOWNLOAD, UPLOAD
from nsyswrap.attribution.launch_pace import usual_gap_ns
from nsyswrap.base.intervals import Indices, Spans, containing, union
from nsyswrap.events import api_calls
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.rules import idle, launches
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.affected_parts import calls_named, copies_in_direction
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def cuda_graphs(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "CUDA graphs" of all threads that launch."""
    context, operations = simulation.context, simulation.context.operations
    calls = context.trace[tables.CALLS]
    thread, start, end = coded(calls, "thread"), array(calls, "start"), array(calls, "end")
    launching, first = np.unique(operations.call[simulation.operations], return_index=True)
    row = simulation.operations[first]
    copies = np.concatenate([copies_in_direction(simulation, each) for each in (UPLOAD, DOWNLOAD)])
    waits = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    usual = {each: usual_gap_ns(context, each, simulation.sample) for each in operations.devices}
    host: dict[int, Spans] = {}
    for each in simulation.threads:
        mine = np.flatnonzero(thread[launching] == each)
        its = launching[mine]
        phase, step = context.phase_of_operations[row[mine]], _step_of(simulation, each, start[its])
        fits = ~np.isin(its, operations.call[copies]) & (phase != context.phases.code(DATA))
        longest = np.array([usual[device] for device in operations.device_id[row[mine]].tolist()])
        waited = np.searchsorted(np.sort(start[waits[thread[waits] == each]]), start[its])
        follows = fits[1:] & fits[:-1] & (np.diff(waited) == 0) & (np.diff(phase) == 0) & (np.diff(step) == 0)
        follows &= start[its[1:]] - end[its[:-1]] <= longest[1:]
        # The launch of a graph takes as long as a launch usually does.
        first = its[fits & ~np.append(False, follows)]
        since = np.minimum(start[first] + round(float(np.median(end[its] - start[its]))), end[first])
        host[each] = union(Spans(end[its[:-1]][follows], end[its[1:]][follows]), Spans(since, end[first]))
    return WhatIf(Change(host=host), "one launch of a CUDA graph for each run of launches; the kernels stay")


def _step_of(simulation: Simulation, thread: int, at: Indices) -> Indices:
    """Return the number of the step in which each moment of a thread lies; -1 for none."""
    steps = simulation.context.steps.frame
    mine = steps[array(steps, "process") == tables.process_of(np.array([thread]))[0]].sort_values("start")
    return containing(Spans(array(mine, "start"), array(mine, "end")), at)


FIXES = (Fix((idle.LAUNCH, launches.LAUNCH_BOUND), cuda_graphs),)
