"""The starts of loader processes: the forks of a training process inside the window."""

import re

import numpy as np

from nsyswrap.base.intervals import Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.helper_threads import has_loader
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# Calls that start a process.
_FORK = re.compile(r"v?fork|clone3?|posix_spawnp?")


@memo
def find_starts(context: TraceContext, window: Window) -> Times:
    """Return when loader processes were started, in ns, ascending; empty where all starts are in one step.

    A start counts in the data phase, or anywhere in a process that has loader threads or processes. The loader starts
    all processes of an epoch together; the starts of the first epoch are warm-up.
    """
    trace = context.trace
    forks = tables.rows_named(trace, tables.OS_CALLS, _FORK.fullmatch)
    calls = trace[tables.OS_CALLS]
    start, thread = array(calls, "start"), coded(calls, "thread")
    rows = np.flatnonzero(forks & (start >= window.start_ns) & (start < window.end_ns))
    in_data = context.phases.at(thread.only(rows), start[rows]) == context.phases.code(DATA)
    loading = np.array([has_loader(context.trace, int(each)) for each in tables.process_of(thread[rows])], bool)
    found = np.sort(start[rows[in_data | loading]])
    steps = np.unique(np.searchsorted(np.sort(array(context.steps.frame, "start")), found, side="right"))
    return found if len(steps) > 1 else found[:0]
