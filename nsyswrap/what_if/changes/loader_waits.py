"""The change "more loader workers"."""

from nsyswrap.base.intervals import NOTHING, subtract
from nsyswrap.events.thread_states import WAITS
from nsyswrap.rules import idle
from nsyswrap.trace import tables
from nsyswrap.what_if.affected_parts import in_data, in_states, on_all_cores, outside_of
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def loader_waits(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "more loader workers": batches come faster, and the training process waits less for them.

    They come no faster than all cores do the work of the processes that launch nothing.
    """
    waiting = in_states(simulation, WAITS)
    host = {
        main: subtract(waiting.get(main, NOTHING), outside_of(simulation, data))
        for main, data in in_data(simulation).items()
    }
    sample, record = simulation.sample, simulation.context.settings.host
    launching = {tables.pid(thread) for thread in simulation.threads}
    work = sum(
        each.growth("on_cpu_ns", sample.start_ns, sample.end_ns)
        for (process, _), each in record.threads.items()
        if process not in launching
    )
    change = Change(host=host or waiting, loader_factor=0, least_ns=on_all_cores(simulation, work))
    return WhatIf(change, "batches always come in time")


FIXES = (Fix((idle.DATA_WAIT,), loader_waits),)
