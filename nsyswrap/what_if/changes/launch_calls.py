"""The change "fewer launch calls"."""

import numpy as np

from nsyswrap.rules import idle
from nsyswrap.what_if.affected_parts import spans_of_calls
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf, saved_on_host
from nsyswrap.what_if.simulate import Simulation


def launch_calls(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "fewer launch calls"."""
    rows = np.unique(simulation.context.operations.call[simulation.operations])
    return saved_on_host(spans_of_calls(simulation, rows), "half of the time in launch calls is saved, or all of it")


FIXES = (Fix((idle.LAUNCH,), launch_calls),)
