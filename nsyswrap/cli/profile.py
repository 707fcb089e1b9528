"""`nsyswrap profile`: run a program under nsys and report where the GPU's time went."""

import dataclasses
import functools
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.base import units
from nsyswrap.base.errors import CaptureError, ExportError, NsyswrapError, UsageError
from nsyswrap.base.step_text import STEP_TEXT
from nsyswrap.base.version import __version__
from nsyswrap.capture.result_folder import ALTERNATIVES_NAME, STEPS_ALONE_NAME
from nsyswrap.cli.capture_options import ProfileCommand, capture_options, options_of
from nsyswrap.cli.compare import report_at
from nsyswrap.cli.inputs import ReadOptions, read_options, report_of_capture
from nsyswrap.cli.interrupts import reserved, stopping_at_once
from nsyswrap.cli.open import PAGE_NAME, show_page
from nsyswrap.cli.output import print_result, write_text
from nsyswrap.cli.preload import load_in_background
from nsyswrap.cli.progress import shown
from nsyswrap.cli.rank_launch import (
    LAUNCH,
    Launch,
    finish_rank,
    for_launch,
    is_joint,
    remove_joint_report,
    this_launch,
)
from nsyswrap.cli.recording import history_of, record_result
from nsyswrap.cli.terminal import printable, rendered

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsyswrap.capture.nsys import CaptureResult
    from nsyswrap.capture.options import CaptureOptions
    from nsyswrap.hardware.steps_alone import StepsAlone
    from nsyswrap.model import Report


@click.command(cls=ProfileCommand, context_settings={"allow_interspersed_args": False})
@capture_options
@read_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: print a summary on stderr; json: print report.json, and nothing else, on stdout.",
)
@click.option(
    "--counterfactual",
    type=click.Choice(["data"]),
    help="data: run the program twice more without nsys, the second time with batches that are on the device already, "
    "and report what data loading costs.",
)
@click.option(
    "--then",
    "before",
    type=click.Path(path_type=Path),
    metavar="BASE",
    help="Check this run against the plan in the report of BASE, a folder or report.json of an earlier run.",
)
@click.option(
    "--baseline",
    is_flag=True,
    help="Run the program a second time without nsys, and report its step beside the simulated one.",
)
@click.option(
    "--profiler-cost/--no-profiler-cost",
    "with_cost",
    default=True,
    show_default=True,
    envvar="NSYSWRAP_PROFILER_COST",
    help="Before the first profile on a machine, measure what nsys adds to each call, to take it out of the report, "
    "and how fast large products run on its GPU.",
)
@click.option(
    "--alternatives/--no-alternatives",
    "with_alternatives",
    default=True,
    show_default=True,
    envvar="NSYSWRAP_ALTERNATIVES",
    help="After the program has ended, run up to eight costly operators as they were and as they could be, for up to "
    "20 seconds, and report the measured savings.",
)
@click.option("--open", "then_open", is_flag=True, help="Open the page in the browser at the end.")
@click.option("--record", "to_history", is_flag=True, help="Add the run to the history, as `history add` does.")
@click.option("--series", default="", metavar="NAME", help="With --record: the series of the run, as in `history add`.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no summary: only notes, warnings and paths.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGS]...")
def profile(  # noqa: PLR0913 - one parameter an option
    *,
    command: tuple[str, ...],
    options: ReadOptions,
    form: str,
    counterfactual: str | None,
    before: Path | None,
    baseline: bool,
    with_cost: bool,
    with_alternatives: bool,
    then_open: bool,
    to_history: bool,
    series: str,
    quiet: bool,
    ranks: str | None,
    **capture: object,
) -> None:
    """Run SCRIPT.py, or a command after --, under Nsight Systems and report where the GPU's time went.

    \b
      nsyswrap profile train.py --epochs 1
      nsyswrap profile -o reports/base --duration 30 train.py
      nsyswrap profile -- torchrun --nproc-per-node 2 train.py

    The exit code is that of the program, or 125 if nsys or nsyswrap fails.
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    options.check()  # what can fail fails before a run of hours
    if series and not to_history:
        raise UsageError("--series names a run of the history", hint="give --record, too")
    planned = plan_before(before, options)
    try:
        history = history_of(None, create=True) if to_history else None
    except NsyswrapError as error:
        raise CaptureError(error.message, hint=error.hint) from error
    launch = this_launch(ranks, os.environ)
    wanted = options_of(command, capture, output_to_stderr=form == "json", annotate=counterfactual is not None)
    step_text = options.step_range or STEP_TEXT.pattern
    wanted = for_launch(dataclasses.replace(wanted, umask=os.umask(0o077), step_text=step_text), launch)
    read = functools.partial(report_of_capture, options=options, with_timeline=True, quiet=quiet)
    measured = measured_here(wanted, quiet=quiet, kept_only=launch is not None) if with_cost else {}
    with reserved(wanted) as place:
        wanted = dataclasses.replace(wanted, folder=place, next_free=False)
        result = captured(wanted, quiet=quiet, place=place, on_recorded=recorder(wanted, measured, launch, quiet=quiet))
        report = first_report(result, read, planned)
        # Other ranks of a job may still use the GPU.
        if with_alternatives and launch is None and measured_alternatives(report, wanted, result.folder, quiet=quiet):
            report = first_report(result, read, planned)
        if baseline or counterfactual is not None:
            from nsyswrap.cli.alone_runs import add_alone_runs  # noqa: PLC0415 - heavy; rarely used

            def calibrated(alone: "StepsAlone") -> "Report":
                write_json(result.folder / STEPS_ALONE_NAME, alone.measured())
                return first_report(result, read, planned)

            is_loader = counterfactual is not None
            report = add_alone_runs(
                report, wanted, baseline=baseline, loader=is_loader, code=result.exit_code, calibrated=calibrated
            )
        write_report(report, place)
    show = functools.partial(print_summary, form=form, quiet=quiet)
    folder: Path | None = place
    if launch is not None and is_joint(launch):
        # Only the joint report of the ranks is shown, once all have ended.
        def show_joint(joint: "Report", folder: Path) -> None:
            write_report(joint, folder)
            show(joint, folder, ())

        folder = finish_rank(place, launch, options, show_joint)
    else:
        show(report, place, result.notes)
    record_result(history, folder, series)
    if then_open and folder is not None:
        show_page(folder / PAGE_NAME)
    sys.exit(result.exit_code)


def first_report(result: "CaptureResult", read: "Callable[[Path], Report]", planned: "Report | None") -> "Report":
    """Return the report of a fresh capture, with its notes and its comparison with an earlier plan."""
    with stopping_at_once(result.folder):
        return add_plan_score(with_notes(analyzed(result.export, read), result.notes), planned)


def recorder(
    options: "CaptureOptions", measured: "dict[str, dict[str, Any]]", launch: Launch | None, *, quiet: bool
) -> "Callable[[CaptureResult, Path], None]":
    """Return the function that writes run.json beside a fresh capture, and begins to load the analysis."""
    from nsyswrap.capture.arming import program_python  # noqa: PLC0415 - loaded when something is captured
    from nsyswrap.capture.recorded_run import LINK_RATES  # noqa: PLC0415
    from nsyswrap.capture.run_record import run_record  # noqa: PLC0415

    def write(result: "CaptureResult", folder: Path) -> None:
        links = {}
        if measured:
            from nsyswrap.capture.product_rates import link_rates  # noqa: PLC0415
            from nsyswrap.capture.xray_file import ranks_in  # noqa: PLC0415

            announce = announcer("the links between these GPUs, once, for some seconds", quiet=quiet)
            links = link_rates(program_python(options), ranks_in(folder), announce, kept_only=launch is not None)
        record = run_record(result, options, __version__, measured={**measured, LINK_RATES: links})
        if launch is not None:
            remove_joint_report(result.folder)
            record[LAUNCH] = launch.record()
        write_json(folder / "run.json", record)
        load_in_background()

    return write


def announcer(what: str, *, quiet: bool) -> "Callable[[], None]":
    """Return a function that says what is measured, such as "the links between these GPUs"; or nothing."""
    return lambda: None if quiet else click.echo(f"nsyswrap: measuring {what} ...", err=True)


def measured_here(options: "CaptureOptions", *, quiet: bool, kept_only: bool) -> "dict[str, dict[str, Any]]":
    """Return what is measured once on a machine, by its name in run.json: what nsys adds to calls, rates of products.

    Args:
        options: What is recorded, whose Python has PyTorch.
        quiet: Announce no measurement.
        kept_only: Measure nothing, because other ranks use the machine at the same time.
    """
    from nsyswrap.capture.arming import program_python  # noqa: PLC0415 - loaded when something is captured
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415
    from nsyswrap.capture.nsys import resolved_command  # noqa: PLC0415
    from nsyswrap.capture.product_rates import product_rates  # noqa: PLC0415
    from nsyswrap.capture.profiler_cost import FAILURE, profiler_cost  # noqa: PLC0415
    from nsyswrap.capture.recorded_run import PRODUCT_RATES, PROFILER_COST  # noqa: PLC0415

    resolved_command(options)  # a command that does not exist is an error before anything is measured
    announce = announcer("what nsys adds to each call here, once, for up to a minute", quiet=quiet)
    cost = profiler_cost(options, find_nsys(), announce, kept_only=kept_only)
    if not quiet and FAILURE in cost:
        click.echo(f"nsyswrap: this failed, so the report does not take it out: {printable(cost[FAILURE])}", err=True)
    announce = announcer("what products reach on this GPU, once, for some seconds", quiet=quiet)
    return {
        PROFILER_COST: cost,
        PRODUCT_RATES: product_rates(program_python(options), announce, kept_only=kept_only),
    }


def measured_alternatives(report: "Report", options: "CaptureOptions", folder: Path, *, quiet: bool) -> bool:
    """Measure alternatives of the costliest operators, if there are any, and write `alternatives.json`.

    Returns:
        Whether there is a new file.
    """
    from nsyswrap.operators.candidates import pick  # noqa: PLC0415 - heavy

    if not (chosen := pick(report.findings)):
        return False
    from nsyswrap.capture.alternatives import FAILURE, measure_alternatives  # noqa: PLC0415 - rarely used
    from nsyswrap.capture.arming import program_python  # noqa: PLC0415

    count = units.counted(len(chosen), "alternative")
    announcer(f"{count} of the costliest operators, for up to 20 seconds", quiet=quiet)()
    found = measure_alternatives(program_python(options), [each.written() for each in chosen])
    if not quiet and FAILURE in found:
        click.echo(f"nsyswrap: this failed, so savings are simulated: {printable(found[FAILURE])}", err=True)
    write_json(folder / ALTERNATIVES_NAME, found)
    return True


def captured(
    options: "CaptureOptions",
    *,
    quiet: bool,
    place: Path | None = None,
    on_recorded: "Callable[[CaptureResult, Path], None]" = lambda _result, _folder: None,
) -> "CaptureResult":
    """Run a program under the nsys of this machine, showing progress, and return the capture.

    Args:
        options: What to run and to record.
        quiet: Show no progress.
        place: The folder for the result, if it is reserved already.
        on_recorded: Called with the capture and its folder before it is exported.
    """
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - loaded when something is captured
    from nsyswrap.capture.nsys import profile as record  # noqa: PLC0415

    def hint(text: str) -> None:
        # A terminal may show something in the same line.
        click.echo(f"\nnsyswrap: {text}" if sys.stderr.isatty() else f"nsyswrap: {text}", err=True)

    with shown(quiet=quiet) as progress:
        return record(options, find_nsys(), progress, place, on_recorded, on_hint=hint, on_state=progress.show_steps)


def with_notes(report: "Report", notes: tuple[str, ...]) -> "Report":
    """Return a report with the notes of its run added."""
    return dataclasses.replace(report, notes=(*report.notes, *(f"{note.removesuffix('.')}." for note in notes)))


def analyzed(export: Path, read: "Callable[[Path], Report]") -> "Report":
    """Return the report of a fresh capture.

    Raises:
        CaptureError: The capture exists but cannot be analyzed.
    """
    try:
        return read(export)
    except NsyswrapError as error:
        message = f"the capture is in {export.parent}, but cannot be analyzed: {error.message}"
        raise CaptureError(message, hint=error.hint) from error


def plan_before(base: Path | None, options: ReadOptions) -> "Report | None":
    """Return the report of an earlier run; None if no run is given.

    Raises:
        UsageError: That report has no plan.
        ExportError: The file cannot be read.
    """
    if base is None:
        return None
    report = report_at(base, options)
    if not report.plan.changes:
        raise UsageError(
            f"the report of {base} has no plan",
            hint=next(iter(report.plan.notes), "No finding of that run has a simulated saving"),
        )
    return report


def add_plan_score(report: "Report", before: "Report | None") -> "Report":
    """Return a report with a section that compares it with the plan of an earlier run; unchanged without one."""
    if before is None:
        return report
    from nsyswrap.compare.reports import compare_reports  # noqa: PLC0415 - heavy; rarely used

    score = compare_reports([before], [report], ("before", "now")).plan_score
    if score is None:
        return report
    for note in score.notes:
        click.echo(f"nsyswrap: {note}", err=True)
    return report.with_section(score)


def write_report(report: "Report", folder: Path) -> None:
    """Write report.json and report.html to the folder of the capture."""
    for form, name in (("json", "report.json"), ("html", "report.html")):
        write_private(folder / name, rendered(form, report, to_terminal=False))


def print_summary(report: "Report", folder: Path, notes: tuple[str, ...], *, form: str, quiet: bool) -> None:
    """Print the summary, a warning about secrets in the capture, and the paths of the results.

    Raises:
        CaptureError: stdout cannot be written to.
    """
    if form == "json":
        try:
            print_result(rendered("json", report, to_terminal=False))
        except ExportError as error:
            raise CaptureError(error.message, hint=f"the result is in {folder / 'report.json'}") from error
    elif not quiet:
        click.echo(rendered("brief", report, to_terminal=True, stream=sys.stderr), err=True)
    for note in notes if form == "json" or quiet else report.notes:
        click.echo(f"note: {note}", err=True)
    secrets = report.session.secrets
    if secrets:
        click.echo(
            f"warning: the capture holds the values of {len(secrets)} environment variable(s) whose names look like "
            f"secrets ({', '.join(secrets)}). Keep capture.nsys-rep and capture.sqlite to yourself, share what "
            "'nsyswrap redact' writes, or record with --hide-env.",
            err=True,
        )
    ranks = sorted(folder.glob("rank-*/capture.nsys-rep"))
    place, name = (folder / "rank-*", "captures") if ranks else (folder, "capture")
    click.echo(f"{name:8} {place / 'capture.nsys-rep'}   (opens in the Nsight Systems GUI)", err=True)
    click.echo(f"report   {folder / PAGE_NAME}   (nsyswrap open {shlex.quote(str(folder))})", err=True)


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON to a file of the capture."""
    write_private(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a text file of the capture; the umask makes it readable by its owner only.

    Raises:
        CaptureError: The file cannot be written.
    """
    try:
        write_text(text, path)
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error.strerror}", hint="check the disk and the folder") from error
