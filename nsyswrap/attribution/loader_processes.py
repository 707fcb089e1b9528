"""Whether a process gets its batches from loader processes, also where the capture does not hold these."""

import re

import numpy as np

from nsyswrap import tables
from nsyswrap.intervals import label_at
from nsyswrap.loop.helper_threads import has_loader
from nsyswrap.loop.phase_detection import DATA, NO_PHASE, Phases
from nsyswrap.tables import Trace, array, coded

# How the parent of loader processes waits for a batch in the data phase: on a pipe, or for the memory of a tensor.
_FROM_OTHERS = re.compile(r"p?poll|p?select|epoll_p?wait|recvmsg")


def has_loader_processes(trace: Trace, phases: Phases, process: int) -> bool:
    """Return whether a process has a loader beside its main thread: by thread names, or by how it waits for batches."""
    if has_loader(trace, process):
        return True
    kinds = tables.by_name(trace, tables.OS_CALLS, lambda name: int(_FROM_OTHERS.fullmatch(name) is not None), np.int8)
    calls = trace[tables.OS_CALLS]
    # Threads of the CUDA driver poll all the time.
    main = phases.main_thread.get(process, process)
    rows = np.flatnonzero((kinds > 0) & coded(calls, "thread").equal(main))
    shown = label_at(phases.own(main), array(calls, "start")[rows], NO_PHASE)
    return bool((shown == phases.code(DATA)).any()) and phases.code(DATA) != NO_PHASE
