"""The Content-Security-Policy of a page: it allows the page's own scripts and styles and no network access."""

import base64
import hashlib
from collections.abc import Sequence


def digest(text: str) -> str:
    """Return the source expression of an inline script or style sheet: ``'sha256-...'``.

    Args:
        text: The text between the tags, byte for byte.

    Source:
        Content Security Policy Level 3, section 2.3.1, hash-source.
    """
    found = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(found).decode('ascii')}'"


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a policy that allows these style sheets and scripts, images inside the page, and nothing else.

    Under this policy, ``style`` attributes and handlers such as ``onclick`` have no effect, and no script can turn text
    into markup.

    Args:
        styles: The inline style sheets.
        scripts: The inline scripts.
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
