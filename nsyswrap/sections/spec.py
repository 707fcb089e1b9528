"""The definition of a section of the report: a key, a title, and a function of named values."""

from collections.abc import Callable
from dataclasses import dataclass

from nsyswrap.model import Section
from nsyswrap.tables import TableSpec


@dataclass(frozen=True, slots=True)
class SectionSpec:
    """One section of the report and the function that makes it.

    Attributes:
        key: Key of the section.
        title: Heading of the section.
        needs: Tables that must have rows; without them the section is left out and the report says so.
        run: Returns the section; a pure function. Its parameters name the values that it reads: ``context``,
            ``window``, and those of ``report.VALUES``, such as ``attributions`` and ``simulation``.
        of_operations: Whether it needs GPU operations; without any, the section is left out.
        of_excerpt: Whether it is made only where the trace holds a part of a capture.
    """

    key: str
    title: str
    needs: tuple[TableSpec, ...]
    run: Callable[..., Section]
    of_operations: bool = False
    of_excerpt: bool = False
