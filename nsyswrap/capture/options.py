"""What to record, and the nsys command lines it stands for: pure functions of options and of what this nsys can do."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.capabilities import Capabilities
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.run_dir import RunDir
from nsyswrap.errors import UsageError

DEFAULT_TRACES = ("cuda", "nvtx", "cudnn", "cublas", "osrt")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """One capture, as the user asks for it.

    Args:
        command: The program and its arguments.
        folder: The folder to make for the results.
        next_free: Where the folder is taken, make the first of folder-2, folder-3, ... that is not.
        traces: Which interfaces to record; one that this nsys does not know is left out with a note.
        sample: Whose instruction pointers to sample: ``none``, ``process-tree`` or ``system-wide``.
        context_switches: Whose scheduling to record, with the same values.
        delay_s: Seconds from the program's start until recording starts.
        duration_s: Seconds to record, 0 for all; the program goes on when recording ends.
        capture_range: When to record: empty for always, ``cudaProfilerApi``, or the text of an NVTX range as ``text``,
            ``text@domain`` or ``text@*``.
        cuda_graph: ``node`` records each kernel in a CUDA graph, at a cost; ``graph`` records a graph as one
            operation. The default is ``node``: kernels that are not seen cannot be counted for tensor cores.
        gpu_metrics: GPUs whose counters to sample: empty for none, ``all``, or ids such as ``0,1``.
        gpu_metrics_hz: How often to sample them, in samples a second.
        python_sampling_hz: How often to sample the stacks of Python threads, in samples a second; 0 for never.
        cuda_memory: Record the size of each allocation on the GPU.
        pytorch: Value of nsys's own ``--pytorch``; empty for none.
        annotate: Put NVTX phases into a PyTorch program that is not changed.
        cached_batches: Have each loader give its first so many batches again and again; 0 to leave loaders as they are.
        environment: Variables to set for the program, as pairs.
        cwd: The program's working folder; None for ours.
        nsys_args: Arguments to nsys as they are; they come last and so have the last word.
        timeout_s: Seconds until the program is ended; None for never.
        hide_environment: Run in a process namespace of its own, with only named variables.
        force: Replace a result that is in the folder already.
        output_to_stderr: Send the program's stdout to stderr, where ours is kept for results.
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
    cuda_graph: str = "node"
    gpu_metrics: str = ""
    gpu_metrics_hz: int = 10_000
    python_sampling_hz: int = 0
    cuda_memory: bool = False
    pytorch: str = ""
    annotate: bool = False
    cached_batches: int = 0
    environment: tuple[tuple[str, str], ...] = ()
    cwd: Path | None = None
    nsys_args: tuple[str, ...] = ()
    timeout_s: float | None = None
    hide_environment: bool = False
    force: bool = False
    output_to_stderr: bool = False


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line of nsys and what the user should know about it.

    Args:
        argv: Program and arguments.
        notes: What was asked for and left out, a sentence each.
    """

    argv: tuple[str, ...]
    notes: tuple[str, ...] = ()


def profile_invocation(
    options: CaptureOptions, nsys: Nsys, capabilities: Capabilities, work: RunDir, program: Sequence[str]
) -> Invocation:
    """Build the command line of ``nsys profile``.

    Args:
        options: What to record.
        nsys: The nsys to run, for messages and its path.
        capabilities: What it knows.
        work: Where to write the report to, and the name of the session.
        program: The program and its arguments.

    Returns:
        The command line, with a note for each trace that was left out.

    Raises:
        UsageError: An option needs a flag that this nsys does not have, or has no such value.
    """
    _check(options)
    traces, notes = _known_traces(options.traces, nsys, capabilities)
    flags = [
        ("--trace", ",".join(traces) or "none"),
        ("--sample", options.sample),
        ("--cpuctxsw", options.context_switches),
        *_optional_flags(options, capabilities),
        *_session_flags(work, capabilities),
    ]
    missing = [flag for flag, _ in flags if flag not in capabilities.profile_flags]
    if missing:
        raise unknown_flag(missing[0], nsys)
    argv = [str(nsys.path), "profile", *(f"{flag}={value}" for flag, value in flags)]
    return Invocation((*argv, f"--output={work.out / 'capture'}", *options.nsys_args, *work.inner(program)), notes)


def export_invocation(nsys: Nsys, capabilities: Capabilities, report: Path, target: Path) -> Invocation:
    """Build the command line of ``nsys export`` to SQLite.

    Where nsys can, the payloads of ranges come too: Python samples keep their stacks there.

    Args:
        nsys: The nsys to run.
        capabilities: What it knows.
        report: The ``.nsys-rep`` to read.
        target: The SQLite file to write; a file that is there is replaced.

    Returns:
        The command line.
    """
    argv = [str(nsys.path), "export", "--type=sqlite", f"--output={target}", "--force-overwrite=true"]
    wanted = ("--include-json", "--include-blobs", "--lazy")
    argv += [f"{flag}=true" for flag in wanted if flag in capabilities.export_flags]
    return Invocation((*argv, str(report)))


def stop_invocation(nsys: Nsys, work: RunDir) -> Invocation:
    """Build the command line of ``nsys stop``: nsys takes what was recorded and writes its report, the program goes on.

    Args:
        nsys: The nsys that records.
        work: The run, for the name of its session.

    Returns:
        The command line.
    """
    return Invocation((str(nsys.path), "stop", f"--session={work.session}"))


def extra_environment(options: CaptureOptions) -> dict[str, str]:
    """Return the variables to set for the program: the user's, and one that nsys needs for a capture range.

    Without it an NVTX range starts a recording only where its text is a registered string, and torch's are not.
    """
    own = {} if options.capture_range in {"", "cudaProfilerApi"} else {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}
    return {**own, **dict(options.environment)}


def unknown_flag(flag: str, nsys: Nsys) -> UsageError:
    """Say that this nsys does not have a flag that an option needs."""
    instead = "Use --annotate auto" if flag == "--pytorch" else f"Leave the option out that needs {flag}"
    return UsageError(
        f"nsys {nsys.version_text} ({nsys.path}) has no {flag}",
        hint=f"{instead}, or install a newer nsys and name it in NSYSWRAP_NSYS",
    )


def _check(options: CaptureOptions) -> None:
    """Refuse values that nsys would take and then not record by."""
    choices = (
        ("sample", options.sample, ("none", "process-tree", "system-wide")),
        ("context switches", options.context_switches, ("none", "process-tree", "system-wide")),
        ("CUDA graph", options.cuda_graph, ("node", "graph")),
    )
    for name, value, allowed in choices:
        if value not in allowed:
            raise UsageError(f"{name}: there is no {value!r}", hint=f"Choose one of {', '.join(allowed)}")
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name.endswith(("_s", "_hz")) and value is not None and not 0 <= value < math.inf:
            wrong = "below 0" if value < 0 else "not a finite number"
            raise UsageError(f"{field.name.rpartition('_')[0].replace('_', ' ')} is {value}, {wrong}")


def _known_traces(
    traces: tuple[str, ...], nsys: Nsys, capabilities: Capabilities
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = tuple(trace for trace in traces if trace in capabilities.traces)
    notes = tuple(
        f"nsys {nsys.version_text} cannot trace {trace}, so it is not in the capture"
        for trace in traces
        if trace not in known
    )
    return known, notes


def _optional_flags(options: CaptureOptions, capabilities: Capabilities) -> list[tuple[str, str]]:
    """Flags that depend on the options; each version's own spelling of them."""
    flags: list[tuple[str, str]] = []
    if "cuda" in options.traces:
        flags.append(("--cuda-graph-trace", options.cuda_graph))
    if options.delay_s:
        # nsys reads no exponent.
        flags.append(("--delay", f"{options.delay_s:.6f}".rstrip("0").rstrip(".")))
    if options.capture_range:
        flags += _range_flags(options.capture_range)
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


def _session_flags(work: RunDir, capabilities: Capabilities) -> list[tuple[str, str]]:
    """Leave the program's life to the program: recording may end before it, and what it leaves behind may go on.

    By default nsys kills the program when recording ends, and waits for every process that the program left behind,
    such as a daemon that never ends. By its name a session can be stopped from outside.
    """
    wanted = (("--session-new", work.session), ("--kill", "none"), ("--wait", "primary"))
    return [(flag, value) for flag, value in wanted if flag in capabilities.profile_flags]


def _range_flags(capture_range: str) -> list[tuple[str, str]]:
    """Record the first range only, and let the program go on after it."""
    end = ("--capture-range-end", "stop")
    if capture_range == "cudaProfilerApi":
        return [("--capture-range", capture_range), end]
    return [("--capture-range", "nvtx"), ("--nvtx-capture", capture_range), end]
