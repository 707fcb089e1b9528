"""Simulations of traces and the savings of changes, made in the same way as in a report."""

from collections.abc import Callable
from typing import Any

from savings import saving_of

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext, find_context, find_states
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.report import choose_window
from nsyswrap.rules.rule import Rule
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.changes import FIXES
from nsyswrap.what_if.saving import WhatIf, predict
from nsyswrap.what_if.simulate import Simulation, find_simulation

US = 1_000
# For changes that do not look at it.
NO_TIME: Any = None


def simulate(context: TraceContext, window: Window | None = None) -> Simulation:
    """Return the simulation of a window; without one, of the default window of a report."""
    window = window or choose_window(context)
    return find_simulation(context, find_states(context, window), window, find_collectives(context))


def simulate_trace(trace: Trace, window: Window | None = None) -> Simulation:
    return simulate(find_context(trace), window)


def saved_us(simulation: Simulation, what: Callable[[Simulation], WhatIf]) -> int:
    """Check the evidence of a change; return what it saves in whole microseconds."""
    found = predict(simulation, what)
    assert found.method == "simulated"
    assert found.evidence == (f"simulated: {what(simulation).assumed}",)
    return round(saving_of(found).point / US)


def change_of(rule: Rule) -> Callable[[Simulation], WhatIf]:
    """Return the change that fixes a rule, of those that do not depend on where the time is lost."""
    change = FIXES[rule.key].change
    return lambda simulation: change(simulation, NO_TIME)
