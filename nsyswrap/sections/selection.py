"""Some sections instead of all: their names, and the tables of an export that they do not need."""

from collections.abc import Collection
from types import MappingProxyType

from nsyswrap.errors import UsageError
from nsyswrap.sections import SECTIONS
from nsyswrap.tables import (
    EVENT_RECORDS,
    EVENT_WAITS,
    LIBRARY_CALLS,
    MEMORY,
    OS_CALLS,
    OVERHEADS,
    SCHEDULING,
    THREADS,
)

# Tables that steps, phases and operations do not need. They hold more than half of the rows of most captures.
_HOST = frozenset(spec.name for spec in (LIBRARY_CALLS, OS_CALLS, OVERHEADS, SCHEDULING, THREADS))
_MORE = _HOST | frozenset(spec.name for spec in (EVENT_RECORDS, EVENT_WAITS, MEMORY))
# The tables among those that a section needs. Sections that are not here need all: they read the attribution of idle
# time or the simulation, or count the rows of all tables.
_NEEDED = MappingProxyType({
    **dict.fromkeys(
        (
            "ledger",
            "counters",
            "phases",
            "step_breakdown",
            "kernels",
            "cuda_graphs",
            "host_calls",
            "ranges",
            "whole_capture",
        ),
        frozenset[str](),
    ),
    "os_calls": frozenset({OS_CALLS.name}),
    "host_waits": _HOST,
    "machine": _HOST,
})  # fmt: skip


def checked_keys(text: str) -> tuple[str, ...]:
    """Return the keys of sections in a text, in the order of the report.

    Args:
        text: Keys, separated by commas.

    Raises:
        UsageError: There is no section with one of these keys, or there is no key.
    """
    wanted = [key.strip() for key in text.split(",") if key.strip()]
    known = [spec.key for spec in SECTIONS]
    unknown = [key for key in wanted if key not in known]
    if unknown or not wanted:
        named = f"there is no section {unknown[0]!r}" if unknown else "no section is named"
        raise UsageError(f"--sections {text}: {named}", hint=f"name some of: {', '.join(known)}")
    return tuple(key for key in known if key in wanted)


def unread_tables(keys: Collection[str]) -> frozenset[str]:
    """Return the names of the tables that none of these sections needs; nothing for no keys, which are all sections."""
    if not keys:
        return frozenset()
    return _MORE - frozenset[str]().union(*(_NEEDED.get(key, _MORE) for key in keys))
