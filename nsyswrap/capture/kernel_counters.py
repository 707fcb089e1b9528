"""Run a program under ncu for a few launches of named kernels, and bring back what was counted, as ncu's own CSV.

ncu runs each chosen launch several times over, once a set of counters, and restores the memory in between. So the
program's result stays right and its time says nothing.
"""

import os
import re
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType

from nsyswrap.capture.ncu import Ncu, NcuFailedError, counter_lists, failure, last_words
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.process_tree import children_by_parent, kill_all
from nsyswrap.capture.stopping import CaptureTerminatedError
from nsyswrap.errors import CaptureError

_REPORT = "counters.ncu-rep"
_IMPORT_TIMEOUT_S = 600
_LONGEST_S = 7 * 24 * 3600.0
# Executed instructions by opcode, which ncu counts by patching the kernel: it tells a matrix instruction (HMMA, HGMMA)
# from half-precision arithmetic (HFMA2) that shares the pipe. With modifiers it also tells the types.
_OPCODES = ("sass__inst_executed_per_opcode_with_modifier_all", "sass__inst_executed_per_opcode")
_SINGLE_OPCODES = re.compile(r"[( ][A-Z][A-Za-z0-9_.]*: \d[\d,]*[;)]")
# What the pipe's own counters say, for an ncu without the former.
_COUNTERS = (
    *(f"sm__inst_executed_pipe_tensor_op_{kind}" for kind in ("hmma", "gmma", "imma", "dmma")),
    "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2",
    "sm__inst_executed_pipe_tensor",
    "sm__inst_executed",
    "gpu__time_duration",
)
_ACTIVE = ("sm__pipe_tensor_cycles_active", "sm__pipe_tensor_op_hmma_cycles_active", "sm__pipe_tc_cycles_active")
_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w$.]*")
# How compilers write an anonymous namespace into a mangled name: its length, and a name that is the file's own.
_ANONYMOUS = r"([0-9]+_GLOBAL__N_[A-Za-z0-9_]*)?"
# The longest single argument that Linux passes on is 128 KiB.
_LONGEST_ARGUMENT = 100_000


class NoLaunchError(NcuFailedError):
    """None of the kernels that were asked for was launched."""


@dataclass(frozen=True, slots=True)
class CounterRequest:
    """What to count.

    Args:
        command: The program and its arguments, its program with its whole path.
        kernels: Names of the functions with their namespaces, without template arguments and parameters.
        launches: How many launches to measure at most.
        timeout_s: Seconds until the program is ended; None for never.
        every_launch: Measure every launch of these functions, not the first of each instance of their templates.
    """

    command: tuple[str, ...]
    kernels: tuple[str, ...]
    launches: int
    timeout_s: float | None = None
    every_launch: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted.

    Args:
        csv: ncu's raw page as CSV: a row of names, a row of units, one row a launch.
        exit_code: ncu's own, which is the program's where ncu was content.
        said: What ncu and the program printed.
    """

    csv: str
    exit_code: int
    said: str


def count_kernels(ncu: Ncu, request: CounterRequest) -> Counted:
    """Run the program under ncu and return what was counted.

    The first launch of each kernel is measured, or every one, until the number of launches is reached. Clocks and
    caches are left alone.

    Raises:
        NcuFailedError: ncu cannot measure here.
        NoLaunchError: No launch of these kernels came.
        CaptureError: The program ran longer than it may.
    """
    metrics = chosen_metrics(counter_lists(ncu))
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder, _ending_with_us():
        report = Path(folder) / _REPORT
        ran = _run(counting_argv(ncu, request, metrics, report), request.timeout_s)
        if not report.is_file():
            raise failure(ncu, ran.text) if _failed(ran.text) else no_launch(request, ran.text)
        return Counted(_table(ncu, report, metrics), ran.code, ran.text)


def chosen_metrics(lists: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Return the metrics to ask for, of those that ncu has for these GPUs: opcodes, or else the pipe's own counters.

    Args:
        lists: The names of counters; no more lists are asked for once opcodes are among them.
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
    """Return the command line that measures."""
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
    """Return one regular expression for the functions' own names; without a colon, at which ncu would cut it.

    Names that are no plain identifiers are left out, and so is what makes the expression too long to pass on.
    """
    own = (name.rpartition("::")[2] for name in kernels)
    return f"^({'|'.join(_fitting(_escaped(name) for name in own if _PLAIN_NAME.fullmatch(name)))})$"


def mangled_pattern_of(kernels: Sequence[str]) -> str:
    """Return one regular expression for the mangled names of all instances of these functions, without a colon.

    A mangled name begins with the parts of the qualified name, each behind its length: ``a::f<int>`` is
    ``_ZN1a1fIiEvv``. A function without C++ linkage is called by its bare name.

    Source: Itanium C++ ABI, "Mangling".
    """
    return f"^({'|'.join(_fitting(filter(None, map(_mangled_start, kernels))))})"


def no_launch(request: CounterRequest, said: str) -> NoLaunchError:
    """Return the error of a run in which none of the kernels was launched."""
    return NoLaunchError(
        f"ncu saw none of the {len(request.kernels)} kernels that were chosen{last_words(said)}",
        hint="Give --capture a capture of this very command, or leave it out so that one is made",
    )


def _filter(request: CounterRequest) -> tuple[str, ...]:
    """Return ncu's filter.

    ncu numbers the launches of a kernel by the name that it matches. By the function's name all instances of a template
    share one number, so the first launch of each is found by mangled names.
    """
    if request.every_launch:
        return ("--kernel-name-base", "function", "--kernel-name", f"regex:{pattern_of(request.kernels)}")
    return ("--kernel-name-base", "mangled", "--kernel-id", f"::regex:{mangled_pattern_of(request.kernels)}:1")


def _mangled_start(kernel: str) -> str:
    """Return how mangled names of a function begin, as a regular expression; empty where its name is no plain one."""
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
    """Yield patterns until they are too long together."""
    length = 0
    for pattern in patterns:
        length += len(pattern) + 1
        if length > _LONGEST_ARGUMENT:
            return
        yield pattern


def _failed(said: str) -> bool:
    return "==ERROR==" in said or not said.strip()


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
def _ending_with_us() -> Iterator[None]:
    """Let ending signals raise as Ctrl-C does, and leave nothing running, whenever they come."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise CaptureTerminatedError(
            f"ended by {signal.Signals(number).name}", hint="ncu and the program were ended too"
        )

    if current_thread() is not main_thread():
        yield
        return
    excluded = frozenset(children_by_parent().get(os.getpid(), ()))
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except (CaptureTerminatedError, KeyboardInterrupt):
        kill_all(os.getpid(), excluded)  # a signal may come while ncu is being started, before anyone knows of it
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_whole(page: str, metric: str) -> bool:
    """Whether a page holds the metric that decides, and of opcodes the single ones."""
    return f'"{metric}"' in page and (metric not in _OPCODES or _SINGLE_OPCODES.search(page) is not None)


def _table(ncu: Ncu, report: Path, metrics: Sequence[str]) -> str:
    """Return the raw page of a report: what was asked for, with whole names and single opcodes where ncu can."""
    argv = [str(ncu.path), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    details = ["--print-metric-instances", "details"]
    said = Output(0, "", "")
    for more in ([*details, "--rename-kernels", "off", "--metrics", ",".join(metrics)], details, []):
        try:
            said = output_of([*argv, *more], timeout_s=_IMPORT_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise NcuFailedError(
                f"ncu cannot print what it measured: {error}", hint="Measure fewer launches"
            ) from error
        if said.code == 0 and '"Kernel Name"' in said.stdout and (not more or _is_whole(said.stdout, metrics[0])):
            return said.stdout
    raise failure(ncu, said.text)
