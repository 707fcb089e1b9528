"""`nsyswrap report`: write the report of a capture as one HTML page."""

import dataclasses
from pathlib import Path

import click

from nsyswrap.cli import editor
from nsyswrap.cli.inputs import (
    ReadOptions,
    capture_argument,
    capture_of,
    is_report,
    read_options,
    report_from,
)
from nsyswrap.cli.output import check_not_input, force_option, write_result
from nsyswrap.cli.terminal import printable


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
@click.option("--slim", is_flag=True, help="Only verdict, plan, breakdown and first findings, at most some 60 kB.")
@click.option(
    "--editor",
    "address",
    envvar=editor.VARIABLE,
    default="",
    metavar="URL",
    help="Link each line of Python to an editor, as in vscode://file/home/me/project/{file}:{line}.",
)
@force_option("Replace the page if it exists.")
def report(*, capture: Path, options: ReadOptions, output: Path, slim: bool, force: bool, address: str) -> None:  # noqa: PLR0913 - its options
    """Write the report of CAPTURE, a .nsys-rep, a .sqlite export or a report.json, as one offline HTML page.

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

    found = report_from(capture, options, with_timeline=not slim)
    if is_report(capture) and not slim:
        words = f"{capture.name} holds none: give {capture_of(capture)} to get one"
        click.echo(f"note: The page has no timeline, because {printable(words)}.", err=True)
        note = "This page was made from a report.json, which holds no timeline."
        found = dataclasses.replace(found, notes=(*found.notes, note))
    page = documents.render("report", "slim" if slim else "html", found, editor=link)
    write_result(page, output, force=force)
