"""`nsyswrap export`: what a capture holds, for other programs: Perfetto, Parquet, CSV."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.cli.capture_inputs import capture_argument, check_request, reading_options, study_of
from nsyswrap.cli.terminal import printable
from nsyswrap.cli.writing import check_not_read, whole, whole_folder, write_text
from nsyswrap.errors import ExportError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from nsyswrap.model import Report

PERFETTO, PARQUET, CSV = "perfetto", "parquet", "csv"


@click.command()
@capture_argument
@reading_options
@click.option(
    "--format",
    "form",
    type=click.Choice([PERFETTO, PARQUET, CSV]),
    required=True,
    help="perfetto: one JSON file of all events, for ui.perfetto.dev; parquet: a folder with one table of events a "
    "file; csv: a folder with every table of the report.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file, or the folder, to write."
)
@click.option("--within-window", is_flag=True, help="Leave out events that do not touch the window.")
@click.option("-f", "--force", is_flag=True, help="Replace files that are there.")
def export(  # noqa: PLR0913 - one argument an option
    *,
    capture: Path,
    window: str,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...],
    form: str,
    output: Path,
    within_window: bool,
    force: bool,
) -> None:
    """Read CAPTURE, a .nsys-rep or a .sqlite export, and write its events or tables for other programs.

    \b
      nsyswrap export capture.nsys-rep --format perfetto -o trace.json
      nsyswrap export capture.sqlite --format parquet -o tables/
      nsyswrap export capture.sqlite --format csv --window all -o csv/
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if form == CSV and within_window:
        raise UsageError("--within-window is about events", hint="the tables of the report are of the window already")
    check_request(window, step_range, phases, kernel_rules)
    check_not_read(output, capture, *kernel_rules)
    _check_target(output, is_folder=form != PERFETTO, force=force)
    from nsyswrap.report import report_of  # noqa: PLC0415 - heavy; loaded when a capture is read

    context = study_of(capture, step_range, phases, kernel_rules)
    report = report_of(context, window)
    if form == CSV:
        _write_csv(report, output)
    else:
        from nsyswrap.timeline.event_frames import event_frames, touching  # noqa: PLC0415

        idle = report.section("idle")
        frames = event_frames(context, idle.tables["gaps"] if idle else None)
        frames = touching(frames, report.window) if within_window else frames
        (_write_perfetto if form == PERFETTO else _write_parquet)(report, frames, output)
    click.echo(f"wrote {printable(str(output))}", err=True)


def _check_target(output: Path, *, is_folder: bool, force: bool) -> None:
    """Check that there is room for the result, before the capture is read.

    Raises:
        UsageError: Something is there that would be lost.
    """
    if is_folder and output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file", hint="give a folder with -o")
    if not is_folder and output.is_dir():
        raise UsageError(f"{output} is a folder", hint="give a file with -o")
    taken = any(output.iterdir()) if output.is_dir() else output.exists()
    if taken and not force:
        raise UsageError(
            f"{output} is there already",
            hint="give another place with -o, or --force to replace files of the same names",
        )


def _write_perfetto(report: "Report", frames: Mapping[str, "pd.DataFrame"], output: Path) -> None:
    from nsyswrap.render import perfetto_trace  # noqa: PLC0415 - loaded for its form alone

    with _told(output), whole(output) as place, place.open("w", encoding="utf-8") as file:
        file.writelines(perfetto_trace.pieces(report, frames))


def _write_parquet(report: "Report", frames: Mapping[str, "pd.DataFrame"], output: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - loaded for its form alone

    from nsyswrap.render.parquet_tables import arrow_tables  # noqa: PLC0415

    with _told(output), whole_folder(output) as place:
        for key, table in arrow_tables(report, frames).items():
            parquet.write_table(table, place / f"{key}.parquet", compression="zstd")


def _write_csv(report: "Report", output: Path) -> None:
    from nsyswrap.render import csv_report  # noqa: PLC0415
    from nsyswrap.sections import SECTIONS  # noqa: PLC0415 - loaded for its form alone

    names = ["report.findings.csv", *(f"{each.key}.*.csv" for each in SECTIONS)]
    with _told(output), whole_folder(output, names) as place:
        for key, text in csv_report.tables(report).items():
            write_text(text, place / f"{key}.csv")


@contextmanager
def _told(output: Path) -> Iterator[None]:
    """Turn what the system says against writing into an error of ours.

    Raises:
        ExportError: A file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ExportError(f"cannot write {output}: {error.strerror}", hint="give another place with -o") from error
