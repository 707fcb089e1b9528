"""The change "no synchronization"."""

from nsyswrap.events import api_calls
from nsyswrap.rules import idle
from nsyswrap.what_if.affected_parts import calls_named, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def waits(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "no synchronization": the calls that wait for the GPU are removed."""
    rows = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    return WhatIf(Change(waits=rows, host=spans_of_calls(simulation, rows)), "without synchronizing calls")


FIXES = (Fix((idle.SYNCHRONIZATION,), waits),)
