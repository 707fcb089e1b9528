"""End a recording while the program still lives: what nsys has not yet taken from a program dies with it.

Seen with nsys 2025.3.1 on an H200: a program that dies of a signal, as Python does of a Ctrl-C that it does not catch,
loses all GPU events since the last full buffer of 24 449. Of a short run that is all of them. After ``nsys stop``
nothing is lost, the program goes on, and ``nsys profile`` still waits for its end and returns its code.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import current_thread, main_thread
from types import FrameType

from nsyswrap.capture.run_dir import RunDir
from nsyswrap.errors import CaptureError

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# nsys says so when it has taken all there is and begins to make the report.
_TAKEN = b"Generating "


class CaptureInterruptedError(CaptureError):
    """The user ended the run a second time, before nsys had written its report."""

    exit_code = 130


class CaptureTerminatedError(CaptureError):
    """The run was told a second time to terminate, before nsys had written its report."""

    exit_code = 143


@dataclass(slots=True)
class Stopper:
    """Stops one recording, once.

    Args:
        command: Returns the command that stops the recording, given the program's process id; None where there is none.
        run_dir: The private folder of the run.
        env: The environment of nsys.
        collect_s: How long to wait for nsys to take what was recorded.
    """

    command: Callable[[int], Sequence[str]] | None
    run_dir: RunDir
    env: Mapping[str, str]
    collect_s: float
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _began: float | None = field(default=None, init=False)

    def start(self, program: int) -> None:
        """Tell nsys to stop recording; a second call does nothing."""
        if self._began is not None:
            return
        self._began = time.monotonic()
        if self.command is None:
            return
        # Where nsys cannot be told, the program is ended all the same, and its last moments may be lost.
        with contextlib.suppress(OSError), self.run_dir.stop_status.open("wb") as status:
            self.run_dir.stopping.touch()
            self._process = subprocess.Popen(  # noqa: S603 - nsys itself, with arguments of ours
                self.command(program),
                stdin=subprocess.DEVNULL,
                stdout=status,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )

    def has_collected_all(self) -> bool:
        """Tell whether nsys has what was recorded, or will not get it: the program may be ended now."""
        if self._began is None:
            return False
        if self.has_ended() or time.monotonic() - self._began > self.collect_s:
            return True
        with contextlib.suppress(OSError):
            return _TAKEN in self.run_dir.stop_status.read_bytes()
        return False

    def has_ended(self) -> bool:
        """Tell whether nothing is at work that stops the recording; it writes the report before it ends."""
        ended = self._process is None or self._process.poll() is not None
        if ended:
            self.run_dir.stopping.unlink(missing_ok=True)
        return ended


@contextmanager
def collected_signals() -> Iterator[list[signal.Signals]]:
    """Collect ending signals instead of dying of them, so that nsys can still write its report."""
    received: list[signal.Signals] = []

    def keep(number: int, _frame: FrameType | None) -> None:
        received.append(signal.Signals(number))

    if current_thread() is not main_thread():
        yield received
        return
    before = {number: signal.signal(number, keep) for number in ENDING_SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def aborted_error(number: signal.Signals) -> CaptureError:
    """Return the error of a run that was ended a second time, by this signal."""
    error = CaptureInterruptedError if number is signal.SIGINT else CaptureTerminatedError
    return error("stopped before nsys had written its report", hint="Interrupt once to keep what was recorded")
