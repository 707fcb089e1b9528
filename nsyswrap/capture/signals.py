"""The signals of a run: which end the recording, which go to the program as they are, and which a launcher repeats."""

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import current_thread, main_thread
from types import FrameType

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.process_tree import status_fields

# What a terminal, a user or a scheduler ends a program with.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# What the program may have a handler for: SLURM sends SIGUSR1 before a time limit, so that the program saves its state.
PASSED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGALRM, signal.SIGXCPU)

# Those that end the run at once if they come a second time. SIGHUP does not: when a terminal is closed, the
# kernel sends it, and the shell.
_URGENT = {signal.SIGINT, signal.SIGTERM, signal.SIGQUIT}


class CaptureInterruptedError(CaptureError):
    """The user pressed Ctrl-C a second time, before nsys had written its report."""

    exit_code = 130


class CaptureTerminatedError(CaptureError):
    """The run got a second ending signal, before nsys had written its report."""

    exit_code = 143


class CaptureHungUpError(CaptureError):
    """The terminal was closed while the capture was exported or read."""

    exit_code = 129


class StopRequest(KeyboardInterrupt):
    """An ending signal that arrived while no program runs."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@dataclass(slots=True)
class Received:
    """The signals that arrived during a run.

    Args:
        ending: Those that are to end the program, in order.
        passed: Those that the program has yet to get, in order.
        first_at: When the first one to end the program arrived, seconds of ``time.monotonic``.
    """

    ending: list[signal.Signals] = field(default_factory=list)
    passed: list[signal.Signals] = field(default_factory=list)
    first_at: float = 0.0
    _seen: int = 0

    def collect(self, number: int, _frame: FrameType | None) -> None:
        """Keep a signal; this is a signal handler."""
        if number in ENDING_SIGNALS and not self.ending:
            self.first_at = time.monotonic()
        (self.ending if number in ENDING_SIGNALS else self.passed).append(signal.Signals(number))

    def due(self) -> list[signal.Signals]:
        """Return and remove the signals for the program that were there at the last call.

        Those that have just arrived have to wait: who sends one to all processes takes a moment to reach them.
        """
        ready = self.passed[: self._seen]
        del self.passed[: len(ready)]  # in place: a signal may arrive meanwhile
        self._seen = len(self.passed)
        return ready

    def demands_abort(self, handled: int, *, launched: bool) -> bool:
        """Return whether a signal was repeated to end the run at once, without a report.

        Args:
            handled: How many ending signals the run has reacted to.
            launched: Whether a launcher started this process. Launchers repeat what a terminal or a scheduler sends to
                each process as well, and kill what does not end.
        """
        return not launched and any(number in _URGENT for number in self.ending[handled:])


Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Handler) -> Iterator[None]:
    """Handle signals until the end of the block; only the main thread can."""
    if current_thread() is not main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def collected_signals() -> Iterator[Received]:
    """Yield the signals that arrive; they do not end this process, so that nsys can write its report.

    A signal that this process ignores, as under ``nohup``, stays ignored.
    """
    received = Received()
    caught = [each for each in (*ENDING_SIGNALS, *PASSED_SIGNALS) if signal.getsignal(each) is not signal.SIG_IGN]
    with handled(caught, received.collect):
        yield received


@contextmanager
def signals_as_errors() -> Iterator[None]:
    """Raise ``StopRequest`` for an ending signal, so that what was recorded can be kept.

    Raises:
        StopRequest: A signal arrived.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        raise StopRequest(signal.Signals(number))

    plain = {signal.SIG_DFL, signal.default_int_handler}
    with handled((each for each in ENDING_SIGNALS if signal.getsignal(each) in plain), stop):
        yield


@contextmanager
def held_back_signals() -> Iterator[None]:
    """Hold back ending signals until the end of the block, so that none of them raises while a process is started.

    Such a process would run on, as it is not known yet.
    """
    held: list[int] = []
    caught = [number for number in ENDING_SIGNALS if callable(signal.getsignal(number))]
    try:
        with handled(caught, lambda arrived, _frame: held.append(arrived)):
            yield
    finally:
        for arrived in held:
            signal.raise_signal(arrived)


def survives(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal, blocks it or ignores it; all of these end it otherwise.

    Where the kernel does not say, the answer is no: the recording is then stopped before the process gets the signal.
    """
    return _is_in_one_of(("SigCgt", "SigIgn", "SigBlk"), pid, number)


def is_sent_to_all(number: signal.Signals, nsys: int) -> bool:
    """Return whether nsys got a signal, too, where it stays blocked: then its sender sent it to the program, too."""
    return _is_in_one_of(("ShdPnd",), nsys, number)


def _is_in_one_of(names: Sequence[str], pid: int, number: signal.Signals) -> bool:
    """Return whether one of a process's sets of signals has a signal; no where the kernel does not say."""
    try:
        fields = status_fields(f"/proc/{pid}/status")
    except OSError:
        return False
    return any(int(fields.get(name, "0"), 16) >> (number - 1) & 1 for name in names)


def aborted_error(number: signal.Signals) -> CaptureError:
    """Return the error for a run that this signal ended at the second time."""
    hint = "Interrupt only once to keep the recorded data"
    return stopped_error(number, "stopped before nsys had written its report", hint)


def stopped_error(number: signal.Signals | None, message: str, hint: str) -> CaptureError:
    """Return the error for a run that a signal ended, with the exit code that a shell gives; None is Ctrl-C."""
    kinds: dict[signal.Signals | None, type[CaptureError]] = {
        None: CaptureInterruptedError,
        signal.SIGINT: CaptureInterruptedError,
        signal.SIGHUP: CaptureHungUpError,
    }
    return kinds.get(number, CaptureTerminatedError)(message, hint=hint)


def number_of(error: KeyboardInterrupt) -> signal.Signals | None:
    """Return the signal of an interrupt; None for Python's own, which is Ctrl-C."""
    return error.number if isinstance(error, StopRequest) else None
