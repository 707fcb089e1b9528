"""`nsyswrap doctor`: what works here, what does not, and the remedy."""

import dataclasses
import json
import sys
import textwrap
from collections.abc import Iterable

import click

from nsyswrap.capture.doctor import run_checks
from nsyswrap.capture.self_test import Check, Status
from nsyswrap.cli.output import print_result
from nsyswrap.cli.terminal import columns

# Where the details of a check begin.
INDENT = 27


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to answer."
)
def doctor(form: str) -> None:
    """Check all that a capture needs here, and name a remedy for each failure.

    It records a small program and looks for its NVTX range in the export. Exit code 1 if a check failed.

    \b
      nsyswrap doctor
      nsyswrap doctor --format json
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    checks = tuple(run_checks())
    print_result(json_of(checks) if form == "json" else text_of(checks, columns()))
    sys.exit(int(has_failed(checks)))


def text_of(checks: Iterable[Check], width: int | None = None) -> str:
    """Return one line a check, each remedy on a line below its check.

    Args:
        checks: What was found.
        width: Columns no line exceeds, where a line without blanks can be broken; None for any.
    """
    lines = []
    for check in checks:
        lines += _broken(f"{check.status:<8} {check.name:<17} {check.detail}", INDENT, width)
        lines += _broken(f"{'':<{INDENT}}remedy: {check.remedy}", INDENT + 2, width) if check.remedy else []
    return "\n".join(lines)


def _broken(line: str, indent: int, width: int | None) -> list[str]:
    """Return a line as several where it is too long; words stay whole, so that a command can be copied."""
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def json_of(checks: Iterable[Check]) -> str:
    """Return ``{"schema": "nsyswrap.doctor/1", "checks": [{"name", "status", "detail", "remedy"}, ...]}``."""
    rows = [dataclasses.asdict(check) for check in checks]
    return json.dumps({"schema": "nsyswrap.doctor/1", "checks": rows}, indent=2, ensure_ascii=False)


def has_failed(checks: Iterable[Check]) -> bool:
    """Tell whether any check failed; warnings do not count."""
    return any(check.status is Status.FAILED for check in checks)
