"""The runs of one trial: each starts the program once, as long as the budget and the user allow it."""

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nsyswrap.base.errors import CannotTellError, UnfinishedError, UsageError
from nsyswrap.capture.baseline import SIGNALED
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.experiments.request import Answer, Request, run_request

Run = Callable[[Request, CaptureOptions], Answer]

# Steps that are compared: the first ones, in which nothing is changed yet, and some after them. Source: ours.
PROVED_STEPS = 40
# Runs for which time is kept: with the changes, and without them.
_PROOF_RUNS = 2
_KILLED, _ENDED = SIGNALED + signal.SIGKILL, SIGNALED + signal.SIGTERM
HUNG, OUT_OF_MEMORY = "the program hung and was ended", "the program was killed, as for want of memory"
NO_TIME = "The budget ended before all runs were made: give --budget more."
WRITES = "The program writes files and may not run again, so not all changes were tried: allow it with --allow-writes."


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOptions:
    """What to try, and how long.

    Attributes:
        order: Keys of the experiments, with a value where only that is tried, the first one first.
        budget_s: Seconds for all runs.
        with_precision: Whether the precision of the model may be changed.
        allow_writes: Whether files that exist may be changed, and the program may write its files again.
        may_write_again: Called with the files that a first run has made; returns whether the program may run again.
        say: Called with a sentence on what goes on.
    """

    order: Sequence[str]
    budget_s: float
    with_precision: bool = False
    allow_writes: bool = False
    may_write_again: Callable[[Sequence[str]], bool] = lambda _paths: False
    say: Callable[[str], object] = lambda _words: None


class NoMoreRunsError(Exception):
    """The program may not run once more; the message says why, as a sentence."""


@dataclass(slots=True)
class TryRuns:
    """Runs a program again and again."""

    wanted: TryOptions
    options: CaptureOptions
    run: Run = run_request
    _until: float = field(init=False)
    _longest_s: float = 0.0
    _start_s: float = 0.0
    _made: tuple[str, ...] = ()
    _may_write: bool = field(init=False)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.wanted.budget_s
        self._may_write = self.wanted.allow_writes

    @property
    def left_s(self) -> float:
        """Return the seconds that are left of the budget."""
        return self._until - time.monotonic()

    def runs_left(self, proofs: int = _PROOF_RUNS) -> float:
        """Return how many timed runs fit before ``proofs`` runs without timed steps; infinite before the first one."""
        return (self.left_s - proofs * self._start_s) / self._longest_s if self._longest_s else math.inf

    def answer(self, *, budget_s: float | None = None, **fields: object) -> Answer:
        """Run the program once.

        ``budget_s`` are the seconds for turns, all that is left if None; the other arguments are fields of ``Request``.

        Raises:
            NoMoreRunsError: The budget has ended, or the user does not allow it.
            UsageError: The program would have changed a file that exists.
            CannotTellError: It has no steps, or too few of them.
            UnfinishedError: It failed without any change.
        """
        if self.left_s <= 0:
            raise NoMoreRunsError(NO_TIME)
        if self._made and not self._may_write:
            self._may_write = self.wanted.may_write_again(self._made)
            if not self._may_write:
                raise NoMoreRunsError(WRITES)
        request = Request(
            **{"budget_s": self.left_s if budget_s is None else budget_s, **fields},  # type: ignore[arg-type]
            allow_writes=self.wanted.allow_writes,
            own_files=self._made,
        )
        began = time.monotonic()
        found = self.run(request, self.options)
        for each in found.of("timed"):
            # The process may have gone on with turns.
            whole_s = min(time.monotonic() - began, each["since_s"] if request.turns else math.inf)
            self._longest_s = max(self._longest_s, whole_s)
            self._start_s = max(self._start_s, whole_s - sum(each["step_ns"]) / 1e9)
        self._made = tuple(dict.fromkeys((*self._made, *found.paths)))
        _check(found, has_base=bool(request.base))
        return found

    def recorded(self, base: Sequence[str], roundoff: float = 0.0) -> Answer:
        """Run the program once with some changes, and record the work of its first steps.

        ``roundoff`` is the relative rounding error that each sum gets at random; 0 for none.

        Raises:
            NoMoreRunsError: The budget has ended, or the user does not allow it.
        """
        return self.answer(base=tuple(base), proved_steps=PROVED_STEPS, roundoff=roundoff)

    def timed(self, base: Sequence[str], timed_s: float, *, later: int = 0, proofs: int = _PROOF_RUNS) -> Answer:
        """Run the program once with some changes, and time its steps without turns.

        Time for ``later`` more runs must be left, and for ``proofs`` runs in which no steps are timed.

        Raises:
            NoMoreRunsError: The budget would not last, or the user does not allow it.
        """
        if self.runs_left(proofs) < 1 + later:
            raise NoMoreRunsError(NO_TIME)
        return self.answer(base=tuple(base), timed_s=timed_s)


def _check(answer: Answer, *, has_base: bool) -> None:
    """Raise an error where a run says nothing of any change; one with a change may have failed because of it."""
    if answer.refused:
        raise UsageError(
            f"the program would have changed {answer.refused}, and was ended before",
            hint="give it a folder of its own for its results, or --allow-writes",
        )
    error = next((str(each["words"]) for each in answer.of("error")), "")
    if error and not has_base:
        raise UnfinishedError(f"the turns failed: {error}", hint="report it as a bug of nsyswrap")
    if any(answer.of("ready")) or has_base:
        return
    if answer.exit_code:
        said = f": {answer.exception}" if answer.exception else ""
        raise UnfinishedError(f"the program ended with exit code {answer.exit_code}{said}", hint="run it without try")
    raise CannotTellError(
        "the program has too few steps to try anything",
        hint="let it run longer, or mark the steps of a loop without an optimizer with nsyswrap.steps",
    )


def ending_of(answer: Answer) -> str:
    """Return how a program ended that a change has ended."""
    error = next((str(each["words"]) for each in answer.of("error")), "")
    if answer.exception or error:
        return answer.exception or error
    if answer.exit_code == _KILLED:
        return OUT_OF_MEMORY
    if answer.exit_code == _ENDED:
        return HUNG
    if answer.exit_code > SIGNALED:
        return f"the program crashed: {signal.Signals(answer.exit_code - SIGNALED).name}"
    return f"exit code {answer.exit_code}"
