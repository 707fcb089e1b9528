"""The change "no launch latency"."""

from nsyswrap.rules import idle
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def latency(_simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "no launch latency": operations begin when they are launched."""
    return WhatIf(Change(latency_factor=0), "operations begin as soon as they are launched")


FIXES = (Fix((idle.QUEUED,), latency),)
