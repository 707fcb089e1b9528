"""The changes "read values later" and "one copy instead of many small ones"."""

import numpy as np

from nsyswrap.attribution.copy_table import DOWNLOAD, UPLOAD
from nsyswrap.events import api_calls
from nsyswrap.rules import synchronization
from nsyswrap.what_if.affected_parts import calls_named, copies_and_their_waits, copies_in_direction, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def reads(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "read values later": no synchronizing calls and no copies to the host in the step."""
    mine = copies_in_direction(simulation, DOWNLOAD)
    reading = np.unique(simulation.context.operations.call[mine])
    synchronizing = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    rows = np.union1d(synchronizing, reading[reading >= 0])
    change = Change(waits=rows, host=spans_of_calls(simulation, rows), operations=mine, factor=0.0)
    return WhatIf(change, "without the waits and the copies")


def one_copy(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "one copy instead of many small ones": the copies and the waits after them are removed."""
    copies = copies_in_direction(simulation, UPLOAD)
    rows = copies_and_their_waits(simulation, copies)
    change = Change(waits=rows, host=spans_of_calls(simulation, rows), operations=copies, factor=0.0)
    return WhatIf(change, "without the small copies and the waits after them")


def fewer_waits(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change that the advice is about."""
    return one_copy(simulation) if lost.advice == synchronization.SMALL_COPIES.advice else reads(simulation)


FIXES = (Fix((synchronization.IN_STEP,), fewer_waits),)
