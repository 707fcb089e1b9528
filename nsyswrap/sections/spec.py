"""What a section of the report is made by."""

from collections.abc import Callable
from dataclasses import dataclass

from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.tables import TableSpec


@dataclass(frozen=True, slots=True)
class SectionSpec:
    """One question and how it is answered.

    Attributes:
        key: Name of its section.
        title: Heading of its section.
        needs: Tables that must have rows; without them the analysis is skipped and the report says so.
        run: The answer for one window; pure.
        of_operations: Whether it is about what ran on the GPU, of whatever kind; left out where nothing did.
        of_calls: Whether it looks at host calls alone; it can run while operations are still being joined.
        of_gains: Whether it promises gains, which the replay tells, which asks for what idle time was explained by; it
            is begun when all others are, so that it need not wait.
    """

    key: str
    title: str
    needs: tuple[TableSpec, ...]
    run: Callable[[TraceContext, Window], Section]
    of_operations: bool = False
    of_calls: bool = False
    of_gains: bool = False
