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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.disk_space import DISK_FULL_HINT, FULL_BYTES, free_bytes, free_text, is_below, low_limit
from nsyswrap.capture.inherited import blocked_signals
from nsyswrap.capture.process_tree import (
    adopting_orphans,
    children_by_parent,
    descendants,
    is_alive,
    is_cut_off,
    kill_all,
    outer_pid,
    parent_of,
    reap_children,
    shell_code,
    wait_for,
    with_variable,
)
from nsyswrap.capture.progress import MonotonicProgress, Phase, Progress
from nsyswrap.capture.run_dir import RunDir, quoted_output
from nsyswrap.capture.signals import Received, aborted_error, collected_signals, is_sent_to_all, stopped_error, survives
from nsyswrap.capture.step_watch import StepWatch
from nsyswrap.capture.stopping import Stopper, has_collected
from nsyswrap.capture.watchdog import watched

_POLL_S = 0.05
# The time that an agent has to end after nsys; nsys waits for it, unless it crashed.
_AGENT_S = 1.0
# Seen with nsys 2023.4.4: on a busy machine, one start of several hundred fails, because its agent crashes.
_MORE_STARTS = 2
# How often the program is looked at, to see whether it has closed the descriptors of nsys.
_LOOK_S = 10.0


class Growth:
    """Watches the files of a run."""

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        self._sizes = run_dir.file_sizes()
        self._changed = time.monotonic()

    def quiet_s(self) -> float:
        """Return the seconds for which no file has appeared, gone or changed its size."""
        sizes = self._run_dir.file_sizes()
        if sizes != self._sizes:
            self._sizes, self._changed = sizes, time.monotonic()
        return time.monotonic() - self._changed


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits, in seconds.

    Args:
        record_s: Length of the recording; None for the whole program.
        timeout_s: Time until the program gets SIGTERM; None for never.
        grace_s: Time from SIGTERM to SIGKILL.
        start_s: Time that nsys may take to start the program.
        collect_s: Time that nsys may take to collect the recorded data before the program is ended.
        silence_s: Time that nsys may write nothing while it creates its report; after an ending signal ``grace_s``.
        full_s: The same, if the disk is full.
        notice_s: Time after the program's end in which nsys shows that it has noticed; then its recording is stopped.
        hint_s: Time without progress after which the user gets a hint.
    """

    record_s: float | None = None
    timeout_s: float | None = None
    grace_s: float = 10.0
    start_s: float = 120.0
    collect_s: float = 60.0
    silence_s: float = 600.0
    full_s: float = 10.0
    notice_s: float = 30.0
    hint_s: float = 30.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run under nsys.

    Args:
        code: The program's exit code, 128 + n for a signal; that of nsys if the program never started; 125 if nsys
            was killed and it is unknown.
        started: Whether nsys started the program.
        wall_ns: From the program's start to its end, to within 50 ms.
        stopped_by: The signal that was received and forwarded to the program, or None.
        timed_out: Whether the time-out ended the program.
        nsys_output: What nsys printed.
        out_of_space: Whether the recording was stopped because the disk of its temporary files was almost full.
        least_free: The least free bytes of that disk while the program ran, or None.
        killed_by: The signal that ended nsys itself, or None.
        lost_launcher: Whether nsys's launcher, the program's parent, ended before the program.
        late: The ending signal that arrived when the program had ended, while nsys wrote its report, or None.
        finished: Whether the program was ended because its recording had ended.
    """

    code: int
    started: bool
    wall_ns: int
    stopped_by: signal.Signals | None
    timed_out: bool
    nsys_output: str
    out_of_space: bool = False
    least_free: int | None = None
    killed_by: signal.Signals | None = None
    lost_launcher: bool = False
    late: signal.Signals | None = None
    finished: bool = False


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
        on_hint: Called with a sentence for the user when nothing goes on.
        steps: Follows a program that records its own steps; None for another one.
    """

    argv: Sequence[str]
    run_dir: RunDir
    env: Mapping[str, str]
    stop: Callable[[int], Sequence[str]] | None = None
    cwd: Path | None = None
    limits: TimeLimits = field(default_factory=TimeLimits)
    output_to_stderr: bool = False
    launched: bool = False
    hidden: bool = False
    on_start: Callable[[int], None] | None = None
    on_hint: Callable[[str], None] = lambda _hint: None
    steps: StepWatch | None = None


def run_in_foreground(call: ForegroundCall, progress: Progress) -> RunResult:
    """Run nsys and the program under it until both have ended.

    An nsys that ends before it has started the program is started again.

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
        # The name of the session is taken as long as its state exists.
        for path in set(call.run_dir.folder.iterdir()) - ours:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        result = _run_once(call, progress)
    return result


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
        run = _Run(process, call, received, stopper, excluded)
        try:
            # The run ends if this process is killed. In a process namespace the stop command needs the program's id;
            # without it nsys writes its report at the end.
            stop = call.stop(0) if call.stop is not None and not call.hidden else ()
            program = Path(os.devnull) if call.hidden else call.run_dir.pid
            with watched(process.pid, program, stop, call.env) as tell:
                run.on_start = (tell,) if call.on_start is None else (tell, call.on_start)
                return run.to_the_end(progress)
        finally:
            if run.abandoned:
                kill_all(os.getpid(), excluded)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process that waits for a disk cannot be killed
                process.wait(_AGENT_S)
            # The agent of an nsys that crashed would keep our output open, and who reads it to its end would wait. That
            # of nsys 2023.4.4 writes the report itself if nsys is killed, so it may go on as long as its files grow.
            began, growth = time.monotonic(), Growth(call.run_dir)
            # The processes of nsys have the private folder as TMPDIR, and the program has its own value.
            agents = partial(with_variable, "TMPDIR", str(call.run_dir.folder))
            while (left := agents(descendants(os.getpid(), excluded))) and growth.quiet_s() < 2 * _AGENT_S:
                if growth.quiet_s() > _AGENT_S or time.monotonic() - began > call.limits.collect_s:
                    for pid in left:
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, signal.SIGKILL)
                time.sleep(_POLL_S)
            reap_children(excluded)


@dataclass(slots=True)
class _Run:
    """One run, from the start of nsys to its end; it polls every 50 ms."""

    process: subprocess.Popen[bytes]
    call: ForegroundCall
    received: Received
    stopper: Stopper
    excluded: frozenset[int]
    on_start: tuple[Callable[[int], None], ...] = ()
    abandoned: bool = True
    launched: bool = False
    program: int | None = None
    program_code: int | None = None
    ending: signal.Signals | None = None
    sent_at: float | None = None
    timed_out: bool = False
    finished: bool = False
    low_bytes: int = 0
    out_of_space: bool = False
    least_free: int | None = None
    launcher: int | None = None
    orphaned: bool = False
    lost_launcher: bool = False
    released: bool = False
    hinted: bool = False
    looked_at: float = 0.0
    cut_off_at: float | None = None
    started_at: float = field(default_factory=time.monotonic)

    def to_the_end(self, progress: Progress) -> RunResult:
        """Wait for the program's start, its end, and nsys's report; return the result."""
        self.low_bytes = low_limit(self.call.run_dir.folder)
        progress(Phase.RUNNING, None)
        while not self.launched and self.process.poll() is None:
            self._look_for_program()
            if not self.launched:
                if self.received.ending and time.monotonic() - self.received.first_at > self.call.limits.grace_s:
                    raise stopped_error(self.received.ending[0], "stopped before nsys had started the program", "")
                if self._passed(self.call.limits.start_s):
                    printed = quoted_output(self.call.run_dir.nsys_output())
                    raise CaptureError(
                        f"nsys did not start the program within {self.call.limits.start_s:g} s{printed}",
                        hint="Run 'nsyswrap doctor'",
                    )
            self._pause()
        if not self.launched:
            self._look_for_program()  # nsys may start and end between two polls
        while self._program_runs():
            self._stop_recording_if_due()
            self._end_program()
            self._hint_if_cut_off()
            self._pause()
        wall_ns = round((time.monotonic() - self.started_at) * 1e9)
        # A scheduler ends all processes at once, and the program may be gone before this one has seen its own signal.
        before = len(self.received.ending)
        self._write(progress, before)
        self.abandoned = not self.launched
        first = next(iter(self.received.ending), None)
        return RunResult(
            code=self._code(),
            started=self.launched,
            wall_ns=wall_ns,
            stopped_by=None if self.timed_out or self.finished else self.ending if self.launched else first,
            timed_out=self.timed_out,
            nsys_output=self.call.run_dir.nsys_output(),
            out_of_space=self.out_of_space,
            least_free=self.least_free,
            killed_by=self._killed_by(),
            lost_launcher=self.lost_launcher or self.released,
            late=self._late(before),
            finished=self.finished,
        )

    def _passed(self, limit_s: float | None) -> bool:
        """Return whether this much time has passed since the program's start, or since ours if it has not started."""
        return limit_s is not None and time.monotonic() - self.started_at > limit_s

    def _look_for_program(self) -> None:
        """Read the program's process id, which its shell wrote; a short program may have ended already."""
        with contextlib.suppress(OSError, ValueError):
            inner = int(self.call.run_dir.pid.read_text(encoding="ascii"))
            self.launched, self.started_at = True, time.monotonic()
            self.program = outer_pid(inner, descendants(os.getpid(), self.excluded))
            if self.program is None:
                self.program_code = wait_for(inner)
            else:
                self.launcher = parent_of(self.program)
                for call in self.on_start:
                    call(self.program)
        self._abandon_if_repeated(allowed=1)

    def _program_runs(self) -> bool:
        """Return whether the program runs; once it has ended, get its exit code if it became our child."""
        if self.program is None:
            return False
        if is_alive(self.program):
            self.orphaned = self.orphaned or self._has_lost_parent(self.program)
            return True
        self.program_code = wait_for(self.program)
        return False

    def _has_lost_parent(self, program: int) -> bool:
        """Return whether the parent of the program ended: this process adopts it, or the first of its namespace."""
        parent = parent_of(program)
        adopted = self.call.hidden and parent is not None and parent_of(parent) == self.process.pid
        return adopted or parent == os.getpid()

    def _stop_recording_if_due(self) -> None:
        """Stop the recording if its time or the disk's space is over, or if the program is to be ended."""
        self._abandon_if_repeated(allowed=1)
        self._pass_on()
        if self.ending is None:
            if self.received.ending:
                self.ending = self.received.ending[0]
            elif self._passed(self.call.limits.timeout_s):
                self.ending, self.timed_out = signal.SIGTERM, True
        due = self.ending is not None or self._passed(self.call.limits.record_s) or self._has_steps()
        free = free_bytes(self.call.run_dir.folder)
        if free is not None:
            self.least_free = min(free, free if self.least_free is None else self.least_free)
            self.out_of_space = self.out_of_space or (not due and free < self.low_bytes)
        if self.program is not None and (due or self.out_of_space):
            self.stopper.start(self.program)

    def _has_steps(self) -> bool:
        """Return whether nsys has to stop because the steps are recorded; end the program then with ``stop_after``.

        A recording that the program has started itself is over by then, as soon as nsys says that it has the data.
        """
        steps = self.call.steps
        if steps is None or self.program is None:
            return False
        steps.look(self.program, time.monotonic() - self.started_at)
        if steps.ends_program and self.ending is None and (steps.is_outside or has_collected(self.call.run_dir.status)):
            self.ending, self.finished = signal.SIGTERM, True
        return steps.stops_recording or self.finished

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
        """Signal the program once nsys has collected the recorded data; kill it if it ignores our own SIGTERM."""
        now = time.monotonic()
        if self.ending is not None and self.sent_at is None and self.stopper.has_collected_all():
            self.sent_at = now
            self._signal_program(self.ending)
        overdue = (
            (self.timed_out or self.finished)
            and self.sent_at is not None
            and now - self.sent_at > self.call.limits.grace_s
        )
        if overdue and self.program is not None:
            for pid in (self.program, *descendants(self.program)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _signal_program(self, number: signal.Signals) -> None:
        """Send a signal as a terminal would: to the process group of the program, if it has its own."""
        ours = self.timed_out or self.finished
        if self.program is None or (not ours and is_sent_to_all(number, self.process.pid)):
            return
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.program) == self.program:
                os.killpg(self.program, number)
            else:
                os.kill(self.program, number)

    def _hint_if_cut_off(self) -> None:
        """Give a hint if a process of the program has closed the descriptors of nsys, and may never end."""
        now = time.monotonic()
        if self.hinted or self.program is None or now - self.looked_at < _LOOK_S:
            return
        self.looked_at = now
        if not any(is_cut_off(pid) for pid in (self.program, *descendants(self.program))):
            self.cut_off_at = None
            return
        self.cut_off_at = self.cut_off_at or now
        if now - self.cut_off_at >= self.call.limits.hint_s:
            self._hint(
                "the program has closed descriptors of nsys, as os.closerange() does: nsys records no more of it, and "
                "it may never end. Ctrl-C ends it and keeps what was recorded. Close only files that the program opened"
            )

    def _hint(self, text: str) -> None:
        """Call ``on_hint``, once in a run."""
        if not self.hinted:
            self.hinted = True
            self.call.on_hint(text)

    def _write(self, progress: Progress, before: int) -> None:
        """Wait until nsys has written its report, as long as its files keep growing.

        ``before`` is how many ending signals arrived while the program ran.
        """
        orphaned = self.orphaned or self.program_code is not None
        self.lost_launcher = orphaned and self.process.poll() is None
        update = MonotonicProgress(progress, Phase.WRITING)
        growth = Growth(self.call.run_dir)
        while not self.stopper.has_ended() or self.process.poll() is None:
            self._abandon_if_repeated(allowed=max(before, 1))
            update(self.call.run_dir.progress_output())
            # nsys learns of the program's end from its launcher. Without that, nsys 2023.4.4 waits for ever, also after
            # ``nsys stop`` has written the report.
            quiet_s = growth.quiet_s()
            if not self.stopper.started:
                if quiet_s >= (0 if self.lost_launcher else self.call.limits.notice_s) and not has_collected(
                    self.call.run_dir.status
                ):
                    # In a process namespace the command has to enter it where a process is left.
                    self.stopper.start(next(iter(descendants(self.process.pid)), self.process.pid))
            elif self.stopper.has_ended():
                written = any(self.call.run_dir.out.glob("*.nsys-rep"))
                if (written and quiet_s > self.call.limits.grace_s) or (self.lost_launcher and quiet_s > _AGENT_S):
                    self.released = True
                    self.process.kill()
            if not self.released:
                self._check_growth(growth.quiet_s(), late=self._late(before) is not None)
            self._pause()

    def _check_growth(self, quiet_s: float, *, late: bool) -> None:
        """Give a hint if nsys has written nothing for a while; raise an error if that is long, or the disk is full."""
        for folder in (self.call.run_dir.folder, self.call.run_dir.out):
            if quiet_s > self.call.limits.full_s and is_below(folder, FULL_BYTES):
                raise CaptureError(
                    f"the disk of {folder} is full ({free_text(folder)}), so nsys wrote no report", hint=DISK_FULL_HINT
                )
        patience = self.call.limits.grace_s if late else self.call.limits.silence_s
        if quiet_s > patience:
            printed = quoted_output(self.call.run_dir.nsys_output())
            raise CaptureError(
                f"nsys wrote nothing for {patience:g} s after the program ended{printed}",
                hint="Record less (--duration, --capture-range), or run 'nsyswrap doctor'",
            )
        if quiet_s > self.call.limits.hint_s:
            self._hint(
                f"the program has ended, but nsys has written nothing for {self.call.limits.hint_s:g} s. "
                "Ctrl-C ends the wait and keeps what was recorded"
            )

    def _code(self) -> int:
        """Return the program's exit code: from the program itself if it became our child, else from nsys.

        If nsys was killed, its launcher becomes our child: it ends as the program did.
        """
        if self.program is not None and self.program_code is None:
            self.program_code = wait_for(self.program)
        if self.program_code is None and self.launcher is not None and parent_of(self.launcher) == os.getpid():
            until = time.monotonic() + _AGENT_S
            while (code := wait_for(self.launcher)) is None and time.monotonic() < until:
                time.sleep(_POLL_S)
            self.program_code = code
        if self.program_code is not None:
            return self.program_code
        return CaptureError.exit_code if self.released or self._killed_by() else shell_code(self.process.returncode)

    def _killed_by(self) -> signal.Signals | None:
        """Return the signal that ended nsys itself; nsys exits with 128 + n if one ended the program."""
        code = self.process.returncode
        return signal.Signals(-code) if code is not None and code < 0 and not self.released else None

    def _late(self, before: int) -> signal.Signals | None:
        """Return the first ending signal after the program's end; launchers repeat one that came before."""
        if self.call.launched and before:
            return None
        return next(iter(self.received.ending[before:]), None) if self.launched else None

    def _abandon_if_repeated(self, allowed: int) -> None:
        """Raise an error if the user repeated the signal; the caller then kills all processes."""
        if self.received.demands_abort(allowed, launched=self.call.launched):
            raise aborted_error(self.received.ending[-1])

    def _pause(self) -> None:
        if self.process.returncode is not None:
            time.sleep(_POLL_S)
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_POLL_S)
