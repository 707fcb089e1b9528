"""Makes names of the profiled program safe to read: hidden characters are shown, long names are cut.

Kernel names and range texts come from the profiled program. They may hold line breaks, terminal escapes and characters
that change the direction of writing, so that a text looks different from what it is.
"""

import json
import re
import unicodedata

from markupsafe import Markup

ELISION = "…"
_NOISE = ("<unnamed>::", "(anonymous namespace)::")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:[nµm]?s|[kMG]?B)\b)")
_ESCAPED_IN_JSON = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return the text with each control or invisible character shown by its number: ``[U+202E]``."""
    if text.isprintable():
        return text
    return "".join(f"[U+{ord(one):04X}]" if unicodedata.category(one) in _HIDDEN else one for one in text)


def unbroken(text: str) -> str:
    """Return the visible text with spaces between numbers and their units at which no line breaks."""
    return _BEFORE_UNIT.sub("\u00a0", visible(text))


def elide(text: str, width: int) -> str:
    """Return the visible text in at most ``width`` characters, cut in the middle.

    Both ends stay: a kernel's name starts with its kind and ends with its variant.
    """
    shown = visible(text)
    if len(shown) <= width:
        return shown
    tail = (width - 1) * 2 // 5
    return shown[: width - 1 - tail] + ELISION + shown[len(shown) - tail :]


def shorten(text: str, width: int) -> str:
    """Return a kernel's name in at most ``width`` characters, without its least important parts if it is too long.

    A long name first loses its return type, its argument list and unnamed namespaces; then its middle is cut.
    """
    shown = visible(text)
    return shown if len(shown) <= width else elide(essential(shown), width)


def essential(shown: str) -> str:
    """Return a visible name without its return type, its argument list and unnamed namespaces."""
    for noise in _NOISE:
        shown = shown.replace(noise, "")
    name = shown.removeprefix("void ")
    depth = 0
    for at in range(len(name) - 1, 0, -1) if name.endswith(")") else ():
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            return name[:at]
    return name


def escape_in_json(document: str) -> str:
    """Return JSON in which invisible characters are written as escapes.

    The values do not change. In JSON such characters occur only inside strings.
    """
    return _ESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def as_json(content: object) -> Markup:
    """Return a value as JSON that cannot end its element: in JSON, "<" occurs only inside strings."""
    return Markup(json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704
