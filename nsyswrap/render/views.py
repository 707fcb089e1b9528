"""Views: a report as text in the layout of a discontinued tool, for readers who know it.

Each number of a view is in a section of the report, too, so JSON and CSV hold it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from nsyswrap.model import Report
from nsyswrap.render import breakdown_view, nvprof_view


class View(Protocol):
    """A function from a report to text; ``width`` is the largest line width in columns, None for full lines."""

    def __call__(self, report: Report, *, width: int | None = None) -> str:
        """Return the view as text."""


VIEWS: Mapping[str, View] = MappingProxyType({"nvprof": nvprof_view.render, "breakdown": breakdown_view.render})
"""Each view by name."""
