"""Views: a report told in the layout of a tool that is gone, for those who knew it. Text only.

Every number of a view stands in a section of the report too, so that JSON and CSV hold it without the view.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from nsyswrap.model import Report
from nsyswrap.render import breakdown_view, nvprof_view


class View(Protocol):
    """What a view is called with: a report, and the columns no line exceeds, None for lines in full."""

    def __call__(self, report: Report, *, width: int | None = None) -> str:
        """Return the view as text."""


VIEWS: Mapping[str, View] = MappingProxyType({"nvprof": nvprof_view.render, "breakdown": breakdown_view.render})
"""Each view by name."""
