"""The change "what the step waits for is asked for a step earlier".

::

    as it is   step     |works|...waits...|works|...waits...|
               other           |=========|       |=========|
    changed    step     |works|..waits..|works|..waits..|
               other    |============|============|

Another process, a server or a timer takes as long as before. So a step takes as long as it waits, or as it takes
without the wait, whichever is longer. What a step waits for began before the wait did or with it: the wait is the least
that it takes.
"""

from nsyswrap.base.intervals import total
from nsyswrap.rules import host
from nsyswrap.what_if.affected_parts import inside_sample
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def asked_earlier(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change: of the wait, as much remains as the rest of the run does not cover."""
    host_waits = {thread: inside_sample(simulation, each) for thread, each in lost.on_host(simulation).items()}
    waited = max((total(each) for each in host_waits.values()), default=0)
    rest = simulation.length(Change(host=host_waits))
    remains = max(waited - rest, 0) / max(waited, 1)
    return WhatIf(Change(host=host_waits, host_factor=remains), "what the step waits for is asked for a step earlier")


FIXES = (Fix((host.OUTSIDE_WAIT,), asked_earlier),)
