"""Run a program without nsys but otherwise unchanged, and time its ranges: the baseline of its profile.

The program's Python processes time their own ranges (:mod:`nsyswrap.capture.annotate.step_clock`), because without a
profiler NVTX ranges go nowhere.
"""

import os
from dataclasses import dataclass

from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.foreground import ForegroundCall, TimeLimits, run_in_foreground
from nsyswrap.capture.inherited import inherited, kept_environment
from nsyswrap.capture.nsys import resolved_command
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.progress import Progress, silent
from nsyswrap.capture.run_dir import RunDir, private_folder

# What a shell adds to the number of the signal that ended a program.
SIGNALED = 128


@dataclass(frozen=True, slots=True)
class AloneRun:
    """A finished run without nsys.

    Args:
        exit_code: The program's exit code, 128 + n for a signal.
        processes: The ranges of each process, in the form that ``StepClock.write`` writes.
    """

    exit_code: int
    processes: tuple[dict[str, object], ...]


def run_alone(options: CaptureOptions, progress: Progress = silent, *, cached_batches: int = 0) -> AloneRun:
    """Run the program of a capture without nsys.

    Phases are marked as in the capture, so that the same steps are timed. Each loader loads ``cached_batches`` batches
    and then repeats them; 0 leaves loaders unchanged.

    Raises:
        CommandNotFoundError: The program does not exist.
        CommandNotExecutableError: The program is not executable.
        CaptureInterruptedError: Ctrl-C was pressed twice.
    """
    program = resolved_command(options)
    with private_folder() as temporary:
        run_dir = RunDir(temporary, inherited(os.environ, options.umask))
        environ = kept_environment(os.environ) if options.hide_environment else dict(os.environ)
        complete = {**environ, **dict(options.environment)}
        folder = temporary / "annotate"
        injection = Injection(
            folder, cached_batches, marks=options.annotate, step_text=options.step_text, is_timed=True
        )
        injection.prepare()
        call = ForegroundCall(
            argv=run_dir.inner(program),
            run_dir=run_dir,
            env={**complete, **injection.environment(complete)},
            cwd=options.cwd,
            limits=TimeLimits(timeout_s=options.timeout_s),
            output_to_stderr=options.output_to_stderr,
        )
        run = run_in_foreground(call, progress)
        # Without nsys, the process that is waited for is the program.
        code = run.code if run.killed_by is None else SIGNALED + run.killed_by
        return AloneRun(code, tuple(injection.timed_ranges()))
