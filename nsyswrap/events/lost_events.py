"""Events that nsys lost: calls of main threads, records of the GPU, and events that nsys counted."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, places
from nsyswrap.base.rows import taken
from nsyswrap.events import api_calls
from nsyswrap.events.operations import SOURCES, Operations
from nsyswrap.trace import tables
from nsyswrap.trace.tables import CodedIds, Trace, array, coded

Mask = npt.NDArray[np.bool_]
_BEGINS_CAPTURE = re.compile(r"cu(?:da)?StreamBeginCapture")
_WAITS_FOR_ALL = re.compile(r"cu(?:da)?(?:Device|Ctx|Context|Thread)Synchronize")
# A launch call waits while about this many launches are queued that have not begun, so no more are left at the end.
MOST_QUEUED = 1024
_ENDS_CAPTURE = re.compile(r"cu(?:da)?StreamEndCapture")

# The calls of a main thread were lost where it launched kernels and then makes no call for this share of the time in
# which its process launches. An autograd thread may launch for one step longer than the main thread. Ours.
SILENT_SHARE = 0.10
# Only a main thread that launched kernels counts: one that only allocates and copies may leave the launches to another
# thread.
COPIES, MEMSETS = SOURCES.index(tables.COPIES), SOURCES.index(tables.MEMSETS)
COMPUTES = (SOURCES.index(tables.KERNELS), SOURCES.index(tables.GRAPHS))


class SilentThread(NamedTuple):
    """A main thread whose calls stop while other threads of its process go on launching.

    Attributes:
        main: Global id of the thread.
        last_call_ns: End of its last call, in ns since capture start.
    """

    main: int
    last_call_ns: int
    last_launch_ns: int


def silent_threads(trace: Trace, operations: Operations) -> list[SilentThread]:
    """Return the main threads that launched kernels and whose calls then stop while their process goes on launching.

    Where the export holds as many events as nsys says it collected, no call was lost, and none is returned.
    """
    calls = trace[tables.CALLS]
    known = operations.call >= 0
    if not known.any() or has_all_cuda_events(trace):
        return []
    call, owner = taken(operations.call, known), taken(operations.process, known)
    thread, launches = coded(calls, "thread"), taken(array(calls, "start"), call)
    launched = taken(thread.codes, taken(call, np.isin(taken(operations.table, known), COMPUTES)))
    computing = thread.ids[tables.distinct(launched)]
    silent_ones = []
    for process in tables.distinct(owner).tolist():
        main = process | tables.pid(process)
        if main not in computing:
            continue
        of_main = taken(array(calls, "end"), thread.equal(main))
        mine = taken(launches, owner == process)
        first, last, silent = int(mine.min()), int(mine.max()), int(mine.max()) - int(of_main.max())
        if silent > SILENT_SHARE * max(last - first, 1):
            silent_ones.append(SilentThread(main, int(of_main.max()), last))
    return silent_ones


class LostCalls(NamedTuple):
    """Calls without a record of the GPU: rows of ``trace[CALLS]``, ascending, and the process of each by global id."""

    rows: Indices
    process: Times

    def of(self, process: int) -> Indices:
        """Return the rows of a process."""
        rows: Indices = self.rows[self.process == process]
        return rows


class UnrecordedLaunches(NamedTuple):
    """Calls that started work of the GPU, and have no record of it in the capture.

    Attributes:
        copies: The calls that copied, of processes without any copy in the capture.
        memsets: The calls that set memory, of processes without any memset in the capture.
        without_any: The processes without any operation in the capture, ascending.
    """

    kernels: LostCalls
    copies: LostCalls
    memsets: LostCalls
    without_any: tuple[int, ...]

    @property
    def each(self) -> tuple[LostCalls, LostCalls, LostCalls]:
        """Return the calls of each kind."""
        return self.kernels, self.copies, self.memsets


def find_unrecorded_launches(trace: Trace, operations: Operations) -> UnrecordedLaunches:
    """Return the calls that started work of the GPU, and have no record of it in the capture.

    The GPU records each launch of a kernel, with these exceptions, which are left out::

        begin of a stream capture |launch|launch| end of it    the kernels become a CUDA graph and do not run
        |cudaLaunchKernel |cuLaunchKernel| |                   a call of the driver inside one of the runtime
        ...|launch|launch|launch|                              still queued when recording ended

    A launch had run when recording ended if a later launch of its process has a record, if a later call waited for the
    whole device, or if more launches follow than a stream can hold. Calls without a correlation id show nothing. A copy
    or a memset of no bytes has no record, so either counts only where a process has no record of its kind.
    """
    calls = trace[tables.CALLS]
    begins, ends, waits, *kinds = (
        api_calls.calls_named(trace, wanted)
        for wanted in (
            *(_BEGINS_CAPTURE.match, _ENDS_CAPTURE.match, _WAITS_FOR_ALL.match),
            *(api_calls.launches_kernel, api_calls.is_copy, api_calls.is_memset),
        )
    )
    recorded = np.zeros(len(calls), bool)
    recorded[taken(operations.call, operations.call >= 0)] = True
    thread, start, joined = coded(calls, "thread"), array(calls, "start"), array(calls, "correlation_id") > 0
    owner = tables.process_of(thread.ids)
    found: tuple[dict[int, Indices], ...] = ({}, {}, {})
    without = []
    for process in tables.distinct(owner).tolist():
        mine = thread.among(owner == process)
        of_process = operations.process == process
        if of_process.any() and not (recorded & mine).any():
            continue
        # The calls are sorted by start.
        known = np.flatnonzero((recorded | waits) & mine)
        ran_before = int(start[known[-1]]) if len(known) else np.iinfo(np.int64).min
        recorded_kinds = [False, *((of_process & (operations.table == each)).any() for each in (COPIES, MEMSETS))]
        for kind, has_records, into in zip(kinds, recorded_kinds, found, strict=True):
            if has_records:
                continue
            lost = np.flatnonzero(kind & mine & ~recorded & joined)
            lost = lost[~_captured(start, begins & mine, ends & mine, start[lost])]
            lost = lost[~_inside_another(calls, thread, np.flatnonzero(kind & mine), lost)]
            if of_process.any():
                had_run = start[lost] < ran_before
                had_run[: max(len(lost) - MOST_QUEUED, 0)] = True
                lost = lost[had_run]
            into[process] = lost
        if not of_process.any() and any(len(each[process]) for each in found):
            without.append(process)
    kernels, copies, memsets = map(_ordered, found)
    return UnrecordedLaunches(kernels, copies, memsets, tuple(without))


def _ordered(by_process: Mapping[int, Indices]) -> LostCalls:
    """Return the rows of all processes, ascending, and the process of each."""
    rows = np.concatenate([np.empty(0, np.intp), *by_process.values()])
    owner = np.concatenate([np.empty(0, np.int64), *(np.full(len(some), each) for each, some in by_process.items())])
    order = np.argsort(rows, kind="stable")
    return LostCalls(rows[order], owner[order])


def _captured(start: Times, begins: Mask, ends: Mask, when: Times) -> Mask:
    """Return which moments lie in a stream capture of their process, on any thread, from the calls that are sorted.

    A capture without its begin began before recording did, one without its end ended after it.
    """
    opened, closed = (taken(start, which) for which in (begins, ends))
    unknown = max(len(closed) - len(opened), 0)
    is_captured: Mask = places(opened, when) + unknown > places(closed, when)
    return is_captured


def _inside_another(calls: pd.DataFrame, thread: CodedIds, launches: Indices, rows: Indices) -> Mask:
    inside = np.zeros(len(rows), bool)
    end = array(calls, "end")
    for code in tables.distinct(taken(thread.codes, rows)).tolist():
        mine, of_thread = np.flatnonzero(thread.codes[rows] == code), launches[thread.codes[launches] == code]
        # Calls are ordered by start; an outer call begins before, or at the same time and is longer.
        reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[of_thread]))
        before = np.searchsorted(of_thread, rows[mine])
        inside[mine] = reach[before] >= end[rows[mine]]
    return inside


_COUNTED = re.compile(r"Number of (CUDA|NVTX) events collected:\s*([\d,]+)")


def collected(trace: Trace) -> dict[str, int]:
    """Return how many events of each family ("CUDA", "NVTX") nsys says it collected, in all processes together.

    A family that no message names is left out.
    """
    counts: dict[str, int] = {}
    for text in trace[tables.DIAGNOSTICS]["text"].astype(str):
        message = _COUNTED.search(text)
        if message:
            counts[message.group(1)] = counts.get(message.group(1), 0) + int(message.group(2).replace(",", ""))
    return counts


def has_all_cuda_events(trace: Trace) -> bool:
    """Return whether nsys says how many CUDA events it collected, and the export holds exactly as many."""
    return collected(trace).get("CUDA") == trace.event_counts.get("CUDA", 0)
