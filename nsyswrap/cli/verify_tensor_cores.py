"""`nsyswrap verify-tensor-cores`: check what kernel names say about tensor cores against hardware counters.

The steps: read a capture, choose kernels, measure them under ncu, compare names and counters.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import units
from nsyswrap.base.errors import CannotTellError, CaptureError, UsageError
from nsyswrap.cli.capture_options import program
from nsyswrap.cli.inputs import kernel_rules_option, read_kernel_rules, sqlite_export
from nsyswrap.cli.output import check_new, check_not_input, force_option, output_option, write_result
from nsyswrap.cli.progress import shown
from nsyswrap.cli.terminal import rendered_result

if TYPE_CHECKING:
    from nsyswrap.base.intervals import Window
    from nsyswrap.capture.kernel_counters import CounterRequest, Ncu
    from nsyswrap.hardware.kernel_names.user_rules import NameRule
    from nsyswrap.loop.context import TraceContext
    from nsyswrap.render.agreement_document import Measured
    from nsyswrap.sections.tensor_cores.hardware_proof import NcuLaunch
    from nsyswrap.sections.tensor_cores.name_agreement import Agreement, KernelChoice

    Judge = Callable[[Sequence[NcuLaunch]], Agreement]

LAUNCHES = 200


@click.command("verify-tensor-cores", context_settings={"allow_interspersed_args": False})
@click.option(
    "--capture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A capture of the same command, to choose kernels from.  [default: record one first]",
)
@click.option(
    "--launches",
    type=click.IntRange(min=1),
    default=LAUNCHES,
    show_default=True,
    help="Measure at most this many launches; each takes milliseconds to seconds.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="End each run of the program after S s."
)
@kernel_rules_option
@click.option(
    "--save-rules",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the measured results as a rules file for --kernel-rules.",
)
@click.option(
    "--save-counters",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write all counters as ncu's own CSV, one row a launch.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@output_option
@force_option()
@click.option("--python", metavar="PROGRAM", help="Python that runs SCRIPT.py.  [default: the active environment's]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGS]...")
def verify_tensor_cores(  # noqa: PLR0913 - one argument an option
    *,
    command: tuple[str, ...],
    capture: Path | None,
    launches: int,
    timeout: float | None,
    kernel_rules: tuple[Path, ...],
    save_rules: Path | None,
    save_counters: Path | None,
    form: str,
    output: Path | None,
    force: bool,
    python: str | None,
) -> None:
    """Run SCRIPT.py, or a command after --, under Nsight Compute and check what kernel names say about tensor cores.

    Kernels are chosen from a capture: first those whose name says nothing, then the costliest. A few launches of each
    are measured, which slows the program down. GPU clocks are not changed.

    \b
      nsyswrap verify-tensor-cores train.py --steps 3
      nsyswrap verify-tensor-cores --save-rules learned.json -- python -m train
      nsyswrap report --kernel-rules learned.json capture.nsys-rep

    Exit code 1 if the name of a kernel above 0.1 % of kernel time is wrong, 3 if nothing could be measured.
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.hardware.kernel_names.user_rules import rules_text  # noqa: PLC0415 - heavy
    from nsyswrap.sections.tensor_cores.name_agreement import rules_from  # noqa: PLC0415

    for file in filter(None, (output, save_rules, save_counters)):
        check_new([file], force=force)
        if not file.absolute().parent.is_dir():
            raise UsageError(f"{file}: its folder does not exist", hint="create the folder first")
        check_not_input(file, capture, *([] if file is save_rules else kernel_rules))
    found = measured(command, capture, launches, timeout, kernel_rules, python)
    write_result(rendered_result("agreement", form, found, to_terminal=output is None), output, force=force)
    if save_counters is not None:
        write_result(found.counters, save_counters, force=force)
    if save_rules is not None:
        source = f"Nsight Compute {found.ncu_version} on {found.gpu}"
        write_result(rules_text(rules_from(found.agreement, source)), save_rules, force=force)
    # 1 if the name of a kernel that matters is wrong, 3 if nothing was measured.
    sys.exit(1 if found.agreement.wrong else 0 if found.agreement.measured_share > 0 else 3)


def measured(  # noqa: PLR0913, PLR0917 - one argument an option
    command: tuple[str, ...],
    capture: Path | None,
    most: int,
    timeout_s: float | None,
    kernel_rules: tuple[Path, ...],
    python: str | None,
) -> "Measured":
    """Choose kernels of a capture, or of one recorded now, measure them, and compare their names with the counters."""
    from nsyswrap.capture.kernel_counters import find_ncu  # noqa: PLC0415
    from nsyswrap.hardware.tensor_cores import has_tensor_cores  # noqa: PLC0415
    from nsyswrap.render.agreement_document import Measured  # noqa: PLC0415
    from nsyswrap.sections.tensor_cores.name_agreement import choose, compare, kernel_launches  # noqa: PLC0415 - heavy

    learned = read_kernel_rules(kernel_rules)
    words, ncu = program(command, python), find_ncu()
    with _captured(words, capture, timeout_s) as export:
        context, window = _context_and_window(export, learned)
    rows = kernel_launches(context, window)
    gpu = context.trace.gpus[0] if context.trace.gpus else None

    def judge(launches: "Sequence[NcuLaunch]") -> "Agreement":
        able = has_tensor_cores(gpu.name, gpu.compute_capability) if gpu else True
        return compare(rows, launches, gpu.compute_capability if gpu else None, learned, tensor_cores=able)

    launches, counters = _measured_launches(ncu, words, choose(rows, most), most, timeout_s, judge)
    gpu_name = gpu.name if gpu else "GPU"
    return Measured(judge(launches), gpu_name, ncu.version_text, command, len(launches), counters)


@contextmanager
def _captured(words: tuple[str, ...], capture: Path | None, timeout_s: float | None) -> Iterator[Path]:
    """Yield the export of the given capture, or of one recorded now."""
    if capture is not None:
        with sqlite_export(capture) as export:
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
            timeout_s=timeout_s,
            output_to_stderr=True,
        )
        result = record(options, find_nsys(), progress)
        if result.exit_code:
            raise CaptureError(
                f"the program ended with code {result.exit_code} under nsys",
                hint="Check that it works without nsyswrap",
            )
        yield result.export


def _context_and_window(export: Path, learned: "tuple[NameRule, ...]") -> "tuple[TraceContext, Window]":
    """Return the trace of an export and the window of all its GPU operations."""
    from nsyswrap.cli.memory_settings import tune_pages  # noqa: PLC0415
    from nsyswrap.loop.context import Settings, find_context  # noqa: PLC0415 - heavy
    from nsyswrap.report import ALL, choose_window  # noqa: PLC0415
    from nsyswrap.trace.load import load_export  # noqa: PLC0415

    tune_pages()
    context = find_context(load_export(export, os.environ), Settings(kernel_rules=learned))
    if not len(context.operations.start):
        raise CannotTellError("the program ran nothing on a GPU", hint="Run 'nsyswrap doctor'")
    return context, choose_window(context, ALL)


def _measured_launches(  # noqa: PLR0913, PLR0917 - two are options
    ncu: "Ncu", words: tuple[str, ...], choice: "KernelChoice", most: int, timeout_s: float | None, judge: "Judge"
) -> "tuple[list[NcuLaunch], str]":
    """Return measured launches of the chosen kernels, and ncu's CSV.

    The first run measures the first launch of each kernel; the second run, every launch of kernels that it missed.
    """
    from nsyswrap.capture.kernel_counters import CounterRequest, NoLaunchError  # noqa: PLC0415 - loaded when measured
    from nsyswrap.capture.nsys import resolved_command  # noqa: PLC0415
    from nsyswrap.capture.options import CaptureOptions  # noqa: PLC0415
    from nsyswrap.sections.tensor_cores.hardware_proof import launches_in  # noqa: PLC0415
    from nsyswrap.sections.tensor_cores.name_agreement import missed  # noqa: PLC0415 - heavy

    if not choice.functions:
        raise CannotTellError("the program ran no kernel except collectives", hint="Give a program that computes")
    command = resolved_command(CaptureOptions(command=words, folder=Path()))
    count = min(choice.launches, most)
    _print(
        f"measuring {units.counted(count, 'launch')} of {units.counted(len(choice.functions), 'function')}, "
        f"{choice.time_share:.0%} of kernel time ..."
    )
    first = CounterRequest(command, choice.functions, most, timeout_s)
    try:
        counters = _counters(ncu, first)
    except NoLaunchError:
        counters = ""
    launches = launches_in(counters) if counters else []
    functions, left = missed(judge(launches), choice), most - len(launches)
    if not counters or (functions and left > 0):
        functions = functions or choice.functions  # the program may launch kernels in another order than in the capture
        _print(f"measuring {left} more launches, of {len(functions)} functions that were missed ...")
        second = CounterRequest(command, functions, left, timeout_s, every_launch=True)
        try:
            counters += _counters(ncu, second)
        except NoLaunchError:
            if not counters:
                raise
    return launches_in(counters), counters


def _counters(ncu: "Ncu", wanted: "CounterRequest") -> str:
    """Run the program under ncu and return the counters as ncu's own CSV."""
    from nsyswrap.capture.kernel_counters import count_kernels  # noqa: PLC0415 - loaded when measured

    result = count_kernels(ncu, wanted)
    if result.exit_code:
        click.echo(f"note: ncu ended with code {result.exit_code}; its measurements up to then are used", err=True)
    return result.csv


def _print(text: str) -> None:
    click.echo(f"nsyswrap: {text}", err=True)
