"""The styles and scripts of pages."""

import functools
import re
from importlib import resources

# Lines that are a comment as a whole, and indentation. Our files have no text that spans lines.
_FOR_AUTHORS = re.compile(r"^[ \t]*(?:(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/)[ \t]*\n|\n)|^[ \t]+", re.MULTILINE)

# In a style sheet: a text in quotes, which stays, or spaces that mean nothing. A space before a colon means something.
_STYLE_SPACES = re.compile(r"""("[^"]*"|'[^']*')|\s*([{};,])\s*|(:)\s+""")


@functools.cache
def static(name: str) -> str:
    """Return the text of a style sheet or a script without comments, blank lines and indentation.

    A style sheet also loses its other spaces without a meaning: it is on each page, and a slim page has at most 60 kB.

    Args:
        name: Its file in ``static``, such as ``page.css``.
    """
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    short = _FOR_AUTHORS.sub("", text)
    return (
        _STYLE_SPACES.sub(lambda found: "".join(filter(None, found.groups())), short)
        if name.endswith(".css")
        else short
    )
