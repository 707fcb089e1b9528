"""`nsyswrap analyze-many`: what many captures have in common."""

from pathlib import Path

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.cli.inputs import ReadOptions, read_options
from nsyswrap.cli.many_inputs import find_captures
from nsyswrap.cli.output import check_new, check_not_input, force_option, form_of, format_option, write_result
from nsyswrap.cli.terminal import printable, rendered_result
from nsyswrap.render.documents import FORMS

# A capture of some gigabytes takes minutes. Source: docs/performance.md, 725 MB in 7 s.
LIMIT_S = 3600.0


@click.command("analyze-many")
@click.argument("captures", nargs=-1, required=True, metavar="FOLDER|GLOB|LIST...")
@read_options
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Largest number of processes on this machine; by default one a core, as far as its memory allows.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    default="",
    help="Read the captures with this Dask cluster: the address of its scheduler, or the file with that address.",
)
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    default=LIMIT_S,
    show_default=True,
    help="Give up a capture that takes longer. With a Dask cluster: longest time without an answer.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where the result of each capture is kept; by default nsyswrap/captures in the user's cache.",
)
@click.option("--fresh", is_flag=True, help="Analyze all captures, also those that have a result.")
@format_option(FORMS)
@click.option(
    "-o",
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Write to this file instead of stdout; may be repeated, as for a page and a JSON file.",
)
@force_option()
def analyze_many(  # noqa: PLR0913 - one argument an option
    *,
    captures: tuple[str, ...],
    options: ReadOptions,
    processes: int | None,
    scheduler: str,
    limit_s: float,
    cache: Path | None,
    fresh: bool,
    form: str | None,
    outputs: tuple[Path, ...],
    force: bool,
) -> None:
    """Say what many captures have in common: findings, kernels, outliers, by program, GPU, host and day.

    FOLDER is searched with all folders in it. GLOB is a pattern in quotes; ** stands for any folders. LIST is a .txt
    file with a path on each line, or - for stdin. Captures are .sqlite exports, .nsys-rep files, folders written by
    profile, and report.json files, of any programs and machines.

    The result of each capture is kept, so a second call analyzes only what is missing. A capture that cannot be read is
    a row of the result.

    \b
      nsyswrap analyze-many reports -o many.html -o many.json
      nsyswrap analyze-many 'runs/**/*.sqlite' --processes 4
      nsyswrap analyze-many list.txt --scheduler tcp://10.0.0.5:8786 -o many.html
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.cli.many_results import Engine, many_captures  # noqa: PLC0415 - so that --help stays fast

    if scheduler and processes is not None:
        hint = "leave out one of them"
        raise UsageError("--processes is for this machine, and the cluster has its own", hint=hint)
    if form is not None and len(outputs) > 1:
        raise UsageError("--format is for one result, and there are several files", hint="let their names say it")
    check_new(outputs, force=force)
    options.check()
    found = find_captures(captures, with_reports=not options.flags())
    for output in outputs:
        check_not_input(output, *(each.path for each in found), *options.kernel_rules)
    many = many_captures(found, options, Engine(scheduler, processes, limit_s), cache, fresh=fresh)
    for place in outputs or (None,):
        write_result(
            rendered_result("many", form_of(form, place, FORMS), many, to_terminal=place is None), place, force=force
        )
    if many.failed:
        one, count = many.failed[0], len(many.failed) + len(many.captures)
        words = f"warning: {len(many.failed)} of {count} captures could not be read, such as {one.name}: {one.error}"
        click.echo(printable(words), err=True)
