"""The name of each section that a report may have, its place, and its words: what its own file says."""

from collections.abc import Mapping
from types import MappingProxyType

from nsyswrap.base.units import ColumnUnit
from nsyswrap.compare import loader_counterfactual
from nsyswrap.experiments import tried_section
from nsyswrap.sections import SECTIONS
from nsyswrap.sections.spec import PageGroup, SectionHead

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
