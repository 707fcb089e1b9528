"""A report in one of five forms; each renderer is a pure function from report to text.

The same report always gives the same bytes: renderers read no clock and no environment, and their order is fixed.
"""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from nsyswrap.base.errors import UsageError
from nsyswrap.render import documents

if TYPE_CHECKING:
    from nsyswrap.model import Report

Renderer = Callable[["Report"], str]


def _renderer(module: str) -> Renderer:
    """Return a renderer that loads its module and its libraries when it is called."""

    def draw(report: "Report") -> str:
        return str(importlib.import_module(f"nsyswrap.render.{module}").render(report))

    return draw


def _written(form: str) -> Renderer:
    """Return a renderer that makes a document and gives it to a writer."""
    return lambda report: documents.render("report", form, report)


RENDERERS: Mapping[str, Renderer] = MappingProxyType(
    {
        "text": _written("text"),
        "html": _written("html"),
        "json": _renderer("json_report"),
        "csv": _renderer("csv_report"),
        "markdown": _written("markdown"),
    }
)
"""Each form a report can take, by name."""


def render(form: str, report: "Report") -> str:
    """Return the report in one form.

    Args:
        form: A key of ``RENDERERS``.
        report: The report.

    Raises:
        UsageError: There is no such form.
    """
    if form not in RENDERERS:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(RENDERERS)}.")
    return RENDERERS[form](report)
