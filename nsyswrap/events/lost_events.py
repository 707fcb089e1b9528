"""Events that nsys lost: main threads whose calls stop while others go on, and counts that the export lacks."""

import re
from typing import NamedTuple

import numpy as np

from nsyswrap import tables
from nsyswrap.compiled.rows import taken
from nsyswrap.events.operations import SOURCES, Operations
from nsyswrap.tables import Trace, array, coded

# The calls of a main thread were lost where it launched kernels and then makes no call for this share of the time in
# which its process launches. An autograd thread may launch for one step longer than the main thread. Ours.
SILENT_SHARE = 0.10
# Only a main thread that launched kernels counts: one that only allocates and copies may leave the launches to another
# thread.
COMPUTES = (SOURCES.index(tables.KERNELS), SOURCES.index(tables.GRAPHS))


class SilentThread(NamedTuple):
    """A main thread whose calls stop while other threads of its process go on launching.

    Attributes:
        main: Global id of the thread.
        last_call_ns: End of its last call, in ns since capture start.
        last_launch_ns: Start of the last launch of its process.
    """

    main: int
    last_call_ns: int
    last_launch_ns: int


def silent_threads(trace: Trace, operations: Operations) -> list[SilentThread]:
    """Return the main threads that launched kernels and whose calls then stop while their process goes on launching.

    Where the export holds as many events as nsys says it collected, no call was lost, and none is returned.
    """
    calls = trace[tables.CALLS]
    known = operations.call >= 0
    if not known.any() or all_arrived(trace, "CUDA"):
        return []
    call, owner = taken(operations.call, known), taken(operations.process, known)
    thread, launches = coded(calls, "thread"), taken(array(calls, "start"), call)
    computing = tables.distinct(thread[taken(call, np.isin(taken(operations.table, known), COMPUTES))])
    found = []
    for process in tables.distinct(owner).tolist():
        main = process | tables.pid(process)
        if main not in computing:
            continue
        of_main = taken(array(calls, "end"), thread.equal(main))
        mine = taken(launches, owner == process)
        first, last, silent = int(mine.min()), int(mine.max()), int(mine.max()) - int(of_main.max())
        if silent > SILENT_SHARE * max(last - first, 1):
            found.append(SilentThread(main, int(of_main.max()), last))
    return found


_COUNTED = re.compile(r"Number of (CUDA|NVTX) events collected:\s*([\d,]+)")


def collected(trace: Trace) -> dict[str, int]:
    """Return how many events of each family ("CUDA", "NVTX") nsys says it collected, in all processes together.

    A family that no message names is left out.
    """
    counts: dict[str, int] = {}
    for text in trace[tables.DIAGNOSTICS]["text"].astype(str):
        found = _COUNTED.search(text)
        if found:
            counts[found.group(1)] = counts.get(found.group(1), 0) + int(found.group(2).replace(",", ""))
    return counts


def all_arrived(trace: Trace, family: str) -> bool:
    """Return whether nsys says how many events of a family it collected, and the export holds exactly as many."""
    return collected(trace).get(family) == trace.event_counts.get(family, 0)
