"""The columns of each table in report.json, and what each column holds, as the sections say.

A column of one name holds the same kind of values in every table of a section. Tables and columns that are not here are
those of another version of this program: they are read as they are.
"""

from collections.abc import Mapping

from nsyswrap.render.section_heads import HEADS
from nsyswrap.sections.spec import Kind

# Columns of several sections that hold texts or numbers; sections name those that they alone have.
_SHARED: Mapping[Kind, frozenset[str]] = {
    Kind.TEXT: frozenset({"cause", "kind", "name", "op", "phase", "rule", "what"}),
    Kind.NUMBER: frozenset({"mean_ns", "median_ns", "share", "stddev_ns"}),
}
# What a report may not know, besides numbers that were not measured.
_MAY_BE_MISSING = frozenset({"rank"})


def columns_of(section: str, table: str) -> dict[str, Kind]:
    """Return the columns that a table of a report has, in order; none for a table of another version."""
    known = HEADS[section].columns if section in HEADS else {}
    return {name: kind_of(section, name) for name in known.get(table, "").split()}


def known_tables(section: str = "") -> tuple[str, ...]:
    """Return the names of the tables of a section; without one, the keys of the sections that have tables."""
    if section:
        return tuple(HEADS[section].columns) if section in HEADS else ()
    return tuple(key for key, head in HEADS.items() if head.columns)


def known_columns(section: str, table: str) -> dict[str, Kind]:
    """Return the columns that a table may have: those of ``columns_of`` and those that some reports have."""
    more = HEADS[section].some_columns if section in HEADS else {}
    return {**columns_of(section, table), **{name: kind_of(section, name) for name in more.get(table, "").split()}}


def kind_of(section: str, column: str) -> Kind:
    """Return what a column holds in the tables of a section of this version."""
    own = HEADS[section].kinds.items()
    named = (kind for kind, names in own if column in names.split())
    shared = (kind for kind, names in _SHARED.items() if column in names)
    is_number = column.endswith(("_share", "_share_low", "_share_high"))
    return next(named, next(shared, Kind.NUMBER if is_number else Kind.WHOLE))


def is_required(column: str) -> bool:
    """Return whether a column of texts, flags or whole numbers has a value in each row."""
    return column in _REQUIRED - _MAY_BE_MISSING


_REQUIRED = frozenset(name for each in HEADS.values() for names in each.columns.values() for name in names.split())
