"""Run a program under ncu for a few launches of named kernels, and bring back what was counted, as ncu's own CSV.

ncu runs each chosen launch several times over, once a set of counters, and restores the memory in between. So the
program's result stays right and its time says nothing.
"""

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.ncu import Ncu, NcuFailedError, counter_lists, failure, last_words
from nsyswrap.capture.process import Output, output_of
from nsyswrap.errors import CaptureError

_REPORT = "counters.ncu-rep"
_IMPORT_TIMEOUT_S = 600
_LONGEST_S = 7 * 24 * 3600.0
# Executed instructions by opcode, which ncu counts by patching the kernel: it tells a matrix instruction (HMMA, HGMMA)
# from half-precision arithmetic (HFMA2) that shares the pipe. With modifiers it also tells the types.
_OPCODES = ("sass__inst_executed_per_opcode_with_modifier_all", "sass__inst_executed_per_opcode")
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
# The longest single argument that Linux passes on is 128 KiB.
_LONGEST_ARGUMENT = 100_000


@dataclass(frozen=True, slots=True)
class CounterRequest:
    """What to count.

    Args:
        command: The program and its arguments, its program with its whole path.
        kernels: Names of the functions, without namespace, template arguments and parameters.
        launches: How many launches to measure at most.
        timeout_s: Seconds until the program is ended; None for never.
        extra_metrics: More of ncu's metrics to bring back, by their full names.
    """

    command: tuple[str, ...]
    kernels: tuple[str, ...]
    launches: int
    timeout_s: float | None = None
    extra_metrics: tuple[str, ...] = ()


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

    The first launch of each kernel and launch configuration is measured, until the number of launches is reached.
    Clocks and caches are left alone.

    Raises:
        NcuFailedError: ncu cannot measure here, or no launch of these kernels came.
        CaptureError: The program ran longer than it may.
    """
    metrics = (*chosen_metrics(counter_lists(ncu)), *request.extra_metrics)
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
        report = Path(folder) / _REPORT
        ran = _run(counting_argv(ncu, request, metrics, report), request.timeout_s)
        if not report.is_file():
            raise failure(ncu, ran.text) if _failed(ran.text) else no_launch(request, ran.text)
        return Counted(_table(ncu, report), ran.code, ran.text)


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
        *("--kernel-name-base", "function"),
        *("--kernel-id", f"::regex:{pattern_of(request.kernels)}:1"),
        *("--launch-count", str(request.launches)),
        *("--metrics", ",".join(metrics)),
        *request.command,
    )


def pattern_of(kernels: Sequence[str]) -> str:
    """Return one regular expression for all names; without a colon, at which ncu would cut it.

    Names that are no plain identifiers are left out, and so is what makes the expression too long to pass on.
    """
    plain = [re.sub(r"([$.])", r"\\\1", name) for name in kernels if _PLAIN_NAME.fullmatch(name)]
    kept: list[str] = []
    length = 0
    for name in plain:
        length += len(name) + 1
        if length > _LONGEST_ARGUMENT:
            break
        kept.append(name)
    return f"^({'|'.join(kept)})$"


def no_launch(request: CounterRequest, said: str) -> NcuFailedError:
    """Return the error of a run in which none of the kernels was launched."""
    return NcuFailedError(
        f"ncu saw none of the {len(request.kernels)} kernels that were chosen{last_words(said)}",
        hint="Give --capture a capture of this very command, or leave it out so that one is made",
    )


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


def _table(ncu: Ncu, report: Path) -> str:
    """Return the raw page of a report, with the single opcodes where this ncu can print them."""
    argv = [str(ncu.path), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    said = Output(0, "", "")
    for more in (["--print-metric-instances", "details"], []):
        try:
            said = output_of([*argv, *more], timeout_s=_IMPORT_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise NcuFailedError(
                f"ncu cannot print what it measured: {error}", hint="Measure fewer launches"
            ) from error
        if said.code == 0 and '"Kernel Name"' in said.stdout:
            return said.stdout
    raise failure(ncu, said.text)
