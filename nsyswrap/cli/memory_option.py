"""The option ``--memory``: how much memory reading and analyzing a capture may take."""

import re

import click

from nsyswrap.base.errors import UsageError

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([MG])B?", re.IGNORECASE)
_UNITS = {"M": 10**6, "G": 10**9}
# Reading and analyzing takes at most so much, unless the user allows more.
MOST_BYTES = 4 * 10**9


def bytes_of(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Return the bytes in the value of ``--memory``."""
    if text is None:
        return None
    found = _MEMORY.fullmatch(text.strip())
    if not found or not (size := round(float(found.group(1)) * _UNITS[found.group(2).upper()])):
        raise UsageError(f"--memory {text!r} is no amount of memory", hint="write it as --memory 4GB or --memory 800MB")
    return size


memory_option = click.option(
    "--memory",
    metavar="SIZE",
    callback=bytes_of,
    help="Memory that reading and analyzing may take, such as 4GB. Of a capture that needs more, as many steps as fit "
    "are read in detail, from the middle, and the report says so.  [default: what is free, at most 4GB]",
)


def memory_bytes(given: int | None) -> int:
    """Return the bytes that may be used: those that the user gives, else what is free, at most ``MOST_BYTES``."""
    if given is not None:
        return given
    from nsyswrap.many.memory import free_bytes  # noqa: PLC0415 - loaded when a capture is read

    return min(free_bytes(), MOST_BYTES)
