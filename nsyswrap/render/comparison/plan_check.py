"""What the plan of base promised against what came: a row for each planned change, then the measured step."""

from collections.abc import Sequence
from typing import NamedTuple

from nsyswrap import units
from nsyswrap.compare import Comparison, FindingPair
from nsyswrap.render.comparison import summary_model
from nsyswrap.render.escape import visible
from nsyswrap.rules import rule_name


class PlanStep(NamedTuple):
    """A time of a step: promised, or measured.

    Attributes:
        label: What it is the time of.
        state: Whether the change was made; empty for a measured step.
        time: The time, as text.
        low: Lower end in per cent of the longest one.
        high: Upper end; the same where it is measured.
        lost: Time that the findings of the change lost in base and in new; empty for a measured step.
        moved: Where a part of this time went; empty where it did not move.
        is_measured: Whether it is measured.
    """

    label: str
    state: str
    time: str
    low: str
    high: str
    lost: str
    moved: str
    is_measured: bool


class PlanCheck(NamedTuple):
    """The steps that were promised and measured, and what they say together, in sentences."""

    steps: tuple[PlanStep, ...]
    notes: tuple[str, ...]


def plan_check(comparison: Comparison) -> PlanCheck | None:
    """Return the plan of base against new; None where base has no plan."""
    score, plan = comparison.plan_score, comparison.base.report.plan
    if score is None or plan.step_ns is None:
        return None
    facts = {fact.label: fact.value for fact in score.facts}
    measured = facts["measured_step_ns"]
    now = None if measured is None else int(measured)
    most = max(plan.step_ns, now or 0, *(each.step_high_ns for each in plan.changes))
    states = dict(zip(score.tables["changes"]["rule"], score.tables["changes"]["state"], strict=True))
    steps = [_measured("base", plan.step_ns, most)]
    for each in plan.changes:
        low, high = (_share(bound, most) for bound in (each.step_low_ns, each.step_high_ns))
        time = units.duration_range(each.step_low_ns, each.step_high_ns)
        pairs = [pair for pair in comparison.findings if pair.rule == each.rule]
        words = visible(rule_name(each.rule)), str(states[each.rule]), time, low, high
        steps.append(PlanStep(*words, _lost(comparison, pairs), _moved(comparison, pairs), is_measured=False))
    steps += [] if now is None else [_measured("new", now, most)]
    return PlanCheck(tuple(steps), tuple(visible(note) for note in score.notes))


def _measured(label: str, ns: int, most: int) -> PlanStep:
    share = _share(ns, most)
    return PlanStep(label, "", units.duration(ns), share, share, "", "", is_measured=True)


def _share(ns: int, most: int) -> str:
    return f"{100 * ns / max(most, 1):.2f}"


def _lost(comparison: Comparison, pairs: Sequence[FindingPair]) -> str:
    """Return the time lost to the findings of a rule, in base and in new: a step where both sides have steps."""
    if not pairs:
        return ""
    unit, of = ("ns", "a step") if comparison.basis == "step" else ("share", "of the window")
    before, now = sum(each.base_lost for each in pairs), sum(each.new_lost for each in pairs)
    return f"{units.text(before, unit)} → {units.text(now, unit)} {of}"


def _moved(comparison: Comparison, pairs: Sequence[FindingPair]) -> str:
    return visible(" ".join(words for each in pairs if (words := summary_model.moved_of(each, comparison))))
