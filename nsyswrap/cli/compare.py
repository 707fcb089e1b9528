"""`nsyswrap compare`: put two captures, or their reports, beside each other."""

from pathlib import Path

import click

from nsyswrap.cli.capture_inputs import check_request, reading_options
from nsyswrap.cli.compare_inputs import Reading, check_gate, check_most, comparison_of, settings_of
from nsyswrap.cli.terminal import rendered_comparison
from nsyswrap.cli.writing import check_not_read, form_of, write_result

FORMS = ("text", "json", "html", "markdown")
ACCEPTABLE = ("incomplete", "gpu", "traces", "window")


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--base-run",
    "more_base",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Another run of BASE, to tell a change from how runs differ; may be repeated.",
)
@click.option(
    "--new-run", "more_new", type=click.Path(path_type=Path), multiple=True, help="Another run of NEW; may be repeated."
)
@reading_options
@click.option(
    "--margin",
    type=float,
    metavar="PERCENT",
    default=3.0,
    show_default=True,
    help="Smallest change of step time that is called faster or slower.",
)
@click.option(
    "--accept",
    type=click.Choice(ACCEPTABLE),
    multiple=True,
    help="Compare all the same where this differs, because that is what you ask about; may be repeated.",
)
@click.option(
    "--fail-on-regression",
    "most_slower",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help="Exit with 1 where NEW is shown to be slower, and by more than this.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="Form of the result; by default what the name of the -o file says, or text.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@click.option("-f", "--force", is_flag=True, help="Replace the file if it is there.")
def compare(  # noqa: PLR0913 - one argument an option
    *,
    base: Path,
    new: Path,
    more_base: tuple[Path, ...],
    more_new: tuple[Path, ...],
    window: str,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...],
    margin: float,
    accept: tuple[str, ...],
    most_slower: float | None,
    form: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Say whether a step of NEW is faster or slower than one of BASE, how sure that is, and what moved.

    BASE and NEW are captures (.nsys-rep), exports (.sqlite), a report.json, or folders that profile wrote. The exit
    code is 3 where it cannot be told.

    \b
      nsyswrap compare reports/before reports/after
      nsyswrap compare before/report.json after/report.json -o compare.html
      nsyswrap compare main/ change/ --format markdown --fail-on-regression 5
      nsyswrap compare old1/ new1/ --base-run old2/ --new-run new2/
      nsyswrap compare a100/report.json h200/report.json --accept gpu
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    reading = Reading(window, step_range, phases, kernel_rules)
    check_request(*reading)
    check_most(most_slower)
    check_not_read(output, base, new, *more_base, *more_new, *kernel_rules)
    settings = settings_of(margin, accept)
    found = comparison_of((base, *more_base), (new, *more_new), reading, settings)
    text = rendered_comparison(form_of(form, output, FORMS), found, to_terminal=output is None)
    write_result(text, output, force=force)
    check_gate(found, most_slower)
