"""The totals of many captures in one of three forms; each form is a pure function from totals to text."""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from nsyswrap.errors import UsageError
from nsyswrap.many.totals import ManyCaptures

Form = Callable[[ManyCaptures], str]


def _form(module: str) -> Form:
    """Return a form that loads its module and its libraries when it is called."""

    def draw(many: ManyCaptures) -> str:
        return str(importlib.import_module(f"nsyswrap.render.many.{module}").render(many))

    return draw


FORMS: Mapping[str, Form] = MappingProxyType(
    {"text": _form("text_form"), "html": _form("html_form"), "json": _form("json_form")}
)
"""Each form that the totals can take, by name."""


def render(form: str, many: ManyCaptures) -> str:
    """Return the totals in one form.

    Args:
        form: A key of ``FORMS``.
        many: The totals.

    Raises:
        UsageError: There is no such form.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(FORMS)}.")
    return FORMS[form](many)
