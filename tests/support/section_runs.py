"""Sections that are made alone, as a report makes all of them."""

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.report import values_and_sections
from nsyswrap.sections.spec import SectionSpec


def run_sections(specs: list[SectionSpec], context: TraceContext, window: Window) -> list[Section]:
    """Return the sections. A value that several sections name is built once."""
    found = values_and_sections(specs, {"context": context, "window": window}, {})
    return [found[f"section {each.key}"] for each in specs]
