"""`nsyswrap resume`: finish a run that was interrupted."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.result_folder import is_interrupted, was_begun
from nsyswrap.capture.signals import signals_as_errors
from nsyswrap.cli.inputs import ReadOptions, read_options, report_of_capture
from nsyswrap.cli.interrupts import interrupt_hint, stopping_at_once
from nsyswrap.cli.profile import analyzed, print_summary, write_report
from nsyswrap.cli.progress import shown

if TYPE_CHECKING:
    from nsyswrap.model import Report


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@read_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no summary, only the path of the report.")
def resume(*, folder: Path, options: ReadOptions, quiet: bool) -> None:
    """Finish a run that was interrupted: keep what it recorded, export it, and write its report.

    FOLDER is the folder that `nsyswrap profile` wrote to, or that of a job with its ranks in rank-0, rank-1 and so on.
    Where the run had ended, nothing changes.

    \b
      nsyswrap resume reports/base
      nsyswrap resume reports/job
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    options.check()
    unfinished = interrupted_in(folder)
    for each in unfinished:
        print_summary(finished(each, options, quiet=quiet), each, (), form="text", quiet=quiet)
    if not unfinished:
        click.echo(f"nsyswrap: {folder} holds no interrupted run", err=True)


def interrupted_in(folder: Path) -> list[Path]:
    """Return the folder if it holds an interrupted run, else the folders of such ranks in it.

    Raises:
        UsageError: It is no folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="Give the folder that 'nsyswrap profile' wrote to")
    if was_begun(folder):
        return [folder]
    ranks = sorted(path for path in folder.glob("rank-*") if path.is_dir())
    return [path for path in (folder, *ranks) if is_interrupted(path)]


def finished(folder: Path, options: ReadOptions, *, quiet: bool) -> "Report":
    """Export the capture of an interrupted run, write its report, and return it."""
    from nsyswrap.capture.resume import resumed  # noqa: PLC0415 - loaded when it is needed

    with (
        signals_as_errors(),
        interrupt_hint(folder),
        shown(quiet=quiet) as progress,
        resumed(folder, progress) as export,
    ):
        with stopping_at_once(folder):
            read = partial(report_of_capture, options=options, with_timeline=True, quiet=quiet)
            report = analyzed(export, read)
        write_report(report, folder)
    return report
