"""Lines of Python on a page, such as ``train.py:40``: a click copies one, and a link opens it in an editor."""

import re
from urllib.parse import quote

from markupsafe import Markup

from nsyswrap.render.escape import visible

# A file as frames name it, and the number of the line.
_PLACE = re.compile(r"((?:~?/)?(?:[\w.+-]+/)*[\w+-][\w.+-]*\.py):(\d+)\b")
_COPIED = Markup('<button type="button" class="place">{}</button>')
_OPENED = Markup('<a class="opens" href="{}" aria-label="Open {} in the editor">↗</a>')


def with_places(text: str, editor: str = "") -> Markup:
    """Return a text, escaped, in which each line of Python can be copied.

    Args:
        text: Any text.
        editor: The address that opens a line, with ``{file}`` and ``{line}`` in it; empty for no links.
    """
    found, end = Markup(), 0
    shown = visible(text)
    for each in _PLACE.finditer(shown):
        found += shown[end : each.start()] + _COPIED.format(each[0])
        if editor:
            found += _OPENED.format(editor.replace("{file}", quote(each[1])).replace("{line}", each[2]), each[0])
        end = each.end()
    return found + shown[end:]
