"""What mending each cause would change, as two replays: one in which little of it comes true, one in which all does.

A gain is the difference between the replay as it was and the replay with the change. Each says what was assumed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events import api_calls
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import NAMES, WAITS
from nsyswrap.intervals import NOTHING, Indices, Spans, Window, clip, gaps, merge, subtract, union
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.tables import array
from nsyswrap.what_if.dependency_graph import Change, Factors

HALF = 0.5
# Pinned copies against pageable ones of the same size. Source: 134 MB take 2.4 and 14 ms on an H200 machine
# (workloads/faults/exposed_copies.py and pageable_copies.py), nearly six times; less than that where links are slower.
PINNED_FASTER = 4.0
# Smaller copies say nothing of the rate: what they take is the start of the copy. Ours.
LARGE_BYTES = 1 << 16
CANNOT = "no gain is given: the replay cannot predict this run"


@dataclass(frozen=True)
class WhatIf:
    """The least and the most that mending something changes.

    Attributes:
        low: What changes at least.
        high: What changes at most.
        assumed: What both rest on, in words.
    """

    low: Change
    high: Change
    assumed: str


class Gains(NamedTuple):
    """What mending something gains, in ns of the window; None where the replay cannot predict.

    Attributes:
        low_ns: At least.
        high_ns: At most.
        said: What was replayed, as a line of evidence; empty where nothing was.
    """

    low_ns: int | None
    high_ns: int | None
    said: tuple[str, ...]

    def within(self, lost_ns: int) -> "Gains":
        """Return the same, but half of a cost and all of it at most: what else is saved belongs to other findings."""
        if self.low_ns is None or self.high_ns is None:
            return self
        return Gains(min(self.low_ns, round(HALF * lost_ns)), min(self.high_ns, lost_ns), self.said)


NO_GAIN = Gains(0, 0, ())


def gains(context: TraceContext, window: Window, what: Callable[[TraceContext, Window], WhatIf]) -> Gains:
    """Return what a change gains in a window.

    Args:
        context: The trace.
        window: Stretch the gain is about.
        what: Says what changes; not asked where the replay cannot predict.
    """
    replay = context.replay(window)
    if not replay.predicts:
        return Gains(None, None, (CANNOT,))
    change = what(context, window)
    found = sorted(replay.gain(each) or 0 for each in (change.low, change.high))
    return Gains(max(found[0], 0), max(found[1], 0), (f"gain by replay: {change.assumed}",))


def loader_waits(context: TraceContext, window: Window) -> WhatIf:
    """Return what more loader workers change: batches come faster, and nothing waits for them."""
    waiting, in_data = _states(context, window, WAITS), _in_data(context, window)
    host = {
        main: subtract(waiting.get(main, NOTHING), _outside(context, window, data)) for main, data in in_data.items()
    }
    return WhatIf(
        Change(host=host or waiting, host_factor=HALF, loader_factor=HALF),
        Change(host=host or waiting, loader_factor=0),
        "batches come twice as fast, or always before they are wanted",
    )


def loader_work(context: TraceContext, window: Window) -> WhatIf:
    """Return what loading in the background changes: the training process no longer prepares data."""
    waiting = _states(context, window, WAITS)
    host = {main: subtract(data, waiting.get(main, NOTHING)) for main, data in _in_data(context, window).items()}
    return _saved(host, "half of the preparation moves to workers, or all of it")


def launch_calls(context: TraceContext, window: Window) -> WhatIf:
    """Return what fewer launch calls change."""
    rows = np.unique(context.operations.call[context.replay(window).operations])
    return _saved(_spans(context, rows), "half of the time in launch calls is saved, or all of it")


def one_launch(context: TraceContext, window: Window) -> WhatIf:
    """Return what launching whole phases at once changes: the host has next to nothing to do, loading aside."""
    return _saved(
        _outside(context, window, union(*_in_data(context, window).values())),
        "half of the host's time outside loading is saved, or all of it, as with one graph launch a step",
    )


def latency(_context: TraceContext, _window: Window) -> WhatIf:
    """Return what starting at once changes: operations that begin when they are launched."""
    return WhatIf(Change(), Change(latency_factor=0), "operations begin as soon as they are launched")


def waits(context: TraceContext, window: Window) -> WhatIf:
    """Return what leaving out synchronization changes: the host runs on, and at most makes no such call either."""
    rows = _calls(context, window, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(context, rows)),
        "synchronizing calls return at once, or are not made at all",
    )


def reads(context: TraceContext, window: Window) -> WhatIf:
    """Return what reading values later changes: neither synchronizing calls nor copies to the host hold it."""
    operations, ran = context.operations, context.replay(window).operations
    copies, labels = context.trace[tables.COPIES], context.trace.copy_kinds
    to_host = [kind for kind, label in labels.items() if label == "Device-to-Host"]
    mine = ran[operations.table[ran] == SOURCES.index(tables.COPIES)]
    mine = mine[np.isin(array(copies, "copy_kind")[operations.row[mine]], to_host)]
    reading = np.unique(operations.call[mine])
    synchronizing = _calls(context, window, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    rows = np.union1d(synchronizing, reading[reading >= 0])
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(context, rows), operations=mine, factor=0.0),
        "calls that wait for the GPU return at once, or neither they nor the copies are made at all",
    )


def worker_starts(spans: Mapping[int, Spans]) -> WhatIf:
    """Return what keeping loader processes changes: neither their start nor the wait for their first batch.

    Args:
        spans: When they are started, by feeding thread.
    """
    return WhatIf(
        Change(host=spans, host_factor=HALF, loader_factor=HALF),
        Change(host=spans, loader_factor=0),
        "half of the time for starting processes is saved and batches come twice as fast, or both cost nothing",
    )


def idle_host(spans: Mapping[int, Spans]) -> WhatIf:
    """Return what a host changes that saves the time in which the GPU was idle for one reason.

    Args:
        spans: That time, by feeding thread.
    """
    return _saved(spans, "half of the host's time in this is saved, or all of it")


def blocking_copies(context: TraceContext, window: Window) -> WhatIf:
    """Return what copying from pinned memory without blocking changes: neither the copy nor a wait behind it holds."""
    rows = _copying(context, window)
    ran = context.replay(window).operations
    copies = ran[np.isin(context.operations.call[ran], rows)]
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(context, rows), operations=copies, factor=_pinned_factor(context, copies)),
        "waits behind copies no longer hold the host; at most copies do not either, and run at the rate of pinned ones",
    )


def allocation(context: TraceContext, window: Window) -> WhatIf:
    """Return what allocating less in the step changes."""
    rows = _calls(context, window, lambda name: api_calls.call_kind(name) == api_calls.ALLOCATION)
    spans = _spans(context, rows)
    return WhatIf(
        Change(host=spans, host_factor=HALF),
        Change(host=spans, waits=rows),
        "half of the time in calls that allocate or free is saved, or all of it",
    )


def beside_kernels(context: TraceContext, window: Window, device: int, kind: int, named: str) -> WhatIf:
    """Return what running beside the kernels changes: at most, operations of one kind delay no kernel.

    Args:
        context: The trace.
        window: Stretch of time.
        device: The GPU.
        kind: Kind of the operations, one of ``operations.KINDS`` by its index.
        named: What they are called.
    """
    ran = context.replay(window).operations
    rows = ran[(context.operations.kind[ran] == kind) & (context.operations.device_id[ran] == device)]
    return faster(rows, HALF, 0.0, f"half of the time of {named} is hidden, or all of it")


def faster(rows: Indices, low: Factors, high: Factors, assumed: str) -> WhatIf:
    """Return what faster operations change.

    Args:
        rows: Rows of the context's operations.
        low: What their length is multiplied by at least; one number, or one a row.
        high: The same where the most comes true.
        assumed: Both in words.
    """
    return WhatIf(Change(operations=rows, factor=low), Change(operations=rows, factor=high), assumed)


def _of_states(kinds: tuple[int, ...], what: str, context: TraceContext, window: Window) -> WhatIf:
    return _saved(_states(context, window, kinds), f"half of the time {what} is saved, or all of it")


OF_CAUSE: Mapping[str, Callable[[TraceContext, Window], WhatIf]] = {
    "queued": latency,
    "launch": launch_calls,
    "module_load": partial(_of_states, (api_calls.MODULE_LOAD,), "in loading modules"),
    "allocation": allocation,
    "blocking_copy": blocking_copies,
    "synchronization": waits,
    "data_wait": loader_waits,
    "data_work": loader_work,
    "lock": partial(_of_states, (api_calls.LOCK_WAIT,), "waiting for a lock"),
    "off_cpu": partial(_of_states, (api_calls.OFF_CPU,), "off the CPU"),
}
"""What mending each cause of idle time changes."""


def _saved(spans: Spans | Mapping[int, Spans], assumed: str) -> WhatIf:
    return WhatIf(Change(host=spans, host_factor=HALF), Change(host=spans), assumed)


def _states(context: TraceContext, window: Window, kinds: tuple[int, ...]) -> dict[int, Spans]:
    """Return when each feeding thread is in one of these states, inside the stretch that is replayed."""
    replay, found = context.replay(window), {}
    for thread in replay.threads:
        with context.explaining:
            states = context.states(window).of(thread)
        mine = np.isin(states.code // NAMES, kinds)
        spans = Spans(states.spans.start[mine], states.spans.end[mine])
        found[thread] = clip(spans, replay.stretch.start_ns, replay.stretch.end_ns)
    return found


def _in_data(context: TraceContext, window: Window) -> dict[int, Spans]:
    """Return when each main thread that feeds the GPU is in its data phase, inside the stretch."""
    replay, phases, found = context.replay(window), context.phases, {}
    for main in set(phases.main_thread.values()) & set(replay.threads):
        own = phases.own(main)
        mine = own.code == phases.code(DATA)
        spans = Spans(own.spans.start[mine], own.spans.end[mine])
        if len(spans.start):
            found[main] = clip(spans, replay.stretch.start_ns, replay.stretch.end_ns)
    return found


def _outside(context: TraceContext, window: Window, spans: Spans) -> Spans:
    """Return what is left of the stretch."""
    stretch = context.replay(window).stretch
    return gaps(spans, stretch.start_ns, stretch.end_ns)


def _calls(context: TraceContext, window: Window, wanted: Callable[[str], bool]) -> Indices:
    """Return the calls of feeding threads in the stretch whose name is wanted, in order of start."""
    replay, calls = context.replay(window), context.trace[tables.CALLS]
    first, last = np.searchsorted(array(calls, "start"), [replay.stretch.start_ns, replay.stretch.end_ns])
    codes, ids = pd.factorize(array(calls, "name_id")[first:last])
    named = np.array([wanted(api_calls.base_name(context.trace.text(int(each)))) for each in ids], bool)
    chosen = named[codes] if len(codes) else np.zeros(0, bool)
    found: Indices = first + np.flatnonzero(chosen & np.isin(array(calls, "thread")[first:last], replay.threads))
    return found


def _spans(context: TraceContext, rows: Indices) -> Spans:
    """Return when any of these calls is open."""
    calls = context.trace[tables.CALLS]
    return merge(array(calls, "start")[rows], array(calls, "end")[rows])


def _copying(context: TraceContext, window: Window) -> Indices:
    """Return the calls of the stretch that copy, and those that wait directly behind one on the same thread."""
    synchronizing = _calls(context, window, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    copying = _calls(context, window, api_calls.is_copy)
    launching = np.unique(context.operations.call[context.replay(window).operations])
    rows = np.union1d(np.union1d(synchronizing, copying), launching)
    rows = rows[np.argsort(array(context.trace[tables.CALLS], "thread")[rows], kind="stable")]
    thread = array(context.trace[tables.CALLS], "thread")[rows]
    behind = np.isin(rows[1:], synchronizing) & np.isin(rows[:-1], copying) & (thread[1:] == thread[:-1])
    return np.union1d(copying, rows[1:][behind])


def _pinned_factor(context: TraceContext, rows: Indices) -> npt.NDArray[np.float64]:
    """Return what the length of each copy is multiplied by where it runs at the rate of pinned copies of its direction.

    That rate is the one of the trace's pinned copies; where these are slower, the factor is 1. Where there are none,
    large copies are taken to be ``PINNED_FASTER`` times as fast.
    """
    operations, copies, labels = context.operations, context.trace[tables.COPIES], context.trace.memory_kinds
    pageable = [kind for kind, label in labels.items() if label == "Pageable"]
    ends = array(copies, "source_kind"), array(copies, "target_kind")
    staged = np.isin(ends[0], pageable) | np.isin(ends[1], pageable)
    size, length = array(copies, "bytes"), array(copies, "end") - array(copies, "start")
    direction, own = array(copies, "copy_kind"), operations.row[rows]
    factor = np.ones(len(rows))
    for kind in np.unique(direction[own]):
        pinned, mine = (direction == kind) & ~staged & (size >= LARGE_BYTES), (direction[own] == kind) & staged[own]
        if not pinned.any():
            factor[mine] = np.where(size[own[mine]] >= LARGE_BYTES, 1 / PINNED_FASTER, 1.0)
        elif rate := size[pinned].sum() / max(length[pinned].sum(), 1):
            wanted = size[own[mine]] / rate
            factor[mine] = np.minimum(wanted / np.maximum(length[own[mine]], 1), 1)
    return factor
