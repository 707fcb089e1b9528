"""Record a program with nsys and export the capture.

A capture succeeded if its report and its export exist: nsys exits with 0 even if it could write neither.
"""

import dataclasses
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nsyswrap.base import units
from nsyswrap.base.errors import CaptureError, CommandNotExecutableError, CommandNotFoundError, ExportError, UsageError
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.annotate.recording import ENDED_PHASE, WARM_UP_STEPS
from nsyswrap.capture.arming import arming
from nsyswrap.capture.convert import export_report, import_recorded, move_recorded
from nsyswrap.capture.disk_space import DISK_FULL_HINT, full_disk
from nsyswrap.capture.failures import early_death, no_report
from nsyswrap.capture.foreground import ForegroundCall, RunResult, TimeLimits, run_in_foreground
from nsyswrap.capture.host_monitor import HostMonitor
from nsyswrap.capture.inherited import inherited, kept_environment, namespace_entry, namespace_prefix
from nsyswrap.capture.launcher import started_by_launcher
from nsyswrap.capture.locate import Capabilities, Nsys, capabilities_of
from nsyswrap.capture.options import ARMED_RANGE, CaptureOptions, extra_environment, profile_invocation, session_command
from nsyswrap.capture.progress import Progress, silent
from nsyswrap.capture.result_folder import (
    EXPORT_NAME,
    HOST_NAME,
    NUMBERED_REPORT,
    REPORT_NAME,
    TEMPORARY_LINK,
    UNFINISHED_NAME,
    reserve_folder,
    run_folder,
)
from nsyswrap.capture.run_dir import RunDir, files_below, private_folder
from nsyswrap.capture.signals import (
    CaptureInterruptedError,
    CaptureTerminatedError,
    StopRequest,
    number_of,
    stopped_error,
)
from nsyswrap.capture.step_watch import PATIENCE_S, StepState, StepWatch
from nsyswrap.capture.xray_file import write_steps_alone, write_xray

# Exit codes of a shell for signals. Codes of real-time signals are left out: they are more often a program's own.
_LAST_PLAIN_SIGNAL = 31
_SIGNAL_BY_CODE = {128 + number: number.name for number in signal.Signals if number <= _LAST_PLAIN_SIGNAL}

_AGAIN = (
    "the program ended before it had taken enough steps to record some, so it runs once more, recorded from start to "
    "end. --steps all records it at once"
)
_CRASHED = (
    "Run it without nsyswrap, with PYTHONFAULTHANDLER=1, to see whether and where it ends so, too. If it does not, "
    "--annotate off records it without marks"
)
_WHAT_TO_GIVE = "Give a script, or a command after '--'"
_PYTHON = re.compile(r"(python|pypy)[\d.]*")

# The result of a run, and what was sampled of the host and the GPUs meanwhile.
Recorded = tuple[RunResult, dict[str, object] | None]


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """A finished capture.

    Args:
        folder: Its folder.
        report: Its ``.nsys-rep``.
        export: Its SQLite export.
        exit_code: The program's exit code, 128 + n for a signal.
        wall_ns: From the program's start to its end, to within 50 ms.
        command: The program and its arguments, as given.
        nsys: The nsys that recorded it.
        notes: Sentences about what was requested but not recorded, or ended early.
        steps: Whether the program recorded its own steps, why, and which.
    """

    folder: Path
    report: Path
    export: Path
    exit_code: int
    wall_ns: int
    command: tuple[str, ...]
    nsys: Nsys
    notes: tuple[str, ...]
    steps: Mapping[str, object] = field(default_factory=dict)


class NothingRecordedError(CaptureError):
    """The program ended before its recording began."""

    def __init__(self, message: str, *, hint: str, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Watching:
    """What is called while the program runs: the arguments of ``profile`` with these names."""

    progress: Progress
    on_hint: Callable[[str], None]
    on_state: Callable[[StepState], None]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A run of the program that left a report."""

    run: RunResult
    notes: tuple[str, ...]
    steps: dict[str, object]


def profile(  # noqa: PLR0913 - what to record, where to, and whom to call
    options: CaptureOptions,
    nsys: Nsys,
    progress: Progress = silent,
    place: Path | None = None,
    on_recorded: Callable[[CaptureResult, Path], None] = lambda _result, _folder: None,
    *,
    on_hint: Callable[[str], None] = lambda _hint: None,
    on_state: Callable[[StepState], None] = lambda _state: None,
) -> CaptureResult:
    """Run a program under nsys and export the capture; return the new report and its export.

    Ctrl-C and other ending signals go to the program, and the recorded data is kept; a second one ends everything.

    Args:
        options: What to run and to record.
        nsys: The nsys to use.
        progress: Called with each phase.
        place: The folder for the result, if it is reserved already; ``options.folder`` is then left unread.
        on_recorded: Called with the capture and its folder before it is exported, to write what belongs to it.
        on_hint: Called with a sentence for the user when the program or nsys does not go on.
        on_state: Called when a program that records its own steps has got further.

    Raises:
        CommandNotFoundError: The program does not exist.
        CommandNotExecutableError: The program is not executable.
        UsageError: The folder exists already, or nsys lacks a flag that an option needs.
        NothingRecordedError: The program ended before its recording began.
        CaptureError: nsys recorded nothing, or its report cannot be exported.
        CaptureInterruptedError: Ctrl-C was pressed twice, or during the export.
    """
    program, capabilities = resolved_command(options), capabilities_of(nsys)
    decision = arming(options)
    armed = dataclasses.replace(options, capture_range=ARMED_RANGE) if decision.is_armed else options
    watched = Watching(progress, on_hint, on_state)
    with _reserved(options, place) as folder, run_folder(folder) as private:
        attempt = _attempt(armed, nsys, capabilities, program, private, watched)
        if attempt is None:
            on_hint(_AGAIN)
            decision = dataclasses.replace(decision, is_armed=False, why="it ended before its recording began")
            attempt = _attempt(options, nsys, capabilities, program, private, watched)
        if attempt is None:  # only one that is armed is none
            raise AssertionError
        run = attempt.run
        notes = (*attempt.notes, *((decision.note,) if decision.note else ()), *_notes(run, options))
        result = CaptureResult(
            folder=folder,
            report=folder / REPORT_NAME,
            export=folder / EXPORT_NAME,
            exit_code=0 if run.finished else run.code,
            wall_ns=run.wall_ns,
            command=options.command,
            nsys=nsys,
            notes=notes,
            steps={"armed": decision.is_armed, "why": decision.why, **attempt.steps},
        )
        with _kept_on_interrupt(folder):
            on_recorded(result, private)
            if run.late is not None:
                raise StopRequest(run.late)
            try:
                export_report(nsys, private / REPORT_NAME, private / EXPORT_NAME, progress)
            except ExportError as error:
                raise CaptureError(error.message, hint=error.hint) from error
    return result


def _attempt(  # noqa: PLR0913, PLR0917 - what to run, where, and who watches
    options: CaptureOptions,
    nsys: Nsys,
    capabilities: Capabilities,
    program: tuple[str, ...],
    private: Path,
    watched: Watching,
) -> _Attempt | None:
    """Run the program under nsys once; return None if it ended well before its recording began, and is to run again."""
    with private_folder() as temporary:
        if (full := full_disk((temporary.parent, private.parent))) is not None:
            raise CaptureError(f"nsys cannot record: {full}", hint=DISK_FULL_HINT)
        link = private / TEMPORARY_LINK
        link.unlink(missing_ok=True)
        link.symlink_to(temporary, target_is_directory=True)
        call, notes = _prepared(options, nsys, capabilities, program, (temporary, private))
        monitor = HostMonitor()

        def on_state(state: StepState) -> None:
            if state.phase == ENDED_PHASE:  # a job runs on for hours
                monitor.stop()
            watched.on_state(state)

        steps = None if call.steps is None else dataclasses.replace(call.steps, on_state=on_state)
        call = dataclasses.replace(call, on_hint=watched.on_hint, on_start=monitor.start, steps=steps)
        recorded = _monitored_or_rescued(call, monitor, watched.progress, (temporary, private))
        injection = _injection(temporary, options)
        notes += injection.notes() if options.annotate else ()
        if steps is not None:
            write_steps_alone(private, injection.steps_alone())
            write_xray(private, injection.xray())
            if recorded[0].started and not injection.begun:
                _check_may_run_again(recorded[0], injection)
                return None
            # Where there are several reports, nsys numbers them from 1.
            first, only = private / NUMBERED_REPORT.format(1), private / REPORT_NAME
            if first.is_file() and not only.exists():
                first.rename(only)
        notes += _keep_report(recorded, options, nsys, (temporary, private))
        return _Attempt(recorded[0], notes, {} if steps is None else _recorded_steps(injection, steps))


def _check_may_run_again(run: RunResult, injection: Injection) -> None:
    """Check that a program which ended before its recording began may run once more, without a question."""
    if injection.is_waiting:
        raise NothingRecordedError("nothing was recorded: nsyswrap trigger was not used", hint="", exit_code=run.code)
    if run.code == 0 and run.stopped_by is None and not run.timed_out and run.wall_ns <= PATIENCE_S * 1e9:
        return
    taken = max((int(each.get("step", 0)) for each in injection.progress()), default=0)
    crash = "" if run.stopped_by or run.timed_out else _SIGNAL_BY_CODE.get(run.code, "")
    how = f"was stopped by {run.stopped_by.name}" if run.stopped_by else f"ended with code {run.code}"
    raise NothingRecordedError(
        f"nothing was recorded: the program {f'was killed by {crash}' if crash else how} after "
        f"{units.counted(taken, 'step')}, before its recording began",
        hint=_CRASHED if crash else "Record it from its start with --steps all",
        exit_code=run.code or CaptureError.exit_code,
    )


def _recorded_steps(injection: Injection, watch: StepWatch) -> dict[str, object]:
    """Return what of a program that recorded its own steps is in the capture."""
    recordings = injection.recorded()
    recorded = recordings[0] if recordings else {}
    first = max((int(each.get("first", 0)) for each in injection.progress()), default=0)
    return {
        "first": recorded.get("first", first or None),
        "last": recorded.get("last"),
        "warm_up": WARM_UP_STEPS,
        "from_outside": watch.is_outside,
        "more": recordings[1:],
    }


def _reserved(options: CaptureOptions, place: Path | None) -> AbstractContextManager[Path]:
    """Return the block in which the folder for the result is reserved, by its caller or here."""
    if place is not None:
        return nullcontext(place)
    return reserve_folder(options.folder, force=options.force, next_free=options.next_free)


def _monitored_or_rescued(
    call: ForegroundCall, monitor: HostMonitor, progress: Progress, folders: tuple[Path, Path]
) -> Recorded:
    """Run the program; return its result, and what was sampled meanwhile. If nsys fails, keep what it recorded."""
    try:
        try:
            run = run_in_foreground(call, progress)
        finally:
            monitor.stop()
        return run, monitor.record()
    except (CaptureInterruptedError, CaptureTerminatedError):
        raise
    except CaptureError as error:
        temporary, private = folders
        unfinished = next((path for path in files_below(temporary) if path.suffix == ".qdstrm"), None)
        if unfinished is None:
            raise
        move_recorded(unfinished, private / UNFINISHED_NAME)
        hint = f"{error.hint}. What was recorded is kept: 'nsyswrap resume {private.parent}' tries to read it"
        raise CaptureError(error.message, hint=hint) from error


@contextmanager
def _kept_on_interrupt(folder: Path) -> Iterator[None]:
    """Turn an interrupt into an error that says how to finish the run; its report is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        hint = f"The capture is kept: run 'nsyswrap resume {folder}' to finish"
        raise stopped_error(number_of(error), "stopped before the capture was exported", hint) from error


def resolved_command(options: CaptureOptions) -> tuple[str, ...]:
    """Return the command with the absolute path of its program, found as a shell would.

    Raises:
        CommandNotFoundError: The program does not exist, or the script of a Python program.
        CommandNotExecutableError: The program is not executable, or the script cannot be read.
    """
    if not options.command:
        raise UsageError("there is no command to profile", hint=_WHAT_TO_GIVE)
    name, *arguments = options.command
    cwd = options.cwd or Path.cwd()
    folders = dict(options.environment).get("PATH", os.environ.get("PATH"))
    path = str(cwd / name) if os.sep in name else shutil.which(name, path=folders)
    # Path.exists() raises for names that are too long.
    if path is None or not os.path.exists(path):  # noqa: PTH110
        if os.path.isdir(cwd / name):  # noqa: PTH112
            raise CommandNotExecutableError(f"{name} is a folder", hint=_WHAT_TO_GIVE)
        here = os.path.isfile(cwd / name)  # noqa: PTH113
        hint = f"A file of this folder is run as ./{name}" if here else "Check its spelling, or give its full path"
        raise CommandNotFoundError(f"{name}: command not found", hint=hint)
    if Path(path).is_dir():
        raise CommandNotExecutableError(f"{name} is a folder", hint=_WHAT_TO_GIVE)
    if not os.access(path, os.X_OK):
        hint = f"Run it as: python {name}" if name.endswith(".py") else f"Make it executable: chmod +x {name}"
        raise CommandNotExecutableError(f"{name} is not executable", hint=hint)
    if _PYTHON.fullmatch(Path(path).name) and arguments and arguments[0].endswith(".py"):
        _check_script(arguments[0], cwd / arguments[0])
    return (os.path.abspath(path), *arguments)  # noqa: PTH100 - resolve() would follow a virtual environment's link


def _check_script(name: str, path: Path) -> None:
    """Check that Python can read a script; a folder is one if it holds ``__main__.py``."""
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists() raises for names that are too long
        raise CommandNotFoundError(f"{name} does not exist", hint="Check its spelling, or give its full path")
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise CommandNotExecutableError(f"{name} is a folder", hint=_WHAT_TO_GIVE)
    if not os.access(path, os.R_OK):
        raise CommandNotExecutableError(f"{name} cannot be read", hint=f"Make it readable: chmod +r {name}")


def _prepared(
    options: CaptureOptions,
    nsys: Nsys,
    capabilities: Capabilities,
    program: tuple[str, ...],
    folders: tuple[Path, Path],
) -> tuple[ForegroundCall, tuple[str, ...]]:
    """Return the command, environment and limits of a run, with notes on what it leaves out.

    ``folders`` are the folder for nsys's temporary files and the folder of the run.
    """
    temporary, private = folders
    run_dir = RunDir(temporary, inherited(os.environ, options.umask))
    run_dir.out.symlink_to(private.absolute(), target_is_directory=True)
    invocation = profile_invocation(options, nsys, capabilities, run_dir, program)
    hidden = options.hide_environment
    environ = kept_environment(os.environ) if hidden else dict(os.environ)

    def session(verb: str, pid: int) -> tuple[str, ...]:
        return (*(namespace_entry(pid) if hidden else ()), *session_command(verb, nsys, run_dir))

    call = ForegroundCall(
        argv=(*namespace_prefix(), *run_dir.namespace_init(invocation.argv)) if hidden else invocation.argv,
        run_dir=run_dir,
        # The program inherits these, except TMPDIR, whose value the inner shell restores.
        env={**_program_environment(options, environ, temporary), "TMPDIR": str(temporary)},
        stop=partial(session, "stop"),
        cwd=options.cwd,
        limits=TimeLimits(
            record_s=options.delay_s + options.duration_s if options.duration_s else None, timeout_s=options.timeout_s
        ),
        output_to_stderr=options.output_to_stderr,
        launched=started_by_launcher(os.environ),
        hidden=hidden,
    )
    if options.capture_range != ARMED_RANGE:
        return call, invocation.notes
    start = partial(session, "start")
    steps = StepWatch(_injection(temporary, options), private, start, call.env, stop_after=options.stop_after)
    return dataclasses.replace(call, steps=steps), invocation.notes


def _program_environment(options: CaptureOptions, environ: dict[str, str], temporary: Path) -> dict[str, str]:
    """Return the environment of the program; if its calls are to be marked, write the files for it."""
    complete = {**environ, **extra_environment(options)}
    if not options.annotate:
        return complete
    injection = _injection(temporary, options)
    injection.prepare()
    return {**complete, **injection.environment(complete)}


def injection_folder(temporary: Path) -> Path:
    """Return the folder of the marks of a run, in its temporary folder."""
    return temporary / "annotate"


def _injection(temporary: Path, options: CaptureOptions) -> Injection:
    is_armed = options.capture_range == ARMED_RANGE
    steps = options.steps if is_armed else None
    return Injection(injection_folder(temporary), step_text=options.step_text, steps=steps, has_xray=options.xray)


def _keep_report(
    recorded: Recorded, options: CaptureOptions, nsys: Nsys, folders: tuple[Path, Path]
) -> tuple[str, ...]:
    """Check that there is a report, and write the samples beside it; return notes on it.

    Where nsys recorded data and wrote no report, its importer is run once more. Without a report, keep the data and
    raise an error with the cause.
    """
    (run, samples), (temporary, private) = recorded, folders
    report = private / REPORT_NAME
    notes: tuple[str, ...] = ()
    if not (report.is_file() and report.stat().st_size):
        written = (*files_below(private), *files_below(temporary))
        unfinished = next((path for path in written if path.suffix == ".qdstrm"), None)
        if unfinished is not None:
            # nsys 2023.4.4 on a busy machine left a program that ended while it stopped so, in 1 of 1,000 runs.
            move_recorded(unfinished, private / UNFINISHED_NAME)
            with suppress(CaptureError):
                import_recorded(nsys, private / UNFINISHED_NAME, private / REPORT_NAME)
                notes = ("nsys could not write its report at once; a second attempt did",)
        if not notes:
            kept = private.parent / UNFINISHED_NAME if unfinished else None
            raise no_report(run, options, nsys, kept, (temporary.parent, private.parent))
    report.chmod(0o600)
    target = private / HOST_NAME
    if samples is not None:
        with suppress(OSError):
            target.touch(mode=0o600)
            target.write_text(json.dumps(samples, separators=(",", ":")), encoding="utf-8")
    return notes


def _notes(run: RunResult, options: CaptureOptions) -> tuple[str, ...]:
    """Return notes on what ended the recording, and the program if it did not end with exit code 0."""
    full = "The recording was stopped before the program ended, because the disk of TMPDIR was almost full"
    death = early_death(run)
    early = () if death is None else (f"{death}; the capture holds what nsys recorded",)
    return (*((full,) if run.out_of_space else ()), *early, *_ending_note(run, options))


def _ending_note(run: RunResult, options: CaptureOptions) -> tuple[str, ...]:
    if run.finished:
        return ("The program was ended after its steps were recorded (--stop-after)",)
    if run.timed_out:
        return (f"The program was ended after {options.timeout_s:g} s (--timeout)",)
    if run.stopped_by is not None:
        return (f"The program was stopped by {run.stopped_by.name}; the capture holds what was recorded until then",)
    if run.code in _SIGNAL_BY_CODE:
        name = _SIGNAL_BY_CODE[run.code]
        return (f"The program was killed by {name}; the capture holds what was recorded until then",)
    if run.code == CaptureError.exit_code and early_death(run) is not None:
        return ("The exit code of the program is unknown",)
    return (f"The program ended with exit code {run.code}",) if run.code else ()
