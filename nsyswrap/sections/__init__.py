"""The sections of the report, one file each, with its findings and advice: a file with a ``SECTION`` is one."""

from collections.abc import Collection

from nsyswrap.base.errors import UsageError
from nsyswrap.base.package_modules import modules_of
from nsyswrap.sections.spec import About, SectionSpec
from nsyswrap.trace import tables

SECTIONS: tuple[SectionSpec, ...] = tuple(
    sorted(
        (each.SECTION for each in modules_of(__name__, __path__) if hasattr(each, "SECTION")),
        key=lambda each: each.place,
    )
)
"""All sections, in order."""

# Tables that steps, phases and operations do not need. They hold more than half of the rows of most captures.
_FURTHER = frozenset(
    spec.name
    for spec in (
        *(tables.LIBRARY_CALLS, tables.OS_CALLS, tables.OVERHEADS, tables.SCHEDULING, tables.THREADS),
        *(tables.EVENT_RECORDS, tables.EVENT_WAITS, tables.MEMORY),
    )
)


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
    """Return the names of the tables that none of these sections reads; nothing for no keys, which are all sections."""
    if not keys:
        return frozenset()
    read = (
        _FURTHER if each.reads is None or each.about is not About.RECORDING else {spec.name for spec in each.reads}
        for each in SECTIONS
        if each.key in keys
    )
    return _FURTHER - frozenset[str]().union(*read)
