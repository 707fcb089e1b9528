"""What a change saves: the difference between the simulation of the run and one with the change.

A change has two forms: one for a pessimistic and one for an optimistic simulation. Each saving states what it assumes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nsyswrap.base.interval import Interval, between
from nsyswrap.base.intervals import Indices, Spans
from nsyswrap.model import SavingMethod
from nsyswrap.what_if.dependency_graph import Change, Factors
from nsyswrap.what_if.simulate import Simulation

HALF = 0.5
# A fix that saves a smaller share of the time is not worth a warning, or a place in the plan. Source: ours; two runs of
# one program differ by as much.
LEAST_SAVING_SHARE = 0.01
CANNOT = "no saving is predicted: the simulation does not reproduce this run"


@dataclass(frozen=True)
class WhatIf:
    """The change of a fix, pessimistic and optimistic.

    Attributes:
        low: The pessimistic change: the least that the fix does.
        high: The optimistic change: the most that the fix does.
        assumed: The assumptions of both, in words.
    """

    low: Change
    high: Change
    assumed: str


@dataclass(frozen=True)
class Saving:
    """What a fix saves.

    Attributes:
        time: In ns of the window; None where nothing can be predicted.
        method: "simulated", "estimated", or None where nothing is predicted.
        evidence: Lines of evidence that state the assumptions.
        what_if: The change that was simulated; None where the saving does not come from a simulation.
    """

    time: Interval[int] | None
    method: SavingMethod | None
    evidence: tuple[str, ...]
    what_if: WhatIf | None = field(default=None, compare=False, repr=False)


NO_SAVING = Saving(Interval(0, 0, 0), None, ())


def predict(simulation: Simulation, what: Callable[[Simulation], WhatIf]) -> Saving:
    """Return how much time of the window a fix saves.

    Args:
        simulation: The run as it was.
        what: Returns the change; not called where the simulation does not predict.
    """
    if not simulation.predicts:
        return Saving(None, None, (CANNOT,))
    change = what(simulation)
    return Saving(saving_of(simulation, change), "simulated", (f"simulated: {change.assumed}",), change)


def saving_of(simulation: Simulation, change: WhatIf) -> Interval[int]:
    """Return how many ns of the window a change saves, at least 0: both forms, and the middle of them as estimate."""
    return between(*(max(simulation.saving(each) or 0, 0) for each in (change.low, change.high)))


def faster(rows: Indices, low: Factors, high: Factors, assumed: str) -> WhatIf:
    """Return the change "faster operations".

    Args:
        rows: Rows of the context's operations.
        low: Factor for their length in the pessimistic simulation; one number, or one for each row.
        high: The same in the optimistic simulation.
        assumed: Both in words.
    """
    return WhatIf(Change(operations=rows, factor=low), Change(operations=rows, factor=high), assumed)


def saved_on_host(spans: Spans | Mapping[int, Spans], assumed: str) -> WhatIf:
    """Return the change "the host saves half of some time, or all of it".

    Args:
        spans: That time; by launching thread where threads differ.
        assumed: Both in words.
    """
    return WhatIf(Change(host=spans, host_factor=HALF), Change(host=spans), assumed)
