"""Tries changes of a program one after another, keeps what helps, and goes on after a change that ended the program."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nsyswrap.base.errors import CannotTellError, UnfinishedError, UsageError
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.outcome import FAILED, Trial, TriedChange, is_allowed, outcomes_of
from nsyswrap.experiments.request import Answer, Request, run_request
from nsyswrap.experiments.tried.experiment import parts_of

Run = Callable[[Request, CaptureOptions], Answer]

_KILLED = 128 + signal.SIGKILL
_HUNG, _OUT_OF_MEMORY = "the program hung and was ended", "the program was killed, as for want of memory"
_TOO_SHORT = "the program ended before"


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOptions:
    """What to try, and how long.

    Attributes:
        order: Keys of the experiments, the first one first.
        budget_s: Seconds for all runs.
        with_precision: Whether the precision of the model may be changed.
        allow_writes: Whether files that exist may be changed, and the program may write its files again.
        may_write_again: Asked with the files that a first run has made, before the program runs again.
    """

    order: Sequence[str]
    budget_s: float
    with_precision: bool = False
    allow_writes: bool = False
    may_write_again: Callable[[Sequence[str]], bool] = lambda _paths: False


def try_changes(wanted: TryOptions, options: CaptureOptions, run: Run = run_request) -> Trial:
    """Try changes of a program in its own process, in turns, and return what came of each.

    Args:
        wanted: What to try.
        options: How to run the program; nothing is recorded.
        run: Runs the program once.

    Raises:
        UsageError: The program would have changed a file that exists.
        CannotTellError: It has no steps, or too few of them.
        UnfinishedError: It failed without any change.
    """
    until = time.monotonic() + wanted.budget_s
    known, found = experiments(), list[TriedChange]()
    turns = [
        each
        for each in wanted.order
        if known[each].is_in_turns and is_allowed(known[each], with_precision=wanted.with_precision)
    ]
    request = Request(
        turns=tuple(turns),
        budget_s=wanted.budget_s,
        with_precision=wanted.with_precision,
        allow_writes=wanted.allow_writes,
    )
    notes = list[str]()
    while True:
        answer = run(request, options)
        _check(answer)
        found += outcomes_of(answer.events)
        if any(answer.of("end")):
            break
        if not answer.open:
            notes.append(_unfinished(answer))
            break
        found.append(TriedChange(spec=answer.open, verdict=FAILED, words=_ending(answer)))
        left_s = until - time.monotonic()
        if left_s <= 0:
            notes.append("The budget ended before all changes were tried: give --budget more.")
            break
        if answer.paths and not wanted.allow_writes and not wanted.may_write_again(answer.paths):
            notes.append(f"{found[-1].name} ended the program, and it may not run again: it writes files.")
            break
        request = replace(
            request,
            base=tuple(each.spec for each in found if each.kept),
            turns=tuple(each for each in turns if each not in {parts_of(one.spec)[0] for one in found[:-1] if one.pairs}
                        or each == parts_of(answer.open)[0]),
            without=tuple(each.spec for each in found),
            budget_s=left_s,
        )  # fmt: skip
    return Trial(command=options.command, outcomes=tuple(found), notes=tuple(notes))


def _check(answer: Answer) -> None:
    """Raise an error where a run says nothing of any change."""
    if answer.refused:
        raise UsageError(
            f"the program would have changed {answer.refused}, and was ended before",
            hint="give it a folder of its own for its results, or --allow-writes",
        )
    error = next((str(each["words"]) for each in answer.of("error")), "")
    if error:
        raise UnfinishedError(f"the turns failed: {error}", hint="report it as a bug of nsyswrap")
    if any(answer.of("ready")):
        return
    if answer.exit_code:
        said = f": {answer.exception}" if answer.exception else ""
        raise UnfinishedError(f"the program ended with exit code {answer.exit_code}{said}", hint="run it without try")
    raise CannotTellError(
        "the program has too few steps to try anything",
        hint="let it run longer, or mark the steps of a loop without an optimizer with nsyswrap.steps",
    )


def _ending(answer: Answer) -> str:
    """Return how a program ended that a change has ended."""
    if answer.exception:
        return answer.exception
    if answer.exit_code == _KILLED:
        return _OUT_OF_MEMORY
    return _HUNG if answer.exit_code in {128 + signal.SIGTERM, 143} else f"exit code {answer.exit_code}"


def _unfinished(answer: Answer) -> str:
    """Return a note on a program that ended before all changes were tried."""
    if answer.exit_code:
        return f"The program ended with exit code {answer.exit_code} before all changes were tried."
    return "The program ended before all changes were tried: let it run longer."
