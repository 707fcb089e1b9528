"""The changes "load in the background" and "read files in the background"."""

from nsyswrap.base.intervals import NOTHING, subtract, union
from nsyswrap.events.thread_states import WAITS
from nsyswrap.rules import host as rules
from nsyswrap.rules import idle
from nsyswrap.what_if.affected_parts import in_data, in_states, on_all_cores
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

ASSUMED = "all of the preparation moves to workers"


def loader_work(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "load in the background": all cores prepare the data, and not the training process."""
    waiting = in_states(simulation, WAITS)
    host = {main: subtract(data, waiting.get(main, NOTHING)) for main, data in in_data(simulation).items()}
    least = on_all_cores(simulation, sum(int((each.end - each.start).sum()) for each in host.values()))
    return WhatIf(Change(host=host, least_ns=least), ASSUMED)


def reads_before(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change "read files in the background": who reads the files also prepares the data, GPU idle or not."""
    data = in_data(simulation)
    host = {thread: union(idle, data.get(thread, NOTHING)) for thread, idle in lost.on_host(simulation).items()}
    return WhatIf(Change(host=host), ASSUMED)


FIXES = (Fix((idle.DATA_WORK,), loader_work), Fix((rules.FILE_READS,), reads_before))
