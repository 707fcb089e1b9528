"""Summaries by name of what ran and what was called: kernels, CUDA calls, operating system calls."""

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses.base import Analysis, Study
from nsyswrap.analyses.call_kinds import base_name
from nsyswrap.analyses.statistics import by_name
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.model import Section
from nsyswrap.tables import TableSpec, array


def clipped(frame: pd.DataFrame, window: Window) -> tuple[Indices, Times]:
    """Return the rows that touch the window and their durations inside it, in ns."""
    start, end = array(frame, "start"), array(frame, "end")
    inside = (start < window.end_ns) & (end > window.start_ns)
    if inside.all():
        rows = np.arange(len(start))
    else:
        rows = np.flatnonzero(inside)
        start, end = start[rows], end[rows]
    duration: Times = np.minimum(end, window.end_ns)
    duration -= np.maximum(start, window.start_ns)
    return rows, duration


def _summary(study: Study, spec: TableSpec, window: Window, *, keep_version: bool) -> pd.DataFrame:
    frame = study.trace[spec]
    rows, duration = clipped(frame, window)
    if spec is tables.OS_CALLS:
        # The tracer's own marks, where it started and ended, are of no thread.
        real = (array(frame, "thread") & tables.THREAD_MASK) != 0
        rows, duration = (rows, duration) if real.all() else (rows[real[rows]], duration[real[rows]])
    index: dict[str, int] = {}

    def code(text: str) -> int:
        return index.setdefault(text if keep_version else base_name(text), len(index))

    codes = tables.by_name(study.trace, spec, code, np.int32)
    return by_name(tuple(index), codes if len(rows) == len(codes) else codes[rows], duration)


def kernels(study: Study, window: Window) -> Section:
    """Return kernels by demangled name; time of kernels that overlap is added up, so a total is no wall time."""
    table = _summary(study, tables.KERNELS, window, keep_version=True)
    return Section("kernels", "Kernels", window, (), {"summary": table})


def host_calls(study: Study, window: Window) -> Section:
    """Return CUDA API calls by name, all threads; driver calls inside runtime calls count in both."""
    table = _summary(study, tables.CALLS, window, keep_version=False)
    return Section("host_calls", "CUDA API calls", window, (), {"summary": table})


def os_calls(study: Study, window: Window) -> Section:
    """Return operating system calls by name, all threads, so that sleeping ones add up."""
    table = _summary(study, tables.OS_CALLS, window, keep_version=True)
    return Section("os_calls", "Operating system calls", window, (), {"summary": table})


KERNELS = Analysis("kernels", "Kernels", (tables.KERNELS,), kernels)
HOST_CALLS = Analysis("host_calls", "CUDA API calls", (tables.CALLS,), host_calls, of_calls=True)
OS_CALLS = Analysis("os_calls", "Operating system calls", (tables.OS_CALLS,), os_calls, of_calls=True)
