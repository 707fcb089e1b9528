"""How the step time changed, how certain that is, and the decision that follows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nsyswrap.base.interval import around
from nsyswrap.compare.bootstrap import Series, Statistic, drift, log_ratio_interval, mean, median, runs_interval
from nsyswrap.compare.comparison import Estimate, Outcome
from nsyswrap.compare.run_noise import widened
from nsyswrap.compare.step_times import MeasuredSteps

MEDIAN, MEAN = "median step", "time per step"
# Two measures may each show a change; at this level the intervals of both hold in 95 % of comparisons.
CONFIDENCE = 0.975
# An interval that reaches farther than this, beyond the noise between runs, is too wide for "no difference".
WIDEST = 0.15
# A change by more than this factor is given as this factor: for a larger one, a float cannot hold 1 - 1 / factor, and
# Student's t of few runs widens intervals beyond what a float holds.
FARTHEST = math.log(1e15)


class ChangeBounds(NamedTuple):
    """Limits that a change must exceed: the margin, as a share, and the noise between runs, in logarithms."""

    margin: float
    noise: float


class Decision(NamedTuple):
    """The result of the estimates; for "cannot tell" also the reason as a clause, and what would help."""

    outcome: Outcome
    reason: str = ""
    hint: str = ""


MORE_STEPS = "profile more steps, on a machine without other load"
MORE_RUNS = "profile each side several times and pass all runs: --base-run, --new-run"


def estimate_changes(
    base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], margin: float, noise: float = 0.0
) -> tuple[Estimate, Estimate]:
    """Return how the median step and the time per step changed.

    The median is that of the step lengths, so outliers do not change it. The time per step is the mean from the start
    of a step to the start of the next; it includes outliers and the time between steps.

    Args:
        base: The steps of each run of base.
        new: The steps of each run of new.
        margin: Smallest change that counts, as a share.
        noise: How far ln(new / base) of two runs may be from 0 when nothing changed; 0 for parts of one run.
    """
    bounds = ChangeBounds(margin, noise)
    return (
        _estimate(MEDIAN, [one.length for one in base], [one.length for one in new], median, bounds),
        _estimate(MEAN, [one.period for one in base], [one.period for one in new], mean, bounds),
    )


def decide(estimates: tuple[Estimate, Estimate], what: str = "steps") -> Decision:
    """Return the decision of both measures together.

    The time per step decides where it shows a change, since it is the time that training takes. Outliers may hide its
    change. Then the median decides, unless the interval of the time per step excludes it. "No difference" needs one
    measure only: outliers widen the interval of the mean, steps of two lengths that of the median.

    Args:
        estimates: Median step, time per step.
        what: What the intervals come from: "steps" or "runs".
    """
    of_median, of_mean = estimates
    if of_mean.outcome in (Outcome.FASTER, Outcome.SLOWER):
        return Decision(of_mean.outcome)
    if of_median.outcome in (Outcome.FASTER, Outcome.SLOWER):
        if of_mean.change.low <= of_median.change.high and of_median.change.low <= of_mean.change.high:
            return Decision(of_median.outcome)
        reason = "the median step changed and the time per step did not, so time moved to outliers or between steps"
        return Decision(Outcome.CANNOT_TELL, reason, MORE_STEPS)
    return _unchanged(estimates, what)


def _unchanged(estimates: tuple[Estimate, Estimate], what: str) -> Decision:
    """Return the decision where no measure shows a change."""
    for one in estimates:
        if one.outcome is Outcome.CANNOT_TELL and 0 not in one.change:
            reason = f"the {one.label} drifts within a capture by as much as it differs between the captures"
            return Decision(Outcome.CANNOT_TELL, reason, MORE_STEPS)
    if any(one.outcome is Outcome.NO_DIFFERENCE for one in estimates):
        return Decision(Outcome.NO_DIFFERENCE)
    if any(map(_hidden_by_runs, estimates)):
        reason = "two runs of such a loop may differ by as much when nothing changed"
        return Decision(Outcome.CANNOT_TELL, reason, MORE_RUNS)
    hint = MORE_RUNS if what == "runs" else MORE_STEPS
    return Decision(Outcome.CANNOT_TELL, f"the {what} vary too much for so few of them", hint)


def _hidden_by_runs(one: Estimate) -> bool:
    """Return whether the steps alone would give a decision, which the noise between runs prevents."""
    noise, half = math.log1p(one.noise), one.change.map(math.log1p).width / 2
    return noise > 0 and half**2 - noise**2 <= math.log1p(WIDEST) ** 2


def _estimate(
    label: str, base: Sequence[Series], new: Sequence[Series], statistic: Statistic, bounds: ChangeBounds
) -> Estimate:
    before, now = (np.array([float(statistic(run)) for run in runs]) for runs in (base, new))
    base_ns, new_ns = _typical(before), _typical(now)
    centre = math.log(new_ns / base_ns)
    one_each = len(base) == len(new) == 1
    if one_each:
        spread = widened(log_ratio_interval(base[0], new[0], statistic, CONFIDENCE), bounds.noise)
    else:
        spread = runs_interval(np.log(before), np.log(now), CONFIDENCE)
    # Several runs of a side show their differences directly, so drift matters for single runs only.
    alone = [runs[0] for runs in (base, new) if len(runs) == 1]
    drifted = max((drift(run, statistic) for run in alone), default=0.0)
    certain = 0 not in spread
    # In logarithms twice as long and half as long are equally far from no change.
    if certain and abs(centre) > math.log1p(bounds.margin):
        direction = Outcome.SLOWER if centre > 0 else Outcome.FASTER
        outcome = direction if abs(centre) > drifted else Outcome.CANNOT_TELL
    else:
        limit = math.log1p(max(WIDEST, bounds.margin)) + bounds.noise
        wide = max(-spread.low, spread.high) > limit
        outcome = Outcome.CANNOT_TELL if wide else Outcome.NO_DIFFERENCE
    return Estimate(
        label=label,
        base_ns=base_ns,
        new_ns=new_ns,
        change=around(new_ns / base_ns - 1, *map(_share, spread.ends)),
        drift=_share(drifted),
        noise=_share(bounds.noise) if one_each else 0.0,
        outcome=outcome,
    )


def _share(logarithm: float) -> float:
    """Return a change as a share from its natural logarithm."""
    return math.expm1(min(max(logarithm, -FARTHEST), FARTHEST))


def _typical(of_runs: Series) -> float:
    """Return the geometric mean of the runs, since the interval is in logarithms."""
    return float(of_runs[0]) if len(of_runs) == 1 else math.exp(float(np.log(of_runs).mean()))
