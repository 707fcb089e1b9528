"""The styles and scripts of pages, and the Content-Security-Policy that allows these and no network access."""

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from importlib import resources

# Lines that are a comment as a whole, and indentation. Our files have no text that spans lines.
_FOR_AUTHORS = re.compile(r"^[ \t]*(?:(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/)[ \t]*\n|\n)|^[ \t]+", re.MULTILINE)

# In a style sheet: a text in quotes, which stays, or spaces that mean nothing. A space before a colon means something.
_STYLE_SPACES = re.compile(r"""("[^"]*"|'[^']*')|\s*([{};,])\s*|(:)\s+""")


@functools.cache
def static(name: str) -> str:
    """Return the text of a style sheet or a script without comments, blank lines and indentation.

    A style sheet also loses its other spaces without a meaning: it is on each page, and a slim page has at most 60 kB.
    """
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    short = _FOR_AUTHORS.sub("", text)
    return (
        _STYLE_SPACES.sub(lambda found: "".join(filter(None, found.groups())), short)
        if name.endswith(".css")
        else short
    )


def digest(text: str) -> str:
    """Return the source expression of an inline script or style sheet: ``'sha256-...'``.

    Source:
        Content Security Policy Level 3, section 2.3.1, hash-source.
    """
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(found).decode('ascii')}'"


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a policy that allows these style sheets and scripts, images inside the page, and nothing else.

    Under this policy, ``style`` attributes and handlers such as ``onclick`` have no effect, and no script can turn text
    into markup.
    """
    rules = (
        "default-src 'none'",
        " ".join(("script-src", *map(digest, scripts))) if scripts else "script-src 'none'",
        " ".join(("style-src", *map(digest, styles))) if styles else "style-src 'none'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    )
    return "; ".join(rules)
