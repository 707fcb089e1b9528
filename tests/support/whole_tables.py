"""Adds what a hand-made table leaves out, so that it has all columns that such a table of a report has."""

from collections.abc import Mapping

import pandas as pd

from nsyswrap.model import Section
from nsyswrap.render.section_heads import columns_of
from nsyswrap.sections.spec import Kind

_NOTHING = {Kind.TEXT: "", Kind.WHOLE: 0, Kind.NUMBER: 0.5, Kind.FLAG: False}


def whole_tables(key: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of a section with all columns, in order; what they leave out is nothing, or half a unit."""
    return {name: _whole(key, name, table) for name, table in tables.items()}


def whole_section(section: Section) -> Section:
    """Return a section whose tables have all columns."""
    return Section(
        section.key,
        section.title,
        section.window,
        section.facts,
        whole_tables(section.key, section.tables),
        section.findings,
        section.notes,
    )


def _whole(key: str, name: str, table: pd.DataFrame) -> pd.DataFrame:
    needed = columns_of(key, name)
    found = table.copy()
    for column, kind in needed.items():
        if column not in found.columns:
            found[column] = _NOTHING[kind]  # type: ignore[call-overload]
    return found[[*needed, *(column for column in table.columns if column not in needed)]]
