"""Fits reports to the terminal: its width, and colour if it supports colour."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, TextIO

from nsyswrap.cli import editor

if TYPE_CHECKING:
    from nsyswrap.model import Report

WIDEST = 120
NARROWEST = 60
PIPED = 80
UNLIMITED = 100_000
SUMMARY = "summary"
"""The default view: the text of the report."""


def printable(text: str) -> str:
    """Return a text with control characters escaped, so that it cannot move the cursor of a terminal.

    Bytes of a file's name that are not UTF-8 are shown by their numbers.
    """
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def rendered(
    form: str, report: "Report", *, to_terminal: bool, view: str = SUMMARY, stream: TextIO | None = None
) -> str:
    """Return the report in one format; text is fitted to the terminal.

    Args:
        form: A format of ``nsyswrap.render``, or ``brief``: the answer in 20 lines of text.
        report: The report.
        to_terminal: Whether the result goes to ``stream``, which may be a terminal.
        view: A kind of ``nsyswrap.render.documents`` in the layout of another tool, or ``SUMMARY``. In a pipe or a file
            its lines are whole.
        stream: Where it would be printed; stdout if None.
    """
    from nsyswrap.render import documents, render  # noqa: PLC0415 - loads pandas

    if form == "html":
        return documents.render("report", form, report, editor=editor.checked(os.environ.get(editor.VARIABLE, "")))
    if form not in {"text", "brief"}:
        return render(form, report)
    kind, width = ("report", 0) if view == SUMMARY else (view, columns() or UNLIMITED)
    return rendered_result(kind, form, report, to_terminal=to_terminal, stream=stream, width=width)


def rendered_result(  # noqa: PLR0913 - what each form takes
    kind: str,
    form: str,
    result: Any,  # noqa: ANN401 - as `documents.render` has it
    *,
    to_terminal: bool,
    stream: TextIO | None = None,
    width: int = 0,
) -> str:
    """Return a comparison or another result in one format; text is fitted to the terminal, unless it has a width."""
    from nsyswrap.render.documents import render  # noqa: PLC0415 - loaded when there is a result

    is_terminal = to_terminal and _is_terminal(stream or sys.stdout)
    fitted = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST) if is_terminal else PIPED
    colour = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return render(kind, form, result, width=width or fitted, colour=colour)


def columns() -> int | None:
    """Return the width of the terminal on stdout, or None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if _is_terminal(sys.stdout) else None


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; Python sets a stream to None if it was closed before the start."""
    return stream is not None and stream.isatty()
