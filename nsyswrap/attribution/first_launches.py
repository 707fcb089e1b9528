"""The launch calls in which CUDA loads the code of a kernel.

CUDA loads a kernel when it is launched for the first time (lazy loading, the default since CUDA 12.2)::

    host   |------- launch: loads, 140 us -------|   |launch 6|   |launch 6|
    GPU                                           |#|          |#|          |#|
"""

import numpy as np

from nsyswrap.attribution.launch_pace import FEW
from nsyswrap.base.intervals import Indices
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import SOURCES, launch_rows
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# A launch call takes 2 to 20 us, and nsys adds up to 32 us to it (docs/overhead.md). One that loads code took 73 us to
# 18 ms in seven public captures.
LOADING_NS = 50_000
# On a slow machine, one that loads code takes at least this many times as long as the usual launch call. Source: ours.
USUAL_CALLS = 5
_KERNELS, _MEMSETS = SOURCES.index(tables.KERNELS), SOURCES.index(tables.MEMSETS)


@memo
def find_loading_launches(context: TraceContext) -> Indices:
    """Return the calls that launch a kernel for the first time and take far longer than a launch call, as rows.

    A memset counts as a kernel, since the driver runs one for it. The launch of a CUDA graph does not: its kernels were
    loaded when it was made. Nothing is returned where a part of the capture was read, which may lack the first launch.

    Returns:
        Rows of ``trace[CALLS]``, ascending.
    """
    operations, trace = context.operations, context.trace
    rows = np.flatnonzero((operations.call >= 0) & np.isin(operations.table, (_KERNELS, _MEMSETS)))
    rows = rows[~np.isin(operations.call[rows], launch_rows(trace))]
    if trace.excerpt is not None or not len(rows):
        return np.empty(0, np.intp)
    calls, call = trace[tables.CALLS], operations.call[rows]
    begun = taken(array(calls, "start"), call)
    length = taken(array(calls, "end"), call) - begun
    order = np.argsort(begun, kind="stable")
    rows = rows[order]
    # The string id of each kernel's name; -1 for memsets.
    name = np.full(len(rows), -1, np.int64)
    kernels = operations.table[rows] == _KERNELS
    ids = coded(context.trace[tables.KERNELS], "name_id")
    name[kernels] = ids[operations.row[rows[kernels]]]
    _, first = tables.groups([operations.process[rows], operations.device_id[rows], name])
    is_first = np.zeros(len(rows), bool)
    is_first[order[first]] = True
    others = length[~is_first]
    usual = float(np.median(others)) if len(others) >= FEW else 0
    found: Indices = np.unique(call[is_first & (length > max(LOADING_NS, USUAL_CALLS * usual))])
    return found
