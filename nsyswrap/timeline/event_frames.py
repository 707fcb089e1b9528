"""What happened, one row an event, as data frames for other programs: names are text, times ns, columns documented."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.tables import TableSpec, array
from nsyswrap.timeline.operation_names import OperationNames, operation_names

Frames = dict[str, pd.DataFrame]

_SPAN = {"start_ns": "start, ns since capture start", "end_ns": "end, ns since capture start"}
_THREAD = {"pid": "number of the process", "tid": "number of the thread"}
_OPERATION = _SPAN | {
    "device_id": "GPU",
    "stream": "stream; -1 where the export does not say",
    "pid": "number of the process that launched it",
    "name": "what it is called",
    "phase": "phase it was launched in; none for no phase",
    "call": "row in `calls` of the call that launched it; -1 where that was not recorded",
}

COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "kernels": _OPERATION
        | {
            "verdict": "what the name says of tensor cores: tensor, simt_eligible, not_eligible or unknown",
            "precision": "precision of the matrix work, where the name tells",
            "library": "library it comes from, where the name tells",
            "grid_blocks": "blocks of the grid; 0 where the export does not say",
            "block_threads": "threads of a block; 0 where the export does not say",
        },
        "copies": _OPERATION | {"bytes": "size, bytes"},
        "memsets": _OPERATION | {"bytes": "size, bytes"},
        "graphs": _OPERATION,
        "calls": _SPAN | _THREAD | {"name": "CUDA call, as the export has it"},
        "os_calls": _SPAN | _THREAD | {"name": "operating system call"},
        "ranges": _SPAN
        | _THREAD
        | {
            "text": "text of the NVTX range",
            "domain": "NVTX domain; empty for the default one",
            "phase": "phase that the range is; none for no phase",
        },
        "steps": _SPAN | _THREAD | {"name": "text of its range", "warm_up": "whether it counts as warm-up"},
        "gaps": {
            "device_id": "GPU",
            **_SPAN,
            "cause": "what this piece of idle time is put down to",
            "phase": "phase open on the thread that feeds the GPU; none for no phase",
            "evidence": "what shows the cause, one sentence",
        },
        "counters": {
            "start_ns": "when it was sampled, ns since capture start",
            "device_id": "GPU",
            "counter": "name of the counter",
            "percent": "value, per cent of the most there can be",
        },
    }
)
"""What each frame has: its columns, and what they hold in which unit."""

SOURCES: Mapping[str, TableSpec] = MappingProxyType(
    {each.name: each for each in (tables.KERNELS, tables.COPIES, tables.MEMSETS, tables.GRAPHS)}
)


def event_frames(context: TraceContext, gaps: pd.DataFrame | None) -> Frames:
    """Return the frames of ``COLUMNS``: everything in the capture, and the idle time of the report's window.

    Args:
        context: The trace and what is known of it.
        gaps: The table ``gaps`` of the section on idle time; None where there is no such section.
    """
    names = operation_names(context)
    found: Frames = {key: _operations(context, names, spec) for key, spec in SOURCES.items()}
    for spec in (tables.CALLS, tables.OS_CALLS):
        found[spec.name] = _host_calls(context, spec)
    found["ranges"], found["steps"] = _ranges(context), _steps(context)
    none = pd.DataFrame({"device_id": [], "start_ns": [], "end_ns": []}, dtype=np.int64)
    given = none.assign(cause="", phase="", evidence="") if gaps is None else gaps
    texts = dict.fromkeys(("cause", "phase", "evidence"), "category")
    found["gaps"] = given.astype(texts)
    found["counters"] = _counters(context)
    return {key: found[key][list(columns)] for key, columns in COLUMNS.items()}


def touching(frames: Mapping[str, pd.DataFrame], window: Window) -> Frames:
    """Return the rows that touch a window, whole; the rows of ``calls`` that they name are counted anew."""
    kept = {}
    for key, frame in frames.items():
        last = array(frame, "end_ns" if "end_ns" in frame else "start_ns")
        inside = (array(frame, "start_ns") < window.end_ns) & (last > window.start_ns)
        kept[key] = inside
    # A call before the window stays where what it launched is inside.
    for key in SOURCES:
        call = array(frames[key], "call")[kept[key]]
        kept["calls"][call[call >= 0]] = True
    places = np.where(kept["calls"], np.cumsum(kept["calls"]) - 1, -1)
    found = {key: frame[kept[key]].reset_index(drop=True) for key, frame in frames.items()}
    for key in SOURCES:
        call = array(found[key], "call")
        found[key] = found[key].assign(call=np.where(call >= 0, places[call], -1) if len(places) else call)
    return found


def text_column(codes: npt.NDArray[np.integer[Any]], texts: list[str]) -> "pd.Series[Any]":
    """Return texts that repeat as a categorical column; several codes may have one text.

    Args:
        codes: Index into ``texts`` of each row.
        texts: What each code means.
    """
    merged, distinct = pd.factorize(np.array(texts, dtype=object))
    at = merged[codes] if len(texts) else codes
    return pd.Series(pd.Categorical.from_codes(at, pd.Index(distinct, dtype=object)))


def _operations(context: TraceContext, names: OperationNames, spec: TableSpec) -> pd.DataFrame:
    operations = context.operations
    mine = operations.from_table(spec)
    source, rows = context.trace[spec], operations.row[mine]
    # From code -1, no phase, on.
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


def _host_calls(context: TraceContext, spec: TableSpec) -> pd.DataFrame:
    frame = context.trace[spec]
    if spec is tables.OS_CALLS:
        # The tracer's own marks, where it started and ended, are of no thread.
        frame = frame[tables.tid_column(array(frame, "thread")) != 0]
    codes, ids = pd.factorize(array(frame, "name_id"))
    return pd.DataFrame(
        {**_span_and_thread(frame), "name": text_column(codes, [context.trace.text(int(each)) for each in ids])}
    )


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
    known = context.phases.ranges
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
