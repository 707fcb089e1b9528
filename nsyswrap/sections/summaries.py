"""Statistics by name of kernels, CUDA calls and operating system calls."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.duration_stats import by_name
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Section
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import TableSpec, array, blocks


def clipped(frame: pd.DataFrame, window: Window) -> tuple[Indices | slice, Times]:
    """Return the rows that touch the window, and the time of each inside the window, in ns."""
    start, end = array(frame, "start"), array(frame, "end")
    inside = (start < window.end_ns) & (end > window.start_ns)
    rows: Indices | slice = slice(None)
    if not inside.all():
        rows = np.flatnonzero(inside)
        start, end = start[rows], end[rows]
    duration: Times = np.minimum(end, window.end_ns)
    for block in blocks(len(duration)):
        duration[block] -= np.maximum(start[block], window.start_ns)
    return rows, duration


def _of_threads(thread: Times) -> npt.NDArray[np.bool_]:
    """Return whether each event has a thread; start and end marks of the tracer have none."""
    found = np.empty(len(thread), bool)
    for block in blocks(len(thread)):
        np.not_equal(thread[block] & tables.THREAD_MASK, 0, out=found[block])
    return found


def _summary(context: TraceContext, spec: TableSpec, window: Window, *, keep_version: bool) -> pd.DataFrame:
    frame = context.trace[spec]
    rows, duration = clipped(frame, window)
    index: dict[str, int] = {}

    def code(text: str) -> int:
        return index.setdefault(text if keep_version else base_name(text), len(index))

    codes = tables.by_name(context.trace, spec, code, np.int32)[rows]
    if spec is tables.OS_CALLS and not (real := _of_threads(array(frame, "thread")[rows])).all():
        codes, duration = codes[real], duration[real]
    return by_name(tuple(index), codes, duration)


def kernels(context: TraceContext, window: Window) -> Section:
    """Return kernels by demangled name; overlapping kernels all count in full, so a total is not elapsed time."""
    table = _summary(context, tables.KERNELS, window, keep_version=True)
    return Section("kernels", "Kernels", window, (), {"summary": table})


def host_calls(context: TraceContext, window: Window) -> Section:
    """Return CUDA API calls of all threads by name; a driver call inside a runtime call counts in both."""
    table = _summary(context, tables.CALLS, window, keep_version=False)
    return Section("host_calls", "CUDA API calls", window, (), {"summary": table})


def os_calls(context: TraceContext, window: Window) -> Section:
    """Return operating system calls of all threads by name; threads that sleep at the same time all count."""
    table = _summary(context, tables.OS_CALLS, window, keep_version=True)
    return Section("os_calls", "Operating system calls", window, (), {"summary": table})


KERNELS = SectionSpec("kernels", "Kernels", (tables.KERNELS,), kernels)
HOST_CALLS = SectionSpec("host_calls", "CUDA API calls", (tables.CALLS,), host_calls)
OS_CALLS = SectionSpec("os_calls", "Operating system calls", (tables.OS_CALLS,), os_calls)
