"""`nsyswrap analyze`: read a capture and print what it says."""

from pathlib import Path

import click

from nsyswrap.cli.capture_inputs import (
    capture_argument,
    check_request,
    reading_options,
    report_of,
)
from nsyswrap.cli.terminal import SUMMARY, check_view, rendered
from nsyswrap.cli.writing import check_not_read, form_of, write_result

FORMS = ("text", "json", "csv", "markdown")


@click.command()
@capture_argument
@reading_options
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="Form of the result; by default what the name of the -o file says, or text.",
)
@click.option(
    "--view",
    type=click.Choice([SUMMARY, "nvprof", "breakdown"]),
    default=SUMMARY,
    show_default=True,
    help="Layout of the text: the report's own, the two tables nvprof printed, or the step-time breakdown of PyTorch's "
    "TensorBoard profiler.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file instead of stdout.")
@click.option("-f", "--force", is_flag=True, help="Replace the file if it is there.")
def analyze(  # noqa: PLR0913 - one argument an option
    *,
    capture: Path,
    window: str,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...],
    form: str | None,
    view: str,
    output: Path | None,
    force: bool,
) -> None:
    """Read CAPTURE, a .nsys-rep or a .sqlite export, and print what it says.

    \b
      nsyswrap analyze capture.nsys-rep
      nsyswrap analyze capture.sqlite --window 12.5:14 --format json
      nsyswrap analyze capture.sqlite --view nvprof --window all
      nsyswrap analyze capture.sqlite --step-range '^it' --phase data='^prefetch'
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    form = form_of(form, output, FORMS) if view == SUMMARY else form or "text"
    check_view(view, form)
    check_request(window, step_range, phases, kernel_rules)
    check_not_read(output, capture, *kernel_rules)
    report = report_of(capture, window, step_range, phases, kernel_rules)
    write_result(rendered(form, report, to_terminal=output is None, view=view), output, force=force)
