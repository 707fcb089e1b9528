"""What a section of the report is: a key, a title, and a function of the values that it names."""

from collections.abc import Callable
from dataclasses import dataclass

from nsyswrap.model import Section
from nsyswrap.tables import TableSpec


@dataclass(frozen=True, slots=True)
class SectionSpec:
    """One question about a trace and how it is answered.

    Attributes:
        key: Key of the section.
        title: Heading of the section.
        needs: Tables that must have rows; without them the section is left out and the report says so.
        run: The answer, a pure function. Its parameters name the values that it reads: ``context``, ``window``,
            ``states``, ``attributions`` and ``simulation``, as ``report.py`` builds them.
        of_operations: Whether it is about what ran on the GPU; left out where nothing did.
    """

    key: str
    title: str
    needs: tuple[TableSpec, ...]
    run: Callable[..., Section]
    of_operations: bool = False
