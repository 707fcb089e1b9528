"""Reports and all other results in their forms: a document through one of the writers.

Each kind of result has a module ``<kind>_document``: its function ``document`` returns the document, and its function
``tree`` the JSON, with all numbers unrounded. The same result always gives the same bytes.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nsyswrap.base.errors import UsageError

FORMS = ("text", "json", "html", "markdown")
"""Each form that a result can take."""
KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    **dict.fromkeys(("comparison", "gate", "many", "sweep", "try", "verification"), FORMS),
    "agreement": ("text", "json", "markdown"),
    **dict.fromkeys(("breakdown", "nvprof"), ("text",)),
    "history": ("html",),
    "report": ("text", "brief", "html", "slim", "markdown"),
    "run": ("text", "json"),
})  # fmt: skip
"""Each kind of result, and the forms that its command offers."""
_WRITERS = {"slim": "html", "brief": "text"}


def render(  # noqa: PLR0913 - what each form takes
    kind: str,
    form: str,
    result: Any,  # noqa: ANN401 - that of the kind
    *,
    width: int = 80,
    colour: bool = False,
    editor: str = "",
) -> str:
    """Return a result in one form.

    Args:
        kind: A key of ``KINDS``.
        form: One of its forms.
        result: The result of this kind.
        width: Largest line width of text, in columns.
        colour: Whether text has terminal colours; no information is in the colour alone.
        editor: The address that opens a line of Python in an editor, for pages, as ``html_writer.write`` has it.

    Raises:
        UsageError: There is no such form.
    """
    if form not in KINDS[kind]:
        raise UsageError(f"there is no form {form!r}", hint=f"Choose one of: {', '.join(KINDS[kind])}.")
    made = importlib.import_module(f"nsyswrap.render.{kind}_document")
    writer = importlib.import_module(f"nsyswrap.render.{_WRITERS.get(form, form)}_writer")
    if form == "json":
        return str(writer.write(made.tree(result)))
    page = {"form": form, "editor": editor}
    text = {"width": width, "colour": colour}
    of_form: dict[str, dict[str, Any]] = {"text": text, "brief": {**text, "is_brief": True}, "slim": page, "html": page}
    return str(writer.write(made.document(result), **of_form.get(form, {})))
