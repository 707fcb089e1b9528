"""What a wait for a CUDA event waits for: what was in the event's stream when it was recorded.

::

    stream   [####][####]!           [########]      ! the event is recorded behind what was launched before
    host     launch launch record     launch     |wait|   and a wait for it does not wait for what came after
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses import replay_host as host
from nsyswrap.analyses.operations import Operations, launch_calls
from nsyswrap.analyses.replay_host import CLOCK_NS, HostNodes
from nsyswrap.analyses.replay_operations import NONE, Queued, streams_of
from nsyswrap.intervals import Indices, Times
from nsyswrap.tables import Trace, array


class Recorded(NamedTuple):
    """Waits for events of which the export tells where they were recorded; arrays of one value a wait.

    Attributes:
        node: The moment at which the host waited.
        operation: Index of the last operation before the record, in the record's stream; ``NONE`` where there is none.
    """

    node: Indices
    operation: Indices


def find_recorded(trace: Trace, operations: Operations, nodes: HostNodes, queued: Queued, launched: Times) -> Recorded:
    """Return what the waits for events wait for, as far as the export tells.

    Args:
        trace: The tables of one export.
        operations: All that ran on the GPUs.
        nodes: Moments of the host.
        queued: Operations of the stretch.
        launched: When each of all operations was launched, in ns since capture start.
    """
    if not len(trace[tables.EVENT_RECORDS]) or not len(trace[tables.EVENT_WAITS]):
        return Recorded(np.empty(0, np.intp), np.empty(0, np.intp))
    # A wait is for the last record before it: an event may be recorded again and again.
    recorded = pd.merge_asof(_waits(trace, nodes), _records(trace), on="start", by=["process", "event_id"])
    recorded = recorded.dropna().astype(np.int64).sort_values("record", kind="stable")
    by = ["process", "device_id", "stream"]
    ran = _ran(trace, operations, queued, launched)
    found = pd.merge_asof(recorded, ran, left_on="record", right_on="launched", by=by)
    node, operation = (array(found.fillna(NONE).astype(np.int64), name) for name in ("node", "operation"))
    # Threads that launch and record at one time may do so in another order than their calls began.
    possible = (operation == NONE) | (queued.end[operation] <= nodes.moment[node] + CLOCK_NS)
    return Recorded(node[possible], operation[possible])


def _waits(trace: Trace, nodes: HostNodes) -> pd.DataFrame:
    """Return the moments that wait for an event, by when they begin."""
    frame = trace[tables.EVENT_WAITS]
    process, event = array(frame, "process"), array(frame, "event_id")
    call = launch_calls(trace, process, array(frame, "correlation_id"))
    node = np.flatnonzero((nodes.kind == host.WAIT) & np.isin(nodes.call, call))
    of_call = pd.DataFrame({"call": call, "process": process, "event_id": event}).drop_duplicates("call")
    waits = pd.DataFrame({"node": node, "call": nodes.call[node], "start": nodes.begun[node]})
    return waits.merge(of_call, on="call").sort_values("start", kind="stable", ignore_index=True)


def _records(trace: Trace) -> pd.DataFrame:
    """Return the records of events, by when their calls begin, which is ``start`` and ``record``."""
    frame = trace[tables.EVENT_RECORDS]
    call = launch_calls(trace, array(frame, "process"), array(frame, "correlation_id"))
    known = frame[call >= 0]
    start: npt.NDArray[np.int64] = array(trace[tables.CALLS], "start")[call[call >= 0]]
    known = known.drop(columns="correlation_id").astype(np.int64).assign(start=start, record=start)
    return known.sort_values("start", kind="stable", ignore_index=True)


def _ran(trace: Trace, operations: Operations, queued: Queued, launched: Times) -> pd.DataFrame:
    """Return the operations of the stretch by when they were launched."""
    rows = queued.row
    columns = {
        "operation": np.arange(len(rows)),
        "launched": launched[rows],
        "process": queued.process,
        "device_id": operations.device_id[rows],
        "stream": streams_of(trace, operations, rows),
    }
    return pd.DataFrame(columns).astype(np.int64).sort_values("launched", kind="stable", ignore_index=True)
