"""How many events nsys says it collected, by family: since 2025 its diagnostics tell, in a message for each process."""

import re

from nsyswrap import tables
from nsyswrap.tables import Trace

_COUNTED = re.compile(r"Number of (CUDA|NVTX) events collected:\s*([\d,]+)")


def collected(trace: Trace) -> dict[str, int]:
    """Return how many events of each family ("CUDA", "NVTX") nsys collected, of all processes together.

    Families that no message tells of are left out.
    """
    told: dict[str, int] = {}
    for text in trace[tables.DIAGNOSTICS]["text"].astype(str):
        found = _COUNTED.search(text)
        if found:
            told[found.group(1)] = told.get(found.group(1), 0) + int(found.group(2).replace(",", ""))
    return told


def all_arrived(trace: Trace, family: str) -> bool:
    """Return whether nsys tells how many events of a family it collected, and the export holds just as many."""
    return collected(trace).get(family) == trace.event_counts.get(family, 0)
