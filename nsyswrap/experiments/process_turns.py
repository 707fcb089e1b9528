"""Compares variants of a program in processes of their own that alternate: as it is, changed, changed, as it is.

A process starts with other memory and other clocks than the one before. So the runs of a variant are its sample, not
their steps, and they alternate, because a machine warms up and drifts. None is forked after one import of torch:
variables that a program sets before it imports torch would do nothing.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import NamedTuple

import numpy as np

from nsyswrap.compare.bootstrap import mean, runs_interval, standard_error, student_limit
from nsyswrap.experiments.outcome import FAILED, TriedChange, alters_of
from nsyswrap.experiments.request import CONFIDENCE, Answer
from nsyswrap.experiments.tried.turns import CANNOT_TELL, FASTER, LEAST_SHARE, verdict_of
from nsyswrap.experiments.try_runs import NoMoreRunsError, TryRuns, ending_of

FEWEST_ROUNDS, MOST_ROUNDS = 2, 6
# Seconds of steps that each process times at most. Source: ours.
TIMED_S = 3.0
_LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / (MOST_ROUNDS - FEWEST_ROUNDS + 1)
_QUANTILE = (1 + _LOOK_CONFIDENCE) / 2

Variant = tuple[str, ...]


class _TimedRun(NamedTuple):
    answer: Answer
    step_ns: float
    error: float  # standard error of the logarithm of step_ns


class ProcessTurns:
    """The timed runs of a program; what was run once counts in each comparison."""

    def __init__(self, session: TryRuns) -> None:
        self._session = session
        self._runs: dict[Variant, list[_TimedRun]] = defaultdict(list)
        self.stopped = ""

    def answers(self, made: Variant) -> list[Answer]:
        """Return the runs with these changes."""
        return [each.answer for each in self._runs[made]]

    def add(self, made: Variant, answer: Answer) -> None:
        """Add a run with these changes, if its steps were timed."""
        if answer.step_ns is not None:
            steps = np.array(next(answer.of("timed"))["step_ns"])
            self._runs[made].append(_TimedRun(answer, answer.step_ns, standard_error(steps, mean)))

    def compare(self, base: Variant, variants: Sequence[Variant]) -> list[TriedChange]:
        """Run variants in turns until all are judged, and return what came of each.

        ``stopped`` says why, where the runs ended before. All variants have the changes of the base.
        """
        found: dict[Variant, TriedChange] = {}
        # The last run of the base is the first one of these turns.
        fewest = min(len(self._runs[(*base, *each)]) for each in variants)
        ahead = max(len(self._runs[base]) - max(fewest, 1), 0)
        self.stopped = ""
        try:
            for number in range(1, MOST_ROUNDS + 1):
                left = [each for each in variants if each not in found]
                for each in ([(), *left] if number % 2 else [*left[::-1], ()]) if left else ():
                    if len(self._runs[(*base, *each)]) < number + (0 if each else ahead):
                        ending = self._run(base, each)
                        found |= {each: TriedChange(spec=_text(each), verdict=FAILED, words=ending)} if ending else {}
                for each in left if number >= FEWEST_ROUNDS else ():
                    judged = found.get(each) or self._judged(base, each)
                    found |= {each: judged} if judged.verdict != CANNOT_TELL else {}
        except NoMoreRunsError as error:
            self.stopped = str(error)
        return [found.get(each) or self._judged(base, each) for each in variants]

    def _run(self, base: Variant, variant: Variant) -> str:
        """Run a variant once, and return how it failed; empty for a run that was timed.

        Raises:
            NoMoreRunsError: No run is left, or the variant that all others have has failed.
        """
        answer = self._session.timed((*base, *variant), TIMED_S)
        if answer.step_ns is None:
            if not variant:
                raise NoMoreRunsError(f"With the changes so far the program ended: {ending_of(answer)}.")
            return ending_of(answer)
        self.add((*base, *variant), answer)
        return ""

    def _judged(self, base: Variant, variant: Variant) -> TriedChange:
        """Judge a variant by its runs so far."""
        sides = [self._runs[each] for each in (base, (*base, *variant))]
        pairs = min(map(len, sides))
        if pairs < FEWEST_ROUNDS:
            return TriedChange(
                spec=_text(variant), verdict=CANNOT_TELL, words="too few runs", alters=alters_of(variant)
            )
        before, after = (np.array([each.step_ns for each in side]) for side in sides)
        # Student's t is for the spread of few runs. The error within runs is known from many steps, so that it counts
        # with the quantile of a normal distribution.
        known = NormalDist().inv_cdf(_QUANTILE) / student_limit(_QUANTILE, len(before) + len(after) - 2)
        least = known * fmean(each.error for side in sides for each in side)
        reached = runs_interval(np.log(before), np.log(after), _LOOK_CONFIDENCE, least)
        verdict = verdict_of(reached.point, reached.width / 2)
        return TriedChange(
            spec=_text(variant),
            verdict=verdict,
            low=math.exp(reached.low),
            ratio=math.exp(reached.point),
            high=math.exp(reached.high),
            before_ns=float(before.mean()),
            after_ns=float(after.mean()),
            pairs=pairs,
            kept=verdict == FASTER and reached.point <= math.log1p(-LEAST_SHARE),
            alters=alters_of(variant),
        )


def _text(variant: Variant) -> str:
    return variant[0] if len(variant) == 1 else "all"
