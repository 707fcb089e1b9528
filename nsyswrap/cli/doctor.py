"""`nsyswrap doctor`: check whether captures work on this machine."""

import dataclasses
import json
import sys
import textwrap
from collections.abc import Iterable

import click

from nsyswrap.capture.doctor import Check, Status, run_checks
from nsyswrap.cli.output import print_result
from nsyswrap.cli.terminal import columns

# The column of the details of a check.
INDENT = 27


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
def doctor(form: str) -> None:
    """Check whether captures work on this machine, and say how to fix each failure.

    It also records a small program and looks for its NVTX range in the export. Exit code 1 if a check failed.

    \b
      nsyswrap doctor
      nsyswrap doctor --format json
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    checks = tuple(run_checks())
    print_result(json_of(checks) if form == "json" else text_of(checks, columns()))
    sys.exit(int(any(check.status is Status.FAILED for check in checks)))


def text_of(checks: Iterable[Check], width: int | None = None) -> str:
    """Return one line for each check, with the remedy on a line below.

    Args:
        checks: The results.
        width: Largest line width in columns, as far as lines have blanks to break at; None for no limit.
    """
    lines = []
    for check in checks:
        lines += _broken(f"{check.status:<8} {check.name:<17} {check.detail}", INDENT, width)
        lines += _broken(f"{'':<{INDENT}}remedy: {check.remedy}", INDENT + 2, width) if check.remedy else []
    return "\n".join(lines)


def _broken(line: str, indent: int, width: int | None) -> list[str]:
    """Return a line, wrapped where it is too long; words are not broken, so that commands can be copied."""
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def json_of(checks: Iterable[Check]) -> str:
    """Return ``{"schema": "nsyswrap.doctor/1", "checks": [{"name", "status", "detail", "remedy"}, ...]}``."""
    rows = [dataclasses.asdict(check) for check in checks]
    return json.dumps({"schema": "nsyswrap.doctor/1", "checks": rows}, indent=2, ensure_ascii=False)
