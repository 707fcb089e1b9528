"""Run a program under ncu, measure a few launches of named kernels, and return the counters as ncu's own CSV.

ncu repeats each measured launch, once for each set of counters, and restores the memory in between. So the program's
result stays correct, but its run time is meaningless.
"""

import os
import re
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.locate import Places, RunningProgram, find_programs, program_at
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.process_tree import children_by_parent, kill_all
from nsyswrap.capture.run_dir import quoted_output
from nsyswrap.capture.signals import CaptureTerminatedError, handled

VARIABLE = "NSYSWRAP_NCU"

_QUERY_TIMEOUT_S = 120
# NVIDIA's own installer first, then the copy in a CUDA toolkit; the newest of several.
_PLACES: Places = (
    ("NVIDIA's installer", ("opt/nvidia/nsight-compute/*/ncu",)),
    ("the CUDA toolkit", ("usr/local/cuda*/nsight-compute-*/ncu", "usr/local/cuda*/bin/ncu")),
    ("the distribution", ("usr/lib/nsight-compute/ncu",)),
)
_METRIC = re.compile(r"^\s*([a-z0-9]+__[a-z0-9_.]+)", re.MULTILINE)
_LISTS = (
    ("--query-metrics-collection", "source"),
    ("--list-metrics", "--section", "InstructionStats"),
    ("--query-metrics-collection", "profiling"),
)


_UPDATE = "Run 'ncu --query-metrics' to see its message; an ncu older than the driver or the GPU cannot measure"
_NO_GPU = re.compile(
    r"(?i)no (?:cuda[- ]capable |supported )?(?:devices?|gpus?)\b.{0,40}(?:found|available|detected|installed)?"
    r"|libcuda\.so|unsupported gpu|(?:find|found) no (?:device|gpu)"
)
_REPORT = "counters.ncu-rep"
_IMPORT_TIMEOUT_S = 600
_LONGEST_S = 7 * 24 * 3600.0
# Executed instructions by opcode, which ncu counts by patching the kernel. They distinguish matrix instructions (HMMA,
# HGMMA) from half-precision arithmetic (HFMA2) on the same pipe, and with modifiers also the data types.
_OPCODES = ("sass__inst_executed_per_opcode_with_modifier_all", "sass__inst_executed_per_opcode")
_SINGLE_OPCODES = re.compile(r"[( ][A-Z][A-Za-z0-9_.]*: \d[\d,]*[;)]")
# The hardware counters of the pipe, for an ncu without opcode counts.
_COUNTERS = (
    *(f"sm__inst_executed_pipe_tensor_op_{kind}" for kind in ("hmma", "gmma", "imma", "dmma")),
    "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2",
    "sm__inst_executed_pipe_tensor",
    "sm__inst_executed",
    "gpu__time_duration",
)
_ACTIVE = ("sm__pipe_tensor_cycles_active", "sm__pipe_tensor_op_hmma_cycles_active", "sm__pipe_tc_cycles_active")
_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w$.]*")
# An anonymous namespace in a mangled name: its length, and a name that is unique to the file.
_ANONYMOUS = r"([0-9]+_GLOBAL__N_[A-Za-z0-9_]*)?"
# Linux limits a single argument to 128 KiB.
_LONGEST_ARGUMENT = 100_000


Ncu = RunningProgram


class NcuNotFoundError(CaptureError):
    """There is no ncu on this machine."""


class NcuFailedError(CaptureError):
    """ncu could not measure."""


def find_ncu(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Ncu:
    """Return the ncu to use: that of the variable ``NSYSWRAP_NCU``, of ``PATH``, or of NVIDIA's installers.

    Raises:
        NcuNotFoundError: ``NSYSWRAP_NCU`` does not name a working ncu, or there is none.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(VARIABLE)
    if named:
        ncu = program_at(Path(os.path.expanduser(named)), VARIABLE)  # noqa: PTH111 - Path.expanduser() may raise
        if ncu is None:
            raise NcuNotFoundError(
                f"{VARIABLE} is {named}, which is not a working ncu", hint=f"Correct {VARIABLE}, or unset it"
            )
        return ncu
    ncu = next(find_programs("ncu", _PLACES, environ, root), None)
    if ncu is None:
        raise NcuNotFoundError(
            "there is no ncu (NVIDIA Nsight Compute) on this machine",
            hint=f"Install Nsight Compute, which is part of CUDA toolkits, or set {VARIABLE} to the path of an ncu",
        )
    return ncu


def counter_lists(ncu: Ncu) -> Iterator[frozenset[str]]:
    """Yield lists of the counters that ncu has for the GPUs of this machine, without suffixes such as ``.sum``.

    Each list takes seconds. In order: counters that patch a kernel's instructions, counters of one of ncu's sections,
    and hardware counters.

    Raises:
        NcuFailedError: The last list is empty: there is no GPU, no driver, or no permission.
    """
    output = Output(0, "", "")
    for arguments in _LISTS:
        try:
            output = output_of([str(ncu.path), *arguments], timeout_s=_QUERY_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise NcuFailedError(f"ncu cannot list its counters: {error}", hint=_UPDATE) from error
        yield frozenset(_METRIC.findall(output.stdout))
    if not _METRIC.search(output.stdout):
        raise failure(ncu, output.text)


def failure(ncu: Ncu, output: str) -> NcuFailedError:
    """Return the error for an ncu that measured nothing, with cause and remedy, from its output."""
    if "ERR_NVGPUCTRPERM" in output or "permission to access" in output:
        return NcuFailedError(
            "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
            hint="Run as root, or have an administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    if _NO_GPU.search(output):
        return NcuFailedError(
            "ncu finds no GPU that it supports", hint="Run where 'nvidia-smi' lists a GPU of Volta or newer"
        )
    if "LibraryNotLoaded" in output or "driver resource was unavailable" in output.lower():
        return NcuFailedError(
            f"ncu cannot access the GPU's counters{quoted_output(output, 'ncu')}",
            hint="End other profilers (DCGM, nsys, another ncu); if this is a sandbox without counters, run elsewhere",
        )
    return NcuFailedError(f"ncu {ncu.version_text} measured nothing{quoted_output(output, 'ncu')}", hint=_UPDATE)


class NoLaunchError(NcuFailedError):
    """None of the requested kernels was launched."""


@dataclass(frozen=True, slots=True)
class CounterRequest:
    """What to measure.

    Args:
        command: The program, as an absolute path, and its arguments.
        kernels: Names of the functions with their namespaces, without template arguments and parameters.
        launches: Largest number of launches to measure.
        timeout_s: Seconds after which the program is ended; None for never.
        every_launch: Measure every launch of these functions, not only the first of each template instance.
    """

    command: tuple[str, ...]
    kernels: tuple[str, ...]
    launches: int
    timeout_s: float | None = None
    every_launch: bool = False


@dataclass(frozen=True, slots=True)
class CounterResult:
    """The counters of a run.

    Args:
        csv: ncu's raw page as CSV: a row of names, a row of units, one row for each launch.
        exit_code: The exit code of ncu, which is the program's if ncu succeeded.
        output: What ncu and the program printed.
    """

    csv: str
    exit_code: int
    output: str


def count_kernels(ncu: Ncu, request: CounterRequest) -> CounterResult:
    """Run the program under ncu and return the counters.

    It measures the first launch of each kernel, or every launch, up to the requested number. GPU clocks and caches are
    not changed.

    Raises:
        NcuFailedError: ncu cannot measure on this machine.
        NoLaunchError: The program launched none of these kernels.
        CaptureError: The program ran into the time-out.
    """
    metrics = chosen_metrics(counter_lists(ncu))
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder, _killing_children_on_signal():
        report = Path(folder) / _REPORT
        ran = _run(counting_argv(ncu, request, metrics, report), request.timeout_s)
        if not report.is_file():
            raise failure(ncu, ran.text) if _failed(ran.text) else no_launch(request, ran.text)
        return CounterResult(_table(ncu, report, metrics), ran.code, ran.text)


def chosen_metrics(lists: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Return the metrics to request: opcode counts if ncu has them for these GPUs, else the counters of the pipe.

    The lists are read only until one holds opcode counts.
    """
    available: set[str] = set()
    for names in lists:
        available |= names
        opcodes = tuple(name for name in _OPCODES if name in available)
        if opcodes:
            return (*opcodes, "gpu__time_duration.sum")
    counters = tuple(f"{name}.sum" for name in _COUNTERS if name in available)
    active = tuple(f"{name}.avg.pct_of_peak_sustained_active" for name in _ACTIVE if name in available)
    return (*counters, *active)


def counting_argv(ncu: Ncu, request: CounterRequest, metrics: Sequence[str], report: Path) -> tuple[str, ...]:
    """Return the command line of ncu."""
    return (
        str(ncu.path),
        *("--export", str(report), "--force-overwrite"),
        *("--target-processes", "all"),
        *("--clock-control", "none"),
        *("--cache-control", "none"),
        *("--graph-profiling", "node"),
        *("--apply-rules", "no"),
        *_filter(request),
        *("--launch-count", str(request.launches)),
        *("--metrics", ",".join(metrics)),
        *request.command,
    )


def pattern_of(kernels: Sequence[str]) -> str:
    """Return one regular expression for the unqualified function names, without a colon, where ncu would cut it.

    It leaves out names that are not plain identifiers, and those that would make it too long for an argument.
    """
    own = (name.rpartition("::")[2] for name in kernels)
    return f"^({'|'.join(_fitting(_escaped(name) for name in own if _PLAIN_NAME.fullmatch(name)))})$"


def mangled_pattern_of(kernels: Sequence[str]) -> str:
    """Return one regular expression for the mangled names of all instances of these functions, without a colon.

    A mangled name begins with the parts of the qualified name, each after its length: ``a::f<int>`` is
    ``_ZN1a1fIiEvv``. A function without C++ linkage has its plain name.

    Source: Itanium C++ ABI, "Mangling".
    """
    return f"^({'|'.join(_fitting(filter(None, map(_mangled_start, kernels))))})"


def no_launch(request: CounterRequest, output: str) -> NoLaunchError:
    """Return the error for a run in which none of the kernels was launched."""
    return NoLaunchError(
        f"ncu saw none of the {len(request.kernels)} chosen kernels{quoted_output(output, 'ncu')}",
        hint="Give --capture a capture of exactly this command, or leave it out to record one",
    )


def _filter(request: CounterRequest) -> tuple[str, ...]:
    """Return ncu's filter options.

    ncu counts the launches of a kernel by the name that it matches. All instances of a template have one function name,
    so the first launch of each instance is selected by its mangled name.
    """
    if request.every_launch:
        return ("--kernel-name-base", "function", "--kernel-name", f"regex:{pattern_of(request.kernels)}")
    return ("--kernel-name-base", "mangled", "--kernel-id", f"::regex:{mangled_pattern_of(request.kernels)}:1")


def _mangled_start(kernel: str) -> str:
    """Return a regular expression for the start of a function's mangled names; empty if its name is not plain."""
    parts = kernel.split("::")
    if not all(_PLAIN_NAME.fullmatch(part) for part in parts):
        return ""
    body = "".join(
        "St" if part == "std" and not at else f"{_ANONYMOUS}L?{len(part)}{_escaped(part)}"
        for at, part in enumerate(parts)
    )
    return f"_ZN?{body}" if len(parts) > 1 else f"_ZN?{body}|{_escaped(kernel)}$"


def _escaped(name: str) -> str:
    return re.sub(r"([$.])", r"\\\1", name)


def _fitting(patterns: Iterable[str]) -> Iterator[str]:
    """Yield patterns until their total length reaches the limit."""
    length = 0
    for pattern in patterns:
        length += len(pattern) + 1
        if length > _LONGEST_ARGUMENT:
            return
        yield pattern


def _failed(output: str) -> bool:
    return "==ERROR==" in output or not output.strip()


def _run(argv: Sequence[str], timeout_s: float | None) -> Output:
    try:
        return output_of(argv, timeout_s=timeout_s or _LONGEST_S)
    except TimeoutError as error:
        raise CaptureError(
            f"the program ran longer than {timeout_s:g} s under ncu",
            hint="Raise --timeout, or measure fewer launches (--launches)",
        ) from error
    except OSError as error:
        raise NcuFailedError(f"ncu cannot be started: {error.strerror}", hint="Check NSYSWRAP_NCU") from error


@contextmanager
def _killing_children_on_signal() -> Iterator[None]:
    """Raise an error on SIGTERM and SIGHUP, as on Ctrl-C, and kill all child processes."""

    def raise_error(number: int, _frame: FrameType | None) -> None:
        raise CaptureTerminatedError(
            f"stopped by {signal.Signals(number).name}", hint="ncu and the program were ended, too"
        )

    excluded = frozenset(children_by_parent().get(os.getpid(), ()))
    with handled((signal.SIGTERM, signal.SIGHUP), raise_error):
        try:
            yield
        except (CaptureTerminatedError, KeyboardInterrupt):
            kill_all(os.getpid(), excluded)  # the signal may arrive while ncu is being started
            raise


def _is_complete(page: str, metric: str) -> bool:
    """Return whether a page holds the metric, and for opcode counts each single opcode."""
    return f'"{metric}"' in page and (metric not in _OPCODES or _SINGLE_OPCODES.search(page) is not None)


def _table(ncu: Ncu, report: Path, metrics: Sequence[str]) -> str:
    """Return the raw page of a report: the requested metrics, full names, and single opcodes if ncu can."""
    argv = [str(ncu.path), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    details = ["--print-metric-instances", "details"]
    output = Output(0, "", "")
    for more in ([*details, "--rename-kernels", "off", "--metrics", ",".join(metrics)], details, []):
        try:
            output = output_of([*argv, *more], timeout_s=_IMPORT_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise NcuFailedError(
                f"ncu cannot print its measurements: {error}", hint="Measure fewer launches"
            ) from error
        if (
            output.code == 0
            and '"Kernel Name"' in output.stdout
            and (not more or _is_complete(output.stdout, metrics[0]))
        ):
            return output.stdout
    raise failure(ncu, output.text)
