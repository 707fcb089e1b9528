"""The changes "load in the background" and "read files in the background"."""

from nsyswrap.base.intervals import NOTHING, subtract, union
from nsyswrap.events.thread_states import WAITS
from nsyswrap.rules import host as rules
from nsyswrap.rules import idle
from nsyswrap.what_if.affected_parts import in_data, in_states
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def loader_work(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "load in the background": the training process no longer prepares data."""
    waiting = in_states(simulation, WAITS)
    host = {main: subtract(data, waiting.get(main, NOTHING)) for main, data in in_data(simulation).items()}
    return WhatIf(Change(host=host), "all of the preparation moves to workers")


def reads_before(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change "read files in the background": who reads the files also prepares the data, GPU idle or not."""
    data = in_data(simulation)
    host = {thread: union(idle, data.get(thread, NOTHING)) for thread, idle in lost.on_host(simulation).items()}
    return WhatIf(Change(host=host), "all of the preparation moves to workers")


FIXES = (Fix((idle.DATA_WORK,), loader_work), Fix((rules.FILE_READS,), reads_before))
