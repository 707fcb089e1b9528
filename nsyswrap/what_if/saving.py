"""What a change saves: the difference between the simulation of the run and one with the change made whole.

The range of a saving comes from errors that are measured, and that do not depend on one another:

- how far the simulation without a change is from the recorded time of the sample,
- how much the mean step of another run may differ, as the steps differ among themselves,
- how far savings predicted for planted faults were from the measured ones (``FIX_ERROR``).

What stays is bounded below by the work that the changes do not touch: that of the busiest stream, and that of each
thread, at the fastest pace that the measured steps show.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import hypot, sqrt

import numpy as np

from nsyswrap.base.interval import NINE_OF_TEN, Interval
from nsyswrap.base.intervals import Indices
from nsyswrap.base.rows import taken
from nsyswrap.events.alternatives import Alternative
from nsyswrap.events.operations import COMPUTE
from nsyswrap.model import SavingMethod
from nsyswrap.trace.tables import groups
from nsyswrap.what_if.dependency_graph import Change, Factors
from nsyswrap.what_if.fixed_step import RUNS_DIFFER
from nsyswrap.what_if.simulate import Simulation
from nsyswrap.what_if.simulated_steps import simulated_steps

HALF = 0.5
# A fix that saves a smaller share of the time is not worth a warning, or a place in the plan. Source: ours; two runs of
# one program differ by as much.
LEAST_SAVING_SHARE = 0.01
CANNOT = "no saving is predicted: the simulation does not reproduce this run"
# About nine of ten savings predicted for planted faults differ from the measured ones by at most this share of
# what is saved or of what is left, whichever is less. What a fix leaves of the host's work is known; how fast kernels
# run that no capture shows is assumed. Source: 31 of 35 and 16 of 18 pairs of runs on an H200 with at least 8 steps, in
# tests/captures/faults and tests/captures/plans; uneven steps, page faults and a fix that saved nothing are left out.
HOST_FIX_ERROR, KERNEL_FIX_ERROR = 0.20, 0.25


@dataclass(frozen=True, eq=False)
class AlternativeKernels:
    """An alternative that can be measured for a change, and what it is about.

    Attributes:
        alternative: The operators, and how they could be computed.
        rows: The kernels of these operators, forward and backward: rows of the context's operations.
        time_ns: Their time in the window.
    """

    alternative: Alternative
    rows: Indices
    time_ns: int


@dataclass(frozen=True)
class WhatIf:
    """The change that a fix makes, on all ranks and GPUs.

    Attributes:
        change: The fix, made whole.
        assumed: What it does, in words.
        or_nothing: Whether the fix may save nothing, because the capture does not show that it fits.
        alternatives: Alternatives that can be measured, or were.
        method: "benchmarked" where most of what it saves was measured.
        error: How far what it saves may be from the truth, as a share; None for as usual.
        evidence: What was measured, in words.
    """

    change: Change
    assumed: str
    or_nothing: bool = False
    alternatives: tuple[AlternativeKernels, ...] = ()
    method: SavingMethod = "simulated"
    error: float | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saving:
    """What a fix saves.

    Attributes:
        time: In ns of the window; None where nothing can be predicted.
        method: "benchmarked", "simulated", "estimated", or None where nothing is predicted.
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
    said = (*change.evidence, *((f"simulated: {change.assumed}",) if change.assumed else ()))
    return Saving(saving_of(simulation, change), change.method, said, change)


def saving_of(simulation: Simulation, *fixes: WhatIf) -> Interval[int]:
    """Return how many ns of the window some fixes save together, at least 0, with its range.

    Where the simulation takes longer than the window, it is the share of it that they save: never all of the window.
    """
    changes, before, whole = [each.change for each in fixes], simulation.simulated_ns or 0, simulation.of_window
    point = max(before - simulation.length(*changes), 0)
    if not point:
        return Interval(0, 0, 0)
    error = hypot(
        NINE_OF_TEN * (before - simulation.measured_ns),
        _step_error(simulation, changes),
        max(_fix_error(simulation, each) for each in fixes) * min(point, before - point),
    )
    most = max(before - round((1 - RUNS_DIFFER) * work_that_stays(simulation, changes)), point)
    sure = [each for each in fixes if not each.or_nothing]
    low = max(point - error, 0.0) if len(sure) == len(fixes) else saving_of(simulation, *sure).low / whole
    ends = (min(low, point), point, min(point + error, most))
    return Interval(*(round(each * whole) for each in ends))


def estimated(saved_ns: int, whole_ns: int, said: str) -> Saving:
    """Return a saving that is not simulated.

    Args:
        saved_ns: The estimate, in ns.
        whole_ns: The time that it is a part of, in ns.
        said: What it assumes.
    """
    error = KERNEL_FIX_ERROR * min(saved_ns, max(whole_ns - saved_ns, 0))
    time = Interval(round(max(saved_ns - error, 0)), saved_ns, round(min(saved_ns + error, max(whole_ns, saved_ns))))
    return Saving(time, "estimated", (f"estimated: {said}",))


def set_by_host(simulation: Simulation, *fixes: WhatIf) -> float:
    """Return how much of the error of a step is left after some fixes, as a share: that of the host's pace.

    The range of a step is mostly that of the pace of the machine's cores, which does not matter for what kernels set.
    """
    changes = [each.change for each in fixes]
    # A host that is slower by any small factor shows what it sets.
    now, after = (
        simulation.length(*some, simulation.at_pace(1.1)) / max(simulation.length(*some), 1) - 1
        for some in ([], changes)
    )
    return float(min(after / now, 1.0)) if now > 0 else 1.0


def _fix_error(simulation: Simulation, fix: WhatIf) -> float:
    """Return the error of a fix: more where it makes kernels faster, or other ones of them."""
    if fix.error is not None:
        return fix.error
    kinds = simulation.context.operations.kind[fix.change.operations]
    return KERNEL_FIX_ERROR if (kinds == COMPUTE).any() else HOST_FIX_ERROR


def _step_error(simulation: Simulation, changes: Sequence[Change]) -> float:
    """Return how much the mean step of another run may differ from that of this one, in ns of the sample.

    It is what a bootstrap over the steps finds: the standard error of their mean, for two runs of as many steps.
    """
    steps = simulated_steps(simulation, simulation.graph.run(*changes))
    if len(steps) <= 1 or not steps.sum():
        return 0.0
    count = max(len(simulation.context.steps.measured_inside(simulation.window)), len(steps))
    return NINE_OF_TEN * sqrt(2 / count) * float(steps.std(ddof=1) / steps.mean()) * simulation.length(*changes)


def work_that_stays(simulation: Simulation, changes: Sequence[Change]) -> int:
    """Return the least time that the sample takes after some changes, in ns.

    It is the work of its busiest stream or thread that no change touches, at the fastest pace that the measured steps
    show: in another run the clocks may be higher.
    """
    graph, context = simulation.graph, simulation.context
    ran = np.flatnonzero(graph.operation >= 0)
    rows = graph.operation[ran]
    length = np.where(graph.factors(*changes) == 1, graph.length, 0)[ran]
    stream = groups([context.operations.device_id[rows], taken(context.operations.stream, rows)])[0]
    own, _ = graph.weights(*changes)
    hosts = np.flatnonzero(graph.thread)
    thread = groups([graph.thread[hosts]])[0]
    kernels, paces = simulation.fastest
    pace = np.array([paces.get(each, 1.0) for each in graph.thread[hosts].tolist()])
    whole = [*(np.bincount(stream, length) * kernels), *np.bincount(thread, own[hosts] * pace)]
    return round(max(whole, default=0))


def faster(rows: Indices, factor: Factors, assumed: str, *, or_nothing: bool = False) -> WhatIf:
    """Return the change "faster operations".

    Args:
        rows: Rows of the context's operations.
        factor: Factor for their length; one number, or one for each row.
        assumed: The change in words.
        or_nothing: Whether it may save nothing.
    """
    return WhatIf(Change(operations=rows, factor=factor), assumed, or_nothing)
