"""Root cause: many steps allocate or free memory through the driver."""

import re

import numpy as np

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import Spans, Times, containing
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events import api_calls
from nsyswrap.rules import memory
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# A caching allocator does not call the driver after warm-up. More than one step in ten with such calls is churn, and no
# less than two: what happens once is no habit, however few steps were recorded. Source: ours.
CHURN_SHARE = 0.10
FEWEST_STEPS = 2

# Calls of memory pools are ordered in a stream and do not wait.
_POOLED = re.compile(r"Async")


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the pieces in calls that allocate or free, between them, and in the gaps that their delay causes."""
    calls = idle.is_cause("allocation") & free
    if not calls.any() or not _is_habit(idle):
        return idle.none
    from_first = idle.from_first(calls)
    between = from_first & idle.until_last(calls) & idle.is_cause(*GENERIC, "synchronization")
    delayed = idle.any_in_gap(calls)
    # A call that frees waits for the GPU first, so most of it may be before the gap.
    first_call = idle.call_length((api_calls.ALLOCATION,), calls[idle.first])
    later = calls.copy()
    later[idle.first[first_call > 0]] = False
    gap, start, end = chosen(later, idle.gap, idle.pieces.start, idle.pieces.end)
    delay = np.bincount(gap, end - start, len(idle.first)).astype(np.int64)
    delay += first_call
    behind = from_first | taken(~delayed, idle.gap)
    rest = free & ~calls & ~between & behind & idle.is_cause(*GENERIC)
    return calls | between | idle.set_back(delayed, delay, rest, calls)


def _is_habit(idle: IdlePieces) -> bool:
    """Return whether the processes of the device allocate or free in more than a few of their measured steps."""
    operations = idle.context.operations
    processes = operations.processes_of(idle.device_id)
    steps = idle.context.steps.measured_of(processes, idle.window)
    if not len(steps):
        return False
    start, end = array(steps, "start"), array(steps, "end")
    order = np.argsort(start, kind="stable")
    # The calls that allocate or free, on all threads of these processes.
    calls = idle.context.trace[tables.CALLS]
    rows = np.flatnonzero(api_calls.calls_named(idle.context.trace, _allocates))
    rows = rows[np.isin(tables.process_of(coded(calls, "thread")[rows]), processes)]
    began: Times = array(calls, "start")[rows]
    step = containing(Spans(start[order], end[order]), began)
    allocating = len(np.unique(step[step >= 0]))
    return allocating >= FEWEST_STEPS and allocating > CHURN_SHARE * len(steps)


def _allocates(name: str) -> bool:
    """Return whether a call allocates or frees outside of a memory pool."""
    return api_calls.call_kind(name) == api_calls.ALLOCATION and not _POOLED.search(name)


ROOT_CAUSE = RootCause(90, memory.CHURN, find, own_causes=("allocation",))
