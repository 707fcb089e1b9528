"""Compares variants of a program in processes of their own that alternate: as it is, changed, changed, as it is.

A process starts with other memory and other clocks than the one before. So the runs of a variant are its sample, not
their steps, and they alternate, because a machine warms up and drifts.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

import numpy as np

from nsyswrap.compare.bootstrap import mean, runs_interval, standard_error
from nsyswrap.experiments.outcome import FAILED, TriedChange, alters_of
from nsyswrap.experiments.request import CONFIDENCE, Answer
from nsyswrap.experiments.tried.turns import CANNOT_TELL, FASTER, LEAST_SHARE, verdict_of
from nsyswrap.experiments.try_runs import NoMoreRunsError, TryRuns, ending_of

FEWEST_ROUNDS, MOST_ROUNDS = 2, 6
# Seconds of steps that each process times. Source: ours.
TIMED_S = 3.0
_LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / (MOST_ROUNDS - FEWEST_ROUNDS + 1)

Variant = tuple[str, ...]


class ProcessTurns:
    """The runs of some variants.

    All have the changes of the base. ``earlier`` is one run of each variant that was made before.
    """

    def __init__(
        self, session: TryRuns, base: Variant, earlier: Mapping[Variant, Answer] = MappingProxyType({})
    ) -> None:
        self._session, self._base = session, base
        self.answers: dict[Variant, list[Answer]] = {(): [], **{key: [each] for key, each in earlier.items()}}
        self.stopped = ""

    def compare(self, variants: Sequence[Variant]) -> list[TriedChange]:
        """Run variants in turns until all are judged, and return what came of each.

        ``stopped`` says why, where the runs ended before. Runs of an earlier call count.
        """
        found: dict[Variant, TriedChange] = {}
        for each in variants:
            self.answers.setdefault(each, [])
        try:
            for number in range(1 + len(self.answers[()]), MOST_ROUNDS + 1):
                if number > FEWEST_ROUNDS:
                    judged = {each: self._judged(each) for each in variants if each not in found}
                    found |= {each: one for each, one in judged.items() if one.verdict != CANNOT_TELL}
                left = [each for each in variants if each not in found]
                if not left:
                    break
                for each in [(), *left] if number % 2 else [*left[::-1], ()]:
                    answer = self._run(each)
                    if answer.step_ns is None:
                        found[each] = TriedChange(spec=_text(each), verdict=FAILED, words=ending_of(answer))
                    else:
                        self.answers[each].append(answer)
        except NoMoreRunsError as error:
            self.stopped = str(error)
        return [found.get(each) or self._judged(each) for each in variants]

    def _run(self, variant: Variant) -> Answer:
        """Run a variant once.

        Raises:
            NoMoreRunsError: No run is left, or the variant that all others have has failed.
        """
        answer = self._session.timed((*self._base, *variant), TIMED_S)
        if answer.step_ns is None and not variant:
            raise NoMoreRunsError(f"With the changes so far the program ended: {ending_of(answer)}.")
        return answer

    def _judged(self, variant: Variant) -> TriedChange:
        """Judge a variant by its runs so far."""
        base, new = (self._lengths(each) for each in ((), variant))
        if min(len(base), len(new)) < FEWEST_ROUNDS:
            return TriedChange(
                spec=_text(variant), verdict=CANNOT_TELL, words="too few runs", alters=alters_of(variant)
            )
        logs = [np.log([fmean(each) for each in side]) for side in (base, new)]
        least = fmean(standard_error(np.array(each), mean) for side in (base, new) for each in side)
        reached = runs_interval(logs[0], logs[1], _LOOK_CONFIDENCE, least)
        verdict = verdict_of(reached.point, reached.width / 2)
        return TriedChange(
            spec=_text(variant),
            verdict=verdict,
            low=math.exp(reached.low),
            ratio=math.exp(reached.point),
            high=math.exp(reached.high),
            before_ns=fmean(map(fmean, base)),
            after_ns=fmean(map(fmean, new)),
            pairs=min(len(base), len(new)),
            kept=verdict == FASTER and reached.point <= math.log1p(-LEAST_SHARE),
            alters=alters_of(variant),
        )

    def _lengths(self, variant: Variant) -> list[list[float]]:
        return [each["step_ns"] for answer in self.answers[variant] for each in answer.of("timed")]


def _text(variant: Variant) -> str:
    return variant[0] if len(variant) == 1 else "all"
