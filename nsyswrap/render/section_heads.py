"""The sections that a report may have, as their own files say: names, places, words, and the columns of their tables.

A column of one name holds the same kind of values in every table of a section. Tables and columns that are not here are
those of another version of this program: they are read as they are.
"""

from collections.abc import Mapping
from types import MappingProxyType

from nsyswrap.base.units import ColumnUnit
from nsyswrap.compare import loader_counterfactual
from nsyswrap.experiments import tried_section
from nsyswrap.sections import SECTIONS
from nsyswrap.sections.spec import Kind, PageGroup, SectionHead

HEADS: Mapping[str, SectionHead] = MappingProxyType(
    {each.key: each for each in (*SECTIONS, loader_counterfactual.SECTION, tried_section.SECTION)}
)
"""The head of each section, by key. Sections of other versions of this program have none."""
HEADINGS: Mapping[str, str] = MappingProxyType({k: v for each in HEADS.values() for k, v in each.headings.items()})
"""Headings of columns that one section alone has."""
FACTS: Mapping[str, str] = MappingProxyType({k: v for each in HEADS.values() for k, v in each.facts.items()})
"""Words for the labels of facts."""
UNITS: Mapping[str, ColumnUnit] = MappingProxyType({k: v for each in HEADS.values() for k, v in each.units.items()})
"""Units of columns whose names do not end in them."""


def group_of(key: str) -> PageGroup:
    """Return the group of the page in which a section is shown."""
    return HEADS[key].group if key in HEADS else PageGroup.PROGRAM


def place_of(key: str) -> float:
    """Return the place of a section in its group; that of another version comes last."""
    return HEADS[key].place if key in HEADS else float("inf")


def is_on_page_only(key: str) -> bool:
    """Return whether the report for a terminal leaves a section out."""
    return key in HEADS and HEADS[key].on_page_only


def caption_of(key: str, table: str) -> str:
    """Return the heading of a table of a section."""
    known = HEADS[key].captions if key in HEADS else {}
    return known.get(table, table.replace("_", " ").capitalize())


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
