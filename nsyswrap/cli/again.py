"""The second run of `nsyswrap profile --counterfactual data`: the same program, with loaders that cost nothing."""

import dataclasses
from typing import TYPE_CHECKING

import click

from nsyswrap.errors import NsyswrapError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nsyswrap.capture.nsys import CaptureResult
    from nsyswrap.capture.options import CaptureOptions
    from nsyswrap.model import Report, Section

FOLDER = "counterfactual-data"

# How many batches each loader keeps: enough that no batch is in a cache of the GPU, few enough to fit beside the model.
KEPT_BATCHES = 4


def with_second_run(  # noqa: PLR0913 - a first run, a second one, and whether there is to be one
    report: "Report",
    options: "CaptureOptions",
    wanted: str | None,
    run: "Callable[[CaptureOptions], CaptureResult]",
    read: "Callable[[Path], Report]",
    *,
    code: int,
) -> "Report":
    """Run the program again without its loaders, and add what that shows to the report.

    Where the second run fails, the report says so; the first run's result stands.

    Args:
        report: What the first run gave.
        options: How it was run.
        wanted: What the second run goes without; None for no second run.
        run: Captures a program.
        read: Reads an export.
        code: How the first run ended; a program that failed is not run again.
    """
    if wanted is None:
        return report
    from nsyswrap.compare.loader_counterfactual import failed, without_loader  # noqa: PLC0415 - heavy; loaded when it is asked for

    if code:
        return _with(report, failed(report, f"the program ended with exit code {code}"))
    click.echo("nsyswrap: running the program again, without its loaders", err=True)
    again = dataclasses.replace(
        options, folder=options.folder / FOLDER, replay_batches=KEPT_BATCHES, output_to_stderr=True
    )
    try:
        result = run(again)
        if result.exit_code:
            return _with(report, failed(report, f"the second run ended with exit code {result.exit_code}"))
        section = without_loader(report, read(result.export), KEPT_BATCHES)
    except NsyswrapError as error:
        section = failed(report, error.message)
    return _with(report, section)


def _with(report: "Report", section: "Section") -> "Report":
    """Add a section to a report, and say what it notes."""
    for note in section.notes:
        click.echo(f"nsyswrap: {note}", err=True)
    return dataclasses.replace(report, sections=(*report.sections, section))
