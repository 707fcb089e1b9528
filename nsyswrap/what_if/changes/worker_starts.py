"""The change "keep loader processes"."""

from nsyswrap.rules import data
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def worker_starts(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change "keep loader processes": no time to start them, no wait for their first batch."""
    change = Change(host=lost.on_host(simulation), loader_factor=0)
    return WhatIf(change, "no time to start processes, and batches always come in time")


FIXES = (Fix((data.WORKER_START,), worker_starts),)
