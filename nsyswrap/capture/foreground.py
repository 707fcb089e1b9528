"""Run a program under nsys in the user's terminal: output untouched, signals to it and not to nsys, nothing left over.

::

    nsyswrap -- sh, then nsys --+-- agent                       (a session of its own)
       |                        +-- launcher -- sh, then the program   (a session of its own)
       terminal

Three things were seen of nsys 2023.4.4 and decide the design.

*   It gives the program pipes in place of the terminal, and prints its own progress among the program's output. So the
    first shell keeps our stdout and stderr open as descriptors 8 and 9 and sends nsys's own words to a file; the second
    gives 8 and 9 to the program as its stdout and stderr. The program sees the terminal as if it ran alone, and its
    output is not in the capture.
*   On SIGINT nsys passes it on, writes its report at once and exits with 0, while the program still cleans up or goes
    on for good. So nsys and all below it run in a session without a terminal: Ctrl-C reaches only us, and we send it to
    the program's process group, as a terminal would. nsys then writes its report because the program has ended, and
    returns the program's own code. Reading the terminal works all the same: job control binds only processes whose
    session owns the terminal.
*   Where recording ends before the program (``--duration``), nsys exits first, with 0. We have adopted the program and
    wait for it. As nsys may also still be there and swallow the code, the second shell then stays and keeps it.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from nsyswrap.capture.process_tree import (
    adopting_orphans,
    children_by_parent,
    descendants,
    is_alive,
    kill_all,
    outer_pid,
    shell_code,
    wait_for,
)
from nsyswrap.capture.progress import Phase, Progress, Rising
from nsyswrap.errors import CaptureError

# Descriptors of one digit: POSIX shells know no others by number.
_OUTER_SCRIPT = 'exec 8>&1 9>&2 >"$1" 2>&1; shift; exec "$@"'
_INNER_SCRIPT = (
    'echo $$ >"$1"; kept=$1.code; if [ -n "$2" ]; then TMPDIR=$2; export TMPDIR; else unset TMPDIR; fi; shift 2; '
)
_BECOME_PROGRAM = 'exec "$@" >&8 2>&9 8>&- 9>&-'
# The shell outlives signals to its group, as the program may; a trap, unlike an ignored signal, is not inherited.
_KEEP_CODE = 'trap : INT TERM HUP; "$@" >&8 2>&9 8>&- 9>&-; code=$?; echo $code >"$kept"; exit $code'
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.05
_TAIL_BYTES = 4096


class CaptureInterruptedError(CaptureError):
    """The user ended the run a second time, before nsys had written its report."""

    exit_code = 130


class CaptureTerminatedError(CaptureError):
    """The run was told a second time to terminate, before nsys had written its report."""

    exit_code = 143


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds.

    Args:
        timeout_s: Until the program is told to end; None for never.
        grace_s: From then until it is killed.
        start_s: Until nsys must have started the program.
        silence_s: How long nsys may write nothing while it makes its report.
    """

    timeout_s: float | None = None
    grace_s: float = 10.0
    start_s: float = 120.0
    silence_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run under nsys ended.

    Args:
        code: The program's exit code, 128 + n for a signal; nsys's own where the program never started.
        started: Whether nsys started the program.
        wall_ns: From the program's start to its end, to within 50 ms.
        stopped_by: The signal that was passed on to the program, or None.
        timed_out: Whether the time-out ended the program.
        said: What nsys printed.
    """

    code: int
    started: bool
    wall_ns: int
    stopped_by: signal.Signals | None
    timed_out: bool
    said: str


@dataclass(frozen=True, slots=True)
class Workplace:
    """The private folder of one run.

    Args:
        folder: Where nsys keeps its temporary files; private to the user.
        program_tmpdir: The program's own TMPDIR; empty for none.
    """

    folder: Path
    program_tmpdir: str = ""

    @property
    def status(self) -> Path:
        """The file that takes what nsys prints."""
        return self.folder / "nsys.log"

    @property
    def out(self) -> Path:
        """The link to the folder of the result, under a name without ``%``: nsys would expand it."""
        return self.folder / "out"

    @property
    def pid(self) -> Path:
        """The file that takes the program's process id."""
        return self.folder / "pid"

    def wrapped(self, program: Sequence[str], *, keep_code: bool = False) -> tuple[str, ...]:
        """Return what nsys is to start, so that the program gets the terminal back.

        Args:
            program: Program and arguments.
            keep_code: Let the shell stay and write the program's exit code down, where nsys may lose it.
        """
        script = _INNER_SCRIPT + (_KEEP_CODE if keep_code else _BECOME_PROGRAM)
        return ("sh", "-c", script, "nsyswrap", str(self.pid), self.program_tmpdir, *program)

    @property
    def kept_code(self) -> int | None:
        """The program's exit code, where the shell wrote it down."""
        try:
            return int(Path(f"{self.pid}.code").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForegroundCall:
    """What to run in the terminal.

    Args:
        argv: nsys's command line, with ``workplace.wrapped(program)`` as the program.
        workplace: The private folder of this run.
        env: Environment of nsys and the program.
        cwd: Working folder of both; None for ours.
        limits: How long to wait.
        output_to_stderr: Send the program's stdout to stderr, where stdout is kept for results.
    """

    argv: Sequence[str]
    workplace: Workplace
    env: Mapping[str, str]
    cwd: Path | None = None
    limits: Limits = field(default_factory=Limits)
    output_to_stderr: bool = False


def run_in_foreground(call: ForegroundCall, progress: Progress) -> Ended:
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
    spare = frozenset(children_by_parent().get(os.getpid(), ()))
    with adopting_orphans(), _signals_kept() as received:
        process = subprocess.Popen(  # noqa: S603 - running the user's command is what this is for; no shell reads it
            ["/bin/sh", "-c", _OUTER_SCRIPT, "nsyswrap", str(call.workplace.status), *call.argv],
            stdout=2 if call.output_to_stderr else None,
            env=call.env,
            cwd=call.cwd,
            start_new_session=True,
        )
        run = _Run(process, call.workplace, call.limits, received, spare)
        try:
            return run.to_the_end(progress)
        finally:
            _clean_up(process, spare, abandoned=run.abandoned)


@dataclass(slots=True)
class _Run:
    """One run, from the start of nsys to its end; the loop looks every 50 ms."""

    process: subprocess.Popen[bytes]
    workplace: Workplace
    limits: Limits
    received: list[signal.Signals]
    spare: frozenset[int]
    abandoned: bool = True
    launched: bool = False
    program: int | None = None
    program_code: int | None = None
    stopped_by: signal.Signals | None = None
    timed_out: bool = False
    began: float = field(default_factory=time.monotonic)
    program_began: float = 0.0
    kill_at: float | None = None

    def to_the_end(self, progress: Progress) -> Ended:
        """Start, run, write: each phase has its own way to end."""
        progress(Phase.RUNNING, None)
        while not self.launched and self.process.poll() is None:
            self._look_for_program()
            if not self.launched and time.monotonic() - self.began > self.limits.start_s:
                raise CaptureError(
                    f"nsys did not start the program within {self.limits.start_s:g} s{quoted(self._said())}",
                    hint="Run 'nsyswrap doctor'",
                )
            self._pause()
        if not self.launched:
            self._look_for_program()  # nsys may start and end between two looks
        while self._program_runs():
            self._pass_signals_on()
            self._watch_timeout()
            self._pause()
        wall_ns = round((time.monotonic() - (self.program_began or self.began)) * 1e9)
        self._write(progress)
        self.abandoned = False
        return Ended(self._code(), self.launched, wall_ns, self.stopped_by, self.timed_out, self._said())

    def _code(self) -> int:
        """Take the program's own code from whoever has it: the shell that stayed, ourselves as its parent, or nsys."""
        adopted = self.program_code
        if adopted is None and self.program is not None:
            adopted = wait_for(self.program)
        kept = self.workplace.kept_code
        own = kept if kept is not None else adopted
        return own if own is not None else shell_code(self.process.returncode)

    def _look_for_program(self) -> None:
        """Take the program's process id from the shell that became it; a short program may be gone again by now."""
        with contextlib.suppress(OSError, ValueError):
            inner = int(self.workplace.pid.read_text(encoding="ascii"))
            self.launched, self.program_began = True, time.monotonic()
            self.program = outer_pid(inner, descendants(os.getpid(), self.spare))
        self._abandon_if_repeated(allowed=1)

    def _program_runs(self) -> bool:
        """Whether the program runs; the code of one that was left to us is taken here."""
        if self.program is None or is_alive(self.program):
            return self.program is not None
        self.program_code = wait_for(self.program)
        return False

    def _pass_signals_on(self) -> None:
        if self.received and self.stopped_by is None:
            self.stopped_by = self.received[0]
            self._signal_program(self.stopped_by)
        self._abandon_if_repeated(allowed=1)

    def _watch_timeout(self) -> None:
        now = time.monotonic()
        if (
            self.limits.timeout_s is not None
            and not self.timed_out
            and now - self.program_began > self.limits.timeout_s
        ):
            self.timed_out = True
            self.kill_at = now + self.limits.grace_s
            self._signal_program(signal.SIGTERM)
        if self.kill_at is not None and now > self.kill_at and self.program is not None:
            for pid in (self.program, *descendants(self.program)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _write(self, progress: Progress) -> None:
        """Wait for nsys to write its report, as long as it shows signs of life."""
        announce = Rising(progress, Phase.WRITING)
        last_change, seen = time.monotonic(), self._signs_of_life()
        handled = len(self.received)
        while self.process.poll() is None:
            self._abandon_if_repeated(allowed=max(handled, 1))
            announce(self._tail())
            signs = self._signs_of_life()
            if signs != seen:
                last_change, seen = time.monotonic(), signs
            elif time.monotonic() - last_change > self.limits.silence_s:
                raise CaptureError(
                    f"nsys wrote no more for {self.limits.silence_s:g} s after the program{quoted(self._said())}",
                    hint="Record less (--duration, --capture-range), or run 'nsyswrap doctor'",
                )
            self._pause()

    def _signal_program(self, number: signal.Signals) -> None:
        """Send a signal as a terminal would: to the program's process group, where that is the program's own."""
        if self.program is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.program) == self.program:
                os.killpg(self.program, number)
            else:
                os.kill(self.program, number)

    def _abandon_if_repeated(self, allowed: int) -> None:
        """Give up where the user insists; the caller's clean-up kills all that runs."""
        if len(self.received) > allowed:
            error = CaptureInterruptedError if self.received[-1] is signal.SIGINT else CaptureTerminatedError
            raise error("stopped before nsys had written its report", hint="Interrupt once to keep what was recorded")

    def _signs_of_life(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes of what nsys writes, in its own folder and in that of the result."""
        signs = []
        for path in (*files_below(self.workplace.folder), *files_below(self.workplace.out)):
            with contextlib.suppress(OSError):
                signs.append((str(path), path.stat().st_size))
        return tuple(signs)

    def _tail(self) -> bytes:
        with contextlib.suppress(OSError), self.workplace.status.open("rb") as status:
            status.seek(max(0, status.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return status.read()
        return b""

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            return self.workplace.status.read_text(encoding="utf-8", errors="replace")
        return ""

    def _pause(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_POLL_S) if self.process.returncode is None else time.sleep(_POLL_S)


def files_below(folder: Path) -> list[Path]:
    """List the files below a folder, sorted. Folders may vanish meanwhile: nsys tidies up while we look."""
    return sorted(Path(place) / name for place, _folders, names in os.walk(folder) for name in names)


def quoted(said: str, lines: int = 3) -> str:
    """Return the last lines of what nsys said, ready to follow a message; empty where it said nothing."""
    text = [line.strip() for line in said.replace("\r", "\n").splitlines() if line.strip() and "%" not in line]
    return f" (nsys: {' / '.join(text[-lines:])})" if text else ""


@contextmanager
def _signals_kept() -> Iterator[list[signal.Signals]]:
    """Collect ending signals instead of dying of them, so that nsys can still write its report."""
    received: list[signal.Signals] = []

    def keep(number: int, _frame: FrameType | None) -> None:
        received.append(signal.Signals(number))

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, keep) for number in _SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _clean_up(process: subprocess.Popen[bytes], spare: frozenset[int], *, abandoned: bool) -> None:
    """Leave nothing of an abandoned run; of one that ended well, take the exit codes of what nsys left to us."""
    if abandoned:
        kill_all(os.getpid(), spare)
    if process.poll() is None:
        process.kill()
        process.wait()
    with contextlib.suppress(ChildProcessError):
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) not in spare:
                _reap(int(entry.name))


def _reap(pid: int) -> None:
    """Wait for an ended child of ours; no other process is touched."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        if fields[0] == "Z" and int(fields[1]) == os.getpid():
            wait_for(pid)
