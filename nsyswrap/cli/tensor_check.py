"""The way of `nsyswrap verify-tensor-cores`: a capture, a choice of kernels, a run under ncu, a comparison."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.cli.capture_inputs import export_of, rules_of
from nsyswrap.cli.capture_options import program
from nsyswrap.cli.progress import shown
from nsyswrap.cli.writing import write_result
from nsyswrap.errors import CannotTellError, CaptureError, UsageError

if TYPE_CHECKING:
    from nsyswrap.capture.kernel_counters import CounterRequest
    from nsyswrap.capture.ncu import Ncu
    from nsyswrap.hardware.kernel_names.user_rules import NameRule
    from nsyswrap.intervals import Window
    from nsyswrap.loop.context import TraceContext
    from nsyswrap.render.agreement_view import Measured
    from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch
    from nsyswrap.sections.tensor_cores.name_agreement import Agreement, Choice


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for.

    Attributes:
        command: The program and its arguments.
        capture: A capture of it; None to make one.
        launches: How many launches to measure at most.
        timeout_s: Seconds until a run of the program is ended; None for never.
        kernel_rules: Files of rules that stand before our own.
        python: The Python that runs a script; None for the active environment's.
    """

    command: tuple[str, ...]
    capture: Path | None
    launches: int
    timeout_s: float | None
    kernel_rules: tuple[Path, ...]
    python: str | None


def measured(request: Request) -> "Measured":
    """Choose kernels, measure them, and hold their names against what was measured.

    Raises:
        UsageError: A file of rules cannot be read.
        CaptureError: There is no ncu or no nsys, one of them failed, or there is no such program.
        CannotTellError: The program ran no kernel on a GPU.
    """
    from nsyswrap.capture.ncu import find_ncu  # noqa: PLC0415
    from nsyswrap.render.agreement_view import Measured  # noqa: PLC0415
    from nsyswrap.sections.tensor_cores.name_agreement import choose, compare, kernel_launches  # noqa: PLC0415 - heavy

    learned = rules_of(request.kernel_rules)
    words, ncu = program(request.command, request.python), find_ncu()
    with _captured(words, request) as export:
        context, window = _study_of(export, learned)
    rows = kernel_launches(context, window)
    gpu = context.trace.gpus[0] if context.trace.gpus else None

    def judge(launches: "Sequence[NcuLaunch]") -> "Agreement":
        return compare(rows, launches, gpu.compute_capability if gpu else None, learned)

    launches, counters = _measured_launches(ncu, words, choose(rows, request.launches), request, judge)
    gpu_name = gpu.name if gpu else "GPU"
    return Measured(judge(launches), gpu_name, ncu.version_text, request.command, len(launches), counters)


def check_targets(files: Sequence[Path | None], *, force: bool) -> None:
    """Check before the program runs that what is to be written is not there yet.

    Raises:
        UsageError: A file is there already, or its folder is not.
    """
    for file in files:
        if file is not None and file.exists() and not force:
            raise UsageError(f"{file} is there already", hint="give another file, or --force to replace it")
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(f"{file}: there is no such folder", hint="make the folder first")


def learned_text(found: "Measured") -> str:
    """Return what was learnt as a file for ``--kernel-rules``."""
    from nsyswrap.hardware.kernel_names.user_rules import rules_text  # noqa: PLC0415 - heavy
    from nsyswrap.sections.tensor_cores.name_agreement import rules_from  # noqa: PLC0415

    return rules_text(rules_from(found.agreement, f"Nsight Compute {found.ncu_version} on {found.gpu}"))


def save(file: Path | None, text: str, *, force: bool) -> None:
    """Write a file where one is named.

    Raises:
        UsageError: The file is there already.
        ExportError: It cannot be written.
    """
    if file is not None:
        write_result(text, file, force=force)


def exit_code(agreement: "Agreement") -> int:
    """Return 1 where a kernel that matters is named wrongly, 3 where nothing was measured, else 0."""
    if agreement.wrong:
        return 1
    return 0 if agreement.measured_share > 0 else 3


@contextmanager
def _captured(words: tuple[str, ...], request: Request) -> Iterator[Path]:
    """Give the export of the named capture, or of one made now."""
    if request.capture is not None:
        with export_of(request.capture) as export:
            yield export
        return
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - loaded when something is captured
    from nsyswrap.capture.nsys import profile as record  # noqa: PLC0415
    from nsyswrap.capture.options import CaptureOptions  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder, shown() as progress:
        options = CaptureOptions(
            command=words,
            folder=Path(folder) / "capture",
            traces=("cuda",),
            timeout_s=request.timeout_s,
            output_to_stderr=True,
        )
        result = record(options, find_nsys(), progress)
        if result.exit_code:
            raise CaptureError(
                f"the program ended with code {result.exit_code} under nsys", hint="Mend it, or run it without nsyswrap"
            )
        yield result.export


def _study_of(export: Path, learned: "tuple[NameRule, ...]") -> "tuple[TraceContext, Window]":
    """Read an export; the window is all GPU operations.

    Raises:
        CannotTellError: There are none.
    """
    from nsyswrap.cli.heap import share_one_heap  # noqa: PLC0415
    from nsyswrap.db.load import load_export  # noqa: PLC0415
    from nsyswrap.loop.context import Settings, find_context  # noqa: PLC0415 - heavy
    from nsyswrap.report import ALL, choose_window  # noqa: PLC0415

    share_one_heap()
    context = find_context(load_export(export), Settings(kernel_rules=learned))
    if not len(context.operations.start):
        raise CannotTellError("the program ran nothing on a GPU", hint="Run 'nsyswrap doctor'")
    return context, choose_window(context, ALL)


def _measured_launches(
    ncu: "Ncu",
    words: tuple[str, ...],
    choice: "Choice",
    request: Request,
    judge: "Callable[[list[NcuLaunch]], Agreement]",
) -> "tuple[list[NcuLaunch], str]":
    """Measure the first launch of each kernel that was chosen, and once more every launch of those that did not come.

    The program may launch them in another order than in the capture, and an ncu may number launches otherwise.
    """
    from nsyswrap.capture.kernel_counters import CounterRequest, NoLaunchError  # noqa: PLC0415 - loaded when measured
    from nsyswrap.capture.nsys import resolved_command  # noqa: PLC0415
    from nsyswrap.capture.options import CaptureOptions  # noqa: PLC0415
    from nsyswrap.sections.tensor_cores.hardware_proof import launches_in  # noqa: PLC0415
    from nsyswrap.sections.tensor_cores.name_agreement import missed  # noqa: PLC0415 - heavy

    if not choice.functions:
        raise CannotTellError("the program ran no kernel but collectives", hint="Name a program that computes")
    whole = resolved_command(CaptureOptions(command=words, folder=Path()))
    _say(
        f"measuring {min(choice.launches, request.launches)} launches of {len(choice.functions)} functions, "
        f"{choice.time_share:.0%} of kernel time ..."
    )
    first = CounterRequest(whole, choice.functions, request.launches, request.timeout_s)
    try:
        counters = _counted(ncu, first)
    except NoLaunchError:
        counters = ""
    launches = launches_in(counters) if counters else []
    functions, left = missed(judge(launches), choice), request.launches - len(launches)
    if not counters or (functions and left > 0):
        functions = functions or choice.functions
        _say(f"measuring {left} launches more, of {len(functions)} functions that did not come ...")
        again = CounterRequest(whole, functions, left, request.timeout_s, every_launch=True)
        try:
            counters += _counted(ncu, again)
        except NoLaunchError:
            if not counters:
                raise
    return launches_in(counters), counters


def _counted(ncu: "Ncu", wanted: "CounterRequest") -> str:
    """Run the program under ncu and return what was counted, as ncu's own CSV."""
    from nsyswrap.capture.kernel_counters import count_kernels  # noqa: PLC0415 - loaded when measured

    counted = count_kernels(ncu, wanted)
    if counted.exit_code:
        click.echo(f"note: ncu ended with code {counted.exit_code}; what it measured until then is used", err=True)
    return counted.csv


def _say(text: str) -> None:
    click.echo(f"nsyswrap: {text}", err=True)
