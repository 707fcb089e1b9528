"""A report in one of five forms; each renderer is a pure function from report to text.

The same report always gives the same bytes: renderers read no clock and no environment, and their order is fixed.
"""

import importlib
from typing import TYPE_CHECKING

from nsyswrap.base.errors import UsageError
from nsyswrap.render import documents

if TYPE_CHECKING:
    from nsyswrap.model import Report

FORMS = ("text", "html", "json", "csv", "markdown")
"""Each form a report can take."""


def render(form: str, report: "Report") -> str:
    """Return the report in one form.

    Raises:
        UsageError: There is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(FORMS)}.")
    if form in {"json", "csv"}:
        # Loaded, with its libraries, when it is called.
        return str(importlib.import_module(f"nsyswrap.render.{form}_report").render(report))
    return documents.render("report", form, report)
