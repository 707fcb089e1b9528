"""How the step time changed, how sure that is, and what it comes to."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nsyswrap.compare.bootstrap import Series, Statistic, drift, log_ratio_interval, mean, median, runs_interval
from nsyswrap.compare.comparison import Estimate, Outcome
from nsyswrap.compare.step_times import StepTimes

MEDIAN, MEAN = "median step", "time per step"
# Two measures may each say that something changed; with this each, both hold together in 95 %.
CONFIDENCE = 0.975
# Where the interval of an unchanged step reaches farther than this, "no difference" would say too little.
WIDEST = 0.15


class Judged(NamedTuple):
    """What the estimates come to, and why where they cannot tell; the reason is a clause without a full stop."""

    outcome: Outcome
    reason: str = ""


def estimate_changes(base: Sequence[StepTimes], new: Sequence[StepTimes], margin: float) -> tuple[Estimate, Estimate]:
    """Return how the median step and the time per step changed.

    The median is of the steps themselves, and no outlier moves it. The time per step is the mean from the start of a
    step to that of the next: all time of the window, what lies between steps and outliers included.

    Args:
        base: The steps of each run of base.
        new: The steps of each run of new.
        margin: Smallest change that counts, as a share.
    """
    return (
        _estimate(MEDIAN, [one.length for one in base], [one.length for one in new], median, margin),
        _estimate(MEAN, [one.period for one in base], [one.period for one in new], mean, margin),
    )


def judge(estimates: tuple[Estimate, Estimate], what: str = "steps") -> Judged:
    """Return what both measures come to together.

    The time per step decides where it can: it is what training takes. Outliers may hide its change; then the median
    decides, unless the time per step rules out what the median says. Where nothing changed, it is enough that one of
    them tells: outliers hide it from the mean, steps of two lengths from the median.

    Args:
        estimates: Median step, time per step.
        what: What the intervals come from: steps, or runs.
    """
    of_median, of_mean = estimates
    if of_mean.outcome in (Outcome.FASTER, Outcome.SLOWER):
        return Judged(of_mean.outcome)
    if of_median.outcome in (Outcome.FASTER, Outcome.SLOWER):
        if of_mean.low <= of_median.high and of_median.low <= of_mean.high:
            return Judged(of_median.outcome)
        reason = "the median step changed and the time per step did not: time has moved to outliers or between steps"
        return Judged(Outcome.CANNOT_TELL, reason)
    for one in estimates:
        if one.outcome is Outcome.CANNOT_TELL and (one.low > 0 or one.high < 0):
            reason = f"the {one.label} drifts within the captures by as much as it differs between them"
            return Judged(Outcome.CANNOT_TELL, reason)
    if Outcome.NO_DIFFERENCE in (of_median.outcome, of_mean.outcome):
        return Judged(Outcome.NO_DIFFERENCE)
    return Judged(Outcome.CANNOT_TELL, f"the {what} vary too much for their number")


def _estimate(
    label: str, base: Sequence[Series], new: Sequence[Series], statistic: Statistic, margin: float
) -> Estimate:
    before, now = (np.array([float(statistic(run)) for run in runs]) for runs in (base, new))
    if len(base) == len(new) == 1:
        spread = log_ratio_interval(base[0], new[0], statistic, CONFIDENCE)
    else:
        spread = runs_interval(np.log(before), np.log(now), CONFIDENCE)
    base_ns, new_ns = _typical(before), _typical(now)
    centre = math.log(new_ns / base_ns)
    # Of several runs of each side it is known by how much they differ.
    alone = [runs[0] for runs in (base, new) if len(runs) == 1]
    drifted = max((drift(run, statistic) for run in alone), default=0.0)
    certain = spread.low > 0 or spread.high < 0
    # Logarithms, so that twice as long and half as long are equally far from no change.
    if certain and abs(centre) > math.log1p(margin):
        direction = Outcome.SLOWER if centre > 0 else Outcome.FASTER
        outcome = direction if abs(centre) > drifted else Outcome.CANNOT_TELL
    else:
        wide = max(-spread.low, spread.high) > math.log1p(max(WIDEST, margin))
        outcome = Outcome.CANNOT_TELL if wide else Outcome.NO_DIFFERENCE
    return Estimate(
        label=label,
        base_ns=base_ns,
        new_ns=new_ns,
        low=math.expm1(spread.low),
        high=math.expm1(spread.high),
        drift=math.expm1(drifted),
        outcome=outcome,
    )


def _typical(of_runs: Series) -> float:
    """Return the geometric mean of the runs, as the interval is one of logarithms."""
    return float(of_runs[0]) if len(of_runs) == 1 else math.exp(float(np.log(of_runs).mean()))
