"""`nsyswrap analyze`: print the report of a capture."""

import shlex
from pathlib import Path

import click

from nsyswrap.base.errors import UsageError
from nsyswrap.cli.inputs import ReadOptions, capture_argument, read_options, report_from, sections_option
from nsyswrap.cli.output import check_not_input, file_options, form_of, format_option, write_result
from nsyswrap.cli.terminal import SUMMARY, rendered

FORMS = ("text", "json", "csv", "markdown")
PAGE_SUFFIXES = (".html", ".htm")


@click.command()
@capture_argument
@read_options
@sections_option
@format_option(FORMS)
@click.option(
    "--view",
    type=click.Choice([SUMMARY, "nvprof", "breakdown"]),
    default=SUMMARY,
    show_default=True,
    help="Layout of the text: the report, the two tables of nvprof, or the step-time breakdown of PyTorch's "
    "TensorBoard profiler.",
)
@file_options
def analyze(  # noqa: PLR0913 - one argument an option
    *, capture: Path, options: ReadOptions, form: str | None, view: str, output: Path | None, force: bool
) -> None:
    """Print the report of CAPTURE, which is a .nsys-rep, a .sqlite export or a report.json.

    Text begins with the answer in 20 lines at most; tables follow. `nsyswrap report` writes the page.

    A report.json already holds the numbers of one window, so it takes none of the options --window, --step-range,
    --step-kernel, --phase and --kernel-rules.

    \b
      nsyswrap analyze capture.nsys-rep
      nsyswrap analyze capture.sqlite --window 12.5:14 --format json
      nsyswrap analyze capture.sqlite --view nvprof --window all
      nsyswrap analyze capture.sqlite --step-range '^it' --phase data='^prefetch'
      nsyswrap analyze capture.sqlite --sections ledger,kernels
      nsyswrap analyze report.json --format markdown
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if form is None and output is not None and output.suffix.lower() in PAGE_SUFFIXES:
        hint = f"nsyswrap report {shlex.quote(str(capture))} -o {shlex.quote(str(output))} writes the page"
        raise UsageError("analyze writes no page", hint=hint)
    form = form_of(form, output, FORMS) if view == SUMMARY else form or "text"
    if view != SUMMARY and form != "text":
        hint = f"leave out --view: --format {form} holds every table of the report, including those of this view"
        raise UsageError(f"--view {view} exists as text only, not as {form}", hint=hint)
    if view != SUMMARY and options.sections:
        raise UsageError(f"--view {view} shows all of a report, not some sections", hint="leave out --sections")
    options.check()
    check_not_input(output, capture, *options.kernel_rules)
    report = report_from(capture, options)
    write_result(rendered(form, report, to_terminal=output is None, view=view), output, force=force)
