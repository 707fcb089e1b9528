"""The events of a capture as data frames for other programs: one row for each event, names as texts, times in ns."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.timeline.operation_names import OperationNames, operation_names
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, array

Frames = dict[str, pd.DataFrame]

_SPAN = {"start_ns": "start, ns since capture start", "end_ns": "end, ns since capture start"}
_THREAD = {"pid": "number of the process", "tid": "number of the thread"}
_OPERATION = _SPAN | {
    "device_id": "GPU",
    "stream": "stream; -1 where the export has none",
    "pid": "number of the process that launched it",
    "name": "name",
    "phase": "phase in which it was launched; none for no phase",
    "call": "row in `calls` of the call that launched it; -1 where that was not recorded",
}

COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "kernels": _OPERATION
        | {
            "verdict": "use of tensor cores by its name: tensor, simt_eligible, not_eligible or unknown",
            "precision": "precision of the matrix work; empty where the name does not show it",
            "library": "library of the kernel; empty where the name does not show it",
            "grid_blocks": "blocks of the grid; 0 where the export has no number",
            "block_threads": "threads of a block; 0 where the export has no number",
        },
        "copies": _OPERATION | {"bytes": "size, bytes"},
        "memsets": _OPERATION | {"bytes": "size, bytes"},
        "graphs": _OPERATION,
        "calls": _SPAN | _THREAD | {"name": "CUDA call, as in the export"},
        "os_calls": _SPAN | _THREAD | {"name": "operating system call"},
        "ranges": _SPAN
        | _THREAD
        | {
            "text": "text of the NVTX range",
            "domain": "NVTX domain; empty for the default one",
            "phase": "phase of the range; none where it is not a phase",
        },
        "steps": _SPAN | _THREAD | {"name": "text of its range", "warm_up": "whether it counts as warm-up"},
        "gaps": {
            "device_id": "GPU",
            **_SPAN,
            "cause": "what the host did during this piece of idle time",
            "rule": "rule of the finding that the piece belongs to",
            "phase": "phase open on the launching thread; none for no phase",
            "evidence": "evidence for the cause, one sentence",
        },
        "counters": {
            "start_ns": "when it was sampled, ns since capture start",
            "device_id": "GPU",
            "counter": "name of the counter",
            "percent": "value in per cent of the hardware's maximum",
        },
    }
)
"""The columns of each frame, with meaning and unit."""

SOURCES: Mapping[str, TableSpec] = MappingProxyType(
    {each.name: each for each in (tables.KERNELS, tables.COPIES, tables.MEMSETS, tables.GRAPHS)}
)


def event_frames(context: TraceContext, gaps: pd.DataFrame | None) -> Frames:
    """Return the frames of ``COLUMNS``: all events of the capture, and the idle time of the report's window.

    Args:
        context: The trace, its events and its loop.
        gaps: The table ``gaps`` of the section on idle time; None where the report has no such section.
    """
    names = operation_names(context)
    frames: Frames = {key: _operations(context, names, spec) for key, spec in SOURCES.items()}
    for spec in (tables.CALLS, tables.OS_CALLS):
        frame = context.trace[spec]
        if spec is tables.OS_CALLS:
            # Start and end marks of the tracer have no thread.
            frame = frame[tables.tid_column(array(frame, "thread")) != 0]
        codes, ids = pd.factorize(array(frame, "name_id"))
        frames[spec.name] = pd.DataFrame(
            {**_span_and_thread(frame), "name": text_column(codes, [context.trace.text(int(each)) for each in ids])}
        )
    frames["ranges"], frames["steps"] = _ranges(context), _steps(context)
    none = pd.DataFrame({"device_id": [], "start_ns": [], "end_ns": []}, dtype=np.int64)
    given = none.assign(cause="", rule="", phase="", evidence="") if gaps is None else gaps
    texts = dict.fromkeys(("cause", "rule", "phase", "evidence"), "category")
    frames["gaps"] = given.astype(texts)
    frames["counters"] = _counters(context)
    return {key: frames[key][list(columns)] for key, columns in COLUMNS.items()}


def touching(frames: Mapping[str, pd.DataFrame], window: Window) -> Frames:
    """Return the rows that touch a window, in full length; the column ``call`` refers to the remaining ``calls``."""
    kept = {}
    for key, frame in frames.items():
        last = array(frame, "end_ns" if "end_ns" in frame else "start_ns")
        inside = (array(frame, "start_ns") < window.end_ns) & (last > window.start_ns)
        kept[key] = inside
    # A call before the window is kept if an operation that it launched is kept.
    for key in SOURCES:
        call = array(frames[key], "call")[kept[key]]
        kept["calls"][call[call >= 0]] = True
    places = np.where(kept["calls"], np.cumsum(kept["calls"]) - 1, -1)
    touching_frames = {key: frame[kept[key]].reset_index(drop=True) for key, frame in frames.items()}
    for key in SOURCES:
        call = array(touching_frames[key], "call")
        touching_frames[key] = touching_frames[key].assign(
            call=np.where(call >= 0, places[call], -1) if len(places) else call
        )
    return touching_frames


def text_column(codes: npt.NDArray[np.integer[Any]], texts: list[str]) -> "pd.Series[Any]":
    """Return repeated texts as a categorical column; several codes may have the same text."""
    merged, distinct = pd.factorize(np.array(texts, dtype=object))
    at = merged[codes] if len(texts) else codes
    return pd.Series(pd.Categorical.from_codes(at, pd.Index(distinct, dtype=object)))


def _operations(context: TraceContext, names: OperationNames, spec: TableSpec) -> pd.DataFrame:
    operations = context.operations
    mine = operations.from_table(spec)
    source, rows = context.trace[spec], operations.row[mine]
    # The first name is that of code -1, no phase.
    phases = [context.phases.name(code) for code in range(NO_PHASE, len(context.phases.names))]
    columns: dict[str, Any] = {
        "start_ns": operations.start[mine],
        "end_ns": operations.end[mine],
        "device_id": operations.device_id[mine],
        "stream": array(source, "stream")[rows],
        "pid": tables.pid_column(operations.process[mine]),
        "phase": text_column(context.phase_of_operations[mine] - NO_PHASE, phases),
        "call": operations.call[mine],
    }
    for column in ("name", "verdict", "precision", "library"):
        columns[column] = text_column(names.codes[mine], [getattr(name, column) for name in names.names])
    for column in ("bytes", "grid_blocks", "block_threads"):
        if column in spec.columns:
            columns[column] = array(source, column)[rows]
    frame = pd.DataFrame(columns)
    for column in ("name", "verdict", "precision", "library"):
        frame[column] = frame[column].cat.remove_unused_categories()
    return frame


def _span_and_thread(frame: pd.DataFrame) -> dict[str, Any]:
    thread = array(frame, "thread")
    return {
        "start_ns": array(frame, "start"),
        "end_ns": array(frame, "end"),
        "pid": tables.pid_column(thread),
        "tid": tables.tid_column(thread),
    }


def _ranges(context: TraceContext) -> pd.DataFrame:
    frame = context.trace[tables.RANGES]
    phase = np.full(len(frame), NO_PHASE, np.int64)
    known = context.phases.marked
    phase[known.index.to_numpy()] = array(known, "phase")
    names = [context.phases.name(code) for code in range(NO_PHASE, len(context.phases.names))]
    texts = {column: frame[column].reset_index(drop=True) for column in ("text", "domain")}
    return pd.DataFrame({**_span_and_thread(frame), **texts, "phase": text_column(phase - NO_PHASE, names)})


def _steps(context: TraceContext) -> pd.DataFrame:
    frame = context.steps.frame
    codes, names = pd.factorize(frame["name"])
    name = text_column(codes, [str(each) for each in names])
    return pd.DataFrame({**_span_and_thread(frame), "name": name, "warm_up": array(frame, "warm_up").astype(bool)})


def _counters(context: TraceContext) -> pd.DataFrame:
    frame = context.trace[tables.COUNTERS]
    return pd.DataFrame(
        {
            "start_ns": array(frame, "start"),
            "device_id": array(frame, "device_id"),
            "counter": text_column(array(frame, "counter"), list(context.trace.counter_names)),
            "percent": array(frame, "value"),
        }
    )
