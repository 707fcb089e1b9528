"""The plan: the changes in the order that helps most, each simulated on top of those before it.

::

    now      |################################################|
    1        |#######################|                            the change that saves most
    2        |##########|                                         the change that then saves most
    3        |#########|                                          the next saves less than 1 %: the plan ends

A plan is for the program, so a change fixes a rule on all GPUs and ranks. Where two changes touch the same time, the
stronger one counts (``DependencyGraph.weights``). A change may save time only together with another one, because a host
and a GPU that take equally long hide one another. So where no change alone saves enough, two at once are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.interval import Interval, between
from nsyswrap.model import Finding, Plan, PlannedChange, Severity
from nsyswrap.rules import rule_name
from nsyswrap.what_if.critical_path import bounds_after
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fixed_step import CurrentStep
from nsyswrap.what_if.saving import LEAST_SAVING_SHARE, WhatIf
from nsyswrap.what_if.simulate import Simulation

NO_STEPS = "No plan: the window is not made of steps."
NOT_SIMULATED = "No plan: no saving is simulated for this run."
NOTHING_SAVES = "No plan: no single change, and no two together, save 1 % of the step."
# Beyond this share of the step that a plan reaches, the simulation's own error is worth a sentence. Source: ours.
UNSURE_SHARE = 0.10


class Candidate(NamedTuple):
    """The changes that fix one rule on all GPUs, pessimistic and optimistic."""

    rule: str
    low: tuple[Change, ...]
    high: tuple[Change, ...]


@dataclass(frozen=True)
class _Reached:
    """The run after the changes that were chosen so far.

    Attributes:
        chosen: The changes so far.
        length: Simulated length of the sample with the optimistic and the pessimistic forms, in ns; the estimate is the
            middle.
    """

    chosen: tuple[Candidate, ...]
    length: Interval[int]


def find_plan(simulation: Simulation | None, findings: Sequence[Finding], step: CurrentStep | None) -> Plan:
    """Return the changes in the order that helps most, with the time of a step after each.

    Args:
        simulation: The run as it was; None where nothing was simulated.
        findings: All findings of the report; those with a simulated saving can be planned.
        step: The time of a step now; None where the window is not made of steps.
    """
    if step is None:
        return Plan(notes=(NO_STEPS,))
    candidates = find_candidates(findings)
    left = _left_out(findings, [each.rule for each in candidates])
    if simulation is None or not simulation.predicts or not candidates:
        return Plan(notes=(NOT_SIMULATED,) if left else ())
    reached, changes = _start(simulation), list[PlannedChange]()
    while more := _next(simulation, reached, [each for each in candidates if each not in reached.chosen]):
        for each in more:
            reached = each
            after = each.length.map(lambda length: _step_ns(simulation, step, length))
            changes.append(PlannedChange(each.chosen[-1].rule, after))
    if not changes:
        return Plan(step.length_ns, step.is_mean, (), (NOTHING_SAVES, *left))
    then = bounds_after(simulation, *(change for each in reached.chosen for change in each.high))
    notes = (f"{then}.", *_doubts(simulation, step, changes[-1]), *left)
    return Plan(step.length_ns, step.is_mean, tuple(changes), notes)


def find_candidates(findings: Sequence[Finding]) -> tuple[Candidate, ...]:
    """Return the changes that can be planned, one for each rule, in the order of the findings."""
    found: dict[str, list[WhatIf]] = {}
    for each in findings:
        if isinstance(each.what_if, WhatIf):
            found.setdefault(each.rule, []).append(each.what_if)
    return tuple(
        Candidate(rule, tuple(each.low for each in mine), tuple(each.high for each in mine))
        for rule, mine in found.items()
    )


def _start(simulation: Simulation) -> _Reached:
    whole = simulation.simulated_ns or 0
    return _Reached((), Interval(whole, whole, whole))


def _with(simulation: Simulation, reached: _Reached, candidate: Candidate) -> _Reached:
    """Return the run with one more change."""
    chosen = (*reached.chosen, candidate)
    shortest = simulation.length(*(change for each in chosen for change in each.high))
    longest = simulation.length(*(change for each in chosen for change in each.low))
    return _Reached(chosen, between(shortest, longest))


def _next(simulation: Simulation, reached: _Reached, candidates: Sequence[Candidate]) -> list[_Reached]:
    """Return the run after the change that saves most now, or after two that save only together; none at the end."""
    least = max(LEAST_SAVING_SHARE * reached.length.point, abs((simulation.simulated_ns or 0) - simulation.measured_ns))
    single = sorted((_with(simulation, reached, each) for each in candidates), key=_length)
    if single and reached.length.point - single[0].length.point >= least:
        return single[:1]
    pairs = [_with(simulation, one, other.chosen[-1]) for one, other in combinations(single, 2)]
    best = min(pairs, key=_length, default=None)
    if best is None or reached.length.point - best.length.point < least:
        return []
    first = next(each for each in single if each.chosen == best.chosen[:-1])
    return [first, best]


def _length(reached: _Reached) -> int:
    return reached.length.point


def _step_ns(simulation: Simulation, step: CurrentStep, length_ns: int) -> int:
    """Return the time of a step in a simulated run."""
    return step.after(((simulation.simulated_ns or 0) - length_ns) * simulation.scale)


def _doubts(simulation: Simulation, step: CurrentStep, last: PlannedChange) -> tuple[str, ...]:
    """Return a sentence where the error of the simulation is large compared with the step that the plan reaches."""
    error = abs((simulation.error_share or 0) * step.length_ns)
    if error <= UNSURE_SHARE * last.step.low:
        return ()
    off = units.duration(round(error))
    return (f"The simulation is off by {off} a step, so the end of the plan is not sure: profile after each change.",)


def _left_out(findings: Sequence[Finding], planned: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence on the warnings and problems that no simulation can add to the plan."""
    rules = [
        each.rule
        for each in findings
        if each.severity is not Severity.NOTE and (each.saving is None or each.saving.high)
    ]
    names = [rule_name(rule) for rule in dict.fromkeys(rules) if rule not in planned]
    if not names:
        return ()
    return (f"Not in the plan, because nothing simulates their saving: {', '.join(names)}.",)
