"""A report in one of five forms; each renderer is a pure function from report to text.

The same report gives the same bytes: no clock, no environment, no order left to chance.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nsyswrap.errors import UsageError
from nsyswrap.model import Report
from nsyswrap.render import csv_report, html_report, json_report, markdown_report, text_report

Renderer = Callable[[Report], str]

RENDERERS: Mapping[str, Renderer] = MappingProxyType(
    {
        "text": text_report.render,
        "html": html_report.render,
        "json": json_report.render,
        "csv": csv_report.render,
        "markdown": markdown_report.render,
    }
)
"""Each form a report can take, by name."""


def render(form: str, report: Report) -> str:
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
