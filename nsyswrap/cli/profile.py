"""`nsyswrap profile`: run a program under nsys and report where the GPU's time went."""

import dataclasses
import functools
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap import __version__
from nsyswrap.cli.again import with_second_run
from nsyswrap.cli.capture_inputs import check_request, reading_options, report_of
from nsyswrap.cli.capture_options import ProfileCommand, capture_options, options_of
from nsyswrap.cli.progress import shown
from nsyswrap.cli.terminal import rendered
from nsyswrap.cli.writing import write_text
from nsyswrap.errors import CaptureError, NsyswrapError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nsyswrap.capture.nsys import CaptureResult
    from nsyswrap.capture.options import CaptureOptions
    from nsyswrap.model import Report


@click.command(cls=ProfileCommand, context_settings={"allow_interspersed_args": False})
@capture_options
@reading_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: a summary on stderr; json: report.json on stdout, and nothing else there.",
)
@click.option(
    "--counterfactual",
    type=click.Choice(["data"]),
    help="data: run the program a second time with batches that are on the device already, and report what the loader "
    "costs; implies --annotate auto.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no summary, only where the report is.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGS]...")
def profile(  # noqa: PLR0913 - one argument an option
    *,
    command: tuple[str, ...],
    window: str,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...],
    form: str,
    counterfactual: str | None,
    quiet: bool,
    **capture: object,
) -> None:
    """Run SCRIPT.py, or a command after --, under Nsight Systems and report where the GPU's time went.

    \b
      nsyswrap profile train.py --epochs 1
      nsyswrap profile -o reports/base --duration 30 train.py
      nsyswrap profile -- torchrun --nproc-per-node 2 train.py

    The program's own exit code is ours; 125 says that nsys or nsyswrap failed.
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.capture.record import run_record  # noqa: PLC0415 - loaded when something is captured

    check_request(window, step_range, phases, kernel_rules)
    os.umask(0o077)
    options = options_of(command, capture, output_to_stderr=form == "json", annotate=counterfactual is not None)
    record = functools.partial(captured, quiet=quiet)

    def read(export: Path) -> "Report":
        return report_of(export, window, step_range, phases, kernel_rules, with_timeline=True, quiet=quiet)

    result = record(options)
    options = dataclasses.replace(options, folder=result.folder, next_free=False)
    with kept_when_interrupted(result.export):
        write_json(result.folder / "run.json", run_record(result, options, __version__))
        report = with_notes(analysed(result.export, read), result.notes)
        report = with_second_run(report, options, counterfactual, record, read, code=result.exit_code)
        write_report(report, result.folder)
    say(report, result.folder, result.notes, form=form, quiet=quiet)
    sys.exit(result.exit_code)


def captured(options: "CaptureOptions", *, quiet: bool) -> "CaptureResult":
    """Run a program under the nsys of this machine, and show how far it is.

    Raises:
        NsyswrapError: It cannot be run or recorded.
    """
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - loaded when something is captured
    from nsyswrap.capture.nsys import profile as record  # noqa: PLC0415

    with shown(quiet=quiet) as progress:
        return record(options, find_nsys(), progress)


@contextmanager
def kept_when_interrupted(export: Path) -> "Iterator[None]":
    """Say on Ctrl-C that the capture is kept, and how to go on.

    Raises:
        CaptureInterruptedError: Ctrl-C came.
    """
    from nsyswrap.capture.stopping import CaptureInterruptedError  # noqa: PLC0415 - loaded when something is captured

    try:
        yield
    except KeyboardInterrupt as error:
        raise CaptureInterruptedError(
            "stopped before the report was made",
            hint=f"The capture is kept: 'nsyswrap report {export}' makes the report",
        ) from error


def with_notes(report: "Report", notes: tuple[str, ...]) -> "Report":
    """Add to a report what is to be known of its run."""
    return dataclasses.replace(report, notes=(*report.notes, *(f"{note.removesuffix('.')}." for note in notes)))


def analysed(export: Path, read: "Callable[[Path], Report]") -> "Report":
    """Return the report of a fresh capture.

    Raises:
        CaptureError: The capture is there and cannot be analysed.
    """
    try:
        return read(export)
    except NsyswrapError as error:
        message = f"the capture is in {export.parent}, but cannot be analysed: {error.message}"
        raise CaptureError(message, hint=error.hint) from error


def write_report(report: "Report", folder: Path) -> None:
    """Write a report beside its capture, as a page and as JSON.

    Raises:
        CaptureError: It cannot be written.
    """
    for form, name in (("json", "report.json"), ("html", "report.html")):
        write_private(folder / name, rendered(form, report, to_terminal=False))


def say(report: "Report", folder: Path, notes: tuple[str, ...], *, form: str, quiet: bool) -> None:
    """Print the summary, what the capture gives away, and where everything lies."""
    if form == "json":
        click.echo(rendered("json", report, to_terminal=False))
    elif not quiet:
        click.echo(rendered("text", report, to_terminal=True, stream=sys.stderr), err=True)
    for note in notes if form == "json" or quiet else ():  # the summary has them
        click.echo(f"note: {note}", err=True)
    secrets = report.session.secrets
    if secrets:
        click.echo(
            f"warning: the capture holds the values of {len(secrets)} environment variable(s) whose names look like "
            f"secrets ({', '.join(secrets)}). Keep capture.nsys-rep and capture.sqlite to yourself, share what "
            "'nsyswrap redact' writes, or record with --hide-env.",
            err=True,
        )
    click.echo(f"capture  {folder / 'capture.nsys-rep'}   (opens in the Nsight Systems GUI)", err=True)
    click.echo(f"report   {folder / 'report.html'}", err=True)


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, readable by its owner alone like all that is in the folder of a capture."""
    write_private(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a text file.

    Raises:
        CaptureError: It cannot be written.
    """
    try:
        write_text(text, path)
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error.strerror}", hint="check the disk and the folder") from error
