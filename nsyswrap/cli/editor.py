"""The address that opens a line of Python in an editor, which a page links to where the user asks for it."""

import re

from nsyswrap.base.errors import UsageError

VARIABLE = "NSYSWRAP_EDITOR"
# A scheme of an application or of the web. Others, such as javascript:, would run something in the page.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)


def checked(address: str) -> str:
    """Return an address such as ``vscode://file/home/me/project/{file}:{line}``; empty for no links.

    Raises:
        UsageError: It is no address, or has no place for the file.
    """
    if address and not (_ADDRESS.fullmatch(address) and "{file}" in address):
        raise UsageError(
            f"{address!r} is no address of an editor",
            hint="Write it as in vscode://file/home/me/project/{file}:{line}",
        )
    return address
