"""Kernels beside a collective that waits: they take longer, and no longer do where a change takes the wait away.

The kernel of a collective occupies one multiprocessor for each of its blocks, also while it waits for other ranks::

    recorded    |##1##|#### 2 ####|#### 3 ####|..wait..|            2 and 3 lack multiprocessors
                      |== waits ===============|====|
    in time     |##1##|## 2 ##|## 3 ##|====|

Source: NCCL's kernels have one block a channel. Where 24 of 132 multiprocessors were kept, kernels of the backward pass
of eight jobs on H100s and H200s took 1.2 to 1.3 times as long.
"""

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Times, innermost
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.trace import tables
from nsyswrap.trace.tables import coded
from nsyswrap.what_if.dependency_graph import Change, Factors


def without_waits(context: TraceContext, collectives: Collectives, parts: Indices, gone: Factors) -> Change:
    """Return the change of kernels that run beside collectives which wait for a shorter time.

    Args:
        context: The trace, its events and its loop.
        collectives: The collectives of all ranks.
        parts: Those that wait for a shorter time, as indices of them.
        gone: Share of each one's wait that is gone.
    """
    operations, gone = context.operations, np.broadcast_to(gone, len(parts))
    rows, factors = [np.empty(0, np.intp)], [np.empty(0)]
    for device in tables.distinct(collectives.device_id[parts]).tolist():
        mine = collectives.device_id[parts] == device
        kernels = operations.on(device)
        kernels = kernels[(operations.kind[kernels] == COMPUTE) & (operations.table[kernels] == 0)]
        start, end = operations.start[kernels], operations.end[kernels]
        share = share_of_multiprocessors(context, collectives.row[parts[mine]], device)
        shorter = share * _shortened(collectives, parts[mine], gone[mine], start, end)
        changed = shorter > 0
        rows.append(kernels[changed])
        factors.append(1 - (shorter / np.maximum(end - start, 1))[changed])
    return Change(operations=np.concatenate(rows), factor=np.concatenate(factors))


def _shortened(
    collectives: Collectives, parts: Indices, gone: Factors, start: Times, end: Times
) -> npt.NDArray[np.float64]:
    """Return how much of each interval lies in the part of the waits that is gone, in ns; each ns counts once."""
    owner = innermost(collectives.start[parts], collectives.arrival[parts], np.arange(len(parts), dtype=np.int32))
    edges = np.stack([owner.spans.start, owner.spans.end], axis=1).ravel()
    if not len(edges):
        return np.zeros(len(start))
    so_far = np.cumsum((owner.spans.end - owner.spans.start) * np.asarray(gone)[owner.code])
    values = np.stack([np.append(0.0, so_far[:-1]), so_far], axis=1).ravel()
    found: npt.NDArray[np.float64] = np.interp(end, edges, values) - np.interp(start, edges, values)
    return found


def share_of_multiprocessors(context: TraceContext, collectives: Indices, device: int) -> float:
    """Return the share of a GPU's multiprocessors that the kernels of some collectives keep; 0 if not known, up to 1.

    Args:
        context: The trace, its events and its loop.
        collectives: Rows of the context's operations.
        device: The GPU.
    """
    blocks = coded(context.trace[tables.KERNELS], "grid_blocks")[context.operations.row[collectives]]
    count = next((gpu.sm_count for gpu in context.trace.gpus if gpu.device_id == device), 0)
    return min(float(np.median(blocks)) / count, 1.0) if count and len(blocks) else 0.0
