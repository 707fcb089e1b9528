"""A comparison in one of four forms; each form is a pure function from comparison to text."""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from nsyswrap.compare import Comparison
from nsyswrap.errors import UsageError

Form = Callable[[Comparison], str]


def _form(module: str) -> Form:
    """Return a form that loads its module and its libraries when it is called."""

    def draw(comparison: Comparison) -> str:
        return str(importlib.import_module(f"nsyswrap.render.comparison.{module}").render(comparison))

    return draw


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "text": _form("text_form"),
        "html": _form("html_form"),
        "json": _form("json_form"),
        "markdown": _form("markdown_form"),
    }
)
"""Each form a comparison can take, by name."""


def render(form: str, comparison: Comparison) -> str:
    """Return the comparison in one form.

    Args:
        form: A key of ``FORMS``.
        comparison: The comparison.

    Raises:
        UsageError: There is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(FORMS)}.")
    return FORMS[form](comparison)
