"""The change "fewer NVTX ranges"."""

from nsyswrap.rules import capture
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def fewer_marks(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change "fewer NVTX ranges": the host saves the time in which it records them."""
    return WhatIf(Change(host=lost.on_host(simulation)), "the host records no ranges in this time")


FIXES = (Fix((capture.OVERHEAD,), fewer_marks),)
