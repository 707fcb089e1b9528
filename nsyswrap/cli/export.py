"""`nsyswrap export`: write events or tables of a capture for other programs: Perfetto, Parquet, CSV."""

from pathlib import Path

import click

from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.cli.inputs import ReadOptions, capture_argument, read_options, trace_context
from nsyswrap.cli.output import atomic_file, atomic_folder, check_not_input, force_option, write_text
from nsyswrap.cli.terminal import printable

PERFETTO, PARQUET, CSV = "perfetto", "parquet", "csv"


@click.command()
@capture_argument
@read_options
@click.option(
    "--format",
    "form",
    type=click.Choice([PERFETTO, PARQUET, CSV]),
    required=True,
    help="perfetto: one JSON file with all events, for ui.perfetto.dev; parquet: a folder with one file a table of "
    "events; csv: a folder with every table of the report.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file or folder to write.")
@click.option("--within-window", is_flag=True, help="Leave out events that do not overlap the window.")
@force_option()
def export(  # noqa: PLR0913 - one argument an option
    *, capture: Path, options: ReadOptions, form: str, output: Path, within_window: bool, force: bool
) -> None:
    """Write the events or tables of CAPTURE, a .nsys-rep or a .sqlite export, for other programs.

    \b
      nsyswrap export capture.nsys-rep --format perfetto -o trace.json
      nsyswrap export capture.sqlite --format parquet -o tables/
      nsyswrap export capture.sqlite --format csv --window all -o csv/
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if form == CSV and within_window:
        raise UsageError("--within-window applies to events", hint="the report's tables cover the window already")
    options.check()
    check_not_input(output, capture, *options.kernel_rules)
    is_folder = form != PERFETTO
    if is_folder and output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file", hint="give a folder with -o")
    if not is_folder and output.is_dir():
        raise UsageError(f"{output} is a folder", hint="give a file with -o")
    taken = any(output.iterdir()) if output.is_dir() else output.exists()
    if taken and not force:
        raise UsageError(
            f"{output} exists already", hint="give another path with -o, or --force to replace files of the same names"
        )
    from nsyswrap.report import report_of  # noqa: PLC0415 - heavy; loaded when a capture is read

    context = trace_context(capture, options)
    report = report_of(context, options.window)
    try:
        if form == CSV:
            from nsyswrap.render import csv_report  # noqa: PLC0415
            from nsyswrap.sections import SECTIONS  # noqa: PLC0415 - only for this format

            names = ["report.findings.csv", *(f"{each.key}.*.csv" for each in SECTIONS)]
            with atomic_folder(output, names) as temporary:
                for key, text in csv_report.tables(report).items():
                    write_text(text, temporary / f"{key}.csv")
        else:
            from nsyswrap.timeline.event_frames import event_frames, touching  # noqa: PLC0415

            idle = report.section("idle")
            frames = event_frames(context, idle.tables["gaps"] if idle else None)
            frames = touching(frames, report.window) if within_window else frames
            if form == PERFETTO:
                from nsyswrap.render import perfetto_trace  # noqa: PLC0415 - only for this format

                with atomic_file(output) as temporary, temporary.open("w", encoding="utf-8") as file:
                    file.writelines(perfetto_trace.pieces(report, frames))
            else:
                from pyarrow import parquet  # noqa: PLC0415 - only for this format

                from nsyswrap.render.parquet_tables import arrow_tables  # noqa: PLC0415

                with atomic_folder(output) as temporary:
                    for key, table in arrow_tables(report, frames).items():
                        parquet.write_table(table, temporary / f"{key}.parquet", compression="zstd")
    except OSError as error:
        raise ExportError(f"cannot write {output}: {error.strerror}", hint="give another path with -o") from error
    click.echo(f"wrote {printable(str(output))}", err=True)
