"""Capture options, and the nsys command lines for them: pure functions of options and nsys's flags."""

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import UsageError
from nsyswrap.base.step_text import STEP_TEXT
from nsyswrap.capture.annotate.nvtx_calls import DOMAIN
from nsyswrap.capture.annotate.recording import LATER, TEXT
from nsyswrap.capture.locate import Capabilities, Nsys
from nsyswrap.capture.run_dir import RunDir

DEFAULT_TRACES = ("cuda", "nvtx", "cudnn", "cublas", "osrt")
# What --light traces: launches and waits, steps and phases, and the waits of the operating system, which distinguish
# waiting for data from work. docs/overhead.md has what each costs.
LIGHT_TRACES = ("cuda", "nvtx", "osrt")

# The value of ``steps`` that records a program from its start to its end.
ALL_STEPS = "all"
# The range with which a program records its own steps.
ARMED_RANGE = f"{TEXT}@{DOMAIN}"
_STEPS = re.compile(r"\d+|\d+:\d+")

# Older versions of nsys record no completion of events, and have no flag for it.
_CUDA_EVENTS = "--cuda-event-trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """The options of one capture.

    Args:
        command: The program and its arguments.
        folder: The folder to create for the results.
        next_free: If the folder is taken, create the first free one of folder-2, folder-3, ...
        traces: Interfaces to trace; one that this nsys does not know is left out with a note.
        sample: Processes whose instruction pointers to sample: ``none``, ``process-tree`` or ``system-wide``.
        context_switches: Processes whose scheduling to record, with the same values.
        delay_s: Seconds from the program's start to the start of the recording.
        duration_s: Seconds to record, 0 for all; the program continues after the recording.
        capture_range: When to record: empty for always, ``cudaProfilerApi``, or the name of an NVTX range as ``text``,
            ``text@domain`` or ``text@*``.
        steps: Steps to record: how many; ``FIRST:END`` by their numbers; ``all`` for the whole program; ``later`` for
            those that ``trigger`` asks for; empty for as many as fit in ten seconds, where the program shows a training
            loop.
        step_text: Regular expression of the program's own ranges that are steps.
        stop_after: End the program when its steps are recorded.
        xray: Record one more step after those, in which PyTorch itself says what it computes and for which line.
        cuda_graph: ``node`` records each kernel in a CUDA graph, at a cost; ``graph`` records a graph as one
            operation. The default is ``node``, because tensor core use of kernels that are not recorded is unknown.
        cuda_events: Record when events complete on the GPU, as far as nsys does that by default.
        gpu_metrics: GPUs whose counters to sample: empty for none, ``all``, or ids such as ``0,1``.
        gpu_metrics_hz: Sampling frequency of GPU counters.
        python_sampling_hz: Sampling frequency of Python stacks; 0 for none.
        cuda_memory: Record the size of each allocation on the GPU.
        pytorch: Value of nsys's own ``--pytorch``; empty for none.
        annotate: Add NVTX ranges for steps, and for what happens in them, to an unchanged PyTorch program.
        environment: Variables to set for the program, as pairs.
        cwd: The program's working folder; None for the current one.
        nsys_args: Extra arguments for nsys; they come last, so they override others.
        timeout_s: Seconds after which the program is ended; None for never.
        hide_environment: Run in a new process namespace, with only the variables of an allow-list.
        force: Replace an earlier result in the folder.
        output_to_stderr: Send the program's stdout to stderr, because ours is for results.
        umask: The program's umask; None for that of this process.
    """

    command: tuple[str, ...]
    folder: Path
    next_free: bool = False
    traces: tuple[str, ...] = DEFAULT_TRACES
    sample: str = "none"
    context_switches: str = "none"
    delay_s: float = 0.0
    duration_s: float = 0.0
    capture_range: str = ""
    steps: str = ""
    step_text: str = STEP_TEXT.pattern
    stop_after: bool = False
    xray: bool = True
    cuda_graph: str = "node"
    cuda_events: bool = True
    gpu_metrics: str = ""
    gpu_metrics_hz: int = 10_000
    python_sampling_hz: int = 0
    cuda_memory: bool = False
    pytorch: str = ""
    annotate: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    cwd: Path | None = None
    nsys_args: tuple[str, ...] = ()
    timeout_s: float | None = None
    hide_environment: bool = False
    force: bool = False
    output_to_stderr: bool = False
    umask: int | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line of nsys, with notes for the user."""

    argv: tuple[str, ...]
    notes: tuple[str, ...] = ()


def profile_invocation(
    options: CaptureOptions, nsys: Nsys, capabilities: Capabilities, run_dir: RunDir, program: Sequence[str]
) -> Invocation:
    """Return the command line of ``nsys profile``, with a note for each trace that was left out.

    Raises:
        UsageError: An option needs a flag that this nsys does not have, or its value is invalid.
    """
    _check(options)
    traces = tuple(trace for trace in options.traces if trace in capabilities.traces)
    notes = tuple(
        f"nsys {nsys.version_text} cannot trace {trace}, so it is not in the capture"
        for trace in options.traces
        if trace not in traces
    )
    # By default nsys kills the program when the recording ends, and waits for every process that the program started,
    # such as a daemon that never ends. The session gets a name so that the recording can be stopped from outside.
    wanted = (("--session-new", run_dir.session), ("--kill", "none"), ("--wait", "primary"))
    flags = [
        ("--trace", ",".join(traces) or "none"),
        ("--sample", options.sample),
        ("--cpuctxsw", options.context_switches),
        *_optional_flags(options, capabilities),
        *[(flag, value) for flag, value in wanted if flag in capabilities.profile_flags],
    ]
    missing = [flag for flag, _ in flags if flag not in capabilities.profile_flags]
    if missing:
        raise unknown_flag(missing[0], nsys)
    argv = [str(nsys.path), "profile", *(f"{flag}={value}" for flag, value in flags)]
    return Invocation(
        (*argv, f"--output={run_dir.out / 'capture'}", *options.nsys_args, *run_dir.inner(program)), notes
    )


def export_command(nsys: Nsys, capabilities: Capabilities, report: Path, target: Path) -> tuple[str, ...]:
    """Return the command line of ``nsys export`` to SQLite.

    If nsys can, it also exports the payloads of ranges, which hold the stacks of Python samples. An existing target is
    replaced.
    """
    argv = [str(nsys.path), "export", "--type=sqlite", f"--output={target}", "--force-overwrite=true"]
    wanted = ("--include-json", "--include-blobs", "--lazy")
    argv += [f"{flag}=true" for flag in wanted if flag in capabilities.export_flags]
    return (*argv, str(report))


def session_command(verb: str, nsys: Nsys, run_dir: RunDir) -> tuple[str, ...]:
    """Return the command line of ``nsys start`` or ``nsys stop`` for a recording.

    ``start`` records a program that waits for a range. After ``stop`` nsys writes its report, and the program goes on.
    """
    return str(nsys.path), verb, f"--session={run_dir.session}"


def extra_environment(options: CaptureOptions) -> dict[str, str]:
    """Return the variables to set for the program: those of the user, and one that nsys needs for a capture range.

    Without it only an NVTX range with a registered string starts a recording, and those of torch are not registered.
    """
    own = {} if options.capture_range in {"", "cudaProfilerApi"} else {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
    return {**own, **dict(options.environment)}


def unknown_flag(flag: str, nsys: Nsys) -> UsageError:
    """Return the error for an option that needs a flag which this nsys does not have."""
    instead = "Leave out --annotate ops" if flag == "--pytorch" else f"Leave out the option that needs {flag}"
    return UsageError(
        f"nsys {nsys.version_text} ({nsys.path}) has no {flag}",
        hint=f"{instead}, or install a newer nsys and set NSYSWRAP_NSYS to its path",
    )


def _check(options: CaptureOptions) -> None:
    """Check for values that nsys would accept and then ignore."""
    choices = (
        ("sample", options.sample, ("none", "process-tree", "system-wide")),
        ("context switches", options.context_switches, ("none", "process-tree", "system-wide")),
        ("CUDA graph", options.cuda_graph, ("node", "graph")),
    )
    for name, value, allowed in choices:
        if value not in allowed:
            raise UsageError(f"{name}: {value!r} is not a valid value", hint=f"Choose one of {', '.join(allowed)}")
    first, _, end = options.steps.partition(":")
    is_number = _STEPS.fullmatch(options.steps) is not None and int(first) < int(end or 2 * int(first))
    names_steps = is_number or options.steps in {"", ALL_STEPS, LATER}
    if not names_steps:
        raise UsageError(
            f"--steps {options.steps!r} names no steps", hint="Write it as --steps 30, --steps 200:230 or --steps all"
        )
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name.endswith(("_s", "_hz")) and value is not None and not 0 <= value < math.inf:
            wrong = "less than 0" if value < 0 else "not a finite number"
            raise UsageError(f"{field.name.rpartition('_')[0].replace('_', ' ')} is {value}, {wrong}")


def _optional_flags(options: CaptureOptions, capabilities: Capabilities) -> list[tuple[str, str]]:
    """Return the flags that depend on the options, as this version of nsys spells them."""
    flags: list[tuple[str, str]] = []
    if "cuda" in options.traces:
        flags.append(("--cuda-graph-trace", options.cuda_graph))
    if not options.cuda_events and _CUDA_EVENTS in capabilities.profile_flags:
        flags.append((_CUDA_EVENTS, "false"))
    if options.delay_s:
        # nsys does not accept exponents.
        flags.append(("--delay", f"{options.delay_s:.6f}".rstrip("0").rstrip(".")))
    if options.capture_range:
        flags += _range_flags(options.capture_range, end="repeat" if options.steps == LATER else "stop")
    if options.gpu_metrics:
        plural = "--gpu-metrics-devices"
        name = plural if plural in capabilities.profile_flags else "--gpu-metrics-device"
        flags += [(name, options.gpu_metrics), ("--gpu-metrics-frequency", str(options.gpu_metrics_hz))]
    if options.python_sampling_hz:
        flags += [("--python-sampling", "true"), ("--python-sampling-frequency", str(options.python_sampling_hz))]
    if options.cuda_memory:
        flags.append(("--cuda-memory-usage", "true"))
    if options.pytorch:
        flags.append(("--pytorch", options.pytorch))
    return flags


def _range_flags(capture_range: str, end: str) -> list[tuple[str, str]]:
    """Return the flags that record the first range, or with ``repeat`` each, and let the program continue after it."""
    ending = ("--capture-range-end", end)
    if capture_range == "cudaProfilerApi":
        return [("--capture-range", capture_range), ending]
    return [("--capture-range", "nvtx"), ("--nvtx-capture", capture_range), ending]
