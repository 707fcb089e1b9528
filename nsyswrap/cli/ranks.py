"""`nsyswrap ranks`: one report of all ranks of a job."""

from pathlib import Path

import click

from nsyswrap.capture.result_folder import is_interrupted
from nsyswrap.cli.inputs import ReadOptions, read_options
from nsyswrap.cli.output import check_not_input, file_options, form_of, format_option, write_result
from nsyswrap.cli.terminal import rendered

FORMS = ("text", "json", "csv", "markdown", "html")


@click.command()
@click.argument("captures", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FOLDER|CAPTURE...")
@read_options
@format_option(FORMS)
@file_options
def ranks(
    *, captures: tuple[Path, ...], options: ReadOptions, form: str | None, output: Path | None, force: bool
) -> None:
    """Print one report of all ranks of a job that has a capture for each rank.

    FOLDER holds a result of `nsyswrap profile` for each rank, as rank-0 and rank-1, or captures named that way. The
    rank of a capture is what NCCL recorded, or MPI, or the launcher (run.json), or else what the name says.

    \b
      nsyswrap ranks reports/job
      nsyswrap ranks reports/job -o job.html
      nsyswrap ranks rank0.nsys-rep rank1.nsys-rep --window all
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.cli.rank_reports import find_reports, report_of_ranks  # noqa: PLC0415 - so that --help stays fast

    form = form_of(form, output, FORMS)
    options.check()
    for folder in captures:
        names = [each.name for each in sorted(folder.glob("rank-*")) if is_interrupted(each)]
        if names:
            click.echo(f"warning: {', '.join(names)} was interrupted: run 'nsyswrap resume {folder}' first", err=True)
    check_not_input(output, *find_reports(captures), *options.kernel_rules)
    report = report_of_ranks(captures, options, with_timeline=form == "html")
    write_result(rendered(form, report, to_terminal=output is None), output, force=force)
