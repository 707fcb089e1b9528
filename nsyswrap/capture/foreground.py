"""Run a program under nsys in the user's terminal: output untouched, signals to it and not to nsys, nothing left over.

::

    nsyswrap -- sh, then nsys --+-- agent                              (a session of its own)
       |                        +-- launcher -- sh, then the program   (a session of its own)
       terminal

Three things were seen of nsys 2023.4.4 and decide the design.

*   It gives the program pipes in place of the terminal, and prints its own progress among the program's output.
    :mod:`nsyswrap.capture.run_dir` gives the terminal back.
*   On SIGINT nsys passes it on, writes its report at once and exits with 0, while the program still cleans up or goes
    on for good. So nsys and all below it run in a session without a terminal: Ctrl-C reaches only us. We have nsys stop
    recording first (:mod:`nsyswrap.capture.stopping`) and then send the signal to the program's process group, as a
    terminal would. nsys returns the program's own code. Reading the terminal works all the same: job control binds only
    processes whose session owns the terminal.
*   With its own limit for a recording's length it exits first, with 0, while the program goes on. So that limit is kept
    here, in the same way.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.capture.process_tree import (
    adopting_orphans,
    children_by_parent,
    descendants,
    is_alive,
    kill_all,
    outer_pid,
    reap_children,
    shell_code,
    wait_for,
)
from nsyswrap.capture.progress import MonotonicProgress, Phase, Progress
from nsyswrap.capture.run_dir import RunDir, quoted
from nsyswrap.capture.stopping import Stopper, aborted_error, collected_signals
from nsyswrap.errors import CaptureError

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds.

    Args:
        record_s: Until recording stops; None for the program's end.
        timeout_s: Until the program is told to end; None for never.
        grace_s: From then until it is killed.
        start_s: Until nsys must have started the program.
        collect_s: How long nsys may need to take what was recorded, before the program is ended.
        silence_s: How long nsys may write nothing while it makes its report.
    """

    record_s: float | None = None
    timeout_s: float | None = None
    grace_s: float = 10.0
    start_s: float = 120.0
    collect_s: float = 60.0
    silence_s: float = 600.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run under nsys ended.

    Args:
        code: The program's exit code, 128 + n for a signal; nsys's own where the program never started.
        started: Whether nsys started the program.
        wall_ns: From the program's start to its end, to within 50 ms.
        stopped_by: The signal that came and was passed on to the program, or None.
        timed_out: Whether the time-out ended the program.
        said: What nsys printed.
    """

    code: int
    started: bool
    wall_ns: int
    stopped_by: signal.Signals | None
    timed_out: bool
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForegroundCall:
    """What to run in the terminal.

    Args:
        argv: nsys's command line, with ``run_dir.inner(program)`` as the program.
        run_dir: The private folder of this run.
        env: Environment of nsys and the program.
        stop: Returns the command that stops the recording, given the program's process id; None where there is none.
        cwd: Working folder of both; None for ours.
        limits: How long to wait.
        output_to_stderr: Send the program's stdout to stderr, where stdout is kept for results.
    """

    argv: Sequence[str]
    run_dir: RunDir
    env: Mapping[str, str]
    stop: Callable[[int], Sequence[str]] | None = None
    cwd: Path | None = None
    limits: Limits = field(default_factory=Limits)
    output_to_stderr: bool = False


def run_in_foreground(call: ForegroundCall, progress: Progress) -> RunResult:
    """Run nsys and the program under it to their end.

    Args:
        call: What to run.
        progress: Told of the phases, from this thread.

    Returns:
        How it ended.

    Raises:
        CaptureError: nsys did not start the program, or fell silent before its report was written.
        CaptureInterruptedError: Ctrl-C came twice.
        CaptureTerminatedError: Another ending signal came twice.
    """
    excluded = frozenset(children_by_parent().get(os.getpid(), ()))
    with adopting_orphans(), collected_signals() as received:
        process = subprocess.Popen(  # noqa: S603 - running the user's command is what this is for; no shell reads it
            call.run_dir.outer(call.argv),
            stdout=2 if call.output_to_stderr else None,
            env=call.env,
            cwd=call.cwd,
            start_new_session=True,
        )
        stopper = Stopper(call.stop, call.run_dir, call.env, call.limits.collect_s)
        run = _Run(process, call.run_dir, call.limits, received, stopper, excluded)
        try:
            return run.to_the_end(progress)
        finally:
            if run.abandoned:
                kill_all(os.getpid(), excluded)
            process.wait()
            reap_children(excluded)


@dataclass(slots=True)
class _Run:
    """One run, from the start of nsys to its end; the loop looks every 50 ms."""

    process: subprocess.Popen[bytes]
    run_dir: RunDir
    limits: Limits
    received: list[signal.Signals]
    stopper: Stopper
    excluded: frozenset[int]
    abandoned: bool = True
    launched: bool = False
    program: int | None = None
    program_code: int | None = None
    ending: signal.Signals | None = None
    sent_at: float | None = None
    timed_out: bool = False
    began: float = field(default_factory=time.monotonic)

    def to_the_end(self, progress: Progress) -> RunResult:
        """Start, run, write: each phase has its own way to end."""
        progress(Phase.RUNNING, None)
        while not self.launched and self.process.poll() is None:
            self._look_for_program()
            if not self.launched and self._passed(self.limits.start_s):
                raise CaptureError(
                    f"nsys did not start the program within {self.limits.start_s:g} s{quoted(self.run_dir.said())}",
                    hint="Run 'nsyswrap doctor'",
                )
            self._pause()
        if not self.launched:
            self._look_for_program()  # nsys may start and end between two looks
        while self._program_runs():
            self._decide()
            self._end_program()
            self._pause()
        wall_ns = round((time.monotonic() - self.began) * 1e9)
        self._write(progress)
        self.abandoned = False
        stopped_by = self.ending if self.received and not self.timed_out else None
        return RunResult(self._code(), self.launched, wall_ns, stopped_by, self.timed_out, self.run_dir.said())

    def _passed(self, limit_s: float | None) -> bool:
        """Whether so much time has passed since the program's start, or since ours where it has not started."""
        return limit_s is not None and time.monotonic() - self.began > limit_s

    def _look_for_program(self) -> None:
        """Take the program's process id from the shell that became it; a short program may be gone again by now."""
        with contextlib.suppress(OSError, ValueError):
            inner = int(self.run_dir.pid.read_text(encoding="ascii"))
            self.launched, self.began = True, time.monotonic()
            self.program = outer_pid(inner, descendants(os.getpid(), self.excluded))
        self._abandon_if_repeated(allowed=1)

    def _program_runs(self) -> bool:
        """Whether the program runs; the code of one that was left to us is taken here."""
        if self.program is None or is_alive(self.program):
            return self.program is not None
        self.program_code = wait_for(self.program)
        return False

    def _decide(self) -> None:
        """Stop recording where it is time, or where the program is to end: by a signal of the user's, or a time-out."""
        self._abandon_if_repeated(allowed=1)
        if self.ending is None:
            if self.received:
                self.ending = self.received[0]
            elif self._passed(self.limits.timeout_s):
                self.ending, self.timed_out = signal.SIGTERM, True
        if self.program is not None and (self.ending is not None or self._passed(self.limits.record_s)):
            self.stopper.start(self.program)

    def _end_program(self) -> None:
        """Signal the program once nsys has taken what was recorded; kill it where a time-out is not heeded."""
        now = time.monotonic()
        if self.ending is not None and self.sent_at is None and self.stopper.has_collected_all():
            self.sent_at = now
            self._signal_program(self.ending)
        overdue = self.timed_out and self.sent_at is not None and now - self.sent_at > self.limits.grace_s
        if overdue and self.program is not None:
            for pid in (self.program, *descendants(self.program)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _signal_program(self, number: signal.Signals) -> None:
        """Send a signal as a terminal would: to the program's process group, where that is the program's own."""
        if self.program is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.program) == self.program:
                os.killpg(self.program, number)
            else:
                os.kill(self.program, number)

    def _write(self, progress: Progress) -> None:
        """Wait for nsys to write its report, as long as it shows signs of life."""
        announce = MonotonicProgress(progress, Phase.WRITING)
        last_change, seen = time.monotonic(), self.run_dir.file_sizes()
        handled = max(len(self.received), 1)
        while not self.stopper.has_ended() or self.process.poll() is None:
            self._abandon_if_repeated(allowed=handled)
            announce(self.run_dir.bars())
            signs = self.run_dir.file_sizes()
            if signs != seen:
                last_change, seen = time.monotonic(), signs
            elif time.monotonic() - last_change > self.limits.silence_s:
                said = quoted(self.run_dir.said())
                raise CaptureError(
                    f"nsys wrote no more for {self.limits.silence_s:g} s after the program{said}",
                    hint="Record less (--duration, --capture-range), or run 'nsyswrap doctor'",
                )
            self._pause()

    def _code(self) -> int:
        """Take the program's own code from whoever has it: ourselves as its parent by adoption, or nsys."""
        if self.program is not None and self.program_code is None:
            self.program_code = wait_for(self.program)
        return self.program_code if self.program_code is not None else shell_code(self.process.returncode)

    def _abandon_if_repeated(self, allowed: int) -> None:
        """Give up where the user insists; the caller's clean-up kills all that runs."""
        if len(self.received) > allowed:
            raise aborted_error(self.received[-1])

    def _pause(self) -> None:
        if self.process.returncode is not None:
            time.sleep(_POLL_S)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_POLL_S)
