"""The change "the program asks a step earlier for what it waits for".

::

    as it is   step     |works|...waits...|works|...waits...|
               other           |=========|       |=========|
    changed    step     |works|..waits..|works|..waits..|
               other    |============|============|

The other one, a process or a server, takes as long as before. So a step takes as long as it waits, or as it takes
without the wait, whichever is longer: what a step waits for began no later than the wait. A sleep depends on
nothing else.
"""

import numpy as np

from nsyswrap.base.intervals import Spans, merge, subtract, total
from nsyswrap.events import api_calls
from nsyswrap.events.thread_states import NAMES
from nsyswrap.rules import host as rules
from nsyswrap.what_if.affected_parts import inside_sample
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def earlier_request(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change: of the wait, as much remains as the rest of the run does not cover."""
    host = lost.on_host(simulation)
    sleeps = _sleeps(simulation)
    waited = max((total(inside_sample(simulation, subtract(each, sleeps[thread]))) for thread, each in host.items()))
    left_over = max(waited - simulation.length(Change(host=host)), 0)
    most = max(total(inside_sample(simulation, each)) for each in host.values())
    change = Change(host=host, host_factor=left_over / max(most, 1))
    return WhatIf(change, "the program asks a step earlier for what it waits for")


def _sleeps(simulation: Simulation) -> dict[int, Spans]:
    """Return when each launching thread sleeps."""
    names = [at for at, name in enumerate(simulation.states.names) if api_calls.SLEEP.fullmatch(name)]
    states = {thread: simulation.states.of(thread) for thread in simulation.threads}
    chosen = {thread: np.isin(each.code % NAMES, names) for thread, each in states.items()}
    return {
        thread: merge(each.spans.start[chosen[thread]], each.spans.end[chosen[thread]])
        for thread, each in states.items()
    }


FIXES = (Fix((rules.OUTSIDE_WAIT,), earlier_request),)
