"""The operations that wait for an event of another stream: cudaStreamWaitEvent, as the export records it.

::

    stream 7   [backward kernel]     [next kernel]
    record              ^ event 5
    stream 14                      [collective]            waits for event 5, so for the backward kernel

The export names device 0 in all waits, so a waiting stream is found by its process and number. Numbers of streams are
unique in a process. Source: captures of programs with several GPUs, of one process and of several.
"""

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.base.rows import taken
from nsyswrap.events.cuda_events import recorded_stream_waits
from nsyswrap.events.operations import Operations
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array
from nsyswrap.what_if.gpu_nodes import NONE, Queued

OF_STREAM = ["process", "device_id", "stream"]


def by_launch(operations: Operations, queued: Queued, launched: Times) -> pd.DataFrame:
    """Return the operations of the sample in order of launch, with process, device_id and stream."""
    rows = queued.row
    columns = {
        "operation": np.arange(len(rows)),
        "launched": launched[rows],
        "process": queued.process,
        "device_id": operations.device_id[rows],
        "stream": taken(operations.stream, rows),
    }
    return pd.DataFrame(columns).astype(np.int64).sort_values("launched", kind="stable", ignore_index=True)


def find_stream_waits(trace: Trace, operations: Operations, queued: Queued, launched: Times) -> Indices:
    """Return for each operation of a sample the operation of another stream whose event it waits for.

    A stream waits for the last operation before the event's last record. What it runs next waits; later operations of
    the stream follow that one. Of several operations that one waits for, the last to end is given.

    Returns:
        Indices into the sample, shape (operations of the sample,); ``NONE`` where an operation waits for none, and
        where the export records no events.
    """
    found = np.full(len(queued.row), NONE, np.intp)
    if not len(trace[tables.EVENT_RECORDS]) or not len(trace[tables.EVENT_WAITS]):
        return found
    ran = by_launch(operations, queued, launched)
    pairs = _pairs(recorded_stream_waits(trace), ran)
    awaited, waiting = array(pairs, "awaited"), array(pairs, "waiting")
    # Threads that launch, record and wait at the same time may do so in another order than their calls began.
    possible = (awaited < waiting) & (queued.stream[awaited] != queued.stream[waiting])
    possible &= queued.end[awaited] <= queued.start[waiting]
    awaited, waiting = awaited[possible], waiting[possible]
    last = np.argsort(queued.end[awaited], kind="stable")
    found[waiting[last]] = awaited[last]
    return found


def _pairs(waits: pd.DataFrame, ran: pd.DataFrame) -> pd.DataFrame:
    """Return the operations before the records of events, ``awaited``, and the next ones of the streams that wait."""
    of_record = {"device_id": "of_device", "stream": "of_stream"}
    behind = ran.rename(columns={"operation": "awaited", "launched": "record", **of_record})
    before = pd.merge_asof(waits, behind, on="record", by=["process", *of_record.values()])
    found = pd.merge_asof(
        before.sort_values("start", kind="stable"),
        ran.rename(columns={"operation": "waiting", "launched": "start"}),
        on="start",
        by=["process", "stream"],
        direction="forward",
    )
    return found.dropna(subset=["awaited", "waiting"]).astype({"awaited": np.int64, "waiting": np.int64})
