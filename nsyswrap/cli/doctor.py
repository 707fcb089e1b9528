"""`nsyswrap doctor`: what works here, what does not, and the remedy."""

import dataclasses
import json
import sys
from collections.abc import Iterable

import click

from nsyswrap.capture.doctor import examine
from nsyswrap.capture.self_test import Check, Status


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
    checks = tuple(examine())
    click.echo({"text": text_of, "json": json_of}[form](checks))
    sys.exit(int(has_failed(checks)))


def text_of(checks: Iterable[Check]) -> str:
    """Return one line a check, each remedy on a line below its check."""
    lines = []
    for check in checks:
        lines.append(f"{check.status:<8} {check.name:<17} {check.detail}")
        lines += [f"{'':<26} remedy: {check.remedy}"] if check.remedy else []
    return "\n".join(lines)


def json_of(checks: Iterable[Check]) -> str:
    """Return ``{"schema": "nsyswrap.doctor/1", "checks": [{"name", "status", "detail", "remedy"}, ...]}``."""
    rows = [dataclasses.asdict(check) for check in checks]
    return json.dumps({"schema": "nsyswrap.doctor/1", "checks": rows}, indent=2, ensure_ascii=False)


def has_failed(checks: Iterable[Check]) -> bool:
    """Tell whether any check failed; warnings do not count."""
    return any(check.status is Status.FAILED for check in checks)
