"""Main threads whose calls were lost: they fall silent while other threads of their process go on launching."""

import re
from typing import NamedTuple

import numpy as np

from nsyswrap import tables
from nsyswrap.events.operations import SOURCES, Operations
from nsyswrap.tables import Trace, array

# A main thread that launched kernels before and then makes no call for this share of the GPU's active time, while
# other threads go on launching, has been lost; an autograd thread that outlives it by a step has not.
SILENT_SHARE = 0.10
# A main thread that only allocates, and copies a model to the GPU, may leave all else to a thread of its own.
COMPUTES = (SOURCES.index(tables.KERNELS), SOURCES.index(tables.GRAPHS))


class Silence(NamedTuple):
    """A main thread that fell silent.

    Attributes:
        main: Global id of the thread.
        last_call_ns: When its last call ends, in ns since capture start.
        last_launch_ns: When the last launch of its process begins.
    """

    main: int
    last_call_ns: int
    last_launch_ns: int


def silent_threads(trace: Trace, operations: Operations) -> list[Silence]:
    """Return the main threads that launched kernels and whose calls stop while others of their process go on launching.

    Where nsys tells how many events it collected and the export holds as many, no call was lost.
    """
    calls = trace[tables.CALLS]
    known = operations.call >= 0
    if not known.any() or all_arrived(trace, "CUDA"):
        return []
    call, owner = operations.call[known], operations.process[known]
    thread, launches = array(calls, "thread"), array(calls, "start")[call]
    computing = tables.distinct(thread[call[np.isin(operations.table[known], COMPUTES)]])
    found = []
    for process in tables.distinct(owner).tolist():
        main = process | tables.pid(process)
        if main not in computing:
            continue
        of_main = array(calls, "end")[thread == main]
        mine = launches[owner == process]
        first, last, silent = int(mine.min()), int(mine.max()), int(mine.max()) - int(of_main.max())
        if silent > SILENT_SHARE * max(last - first, 1):
            found.append(Silence(main, int(of_main.max()), last))
    return found


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
