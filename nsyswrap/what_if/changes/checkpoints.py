"""The change "no checkpoint in the step": neither its files nor its copies between host and GPU.

::

    as it is   host   |launch|  |== state_dict ==|copy ....|== write ==|launch|
               GPU          [#]                  [=========]                 [#]
    changed    host   |launch||launch|
               GPU          [#]    [#]

One that is saved seldom, or from a copy of the state by another thread, takes no time of the others.
"""

import numpy as np

from nsyswrap.base.intervals import containing, union
from nsyswrap.events import api_calls
from nsyswrap.events.host_record import find_marks, spans_of
from nsyswrap.events.operations import SOURCES
from nsyswrap.rules import host
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.affected_parts import calls_named, inside_sample
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def no_checkpoint(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change: no time in marked calls that save or load, none of their copies, and no wait in them."""
    context, marks, idle = simulation.context, find_marks(simulation.context.trace), lost.on_host(simulation)
    calls, ran = context.trace[tables.CALLS], simulation.operations
    thread, start = coded(calls, "thread"), array(calls, "start")
    copies = ran[context.operations.table[ran] == SOURCES.index(tables.COPIES)]
    of_copies, all_calls = context.operations.call[copies], calls_named(simulation, lambda _name: True)
    spans, waits, without = {}, np.zeros(len(all_calls), bool), np.zeros(len(copies), bool)
    for each in simulation.threads:
        marked = inside_sample(simulation, spans_of(marks, each, (api_calls.CHECKPOINT,)))
        spans[each] = union(idle[each], marked)
        waits |= (thread[all_calls] == each) & (containing(marked, start[all_calls]) >= 0)
        without |= (thread[of_copies] == each) & (containing(marked, start[of_copies]) >= 0)
    change = Change(host=spans, waits=all_calls[waits], operations=copies[without], factor=0.0)
    return WhatIf(change, "no time in checkpoints, and none of their copies")


FIXES = (Fix((host.CHECKPOINT,), no_checkpoint),)
