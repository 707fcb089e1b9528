"""Run a program under nsys in the user's terminal: its output is unchanged, it gets the signals, no process is left.

::

    nsyswrap -- sh, then nsys --+-- agent                              (own session)
       |                        +-- launcher -- sh, then the program   (own session)
       terminal

Four observations of nsys 2023.4.4 determine the design.

*   nsys replaces the program's terminal by pipes, and prints its own progress into the program's output.
    :mod:`nsyswrap.capture.run_dir` restores the terminal.
*   On SIGINT nsys forwards the signal, writes its report at once and exits with 0, while the program still cleans up or
    continues. So nsys and all its children run in a session without a terminal, and Ctrl-C reaches only us. We stop the
    recording first (:mod:`nsyswrap.capture.stopping`) and then send the signal to the program's process group, as a
    terminal would. nsys then returns the program's own code. The program can still read the terminal, because job
    control restricts only processes whose session owns the terminal.
*   With its own limit on the recording time nsys exits with 0 while the program continues. So we apply that limit
    ourselves, in the same way.
*   On SIGTERM or SIGUSR1 its agent ends, and nothing is written. Schedulers send these to all processes of a job, so
    they are kept from nsys (:mod:`nsyswrap.capture.inherited`).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from nsyswrap.capture.disk_space import FULL_BYTES, is_below, low_limit
from nsyswrap.capture.inherited import blocked_signals
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
    with_variable,
)
from nsyswrap.capture.progress import MonotonicProgress, Phase, Progress
from nsyswrap.capture.run_dir import RunDir, quoted_output
from nsyswrap.capture.signals import Received, aborted_error, collected_signals, is_sent_to_all, survives
from nsyswrap.capture.stopping import Stopper
from nsyswrap.capture.watchdog import watched
from nsyswrap.errors import CaptureError

_POLL_S = 0.05
# The time that an agent has to end after nsys; nsys waits for it, unless it crashed.
_AGENT_S = 1.0

# Seen with nsys 2023.4.4: on a busy machine, one start of several hundred fails, because its agent crashes.
_MORE_STARTS = 2

DISK_FULL_HINT = "Free some space, give a folder on another disk with -o and TMPDIR, or record less (--duration)"


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits, in seconds.

    Args:
        record_s: Length of the recording; None for the whole program.
        timeout_s: Time until the program gets SIGTERM; None for never.
        grace_s: Time from SIGTERM to SIGKILL.
        start_s: Time that nsys may take to start the program.
        collect_s: Time that nsys may take to collect the recorded data before the program is ended.
        silence_s: Time that nsys may write nothing while it creates its report.
        full_s: The same, if the disk is full.
    """

    record_s: float | None = None
    timeout_s: float | None = None
    grace_s: float = 10.0
    start_s: float = 120.0
    collect_s: float = 60.0
    silence_s: float = 600.0
    full_s: float = 10.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run under nsys.

    Args:
        code: The program's exit code, 128 + n for a signal; that of nsys if the program never started.
        started: Whether nsys started the program.
        wall_ns: From the program's start to its end, to within 50 ms.
        stopped_by: The signal that was received and forwarded to the program, or None.
        timed_out: Whether the time-out ended the program.
        nsys_output: What nsys printed.
        out_of_space: Whether the recording was stopped because the disk of its temporary files was almost full.
    """

    code: int
    started: bool
    wall_ns: int
    stopped_by: signal.Signals | None
    timed_out: bool
    nsys_output: str
    out_of_space: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForegroundCall:
    """A command to run in the terminal.

    Args:
        argv: nsys's command line, with ``run_dir.inner(program)`` as the program.
        run_dir: The private folder of this run.
        env: Environment of nsys and the program.
        stop: Returns the command that stops the recording, given the program's process id; None if there is none.
        cwd: Working folder of both; None for the current one.
        limits: Time limits.
        output_to_stderr: Send the program's stdout to stderr, because stdout is for results.
        launched: Whether a launcher started this process, which may repeat signals.
        hidden: Whether nsys and the program run in a process namespace of their own.
        on_start: Called once with the program's process id, when it is known.
    """

    argv: Sequence[str]
    run_dir: RunDir
    env: Mapping[str, str]
    stop: Callable[[int], Sequence[str]] | None = None
    cwd: Path | None = None
    limits: Limits = field(default_factory=Limits)
    output_to_stderr: bool = False
    launched: bool = False
    hidden: bool = False
    on_start: Callable[[int], None] | None = None


def run_in_foreground(call: ForegroundCall, progress: Progress) -> RunResult:
    """Run nsys and the program under it until both have ended.

    An nsys that ends before it has started the program is started again.

    Args:
        call: What to run.
        progress: Called with each phase, from this thread.

    Returns:
        The result of the run.

    Raises:
        CaptureError: nsys did not start the program, or stopped writing before its report was complete.
        CaptureInterruptedError: Ctrl-C was pressed twice.
        CaptureTerminatedError: Another ending signal was received twice.
    """
    ours = set(call.run_dir.folder.iterdir())
    result = _run_once(call, progress)
    for _ in range(_MORE_STARTS):
        # Whatever was left of that nsys has been killed, so the program cannot start any more.
        if result.started or call.run_dir.pid.exists() or result.stopped_by is not None:
            break
        for path in set(call.run_dir.folder.iterdir()) - ours:
            _remove(path)  # the state of the session, whose name is taken as long as it exists
        result = _run_once(call, progress)
    return result


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _run_once(call: ForegroundCall, progress: Progress) -> RunResult:
    """Start nsys once, and run it and the program to their end, as ``run_in_foreground`` does."""
    excluded = frozenset(children_by_parent().get(os.getpid(), ()))
    with adopting_orphans(), collected_signals() as received:
        with blocked_signals(enabled=bool(call.run_dir.inherited.unblocker)):
            process = subprocess.Popen(  # noqa: S603 - running the user's command is the purpose; no shell reads it
                call.run_dir.outer(call.argv),
                stdout=2 if call.output_to_stderr else None,
                env=call.env,
                cwd=call.cwd,
                start_new_session=True,
                pass_fds=call.run_dir.inherited.descriptors,
            )
        stopper = Stopper(call.stop, call.run_dir, call.env, call.limits.collect_s)
        run = _Run(process, call.run_dir, call.limits, received, stopper, excluded, call.launched)
        try:
            with _watched(call, process.pid) as tell:
                run.on_start = (tell,) if call.on_start is None else (tell, call.on_start)
                return run.to_the_end(progress)
        finally:
            if run.abandoned:
                kill_all(os.getpid(), excluded)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process that waits for a disk cannot be killed
                process.wait(_AGENT_S)
            _end_what_nsys_left(call.run_dir, excluded)
            reap_children(excluded)


def _end_what_nsys_left(run_dir: RunDir, excluded: frozenset[int]) -> None:
    """End the agent of an nsys that crashed: it would keep our output open, and who reads it to its end would wait."""
    began, left = time.monotonic(), _agents(run_dir, excluded)
    while left and time.monotonic() - began < 2 * _AGENT_S:
        if time.monotonic() - began > _AGENT_S:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
        left = _agents(run_dir, excluded)


def _agents(run_dir: RunDir, excluded: frozenset[int]) -> list[int]:
    """Return nsys's processes: only theirs is the private folder as TMPDIR, since the program gets its own back."""
    return with_variable("TMPDIR", str(run_dir.folder), descendants(os.getpid(), excluded))


def _watched(call: ForegroundCall, nsys: int) -> AbstractContextManager[Callable[[int], None]]:
    """Return the block in which the run ends if this process is killed.

    In a process namespace the stop command needs the program's id; without it nsys writes its report at the end.
    """
    run_dir, hidden = call.run_dir, call.hidden
    stop = call.stop(0) if call.stop is not None and not hidden else ()
    return watched(nsys, Path(os.devnull) if hidden else run_dir.pid, stop, call.env)


@dataclass(slots=True)
class _Run:
    """One run, from the start of nsys to its end; it polls every 50 ms."""

    process: subprocess.Popen[bytes]
    run_dir: RunDir
    limits: Limits
    received: Received
    stopper: Stopper
    excluded: frozenset[int]
    by_launcher: bool
    on_start: tuple[Callable[[int], None], ...] = ()
    abandoned: bool = True
    launched: bool = False
    program: int | None = None
    program_code: int | None = None
    ending: signal.Signals | None = None
    sent_at: float | None = None
    timed_out: bool = False
    low_bytes: int = 0
    out_of_space: bool = False
    started_at: float = field(default_factory=time.monotonic)

    def to_the_end(self, progress: Progress) -> RunResult:
        """Wait for the program's start, its end, and nsys's report; return the result."""
        self.low_bytes = low_limit(self.run_dir.folder)
        progress(Phase.RUNNING, None)
        while not self.launched and self.process.poll() is None:
            self._look_for_program()
            if not self.launched and self._passed(self.limits.start_s):
                printed = quoted_output(self.run_dir.nsys_output())
                raise CaptureError(
                    f"nsys did not start the program within {self.limits.start_s:g} s{printed}",
                    hint="Run 'nsyswrap doctor'",
                )
            self._pause()
        if not self.launched:
            self._look_for_program()  # nsys may start and end between two polls
        while self._program_runs():
            self._stop_recording_if_due()
            self._end_program()
            self._pause()
        wall_ns = round((time.monotonic() - self.started_at) * 1e9)
        self._write(progress)
        self.abandoned = not self.launched
        stopped_by = None if self.timed_out else next(iter(self.received.ending), None)
        printed = self.run_dir.nsys_output()
        return RunResult(
            self._code(), self.launched, wall_ns, stopped_by, self.timed_out, printed, out_of_space=self.out_of_space
        )

    def _passed(self, limit_s: float | None) -> bool:
        """Return whether this much time has passed since the program's start, or since ours if it has not started."""
        return limit_s is not None and time.monotonic() - self.started_at > limit_s

    def _look_for_program(self) -> None:
        """Read the program's process id, which its shell wrote; a short program may have ended already."""
        with contextlib.suppress(OSError, ValueError):
            inner = int(self.run_dir.pid.read_text(encoding="ascii"))
            self.launched, self.started_at = True, time.monotonic()
            self.program = outer_pid(inner, descendants(os.getpid(), self.excluded))
            if self.program is not None:
                for call in self.on_start:
                    call(self.program)
        self._abandon_if_repeated(allowed=1)

    def _program_runs(self) -> bool:
        """Return whether the program runs; once it has ended, get its exit code if it became our child."""
        if self.program is None or is_alive(self.program):
            return self.program is not None
        self.program_code = wait_for(self.program)
        return False

    def _stop_recording_if_due(self) -> None:
        """Stop the recording if its time or the disk's space is over, or if the program is to be ended."""
        self._abandon_if_repeated(allowed=1)
        self._pass_on()
        if self.ending is None:
            if self.received.ending:
                self.ending = self.received.ending[0]
            elif self._passed(self.limits.timeout_s):
                self.ending, self.timed_out = signal.SIGTERM, True
        due = self.ending is not None or self._passed(self.limits.record_s)
        if not due and not self.out_of_space:
            due = self.out_of_space = is_below(self.run_dir.folder, self.low_bytes)
        if self.program is not None and due:
            self.stopper.start(self.program)

    def _pass_on(self) -> None:
        """Give the program the signals that do not end it; one that does is treated as an ending signal."""
        if (program := self.program) is None:
            return
        for number in self.received.due():
            if is_sent_to_all(number, self.process.pid):
                continue
            if survives(program, number):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(program, number)
            else:
                self.received.ending.append(number)

    def _end_program(self) -> None:
        """Signal the program once nsys has collected the recorded data; kill it if it ignores the time-out."""
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
        """Send a signal as a terminal would: to the process group of the program, if it has its own."""
        if self.program is None or (not self.timed_out and is_sent_to_all(number, self.process.pid)):
            return
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.program) == self.program:
                os.killpg(self.program, number)
            else:
                os.kill(self.program, number)

    def _write(self, progress: Progress) -> None:
        """Wait until nsys has written its report, as long as its files keep growing."""
        update = MonotonicProgress(progress, Phase.WRITING)
        last_change, sizes = time.monotonic(), self.run_dir.file_sizes()
        handled = max(len(self.received.ending), 1)
        while not self.stopper.has_ended() or self.process.poll() is None:
            self._abandon_if_repeated(allowed=handled)
            update(self.run_dir.progress_output())
            current = self.run_dir.file_sizes()
            if current != sizes:
                last_change, sizes = time.monotonic(), current
            elif time.monotonic() - last_change > self.limits.full_s and self._full_disk() is not None:
                raise CaptureError(
                    f"the disk of {self._full_disk()} is full, so nsys wrote no report", hint=DISK_FULL_HINT
                )
            elif time.monotonic() - last_change > self.limits.silence_s:
                printed = quoted_output(self.run_dir.nsys_output())
                raise CaptureError(
                    f"nsys wrote nothing for {self.limits.silence_s:g} s after the program ended{printed}",
                    hint="Record less (--duration, --capture-range), or run 'nsyswrap doctor'",
                )
            self._pause()

    def _full_disk(self) -> Path | None:
        """Return the folder of nsys's files whose disk is full; None if there is space."""
        folders = (self.run_dir.folder, self.run_dir.out)
        return next((each for each in folders if is_below(each, FULL_BYTES)), None)

    def _code(self) -> int:
        """Return the program's exit code: from the program itself if it became our child, else from nsys."""
        if self.program is not None and self.program_code is None:
            self.program_code = wait_for(self.program)
        return self.program_code if self.program_code is not None else shell_code(self.process.returncode)

    def _abandon_if_repeated(self, allowed: int) -> None:
        """Raise an error if the user repeated the signal; the caller then kills all processes."""
        if self.received.demands_abort(allowed, launched=self.by_launcher):
            raise aborted_error(self.received.ending[-1])

    def _pause(self) -> None:
        if self.process.returncode is not None:
            time.sleep(_POLL_S)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_POLL_S)
