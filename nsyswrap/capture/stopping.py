"""Stop a recording before the program ends, because data that nsys has not collected by then is lost.

Observed with nsys 2025.3.1 on an H200: a program that a signal kills, such as Ctrl-C in Python, loses all GPU events
since the last full buffer of 24 449 events. For a short run that is all of them. After ``nsys stop`` nothing is lost,
the program continues, and ``nsys profile`` still waits for its end and returns its exit code.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.capture.inherited import blocked_signals
from nsyswrap.capture.run_dir import RunDir

# nsys prints this when it has collected all data and starts to write the report.
_COLLECTED = b"Generating "


def has_collected(output: Path) -> bool:
    """Return whether a file with output of nsys says that it has collected all data."""
    with contextlib.suppress(OSError):
        return _COLLECTED in output.read_bytes()
    return False


@dataclass(slots=True)
class Stopper:
    """Stops one recording, once.

    ``command`` returns the command that stops the recording, given the program's process id; None if there is none.
    ``collect_s`` is how long nsys may collect the recorded data.
    """

    command: Callable[[int], Sequence[str]] | None
    run_dir: RunDir
    env: Mapping[str, str]
    collect_s: float
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started_at: float | None = field(default=None, init=False)

    @property
    def started(self) -> bool:
        """Return whether the recording is to stop, or has stopped."""
        return self._started_at is not None

    def start(self, program: int) -> None:
        """Make nsys stop recording; a second call does nothing."""
        if self.started:
            return
        self._started_at = time.monotonic()
        if self.command is None:
            return
        # If nsys cannot be stopped, the program is ended anyway, and its last events may be lost.
        with contextlib.suppress(OSError), self.run_dir.stop_status.open("wb") as status:
            self.run_dir.stopping.touch()
            with blocked_signals():
                self._process = subprocess.Popen(  # noqa: S603 - nsys itself, with arguments of ours
                    self.command(program),
                    stdin=subprocess.DEVNULL,
                    stdout=status,
                    stderr=subprocess.STDOUT,
                    env=self.env,
                    start_new_session=True,
                )

    def has_collected_all(self) -> bool:
        """Return whether the program may be ended: nsys has collected all data, or it failed or took too long."""
        if self._started_at is None:
            return False
        if self.has_ended() or time.monotonic() - self._started_at > self.collect_s:
            return True
        return has_collected(self.run_dir.stop_status)

    def has_ended(self) -> bool:
        """Return whether the command that stops the recording has ended; it writes the report before."""
        ended = self._process is None or self._process.poll() is not None
        if ended:
            self.run_dir.stopping.unlink(missing_ok=True)
        return ended
