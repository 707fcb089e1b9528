"""Statistics by name, as the sections on kernels, CUDA calls and operating system calls have them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.base.rows import chosen
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.duration_stats import SHORT_NS, by_name
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, array, blocks, coded

Rows = npt.NDArray[np.bool_]


def clipped(context: TraceContext, frame: pd.DataFrame, window: Window) -> tuple[Rows | slice, Times]:
    """Return the rows that touch the part of the window of their process, and the time of each inside it, in ns."""
    start, end, inside = _touching(context, frame, window)
    duration = _time_inside(start, end, inside, window).astype(np.int64, copy=False)
    return slice(None) if inside.all() else inside, duration


def _touching(context: TraceContext, frame: pd.DataFrame, window: Window) -> tuple[Times, Times, Rows]:
    """Return starts and ends, and which rows touch the part of the window of their process; these end with the part."""
    start, end, own = array(frame, "start"), array(frame, "end"), find_own_windows(context, window)
    low, high = own.by_process(frame)
    inside: Rows = start < high
    inside &= end > low
    if own.of_process:
        start, end = np.clip(start, low, high), np.clip(end, low, high)
    return start, end, inside


def _time_inside(start: Times, end: Times, rows: Rows, window: Window) -> npt.NDArray[np.integer[Any]]:
    """Return the time of some rows inside the window, in ns: in four bytes where it fits, since tables may be long."""
    duration: npt.NDArray[np.integer[Any]] = np.empty(np.count_nonzero(rows), np.uint32)
    done = 0
    for block in blocks(len(rows)):
        begun, ended = chosen(rows[block], start[block], end[block])
        some = np.minimum(ended, window.end_ns) - np.maximum(begun, window.start_ns)
        if duration.dtype != np.int64 and int(some.max(initial=0)) >= SHORT_NS:
            duration = duration.astype(np.int64)
        duration[done : done + len(some)] = some
        done += len(some)
    return duration


def summary(context: TraceContext, spec: TableSpec, window: Window, *, keep_version: bool) -> pd.DataFrame:
    """Return the statistics by name of a table of calls or kernels inside the window.

    Args:
        context: The trace, its events and its loop.
        spec: The table.
        window: Interval of the statistics.
        keep_version: Whether names that differ in their version are different names.
    """
    frame = context.trace[spec]
    start, end, rows = _touching(context, frame, window)
    if spec is tables.OS_CALLS:
        # Start and end marks of the tracer have no thread.
        thread = coded(frame, "thread")
        rows &= thread.among(tables.tid_column(thread.ids) != 0)
    index: dict[str, int] = {}

    def code(text: str) -> int:
        return index.setdefault(text if keep_version else base_name(text), len(index))

    duration = _time_inside(start, end, rows, window)
    numbers = tables.numbers_by_name(context.trace, spec, code, np.int32)
    kind = np.min_scalar_type(-1 - len(index))
    (codes,) = chosen(rows, numbers.astype(kind)[coded(frame, "name_id").codes])
    return by_name(tuple(index), codes, duration)
