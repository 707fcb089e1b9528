"""The X-ray steps: up to three more steps of the program, observed by PyTorch itself, that are part of no time.

::

    steps     | warm-up | measured | measured | X-ray | X-ray |
    ranges                                    |-xray--|-xray--|   in our domain, on the thread that steps

They are taken out of the trace here, before anything is found in it. What their calls launched goes with them.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Spans, Times, containing, merge
from nsyswrap.events.host_record import injected
from nsyswrap.events.operations import SOURCES, launch_calls
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, Trace, array, coded

# Source: nsyswrap/capture/annotate/xray.py.
TEXT = "xray"

Flags = npt.NDArray[np.bool_]
_OPERATIONS = frozenset(spec.name for spec in SOURCES)
_BY_CALL = frozenset({tables.EVENT_RECORDS.name, tables.EVENT_WAITS.name})


def without_xray(trace: Trace) -> tuple[Trace, Trace | None]:
    """Return a trace without its X-ray steps, and these alone; the trace itself and None where it has none."""
    ranges = trace[tables.RANGES]
    rows = np.flatnonzero(_is_xray(ranges))
    process = tables.process_of(array(ranges, "thread")[rows])
    start, end = (array(ranges, name)[rows] for name in ("start", "end"))
    spans = {int(each): merge(start[process == each], end[process == each]) for each in np.unique(process)}
    return split(trace, spans) if spans else (trace, None)


def split(trace: Trace, spans: Mapping[int, Spans]) -> tuple[Trace, Trace]:
    """Return a trace without what its processes do during some spans, and that alone."""
    inside = {spec.name: _inside(trace, spec, spans) for spec in tables.SPECS}
    rest, xray = (
        replace(
            trace,
            frames={name: frame[inside[name] == wanted].reset_index(drop=True) for name, frame in trace.frames.items()},
        )
        for wanted in (False, True)
    )
    return rest, xray


def numbers_of(xray: Trace, thread: Times, at: Times) -> Indices:
    """Return the number of the X-ray step of its process, from 0, in which each of some threads did something.

    Args:
        xray: The X-ray steps alone.
        thread: Global ids of the threads.
        at: When they did it, in ns.
    """
    ranges, process = xray[tables.RANGES], tables.process_of(thread)
    found = np.zeros(len(at), np.intp)
    for each in np.unique(process).tolist():
        its = array(ranges, "start")[_is_xray(ranges) & (tables.process_of(array(ranges, "thread")) == each)]
        mine = process == each
        found[mine] = np.maximum(np.searchsorted(np.sort(its), at[mine], side="right") - 1, 0)
    return found


def _is_xray(ranges: pd.DataFrame) -> Flags:
    found: Flags = injected(ranges) & (ranges["text"] == TEXT).to_numpy(bool)
    return found


def _inside(trace: Trace, spec: TableSpec, spans: Mapping[int, Spans]) -> Flags:
    """Return which rows of a table are of an X-ray step."""
    frame, calls = trace[spec], trace[tables.CALLS]
    if spec.name in _OPERATIONS or spec.name in _BY_CALL:
        process = array(frame, "process")
        call = launch_calls(trace, process, array(frame, "correlation_id"))
        at = array(frame, "start").copy() if spec.name in _OPERATIONS else np.full(len(frame), -1, np.int64)
        at[call >= 0] = array(calls, "start")[call[call >= 0]]
        return _during(spans, process, at)
    if "start" not in spec.columns or not {"thread", "process"} & spec.columns.keys():
        return np.zeros(len(frame), bool)
    process = array(frame, "process") if "process" in spec.columns else tables.process_of(coded(frame, "thread")[:])
    return _during(spans, process, array(frame, "start"))


def _during(spans: Mapping[int, Spans], process: Times, at: Times) -> Flags:
    found = np.zeros(len(at), bool)
    for each, its in spans.items():
        mine = np.flatnonzero(process == each)
        found[mine] = containing(its, at[mine]) >= 0
    return found
