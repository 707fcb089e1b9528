"""The change "load everything before"."""

import numpy as np

from nsyswrap.attribution.launch_pace import find_loading_launches
from nsyswrap.base.intervals import union
from nsyswrap.events import api_calls
from nsyswrap.rules import idle
from nsyswrap.what_if.affected_parts import in_states, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def loads(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "load everything before": calls that load code, and first launches that do, take less time."""
    rows = find_loading_launches(simulation.context)
    inside = np.isin(rows, simulation.context.operations.call[simulation.operations])
    first, loading = spans_of_calls(simulation, rows[inside]), in_states(simulation, (api_calls.MODULE_LOAD,))
    spans = {thread: union(each, first) for thread, each in loading.items()}
    return WhatIf(Change(host=spans), "no time in loading modules")


FIXES = (Fix((idle.MODULE_LOAD,), loads),)
