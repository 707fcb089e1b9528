"""CUDA events: which call recorded an event in which stream, and which stream waited for it.

The export names device 0 in all waits, so a waiting stream is found by its process and number. Numbers of streams are
unique in a process. Source: captures of programs with several GPUs, of one process and of several.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.events.operations import launch_calls
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array


def event_records(trace: Trace) -> pd.DataFrame:
    """Return the records of events by the begin of their calls; ``start`` and ``record`` are both this time, in ns."""
    frame = trace[tables.EVENT_RECORDS]
    call = launch_calls(trace, array(frame, "process"), array(frame, "correlation_id"))
    known = frame[call >= 0]
    start: npt.NDArray[np.int64] = array(trace[tables.CALLS], "start")[call[call >= 0]]
    known = known.drop(columns="correlation_id").astype(np.int64).assign(start=start, record=start)
    return known.sort_values("start", kind="stable", ignore_index=True)


def recorded_stream_waits(trace: Trace) -> pd.DataFrame:
    """Return each wait of a stream with the last record of its event before the wait, in order of the record."""
    records = event_records(trace).rename(columns={"device_id": "of_device", "stream": "of_stream"})
    frame = trace[tables.EVENT_WAITS]
    call = launch_calls(trace, array(frame, "process"), array(frame, "correlation_id"))
    stream, event = array(frame, "stream"), array(frame, "event_id")
    rows = np.flatnonzero((call >= 0) & (stream != tables.NO_ID) & (stream >= 0) & (event != tables.NO_ID))
    columns = {name: array(frame, name)[rows] for name in ("process", "stream", "event_id")}
    waits = pd.DataFrame({**columns, "start": array(trace[tables.CALLS], "start")[call[rows]]}).astype(np.int64)
    return with_last_record(waits.sort_values("start", kind="stable", ignore_index=True), records)


def with_last_record(waits: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Return the waits for events that were recorded before, each with that last record, in order of the record.

    Args:
        waits: Columns process, event_id and start, and others, all integers; in order of start.
        records: As ``event_records`` returns them; its columns have other names than those of the waits.
    """
    keys = ["process", "event_id"]
    # Times can be beyond what floats hold to the nanosecond, so only the place of the record is joined.
    places = records[[*keys, "start"]].assign(place=np.arange(len(records)))
    joined = pd.merge_asof(waits, places, on="start", by=keys).dropna(subset="place")
    rows = array(joined, "place").astype(np.intp)
    more = {name: array(records, name)[rows] for name in map(str, records) if name not in {*keys, "start"}}
    whole = joined.drop(columns="place").astype(np.int64).assign(**more)
    return whole.sort_values("record", kind="stable", ignore_index=True)
