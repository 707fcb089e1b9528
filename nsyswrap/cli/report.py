"""`nsyswrap report`: read a capture and write one HTML page."""

from pathlib import Path

import click

from nsyswrap.cli.capture_inputs import (
    capture_argument,
    check_request,
    reading_options,
    report_of,
)
from nsyswrap.cli.terminal import rendered
from nsyswrap.cli.writing import check_not_read, write_result


@click.command()
@capture_argument
@reading_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@click.option("-f", "--force", is_flag=True, help="Replace the page if it is there.")
def report(  # noqa: PLR0913 - one argument an option
    *,
    capture: Path,
    window: str,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...],
    output: Path,
    force: bool,
) -> None:
    """Read CAPTURE, a .nsys-rep or a .sqlite export, and write one HTML page that needs no network.

    \b
      nsyswrap report capture.nsys-rep
      nsyswrap report capture.sqlite --window all -o whole.html
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    check_request(window, step_range, phases, kernel_rules)
    check_not_read(output, capture, *kernel_rules)
    found = report_of(capture, window, step_range, phases, kernel_rules, with_timeline=True)
    write_result(rendered("html", found, to_terminal=False), output, force=force)
