"""Proves that changes leave the work of a program as it is, by the checks of `verify`.

The first steps are recorded in new processes with the same seeds, with the changes and without. Compiled code is not
part of a record, so the losses of the timed runs are compared, too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from nsyswrap.experiments.outcome import alters_of
from nsyswrap.experiments.request import Answer
from nsyswrap.experiments.tried.experiment import MATHEMATICS, NOTHING, RANDOM
from nsyswrap.experiments.try_runs import TryRuns, ending_of
from nsyswrap.experiments.verify import Verification, VerifyOptions, compared, worst
from nsyswrap.experiments.verify_checks import RoundingGrowth, WorkCheck, WorkOutcome, growth_of
from nsyswrap.experiments.verify_runs import WorkRun, roundoff_of

_LOSSES = "losses"


class WorkProof(NamedTuple):
    """Whether some changes leave the work as it is.

    Attributes:
        agree: Whether the work is the same; None where the runs cannot tell, or where the changes alter results.
        words: The same as sentences.
    """

    agree: bool | None
    words: str


class Prover:
    """Compares the work of a program with changes and without.

    ``timed`` are runs without changes.
    """

    def __init__(self, session: TryRuns, timed: Sequence[Answer]) -> None:
        self._session, self._timed = session, timed
        self._base = session.recorded(())

    def prove(self, variant: Sequence[str], timed: Sequence[Answer]) -> WorkProof:
        """Return whether some changes leave the work as it is.

        ``timed`` are runs with them.

        Raises:
            NoMoreRunsError: The budget has ended, or the user does not allow more runs.
        """
        altered, new = {alters_of([each]) for each in variant}, self._session.recorded(variant)
        if new.exit_code:
            return WorkProof(agree=None, words=f"The work of the changed program cannot be recorded: {ending_of(new)}.")
        has_workers = any(each["workers"] for answer in (self._base, new) for each in answer.of("ready"))
        # What alters nothing may differ by as much as two runs of the program itself.
        roundoff = 0.0 if altered == {NOTHING} else max(roundoff_of(_work(each)) for each in (self._base, new))

        def run_of(answer: Answer) -> WorkRun:
            return _comparable(_work(answer), has_workers=has_workers)

        @cache
        def growth() -> RoundingGrowth | None:
            return growth_of(roundoff, run_of(self._session.recorded((), roundoff)))

        found = compared(run_of(self._base), run_of(new), growth, lambda: run_of(self._session.recorded(variant)))
        return _proof((*found, *self._losses(timed, growth)), altered)

    def _losses(self, timed: Sequence[Answer], growth: Callable[[], RoundingGrowth | None]) -> list[WorkCheck]:
        """Return the check of the losses of timed runs, in which compiled code ran; none for a program without."""
        if not self._timed or not timed:
            return []
        losses = [each.losses for each in (self._timed[0], *timed)]
        count = min(map(len, losses))

        def grown() -> RoundingGrowth | None:
            """Return the timed losses with what rounding has added to the recorded ones."""
            found = growth()
            if found is None:
                return None
            pairs = zip(_recorded_losses(_work(self._base)), _recorded_losses(found.run), strict=False)
            shifted = [loss + after - before for loss, (before, after) in zip(losses[0], pairs, strict=False)]
            return RoundingGrowth(found.roundoff, _run_with(shifted))

        base, new, *more = (_run_with(each[:count]) for each in losses)
        found = compared(base, new, grown, lambda: more[0] if more else None)
        return [each for each in found if each.name == _LOSSES]


def _work(answer: Answer) -> WorkRun:
    return answer.work or WorkRun(answer.exit_code, (), (), {})


def _comparable(run: WorkRun, *, has_workers: bool) -> WorkRun:
    """Return a run that was ended after some steps without what its end leaves open.

    These are the sizes of its files and, in a program with workers, all but the products of the loop.
    """

    def kept(event: dict[str, Any]) -> dict[str, Any]:
        work = event["work"].items()
        of_loop = {name: each for name, each in work if "|products|" in name and not name.startswith("loading")}
        return {**event, "work": of_loop if has_workers else dict(work)}

    processes = [{**each, "events": list(map(kept, each["events"]))} for each in run.processes]
    return replace(run, processes=tuple(processes), written={} if has_workers else dict.fromkeys(run.written, 0))


def _recorded_losses(run: WorkRun) -> list[float]:
    """Return the values with which the backward passes of a run begin, of its first process that has some."""
    found = [[one["value"] for one in each["events"] if one["kind"] == "backward"] for each in run.processes]
    return next(filter(None, found), [])


def _run_with(losses: Iterable[float]) -> WorkRun:
    """Return a run that has these losses and nothing else."""
    events = [{"kind": "backward", "value": each, "work": {}} for each in losses]
    return WorkRun(0, (), ({"pid": 0, "problem": "", "events": events, "parameters": {}},), {})


def _proof(found: tuple[WorkCheck, ...], altered: set[str]) -> WorkProof:
    outcome = worst(found)
    words = Verification("", "", outcome, found, None, (), VerifyOptions()).verdict
    words = words.replace("NEW", "the changed program").replace("BASE", "the unchanged one")
    words = words[0].upper() + words[1:]
    losses = [each for each in found if each.name == _LOSSES]
    if losses and losses[-1].outcome is WorkOutcome.SAME:
        words += f" Losses: {losses[-1].words[0].lower()}{losses[-1].words[1:]}"
    if outcome is WorkOutcome.SAME:
        return WorkProof(agree=True, words=words)
    are_values = all(each.is_value for each in found if each.outcome is WorkOutcome.OTHER)
    kinds = altered & ({MATHEMATICS, RANDOM} if are_values else {MATHEMATICS})
    if outcome is WorkOutcome.OTHER and kinds:
        return WorkProof(agree=None, words=f"{words} The changes alter {min(kinds)}: compare a whole training.")
    return WorkProof(agree=None if outcome is WorkOutcome.CANNOT_TELL else False, words=words)
