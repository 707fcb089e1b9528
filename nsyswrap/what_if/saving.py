"""What a change saves: the difference between the simulation of the run and one with the change made whole.

The range of a saving comes from errors that are measured, and that do not depend on one another:

- how far the simulation without a change is from the recorded time of the sample,
- how much the share that is saved differs from step to step,
- what the change leaves open: how long the kernels take that it makes faster, and what it leaves of the host's work.

By how much all steps of another run are longer or shorter is part of the range of the step itself.

What stays is bounded below by the work that the changes do not touch: that of the busiest stream, and that of each
thread, at the fastest pace that the measured steps show.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, sqrt

import numpy as np

from nsyswrap.base.interval import NINE_OF_TEN, Interval
from nsyswrap.base.intervals import Indices
from nsyswrap.base.rows import taken
from nsyswrap.events.alternatives import Alternative
from nsyswrap.model import SavingMethod
from nsyswrap.trace.tables import groups
from nsyswrap.what_if.dependency_graph import NO_CHANGE, Change, Factors
from nsyswrap.what_if.fixed_step import RUNS_DIFFER
from nsyswrap.what_if.simulate import Simulation

HALF = 0.5
# A fix that saves a smaller share of the time is not worth a warning, or a place in the plan. Source: ours; two runs of
# one program differ by as much.
LEAST_SAVING_SHARE = 0.01
CANNOT = "no saving is predicted: the simulation does not reproduce this run"
# What a fix leaves open, for nine of ten. It may save half of a small saving, or a share of what is left more or less:
# a fifth of it where the host saves, a twentieth where kernels do. A twentieth of a large saving may not come, or more
# may come with it: a third of what is left at most. And kernels that replace others take a third more or less.
# Source: 27 of 30 programs of reports/overhead.json with their fixes, on H100 and H200, and 12 of 15 programs of
# workloads/faults/held_out.py. The shares were chosen on these.
HOST_FIX_ERROR, FIX_ERROR, OPEN_ERROR = 0.20, 0.05, 0.33


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
        error: How far the time of its kernels may be from the truth, as a share of what they save or of what is left of
            them, whichever is less; None for as usual.
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
    of_run = hypot(NINE_OF_TEN * (before - simulation.measured_ns), _step_error(simulation, changes))
    by_host = _of_host(simulation, changes)
    left = before - point
    of_fix = hypot(
        min(HALF * by_host, HOST_FIX_ERROR * left),
        min(HALF * (point - by_host), FIX_ERROR * left),
        min(FIX_ERROR * point, OPEN_ERROR * left),
    )
    slower, faster = (
        before - simulation.length(*(_with_error(simulation, each, end) for each in fixes)) for end in (1, -1)
    )
    less, more = (hypot(of_run, of_fix, each - point) for each in (slower, faster))
    most = max(before - round((1 - RUNS_DIFFER) * work_that_stays(simulation, changes)), point)
    sure = [each for each in fixes if not each.or_nothing]
    low = max(point - less, 0.0) if len(sure) == len(fixes) else saving_of(simulation, *sure).low / whole
    ends = (min(low, point), point, min(point + more, most))
    return Interval(*(round(each * whole) for each in ends))


def estimated(saved_ns: int, whole_ns: int, said: str) -> Saving:
    """Return a saving that is not simulated.

    Args:
        saved_ns: The estimate, in ns.
        whole_ns: The time that it is a part of, in ns.
        said: What it assumes.
    """
    error = OPEN_ERROR * min(saved_ns, max(whole_ns - saved_ns, 0))
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


def _with_error(simulation: Simulation, fix: WhatIf, end: int) -> Change:
    """Return a change whose kernels take as long as they may at most, at 1, or at least, at -1."""
    graph, change = simulation.graph, fix.change
    changed = np.isin(graph.operation, change.operations)
    was, left = (float((graph.length * each)[changed].sum()) for each in (1.0, graph.factors(change)))
    if not left:
        return change
    error = (OPEN_ERROR if fix.error is None else fix.error) * min(abs(was / left - 1), 1.0)
    return replace(change, factor=np.asarray(change.factor) * (1 + end * error))


def _of_host(simulation: Simulation, changes: Sequence[Change]) -> int:
    """Return how much the changes save of the sample besides what faster kernels do, in ns."""
    kernels = [Change(operations=each.operations, factor=each.factor) for each in changes if len(each.operations)]
    return max(min(simulation.length(*kernels), simulation.simulated_ns or 0) - simulation.length(*changes), 0)


def _step_error(simulation: Simulation, changes: Sequence[Change]) -> float:
    """Return how much what the changes save may differ between two runs, in ns of the sample.

    What makes a step longer makes it longer with the changes, too. So it is the error of the ratio of both, for two
    runs of as many steps. Source: W. Cochran, Sampling Techniques, 1977, chapter 6, the standard error of a ratio. Of
    several ranks, other ones wait in each step, also in those with the changes: there it is the error of their mean.
    """
    now, then = simulation.paces(), simulation.paces(*changes)
    if len(now) <= 1 or not now.sum():
        return 0.0
    count = max(len(simulation.context.steps.measured_inside(simulation.window)), len(now))
    is_of_ranks = len(simulation.collectives.ranks.each) > 1
    off = then if is_of_ranks else then - now * (then.sum() / now.sum())
    return NINE_OF_TEN * sqrt(2 / count) * float(off.std(ddof=1) / now.mean()) * (simulation.simulated_ns or 0)


def work_that_stays(simulation: Simulation, changes: Sequence[Change]) -> int:
    """Return the least time that the sample takes after some changes, in ns.

    It is the work of its busiest stream or thread that no change touches, at the fastest pace that the measured steps
    show: in another run the clocks may be higher.
    """
    graph, context = simulation.graph, simulation.context
    # A rank that is ahead or behind has more of it in the graph, which happens before or after the time that counts.
    happened = graph.run(*changes)
    faster = simulation.without_waits(happened) or NO_CHANGE
    inside = (happened > simulation.begun_ns) & (happened <= happened[graph.is_end].max(initial=0))
    ran = np.flatnonzero((graph.operation >= 0) & inside)
    rows = graph.operation[ran]
    length = np.where(graph.factors(*changes) == 1, graph.length * graph.factors(faster), 0)[ran]
    stream = groups([context.operations.device_id[rows], taken(context.operations.stream, rows)])[0]
    own, _ = graph.weights(*changes)
    hosts = np.flatnonzero((graph.thread != 0) & inside)
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
