"""`nsyswrap history`: keep runs in a database, list and show them, and export them."""

import os
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import click

from nsyswrap.base import units
from nsyswrap.base.errors import ExportError, NsyswrapError, UnfinishedError, UsageError
from nsyswrap.cli.output import atomic_folder, force_option, form_of, output_option, write_result
from nsyswrap.cli.recording import history_of, recorded_run
from nsyswrap.cli.terminal import printable, rendered_result

FORMS = ("text", "json", "csv")
LISTED = 30
# Ours: the page stays below two megabytes, and is written in two seconds with 100,000 runs in the history.
MOST_PROGRAMS, RUNS = 20, 100
REPORT_PAGE = "report.html"

_program = click.option("--program", help="Only runs of this script, such as train.py.")


@click.group()
@click.option(
    "--db",
    metavar="URL",
    envvar="NSYSWRAP_DB",
    help="The history: the path of an SQLite file, or postgresql://USER@HOST/DATABASE.  [default: $NSYSWRAP_DB, else "
    ".nsyswrap/history.sqlite in the project]",
)
@click.pass_context
def history(context: click.Context, *, db: str | None) -> None:
    """Keep runs with their findings in a database, to see how a program changes over time.

    \b
      nsyswrap profile --record train.py
      nsyswrap history add reports/base reports/change/report.json
      nsyswrap history list --program train.py
      nsyswrap history show 3f2a91
      nsyswrap history page -o history.html
      nsyswrap history export -o history/
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    context.obj = db


@history.command()
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="REPORT...")
@click.option("--replace", is_flag=True, help="Give a run that is there already the numbers and the series of now.")
@click.option(
    "--series",
    default="",
    metavar="NAME",
    help="Keep the runs under this name, for gate --series, and not under their program, arguments and machine.",
)
@click.pass_obj
def add(db: str | None, *, reports: tuple[Path, ...], replace: bool, series: str) -> None:
    """Add runs: each REPORT is a report.json, or the folder of a result.

    A run that is in the history already is not added twice, whatever its report is called. Each run is added whole or
    not at all; what is printed as added is on the disk. A report that cannot be read is named, and the others are
    added; the exit code is 4 then.
    """
    from nsyswrap.render.history_text import ID_DIGITS  # noqa: PLC0415 - loads what a report is read with

    kept, failed = history_of(db, create=True), []
    for path in reports:
        try:
            run = recorded_run(path, series)
        except NsyswrapError as error:
            if len(reports) == 1:
                raise
            failed.append(error.message if str(path) in error.message else f"{path}: {error.message}")
            continue
        became = kept.add(run, replace=replace)
        hint = "; --replace takes those of now" if became == became.OTHER else ""
        verb = "was " if became in {became.NEW, became.REPLACED} else ""
        click.echo(f"{run.row.run_id[:ID_DIGITS]}  {printable(str(path))} {verb}{became}{hint}")
    if failed:
        count = f"{len(failed)} of {units.counted(len(reports), 'report')}"
        hint = "the others are in the history" if len(failed) < len(reports) else ""
        raise UnfinishedError(f"{count} could not be added: {'; '.join(failed)}", hint=hint)


@history.command("list")
@_program
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=LISTED,
    show_default=True,
    help="How many runs to list, the newest first; 0 for all.",
)
@click.option("--format", "form", type=click.Choice(FORMS), help="Output format.  [default: that of the file, or text]")
@output_option
@force_option()
@click.pass_obj
def list_(  # noqa: PLR0913 - one argument an option
    db: str | None, program: str | None, limit: int, form: str | None, output: Path | None, *, force: bool
) -> None:
    """List the runs, the newest first. A star behind a commit means that its program had uncommitted changes."""
    from nsyswrap.render.history_text import LISTS  # noqa: PLC0415 - loaded when there is a list
    from nsyswrap.runs.run import Program  # noqa: PLC0415

    kept, wanted = history_of(db, create=False), Program(program) if program else None
    rows = kept.runs(wanted, limit or None)
    count = len(rows)
    write_result(LISTS[form_of(form, output, FORMS)](rows), output, force=force)
    total = kept.count(wanted) if limit and count == limit else count
    more = "; --limit 0 lists all" if total > count else ""
    click.echo(f"{count} of {units.counted(total, 'run')} in {printable(kept.place)}{more}", err=True)


@history.command()
@click.argument("run")
@click.option("--format", "form", type=click.Choice(FORMS[:2]), help="Output format.  [default: that of the file]")
@output_option
@force_option()
@click.pass_obj
def show(db: str | None, run: str, form: str | None, output: Path | None, *, force: bool) -> None:
    """Show one RUN: its steps, where the time went, and its findings.

    RUN is its id, or the first digits of it.
    """
    from nsyswrap.render.run_document import KeptRun  # noqa: PLC0415 - loaded when there is a run

    kept = history_of(db, create=False)
    row = kept.find(run)
    whole = KeptRun(row, kept.accounts(row), kept.findings(row), kept.facts(row))
    shown = rendered_result("run", form_of(form, output, FORMS[:2]), whole, to_terminal=output is None)
    write_result(shown, output, force=force)


@history.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.pass_obj
def rm(db: str | None, *, runs: tuple[str, ...]) -> None:
    """Remove runs from the history, all of them or none. Their reports stay where they are."""
    kept = history_of(db, create=False)
    rows = [kept.find(name) for name in runs]
    kept.remove([row.run_id for row in rows])
    for row in rows:
        click.echo(f"{row.run_id[:10]}  {printable(f'{row.program} {row.arguments}'.strip())} was removed")


@history.command()
@click.option("--program", default="", help="Only runs of this script, such as train.py.")
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=RUNS,
    show_default=True,
    metavar="N",
    help="The last runs of each program that the page has.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("history.html"),
    show_default=True,
    help="The file to write.",
)
@force_option()
@click.pass_obj
def page(db: str | None, *, program: str, runs: int, output: Path, force: bool) -> None:
    """Write one HTML page: how the steps of each program change.

    The page needs no server and no network. Its links to the reports of the runs work where the reports are in the
    project and the page stays where it is written.
    """
    from nsyswrap.gate.trends import trend_of_runs  # noqa: PLC0415 - loads pandas
    from nsyswrap.render.documents import render  # noqa: PLC0415
    from nsyswrap.render.history_document import HistoryPage  # noqa: PLC0415
    from nsyswrap.runs.database import project_folder  # noqa: PLC0415 - loads SQLAlchemy

    kept = history_of(db, create=False)
    listed = kept.programs(program)
    last = kept.last_runs([one.program for one in listed[:MOST_PROGRAMS]], runs)
    project, place = project_folder(Path.cwd()), output.absolute().parent
    reports = {}
    for run in chain.from_iterable(last.values()):
        report = project / run.row.folder / REPORT_PAGE
        if run.row.folder and report.is_file():
            reports[run.row.run_id] = quote(Path(os.path.relpath(report, place)).as_posix())
    shown = HistoryPage(
        trends=[trend_of_runs(one.program, one.run_count, last[one.program]) for one in listed[:MOST_PROGRAMS]],
        reports=reports,
        others=listed[MOST_PROGRAMS:],
        run_count=sum(one.run_count for one in listed),
    )
    write_result(render("history", "html", shown), output, force=force)


@history.command()
@_program
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@force_option()
@click.pass_obj
def export(db: str | None, *, program: str | None, output: Path, force: bool) -> None:
    """Write the history as Parquet files for other programs.

    They hold runs, accounts, findings and facts. The library has the same columns as data frames:
    nsyswrap.runs.open().frame("runs").
    """
    from nsyswrap.runs.frames import write_parquet  # noqa: PLC0415 - loads pyarrow
    from nsyswrap.runs.run import Program  # noqa: PLC0415

    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not force)):
        raise UsageError(
            f"{output} exists already", hint="give another folder with -o, or --force to replace its files"
        )
    kept = history_of(db, create=False)
    try:
        with atomic_folder(output) as temporary:
            written = write_parquet(kept.engine, temporary, Program(program) if program else None)
    except OSError as error:
        raise ExportError(f"cannot write {output}: {error.strerror}", hint="give another path with -o") from error
    for name, rows in written.items():
        click.echo(f"wrote {printable(str(output / name))}.parquet, {units.counted(rows, 'row')}", err=True)
