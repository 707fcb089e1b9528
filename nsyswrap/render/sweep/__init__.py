"""The result of a sweep in one of three forms; each form is a pure function from the sweep to text."""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from nsyswrap.errors import UsageError
from nsyswrap.sweep.results import Sweep

Form = Callable[[Sweep], str]


def _form(module: str) -> Form:
    """Return a form that loads its module and its libraries when it is called."""

    def draw(sweep: Sweep) -> str:
        return str(importlib.import_module(f"nsyswrap.render.sweep.{module}").render(sweep))

    return draw


FORMS: Mapping[str, Form] = MappingProxyType(
    {"text": _form("text_form"), "html": _form("html_form"), "json": _form("json_form")}
)
"""Each form that the result can take, by name."""


def render(form: str, sweep: Sweep) -> str:
    """Return the result in one form.

    Args:
        form: A key of ``FORMS``.
        sweep: The sweep.

    Raises:
        UsageError: There is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(FORMS)}.")
    return FORMS[form](sweep)
