"""`nsyswrap report`: write the report of a capture as one HTML page."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.cli import editor
from nsyswrap.cli.inputs import (
    ReadOptions,
    capture_argument,
    is_report,
    read_options,
    report_from,
    timeline_hint,
)
from nsyswrap.cli.output import check_not_input, write_result
from nsyswrap.cli.terminal import printable

if TYPE_CHECKING:
    from nsyswrap.model import Report


@click.command()
@capture_argument
@read_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@click.option("--slim", is_flag=True, help="Only the first part, at most some 60 kB: for mail and CI.")
@click.option("-f", "--force", is_flag=True, help="Replace the page if it exists.")
@click.option(
    "--editor",
    "address",
    envvar=editor.VARIABLE,
    default="",
    metavar="URL",
    help="Link each line of Python to an editor, as in vscode://file/home/me/project/{file}:{line}.",
)
def report(*, capture: Path, options: ReadOptions, output: Path, slim: bool, force: bool, address: str) -> None:  # noqa: PLR0913 - its options
    """Write the report of CAPTURE, a .nsys-rep, a .sqlite export or a report.json, as one offline HTML page.

    With --slim the page has the verdict, the plan, the breakdown and the first findings, and no timeline.

    A page made from a report.json has no timeline. A report.json takes none of the options --window, --step-range,
    --step-kernel, --phase and --kernel-rules.

    \b
      nsyswrap report capture.nsys-rep
      nsyswrap report capture.sqlite --window all -o whole.html
      nsyswrap report report.json
      nsyswrap report report.json --slim -o summary.html
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    options.check()
    link = editor.checked(address)
    check_not_input(output, capture, *options.kernel_rules)
    from nsyswrap.render import documents  # noqa: PLC0415 - loads what makes a document

    found = report_from(capture, options) if slim else page_report(capture, options)
    page = documents.render("report", "slim" if slim else "html", found, editor=link)
    write_result(page, output, force=force)


def page_report(capture: Path, options: ReadOptions) -> "Report":
    """Return the report to show on the page; if it has no timeline, the page and stderr say so.

    Raises:
        ExportError: The file cannot be exported or read.
        UsageError: An option is invalid, or is given for a report.json.
        CannotTellError: The capture holds too little.
    """
    found = report_from(capture, options, with_timeline=True)
    if not is_report(capture):
        return found
    click.echo(f"note: {printable(timeline_hint(capture))}", err=True)
    note = "This page was made from a report.json, which holds no timeline."
    return dataclasses.replace(found, notes=(*found.notes, note))
