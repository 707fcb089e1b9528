"""The change "keep loader processes"."""

from nsyswrap.rules import data
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import HALF, WhatIf
from nsyswrap.what_if.simulate import Simulation


def worker_starts(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change "keep loader processes": no time to start them, no wait for their first batch."""
    spans = lost.on_host(simulation)
    return WhatIf(
        Change(host=spans, host_factor=HALF, loader_factor=HALF),
        Change(host=spans, loader_factor=0),
        "half of the time to start processes is saved and batches come twice as fast, or both take no time",
    )


FIXES = (Fix((data.WORKER_START,), worker_starts),)
