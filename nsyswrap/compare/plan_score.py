"""The score of a plan: which of its changes the next run made, and whether the step takes as long as predicted.

A planned change counts as made where the findings of its rule are gone in the next run, and as partly made where they
lose at most half as much time. The plan has a time for the first change, for the first two, and so on. For one change
out of order, the prediction is the saving of its finding alone; for other sets there is none.
"""

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.compare.comparison import FindingChange, FindingPair
from nsyswrap.model import Fact, Report, Section
from nsyswrap.rules import rule_name
from nsyswrap.what_if.fixed_step import typical

# A step that is longer or shorter than predicted by at most this share counts as predicted: a convention.
BESIDE = 0.03
KEY, TITLE = "plan_score", "Against the plan of the run before"
# A change is partly made where at most this share of the time lost is left. Other changes of the plan make findings
# smaller as well. Source: ours.
LEFT_SHARE = 0.5
MADE, PARTLY, NOT_MADE = "made", "partly made", "not made"


def score_plan(base: Report, new: Report, findings: Sequence[FindingPair], *, blocked: bool = False) -> Section | None:
    """Return how the next run compares with the plan of a report; None where the report has no plan."""
    plan = base.plan
    if plan.step_ns is None or not plan.changes:
        return None
    states = {each.rule: state_of(each.rule, findings) for each in plan.changes}
    measured, predicted = step_of(new), _predicted(base, [rule for rule in states if states[rule] != NOT_MADE])
    rows = [
        {
            "rule": each.rule,
            "state": states[each.rule],
            **{f"step_{name}_ns": ns for name, ns in asdict(each.step).items()},
        }
        for each in plan.changes
    ]
    checked = None if blocked else measured
    return Section(
        key=KEY,
        title=TITLE,
        window=new.window,
        facts=(Fact("step_before_ns", plan.step_ns, "ns"), *_facts(predicted, checked)),
        tables={"changes": pd.DataFrame(rows)},
        notes=tuple(_notes(states, predicted, checked)),
    )


def _facts(predicted: Interval[int] | None, measured: int | None) -> tuple[Fact, ...]:
    """Return the predicted and the measured time of a step, and whether the prediction holds."""
    low, high = predicted.ends if predicted else (None, None)
    within = None
    if predicted and measured is not None:
        within = "yes" if _holds(predicted, measured) else "no"
    return (
        Fact("predicted_low_ns", low, "ns"),
        Fact("predicted_high_ns", high, "ns"),
        Fact("measured_step_ns", measured, "ns"),
        Fact("within_prediction", within, "text"),
    )


def state_of(rule: str, findings: Sequence[FindingPair]) -> str:
    """Return whether a planned change was made (findings gone), partly made (much less time lost), or not made."""
    mine = [each for each in findings if each.rule == rule]
    if mine and all(each.change is FindingChange.GONE for each in mine):
        return MADE
    before, now = sum(each.base_lost for each in mine), sum(each.new_lost for each in mine)
    smaller = any(each.change in {FindingChange.GONE, FindingChange.SMALLER} for each in mine)
    return PARTLY if smaller and now <= LEFT_SHARE * before else NOT_MADE


def step_of(report: Report) -> int | None:
    """Return the time of a step of a report as a plan has it, in ns; None where there are no steps."""
    now = typical(report.step, report.window)
    return None if now is None else now.length.point


def _predicted(base: Report, made: Sequence[str]) -> Interval[int] | None:
    """Return the time of a step that was predicted for some changes, in ns; None for no prediction."""
    plan = base.plan
    first = plan.changes[: len(made)]
    if made and [each.rule for each in first] == list(made):
        return first[-1].step
    step = typical(base.step, base.window)
    if len(made) != 1 or step is None:
        return None
    found = next((each for each in base.findings if each.rule == made[0]), None)
    if found is None or found.saving is None:
        return None
    return step.after(found.saving)


def _holds(predicted: Interval[int], measured: int) -> bool:
    """Return whether a step is in the predicted interval; a step as far beside it counts as in it."""
    return (1 - BESIDE) * predicted.low <= measured <= (1 + BESIDE) * predicted.high


def _notes(states: dict[str, str], predicted: Interval[int] | None, measured: int | None) -> list[str]:
    made = [rule_name(rule) for rule, state in states.items() if state != NOT_MADE]
    if not made:
        return ["No change of the plan was made: all its findings are still there."]
    verb = "was" if len(made) == 1 else "were"
    notes = [f"{len(made)} of {len(states)} planned changes {verb} made: {', '.join(made)}."]
    if measured is None:
        return [*notes, "The two runs cannot be compared, so the prediction is not checked."]
    if predicted is None:
        return [*notes, "The plan has no time for this set of changes, because it makes them in another order."]
    said, now = units.duration_range(*predicted.ends), units.duration(measured)
    if _holds(predicted, measured):
        verdict = "as predicted"
    elif measured > predicted.high:
        verdict = f"{units.share(measured / max(predicted.high, 1) - 1)} more than predicted"
    else:
        verdict = f"{units.share(1 - measured / predicted.low)} less than predicted"
    return [*notes, (f"The plan predicted a mean step of {said}; it takes {now}: {verdict}.")]
