"""Tries changes of a program one after another, keeps what helps, and goes on after a change that ended the program.

::

    1. turns in one process, unless the loop waits for its loaders; then first: the knee of the workers
    2. what needs a process of its own, in processes that alternate, with the changes so far: as many at a time as the
       budget allows
    3. all changes together against none: the times, and the work of the same steps
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsyswrap.base import units
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.loader_search import LoaderPoint, find_knee
from nsyswrap.experiments.outcome import (
    FAILED,
    NOT_APPLICABLE,
    Trial,
    TriedChange,
    alters_of,
    kept_of,
    outcomes_of,
)
from nsyswrap.experiments.process_turns import FEWEST_ROUNDS, TIMED_S, ProcessTurns, Variant
from nsyswrap.experiments.proof import Prover
from nsyswrap.experiments.request import Answer, run_request
from nsyswrap.experiments.tried.experiment import MATHEMATICS, RANDOM, parts_of, spec_of
from nsyswrap.experiments.tried.turns import CANNOT_TELL, SAME, SET, SLOWER, WORKERS
from nsyswrap.experiments.try_runs import NoMoreRunsError, Run, TryOptions, TryRuns, ending_of

# What is compiled or captured keeps the kernels of the settings then, so these come last.
_KEEP_KERNELS = frozenset({"compile", "cuda_graphs"})
# Seconds of steps for each number of workers. Source: ours.
_SEARCH_S = 2.0
# Of a search that found a better number, for which time is kept: one more of each. Source: ours.
_COMPARED_RUNS = 2
# Of the time that is left; the rest is for new processes. Source: ours.
_TURNS_SHARE = 0.6


def try_changes(wanted: TryOptions, options: CaptureOptions, run: Run = run_request) -> Trial:
    """Try changes of a program, and return what came of each.

    Nothing is recorded.

    Raises:
        UsageError: The program would have changed a file that exists.
        CannotTellError: It has no steps, or too few of them.
        UnfinishedError: It failed without any change.
    """
    return _Search(wanted, TryRuns(wanted, options, run)).trial(options.command)


class _Search:
    """What was found so far."""

    def __init__(self, wanted: TryOptions, session: TryRuns) -> None:
        self._session, known = session, experiments()
        order = [(known[parts_of(each)[0]], each) for each in wanted.order]
        order = [each for each in order if wanted.with_precision or each[0].alters != MATHEMATICS]
        turns = [spec for each, spec in order if each.is_in_turns]
        self._turns = tuple(sorted(turns, key=lambda spec: parts_of(spec)[0] in _KEEP_KERNELS))
        self._processes = tuple(spec for each, spec in order if not each.is_in_turns)
        self._say = wanted.say
        self._found: list[TriedChange] = []
        self._notes: list[str] = []
        self._compared = ProcessTurns(session)
        self._points: tuple[LoaderPoint, ...] = ()

    @property
    def _base(self) -> Variant:
        """Return the changes to make so far."""
        return tuple(spec for each in kept_of(self._found) for spec in each.specs)

    def trial(self, command: tuple[str, ...]) -> Trial:
        """Try everything, as far as the budget goes."""
        searches = WORKERS in self._processes
        try:
            answer = self._try_in_turns(for_loader=searches)
            ready = _ready(answer)
            if ready.get("needs_workers"):
                self._search_workers(ready)
                ready = _ready(self._try_in_turns(for_loader=False))
            others = [each for each in ready.get("processes", ()) if not searches or parts_of(each)[0] != WORKERS]
            self._try_in_processes(others)
            self._check_all()
        except NoMoreRunsError as error:
            self._notes.append(str(error))
        return Trial(
            command=command, outcomes=tuple(self._found), points=self._points, notes=tuple(dict.fromkeys(self._notes))
        )

    def _try_in_turns(self, *, for_loader: bool) -> Answer:
        """Try what can be undone, in one process, and in another one after each change that ended it.

        Returns the answer of the first process that got ready.
        """
        done, first = list[str](), None
        while True:
            base = self._base
            answer = self._session.answer(
                budget_s=_TURNS_SHARE * self._session.left_s,
                base=base,
                turns=tuple(each for each in self._turns if each not in done),
                without=tuple(each.spec for each in self._found),
                processes=() if first else self._processes,
                timed_s=0.0 if first else TIMED_S,
                is_for_loader=for_loader,
            )
            first = first or (answer if _ready(answer) else None)
            self._compared.add(base, answer)
            outcomes = outcomes_of(answer.events)
            done += [each.spec for each in outcomes if each.verdict == NOT_APPLICABLE]
            self._found += [each for each in outcomes if each.spec not in {one.spec for one in self._found}]
            if not any(answer.of("end")) and not answer.open:
                self._notes.append(_unfinished(answer))
            if not answer.open:
                return first or answer
            self._found.append(TriedChange(spec=answer.open, verdict=FAILED, words=ending_of(answer)))

    def _search_workers(self, ready: Mapping[str, Any]) -> None:
        """Find the number of workers, and keep it if it helps.

        ``ready`` is what the program was found to be.
        """
        now, cores = int(ready["workers"]), int(ready["cores"])

        def variant(number: int) -> Variant:
            return () if number == now else (spec_of(WORKERS, str(number)),)

        def run(number: int) -> Answer | None:
            made = variant(number)
            if not self._compared.answers(made):
                self._say(f"the loop waits for its data: {units.counted(number, 'worker')}")
                try:
                    found = self._session.timed(made, _SEARCH_S, later=_COMPARED_RUNS)
                except NoMoreRunsError as error:
                    self._notes.append(str(error))
                    return None
                self._compared.add(made, found)
            return next(iter(self._compared.answers(made)), None)

        best, self._points = find_knee(run, now, cores)
        if best is not None and best.workers != now:
            self._compare([variant(best.workers)])
            return
        verdict, words = SAME, f"{units.counted(now, 'worker')} are as fast as any other number"
        if len(self._points) <= 1:
            verdict, words = CANNOT_TELL, "too few runs"
        self._found.append(TriedChange(spec=WORKERS, verdict=verdict, words=words, alters=alters_of([WORKERS])))

    def _try_in_processes(self, specs: Sequence[str]) -> None:
        """Compare as many changes at once as the time is enough for, the first ones first."""
        left = [each for each in specs if each not in {one.spec for one in self._found}]
        if left:
            self._say("changes that need a new process take turns, one process each")
        while left:
            # Each, and what they are compared with.
            fit = self._session.runs_left() / FEWEST_ROUNDS - 1
            keys = list(dict.fromkeys(parts_of(each)[0] for each in left))
            while len(keys) > 1 and sum(parts_of(each)[0] in keys for each in left) > fit:
                keys.pop()
            self._compare([(each,) for each in left if parts_of(each)[0] in keys])
            left = [each for each in left if parts_of(each)[0] not in keys]

    def _compare(self, variants: Sequence[Variant]) -> None:
        """Compare changes in processes that alternate; of several values of one, the fastest is kept."""
        found = self._compared.compare(self._base, variants)
        fastest: dict[str, TriedChange] = {}
        for each in sorted((each for each in found if each.kept), key=lambda each: -each.ratio):
            fastest[parts_of(each.spec)[0]] = each
        self._found += [replace(each, kept=each in fastest.values()) for each in found]
        self._notes += [self._compared.stopped] if self._compared.stopped else []

    def _check_all(self) -> None:
        """Compare all changes to make with none: the times, and the work of the same steps."""
        if not self._base:
            return
        self._say("all changes together against none, in new processes")
        together = self._compared.compare((), [self._base])[0]
        base, new = (self._compared.answers(each) for each in ((), self._base))
        if together.verdict == FAILED:
            self._found = [replace(each, kept=False) for each in self._found]
            raise NoMoreRunsError(f"All changes together end the program: {together.words}.")
        self._notes += [self._compared.stopped] if self._compared.stopped else []
        if together.verdict in {SAME, SLOWER}:
            self._notes.append(f"In new processes, all changes together: {together.verdict}. So none is recommended.")
            self._found = [replace(each, kept=False) for each in self._found]
            return
        self._say("the work of all changes together and of none is compared")
        prover = Prover(self._session, base)
        proof = prover.prove(self._base, new)
        self._notes.append(proof.words)
        plain = [each for each in self._base if alters_of([each]) != RANDOM]
        if proof.agree is None and 0 < len(plain) < len(self._base):
            proof = prover.prove(plain, [])
            self._notes.append(f"Without those that alter random numbers: {proof.words[0].lower()}{proof.words[1:]}")
        if proof.agree is False:
            self._leave_out(prover)
            return
        if together.verdict != CANNOT_TELL:
            self._found = [*(each for each in self._found if each.spec != SET), replace(together, spec=SET)]

    def _leave_out(self, prover: Prover) -> None:
        """Leave out the changes that do other work; all of them where none does alone."""
        wrong = set[str]()
        try:
            for spec in self._base:
                timed = self._session.timed((spec,), _SEARCH_S, proofs=0)
                if prover.prove([spec], [timed]).agree is False:
                    wrong.add(spec)
        except NoMoreRunsError as error:
            wrong = set()
            self._notes.append(str(error))
        wrong = wrong or set(self._base)
        words = "does other work"
        self._found = [
            replace(each, kept=False, words=words) if wrong & set(each.specs) else each
            for each in self._found
            if each.spec != SET
        ]


def _ready(answer: Answer) -> Mapping[str, Any]:
    """Return what a program was found to be after its first steps; empty for one that ended before."""
    return next(answer.of("ready"), {})


def _unfinished(answer: Answer) -> str:
    """Return a note on a program that ended before all changes were tried."""
    if answer.exit_code:
        return f"The program ended with exit code {answer.exit_code} before all changes were tried."
    return "The program ended before all changes were tried: let it run longer."
