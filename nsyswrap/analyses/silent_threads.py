"""Main threads whose calls were lost: they fall silent while other threads of their process go on launching."""

from typing import NamedTuple

from nsyswrap import tables
from nsyswrap.analyses.operations import Operations
from nsyswrap.tables import Trace, array

# A main thread that launched before and then makes no call for this share of the GPU's active time, while other
# threads go on launching, has been lost; an autograd thread that outlives it by a step has not.
SILENT_SHARE = 0.10


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
    """Return the main threads whose calls stop while other threads of their process go on launching."""
    calls = trace[tables.CALLS]
    known = operations.call >= 0
    if not known.any():
        return []
    launches = array(calls, "start")[operations.call[known]]
    thread, owner = array(calls, "thread"), operations.process[known]
    found = []
    for process in tables.distinct(owner).tolist():
        main = process | tables.pid(process)
        of_main = array(calls, "end")[thread == main]
        mine = launches[owner == process]
        if not len(of_main):
            continue
        first, last, silent = int(mine.min()), int(mine.max()), int(mine.max()) - int(of_main.max())
        if silent > SILENT_SHARE * max(last - first, 1):
            found.append(Silence(main, int(of_main.max()), last))
    return found
