"""Whether a process gets its batches from loader processes, also where the capture does not hold these."""

import re

import numpy as np

from nsyswrap.base.intervals import label_at
from nsyswrap.loop.helper_threads import has_loader
from nsyswrap.loop.phase_detection import DATA, NO_PHASE, Phases
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, blocks, coded

# How the parent of loader processes waits for a batch in the data phase: on a pipe, or for the memory of a tensor.
_FROM_OTHERS = re.compile(r"p?poll|p?select|epoll_p?wait|recvmsg")


def has_loader_processes(trace: Trace, phases: Phases, process: int) -> bool:
    """Return whether a process has a loader beside its main thread: by thread names, or by how it waits for batches."""
    if has_loader(trace, process):
        return True
    in_data, calls = phases.code(DATA), trace[tables.OS_CALLS]
    if in_data == NO_PHASE:
        return False
    waits = tables.rows_named(trace, tables.OS_CALLS, _FROM_OTHERS.fullmatch)
    # Threads of the CUDA driver poll all the time.
    main = phases.main_thread.get(process, process)
    threads, start = coded(calls, "thread"), array(calls, "start")
    for some in blocks(len(calls)):
        rows = np.flatnonzero(waits[some] & threads.equal(main, some))
        if (label_at(phases.own(main), start[some][rows], NO_PHASE) == in_data).any():
            return True
    return False
