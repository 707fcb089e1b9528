"""How the step time changed, how certain that is, and the decision that follows."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.interval import Interval, around
from nsyswrap.compare.bootstrap import (
    Series,
    Statistic,
    log_ratio_interval,
    mean,
    median,
    normal_error,
    runs_interval,
    runs_needed,
    runs_spread,
    standard_error,
)
from nsyswrap.compare.comparison import Estimate, Outcome
from nsyswrap.compare.run_noise import run_noise, widened
from nsyswrap.compare.step_times import MeasuredSteps

ALONE, MEDIAN, MEAN = "median step without the profiler", "median step", "time per step"
# Two measures may each show a change; at this level the intervals of both hold in 95 % of comparisons.
CONFIDENCE = 0.975
# One run of each side is compared where kernels run for all but this share of its time: then even host time that varies
# by half between runs changes a step by 2.5 %. Ours.
MOST_HOST = 0.05
# Waits for a core that grew by less than this share of a step explain nothing. Ours.
LEAST_WAIT = 0.01
# A change by more than this factor is given as this factor: for a larger one, a float cannot hold 1 - 1 / factor, and
# Student's t of few runs widens intervals beyond what a float holds.
FARTHEST = math.log(1e15)
# Most runs of a side that an answer asks for; beyond it the runs have to be made more alike instead.
MOST_RUNS = 60
CHANGED = (Outcome.FASTER, Outcome.SLOWER)


class Decision(NamedTuple):
    """The result of the estimates; for "cannot tell" also the reason as a clause, and what would help."""

    outcome: Outcome
    reason: str = ""
    hint: str = ""


MORE_RUNS = "profile each side three times or more and pass all runs: --base-run, --new-run"
ALIKE = "make runs more alike: more steps, no other load, fixed clocks; or find larger changes only: --find"


def estimate_changes(base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], find: float) -> tuple[Estimate, ...]:
    """Return how the median step and the time per step changed, and before them the step alone where all runs have it.

    The median is that of the step lengths, so outliers do not change it. The time per step is the mean from the start
    of a step to the start of the next; it includes outliers and the time between steps. The step alone is the median
    step that was measured without the profiler.
    """
    one_each = len(base) == len(new) == 1
    noise = run_noise(base, new, CONFIDENCE) if one_each else 0.0
    decides = not one_each or max(run.cpu_share for run in (*base, *new)) <= MOST_HOST
    found = [
        _estimate(MEDIAN, _of_steps(base, median), _of_steps(new, median), noise),
        _estimate(MEAN, _of_steps(base, mean), _of_steps(new, mean), noise),
    ]
    if all(run.alone_ns is not None for run in (*base, *new)):
        found.insert(0, _estimate(ALONE, _alone(base), _alone(new), noise))
    return tuple(replace(one, outcome=_outcome(one.change, find) if decides else Outcome.CANNOT_TELL) for one in found)


class _Runs(NamedTuple):
    """One measure of the runs of a side: logarithms of their times, the standard error of each, and its steps."""

    logarithms: Series
    errors: Series
    steps: Sequence[Series] = ()
    statistic: Statistic = mean


def _of_steps(runs: Sequence[MeasuredSteps], statistic: Statistic) -> _Runs:
    steps = [run.length if statistic is median else run.period for run in runs]
    errors = [standard_error(one, statistic) for one in steps] if len(steps) > 1 else [0.0]
    return _Runs(np.log([float(statistic(one)) for one in steps]), np.array(errors), steps, statistic)


def _alone(runs: Sequence[MeasuredSteps]) -> _Runs:
    known = [run.alone_ns for run in runs if run.alone_ns is not None]
    return _Runs(np.log([one.point for one in known]), np.array([normal_error(one.map(math.log)) for one in known]))


def _estimate(label: str, base: _Runs, new: _Runs, noise: float) -> Estimate:
    """Return how one measure changed, without its outcome."""
    centre = float(new.logarithms.mean() - base.logarithms.mean())
    if len(base.logarithms) > 1 or len(new.logarithms) > 1:
        spread = runs_interval(base.logarithms, new.logarithms, CONFIDENCE, _error(base, new))
    elif base.steps:
        spread = widened(log_ratio_interval(base.steps[0], new.steps[0], base.statistic, CONFIDENCE), noise)
    else:
        reach = 2 * _error(base, new) * math.sqrt(2)
        spread = widened(Interval(centre - reach, centre, centre + reach), noise)
    base_ns, new_ns = (math.exp(float(one.logarithms.mean())) for one in (base, new))
    change = around(new_ns / base_ns - 1, *map(_share, spread.ends))
    return Estimate(label, base_ns, new_ns, change, _share(noise), Outcome.CANNOT_TELL)


def _error(base: _Runs, new: _Runs) -> float:
    """Return the standard error of one run as its steps show it: runs that agree by chance are no more certain."""
    return math.sqrt(float(np.mean(np.concatenate([base.errors, new.errors]) ** 2)))


def _outcome(change: Interval[float], find: float) -> Outcome:
    """Return what an interval shows. In logarithms, twice as long and half as long are equally far from no change."""
    if 0 not in change:
        return Outcome.SLOWER if change.point > 0 else Outcome.FASTER
    limit = math.log1p(find)
    within = all(abs(math.log1p(end)) < limit for end in change.ends)
    return Outcome.NO_DIFFERENCE if within else Outcome.CANNOT_TELL


def decide(
    estimates: Sequence[Estimate], base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], find: float
) -> Decision:
    """Return the decision of all measures together.

    The step alone decides where it is known. Else the time per step decides where it shows a change, since it is the
    time that training takes. Outliers may hide its change. Then the median decides, unless the interval of the time per
    step excludes it. "No difference" needs one measure only: outliers widen the interval of the mean, steps of two
    lengths that of the median.
    """
    if len(base) == len(new) == 1 and max(run.cpu_share for run in (*base, *new)) > MOST_HOST:
        reason = "one run of each side does not show how much time on the CPU varies"
        return Decision(Outcome.CANNOT_TELL, reason, MORE_RUNS)
    is_alone = estimates[0].label == ALONE
    decision = Decision(estimates[0].outcome) if is_alone else _of_recorded(estimates, base, new, find)
    if decision.outcome is not Outcome.CANNOT_TELL or decision.reason:
        return decision
    reason = f"the runs vary too much to show or exclude a change of {units.percent(find)}"
    return Decision(Outcome.CANNOT_TELL, reason, _needed(estimates, base, new, find))


def _of_recorded(
    estimates: Sequence[Estimate], base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], find: float
) -> Decision:
    """Return the decision of median step and time per step, as they were recorded."""
    of_median, of_mean = estimates
    if longer := _longer_waits(estimates, base, new, find):
        side = "new" if longer > 0 else "base"
        waits = f"{side} waits {units.duration(abs(longer))} a step longer for a CPU core"
        reason = f"{waits}, and without these waits no change is shown"
        return Decision(Outcome.CANNOT_TELL, reason, "run again without other load")
    if of_mean.outcome in CHANGED:
        return Decision(of_mean.outcome)
    if of_median.outcome in CHANGED:
        if of_mean.change.low <= of_median.change.high and of_median.change.low <= of_mean.change.high:
            return Decision(of_median.outcome)
        reason = "the median step changed and the time per step did not, so time moved to outliers or between steps"
        return Decision(Outcome.CANNOT_TELL, reason, "profile more steps")
    unchanged = Outcome.NO_DIFFERENCE in {of_median.outcome, of_mean.outcome}
    return Decision(Outcome.NO_DIFFERENCE if unchanged else Outcome.CANNOT_TELL)


def _needed(
    estimates: Sequence[Estimate], base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], find: float
) -> str:
    """Return how many runs of each side would tell: show the change if it stays, or exclude one of ``find``."""
    if len(base) == len(new) == 1:
        return MORE_RUNS
    is_alone = estimates[0].label == ALONE
    one = estimates[0] if is_alone else estimates[-1]
    sides = [_alone(side) if is_alone else _of_steps(side, mean) for side in (base, new)]
    spread = runs_spread(sides[0].logarithms, sides[1].logarithms, _error(*sides))
    change = abs(math.log1p(one.change.point))
    count = runs_needed(spread, max(change, math.log1p(find) - change), CONFIDENCE, MOST_RUNS)
    have = min(len(base), len(new))
    if count is None:
        return f"more than {MOST_RUNS} runs of each side would be needed: {ALIKE}"
    return f"about {max(count, have + 1)} runs of each side would tell: --base-run, --new-run"


def _longer_waits(
    estimates: Sequence[Estimate], base: Sequence[MeasuredSteps], new: Sequence[MeasuredSteps], find: float
) -> float:
    """Return by how many ns a step new waits longer for a CPU core than base, if this explains the change.

    A program that others keep from its cores is slower, but not by a change of its own. 0 where no change is shown,
    where waits are unknown, hardly differ, or where a step without them changed in the same way.
    """
    shown = next((one.outcome for one in reversed(estimates) if one.outcome in CHANGED), None)
    if shown is None or any(run.waiting_ns is None for run in (*base, *new)):
        return 0.0
    before, now = (float(np.mean([run.waiting_ns or 0.0 for run in side])) for side in (base, new))
    longer = (now - before) * (1 if shown is Outcome.SLOWER else -1)
    if longer <= LEAST_WAIT * estimates[-1].base_ns:
        return 0.0
    own = estimate_changes([run.without_waits() for run in base], [run.without_waits() for run in new], find)
    return 0.0 if own[-1].outcome is shown else now - before


def _share(logarithm: float) -> float:
    """Return a change as a share from its natural logarithm."""
    return math.expm1(min(max(logarithm, -FARTHEST), FARTHEST))
