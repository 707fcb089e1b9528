"""Marks the steps of a loop that steps no optimizer, such as inference. It imports nothing else of nsyswrap."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

# The package under which ``nsyswrap profile`` has loaded its marks in this process.
_MARKS = "_nsyswrap_annotate"


def steps(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items of a loop. Each one is a step of the program, from asking for it until asking for the next one.

    In a process that ``nsyswrap profile`` has not marked, nothing else happens. Where the loop steps an optimizer, too,
    these steps count and not those of the optimizer.

    Args:
        items: What the loop goes over, such as a loader.
    """
    marks = getattr(sys.modules.get(_MARKS), "loop_marks", None)
    if marks is None:
        yield from items
        return
    try:
        marks.begin_step()
        for item in items:
            yield item
            marks.begin_step()
    finally:
        marks.leave_step()
