"""The change "allocate less in the step"."""

from nsyswrap.events import api_calls
from nsyswrap.rules import idle, memory
from nsyswrap.what_if.affected_parts import calls_named, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def allocation(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "allocate less in the step"."""
    rows = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.ALLOCATION)
    spans = spans_of_calls(simulation, rows)
    return WhatIf(Change(host=spans, waits=rows), "no time in calls that allocate or free")


FIXES = (Fix((idle.ALLOCATION, memory.CHURN), allocation),)
