"""The change "the host saves the time in which the GPU was idle for one reason", where no other change fixes a rule."""

from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def idle_host(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change "the host saves the time in which the GPU was idle for one reason"."""
    return WhatIf(Change(host=lost.on_host(simulation)), "the host saves this time")


OTHER = Fix((), idle_host)
"""The fix of rules that have no other."""
FIXES = (OTHER,)
