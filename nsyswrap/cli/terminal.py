"""How a report looks where it is printed: as wide and as colourful as the terminal allows."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from nsyswrap.model import Report

WIDEST = 120
NARROWEST = 60
PIPED = 80


def rendered(form: str, report: "Report", *, to_terminal: bool, stream: TextIO | None = None) -> str:
    """Return the report in one form; text fits the terminal it is printed on.

    Args:
        form: A form of ``nsyswrap.render``.
        report: The report.
        to_terminal: Whether it may be printed on a terminal.
        stream: Where it would be printed; stdout if None.
    """
    from nsyswrap.render import render  # noqa: PLC0415 - loads pandas

    if form != "text":
        return render(form, report)
    from nsyswrap.render import text_report  # noqa: PLC0415 - loads rich

    target = stream or sys.stdout
    is_terminal = to_terminal and target.isatty()
    width = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST) if is_terminal else PIPED
    return text_report.render(report, width=width, colour=is_terminal and not os.environ.get("NO_COLOR"))
