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
from functools import partial
from itertools import combinations
from typing import NamedTuple

from nsyswrap.model import Finding, Plan, PlannedChange, Severity
from nsyswrap.rules import rule_name, rule_of
from nsyswrap.what_if.critical_path import bounds_after
from nsyswrap.what_if.fixed_step import CurrentStep, is_known
from nsyswrap.what_if.saving import LEAST_SAVING_SHARE, WhatIf, saving_of, set_by_host
from nsyswrap.what_if.simulate import Simulation

NO_STEPS = "No plan: the window is not made of at least two measured steps."
UNKNOWN = (
    "How long a step takes {fixed} is unknown: the range is wider than a factor of 3. "
    "Make the changes before it, and profile again."
)
FEW = "Only {count} steps were measured, which says little about the next ones. Record at least ten: --steps 20."
NOT_SIMULATED = "No plan: no saving is simulated for this run."
NOTHING_SAVES = "No plan: no single change, and no two together, save 1 % of the step."


class Candidate(NamedTuple):
    """The changes that fix one rule on all GPUs."""

    rule: str
    fixes: tuple[WhatIf, ...]


@dataclass(frozen=True)
class _Reached:
    """The run after the changes that were chosen so far.

    Attributes:
        chosen: The changes so far.
        length: Simulated length of the sample with them, in ns.
    """

    chosen: tuple[Candidate, ...]
    length: int

    @property
    def fixes(self) -> tuple[WhatIf, ...]:
        """Return all changes."""
        return tuple(fix for each in self.chosen for fix in each.fixes)


def find_plan(simulation: Simulation | None, findings: Sequence[Finding], step: CurrentStep | None) -> Plan:
    """Return the changes in the order that helps most, with the time of a step after each.

    What is only a note comes after all that is a warning or a problem.

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
    reached, changes = _Reached((), simulation.simulated_ns or 0), list[PlannedChange]()
    firm = {each.rule for each in findings if each.severity is not Severity.NOTE}
    for offered in ([each for each in candidates if each.rule in firm], candidates):
        while more := _next(simulation, reached, [each for each in offered if each not in reached.chosen]):
            for each in more:
                reached = each
                after = step.after(saving_of(simulation, *each.fixes), set_by_host(simulation, *each.fixes))
                made = each.chosen[-1]
                is_measured = all(fix.method == "benchmarked" for fix in made.fixes)
                changes.append(PlannedChange(made.rule, after, "benchmarked" if is_measured else "simulated"))
    few = (FEW.format(count=step.count),) if step.is_of_few else ()
    if not changes:
        return Plan(step.length.point, (), (*few, NOTHING_SAVES, *left))
    then = bounds_after(simulation, *(fix.change for fix in reached.fixes))
    unknown = (UNKNOWN.format(fixed=rule_of(each.rule).fixed) for each in changes if not is_known(each.step))
    return Plan(step.length.point, tuple(changes), (f"{then}.", *unknown, *few, *left))


def find_candidates(findings: Sequence[Finding]) -> tuple[Candidate, ...]:
    """Return the changes that can be planned, one for each rule, in the order of the findings."""
    found: dict[str, list[WhatIf]] = {}
    for each in findings:
        if isinstance(each.what_if, WhatIf):
            found.setdefault(each.rule, []).append(each.what_if)
    return tuple(Candidate(rule, tuple(dict.fromkeys(mine))) for rule, mine in found.items())


def _with(simulation: Simulation, reached: _Reached, candidate: Candidate) -> _Reached:
    """Return the run with one more change."""
    changes = (fix.change for fix in (*reached.fixes, *candidate.fixes))
    return _Reached((*reached.chosen, candidate), simulation.length(*changes))


def _next(simulation: Simulation, reached: _Reached, candidates: Sequence[Candidate]) -> list[_Reached]:
    """Return the run after the change that saves most now, or after two that save only together; none at the end."""
    least = max(LEAST_SAVING_SHARE * reached.length, abs((simulation.simulated_ns or 0) - simulation.measured_ns))
    single = sorted((_with(simulation, reached, each) for each in candidates), key=partial(_weighted, reached))
    if single and reached.length - single[0].length >= least:
        return single[:1]
    pairs = [_with(simulation, one, other.chosen[-1]) for one, other in combinations(single, 2)]
    best = min(pairs, key=_length, default=None)
    if best is None or reached.length - best.length < least:
        return []
    first = next(each for each in single if each.chosen == best.chosen[:-1])
    return [first, best]


def _weighted(before: _Reached, after: _Reached) -> float:
    """Return the saving of the last change, as it counts in the order of findings; the largest is the least."""
    return (after.length - before.length) * rule_of(after.chosen[-1].rule).weight


def _length(reached: _Reached) -> int:
    return reached.length


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
