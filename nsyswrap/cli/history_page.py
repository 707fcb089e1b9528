"""`nsyswrap history page`: the trend of each program as one page."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from nsyswrap.cli.output import force_option, write_result
from nsyswrap.cli.recording import history_of

if TYPE_CHECKING:
    from nsyswrap.runs.run import SeriesRun

# Ours: the page stays below two megabytes, and is written in two seconds with 100,000 runs in the history.
MOST_PROGRAMS, RUNS = 20, 100
REPORT_PAGE = "report.html"


@click.command()
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
    """Write one HTML page: how the steps of each program develop, where they change, and what moved there.

    The page needs no server and no network. Its links to the reports of the runs work where the reports are in the
    project and the page stays where it is written.
    """
    from nsyswrap.gate.trends import trend_of_runs  # noqa: PLC0415 - loads pandas
    from nsyswrap.render.documents import render  # noqa: PLC0415
    from nsyswrap.render.history_document import HistoryPage  # noqa: PLC0415

    kept = history_of(db, create=False)
    listed = kept.programs(program)
    last = kept.last_runs([one.program for one in listed[:MOST_PROGRAMS]], runs)
    shown = HistoryPage(
        trends=[trend_of_runs(one.program, one.run_count, last[one.program]) for one in listed[:MOST_PROGRAMS]],
        reports=reports_of((run for runs in last.values() for run in runs), output),
        others=listed[MOST_PROGRAMS:],
        run_count=sum(one.run_count for one in listed),
    )
    write_result(render("history", "html", shown), output, force=force)


def reports_of(runs: "Iterable[SeriesRun]", output: Path) -> Mapping[str, str]:
    """Return where the report of each run is, relative to a page, by the id of the run; only if it is there."""
    from nsyswrap.runs.database import project_folder  # noqa: PLC0415 - loads SQLAlchemy

    project, place = project_folder(Path.cwd()), output.absolute().parent
    found = {}
    for run in runs:
        report = project / run.row.folder / REPORT_PAGE
        if run.row.folder and report.is_file():
            found[run.row.run_id] = quote(Path(os.path.relpath(report, place)).as_posix())
    return found
