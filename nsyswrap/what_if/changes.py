"""What fixing each cause would change, as two simulations: a pessimistic one and an optimistic one.

A saving is the difference between the simulation as it was and the simulation with the change. Each says what it
assumes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.copy_table import LARGE_BYTES
from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.events import api_calls
from nsyswrap.events.operations import COMPUTE, SOURCES
from nsyswrap.events.thread_states import NAMES, WAITS
from nsyswrap.intervals import NOTHING, Indices, Spans, clip, gaps, merge, subtract, union
from nsyswrap.loop.phase_detection import DATA, OPTIMIZER
from nsyswrap.model import SavingMethod
from nsyswrap.tables import array
from nsyswrap.what_if.dependency_graph import Change, Factors
from nsyswrap.what_if.simulate import Simulation

HALF = 0.5
CANNOT = "no saving is predicted: the simulation does not reproduce this run"
# An optimizer that takes the tensors one by one reads or writes each of them 18 times, a fused one 7 times. Source:
# torch.optim.Adam, its formula counted with foreach=False and fused=True.
FUSED_PASSES = 7 / 18


@dataclass(frozen=True)
class WhatIf:
    """The least and the most that a fix changes.

    Attributes:
        low: What changes at least.
        high: What changes at most.
        assumed: What both rest on, in words.
    """

    low: Change
    high: Change
    assumed: str


class Saving(NamedTuple):
    """What a fix saves, in ns of the window; None where nothing can be predicted.

    Attributes:
        low_ns: At least.
        high_ns: At most.
        method: "simulated", "estimated", or None where nothing is predicted.
        evidence: What it rests on, as lines of evidence.
    """

    low_ns: int | None
    high_ns: int | None
    method: SavingMethod | None
    evidence: tuple[str, ...]


NO_SAVING = Saving(0, 0, None, ())


def predict(simulation: Simulation, what: Callable[[Simulation], WhatIf]) -> Saving:
    """Return what a fix saves in the window.

    Args:
        simulation: The run as it was.
        what: Returns what changes; not called where the simulation does not predict.
    """
    if not simulation.predicts:
        return Saving(None, None, None, (CANNOT,))
    change = what(simulation)
    found = sorted(simulation.saving(each) or 0 for each in (change.low, change.high))
    return Saving(max(found[0], 0), max(found[1], 0), "simulated", (f"simulated: {change.assumed}",))


def loader_waits(simulation: Simulation) -> WhatIf:
    """Return what more loader workers change: batches come faster, and nothing waits for them."""
    waiting, in_data = _states(simulation, WAITS), _in_data(simulation)
    host = {main: subtract(waiting.get(main, NOTHING), _outside(simulation, data)) for main, data in in_data.items()}
    return WhatIf(
        Change(host=host or waiting, host_factor=HALF, loader_factor=HALF),
        Change(host=host or waiting, loader_factor=0),
        "batches come twice as fast, or always in time",
    )


def loader_work(simulation: Simulation) -> WhatIf:
    """Return what loading in the background changes: the training process no longer prepares data."""
    waiting = _states(simulation, WAITS)
    host = {main: subtract(data, waiting.get(main, NOTHING)) for main, data in _in_data(simulation).items()}
    return _saved(host, "half of the preparation moves to workers, or all of it")


def launch_calls(simulation: Simulation) -> WhatIf:
    """Return what fewer launch calls change."""
    rows = np.unique(simulation.context.operations.call[simulation.operations])
    return _saved(_spans(simulation, rows), "half of the time in launch calls is saved, or all of it")


def latency(_simulation: Simulation) -> WhatIf:
    """Return what an immediate start changes: operations begin when they are launched."""
    return WhatIf(Change(), Change(latency_factor=0), "operations begin as soon as they are launched")


def waits(simulation: Simulation) -> WhatIf:
    """Return what leaving out synchronization changes: the waits are removed, or the calls as well."""
    rows = _calls(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(simulation, rows)),
        "the waits in synchronizing calls are removed, or the calls as well",
    )


def reads(simulation: Simulation) -> WhatIf:
    """Return what reading values later changes: neither synchronizing calls nor copies to the host hold it."""
    mine = _copies_of(simulation, "Device-to-Host")
    reading = np.unique(simulation.context.operations.call[mine])
    synchronizing = _calls(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    rows = np.union1d(synchronizing, reading[reading >= 0])
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(simulation, rows), operations=mine, factor=0.0),
        "the waits are removed, or the waits and the copies",
    )


def one_copy(simulation: Simulation) -> WhatIf:
    """Return what one copy instead of many small ones changes: the waits behind them, or their calls as well."""
    rows, copies = _copying(simulation), _copies_of(simulation, "Host-to-Device")
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(simulation, rows), operations=copies, factor=0.0),
        "the waits behind small copies are removed, or the waits and the copies",
    )


def worker_starts(spans: Mapping[int, Spans], _simulation: Simulation) -> WhatIf:
    """Return what keeping loader processes changes: neither their start nor the wait for their first batch.

    Args:
        spans: When they are started, by launching thread.
    """
    return WhatIf(
        Change(host=spans, host_factor=HALF, loader_factor=HALF),
        Change(host=spans, loader_factor=0),
        "half of the time to start processes is saved and batches come twice as fast, or both cost nothing",
    )


def idle_host(spans: Mapping[int, Spans], _simulation: Simulation) -> WhatIf:
    """Return what changes when the host saves the time in which the GPU was idle for one reason.

    Args:
        spans: That time, by launching thread.
    """
    return _saved(spans, "the host saves half of this time, or all of it")


def marks(spans: Mapping[int, Spans], share: float, _simulation: Simulation) -> WhatIf:
    """Return what fewer NVTX ranges change.

    Args:
        spans: The time in which the host records ranges, by launching thread.
        share: The part of it that the marks themselves take.
    """
    return WhatIf(
        Change(host=spans, host_factor=1 - min(share, 1.0)),
        Change(host=spans),
        "the host saves the time of the marks, or all of the time around them",
    )


def fused_optimizer(simulation: Simulation) -> WhatIf:
    """Return what one fused pass over all parameters changes, at least its launches, at most its memory traffic too."""
    context, ran = simulation.context, simulation.operations
    in_optimizer = context.phase_of_operations[ran] == context.phases.code(OPTIMIZER)
    mine = ran[in_optimizer & (context.operations.kind[ran] == COMPUTE)]
    spans = _spans(simulation, np.unique(context.operations.call[mine]))
    host = {thread: union(spans, each) for thread, each in _in_phase(simulation, OPTIMIZER).items()}
    length = context.operations.end[mine] - context.operations.start[mine]
    # A kernel that is shorter than its launch moves next to nothing, so one pass does without it.
    factor = np.where(length < SHORT_NS, 0.0, FUSED_PASSES)
    return WhatIf(
        Change(host=host or spans, host_factor=HALF),
        Change(host=host or spans, operations=mine, factor=factor),
        "half of the host's time in the optimizer is saved, or all of it with the short kernels and repeated passes",
    )


def fewer_operations(gaps: Spans, device: int, simulation: Simulation) -> WhatIf:
    """Return what fusing operations changes: the gaps between them go, and the short operations as well.

    Args:
        gaps: The gaps between operations of the device.
        device: The GPU.
        simulation: The run as it was.
    """
    operations, ran = simulation.context.operations, simulation.operations
    mine = ran[(operations.device_id[ran] == device) & (operations.kind[ran] == COMPUTE)]
    at = np.minimum(np.searchsorted(gaps.end, operations.start[mine]), len(gaps.end) - 1)
    follows = gaps.end[at] == operations.start[mine]
    rows, gap = mine[follows], (gaps.end - gaps.start)[at[follows]]
    length = np.maximum(operations.end[rows] - operations.start[rows], 1)
    factor = np.where(length < SHORT_NS, 0.0, np.maximum(1 - gap / length, 0.0))
    launches = _between_launches(simulation, rows[factor == 0])
    said = "operations shorter than their launch are fused: their gaps, time and launches are saved, or half of them"
    return WhatIf(
        Change(operations=rows, factor=(1 + factor) * HALF, host=launches, host_factor=HALF),
        Change(operations=rows, factor=factor, host=launches),
        said,
    )


def pinned_copies(simulation: Simulation) -> WhatIf:
    """Return what pinned memory changes: copies and the waits behind them no longer hold the host, and run faster."""
    rows = _copying(simulation)
    ran = simulation.operations
    copies = ran[np.isin(simulation.context.operations.call[ran], rows)]
    factor, known = _pinned_factor(simulation, copies)
    rate = "at the rate of pinned ones" if known else "as fast as before: the rate of pinned ones is not known here"
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=_spans(simulation, rows), operations=copies, factor=factor),
        f"waits behind copies no longer hold the host; at most copies do not hold it either, and run {rate}",
    )


def allocation(simulation: Simulation) -> WhatIf:
    """Return what allocating less in the step changes."""
    rows = _calls(simulation, lambda name: api_calls.call_kind(name) == api_calls.ALLOCATION)
    spans = _spans(simulation, rows)
    return WhatIf(
        Change(host=spans, host_factor=HALF),
        Change(host=spans, waits=rows),
        "half of the time in calls that allocate or free is saved, or all of it",
    )


def beside_kernels(device: int, kind: int, named: str, simulation: Simulation) -> WhatIf:
    """Return what overlap with kernels changes: at most, operations of one kind delay no kernel.

    Args:
        device: The GPU.
        kind: Kind of the operations, one of ``operations.KINDS`` by its index.
        named: What they are called.
        simulation: The run as it was.
    """
    ran, operations = simulation.operations, simulation.context.operations
    rows = ran[(operations.kind[ran] == kind) & (operations.device_id[ran] == device)]
    return faster(rows, HALF, 0.0, f"half of the time of {named} is hidden, or all of it")


def faster(rows: Indices, low: Factors, high: Factors, assumed: str) -> WhatIf:
    """Return what faster operations change.

    Args:
        rows: Rows of the context's operations.
        low: What their length is multiplied by at least; one number, or one a row.
        high: The same in the optimistic simulation.
        assumed: Both in words.
    """
    return WhatIf(Change(operations=rows, factor=low), Change(operations=rows, factor=high), assumed)


def _of_states(kinds: tuple[int, ...], what: str, simulation: Simulation) -> WhatIf:
    return _saved(_states(simulation, kinds), f"half of the time {what} is saved, or all of it")


OF_CAUSE: Mapping[str, Callable[[Simulation], WhatIf]] = {
    "queued": latency,
    "launch": launch_calls,
    "module_load": partial(_of_states, (api_calls.MODULE_LOAD,), "in loading modules"),
    "allocation": allocation,
    "blocking_copy": pinned_copies,
    "synchronization": waits,
    "data_wait": loader_waits,
    "data_work": loader_work,
    "lock": partial(_of_states, (api_calls.LOCK_WAIT,), "waiting for a lock"),
    "off_cpu": partial(_of_states, (api_calls.OFF_CPU,), "off the CPU"),
}
"""What fixing each cause of idle time changes."""


def _saved(spans: Spans | Mapping[int, Spans], assumed: str) -> WhatIf:
    return WhatIf(Change(host=spans, host_factor=HALF), Change(host=spans), assumed)


def _states(simulation: Simulation, kinds: tuple[int, ...]) -> dict[int, Spans]:
    """Return when each launching thread is in one of these states, inside the sample."""
    found = {}
    for thread in simulation.threads:
        states = simulation.states.of(thread)
        mine = np.isin(states.code // NAMES, kinds)
        found[thread] = _inside(simulation, Spans(states.spans.start[mine], states.spans.end[mine]))
    return found


def _in_data(simulation: Simulation) -> dict[int, Spans]:
    """Return when each main thread that launches is in its data phase, inside the sample."""
    return _in_phase(simulation, DATA)


def _in_phase(simulation: Simulation, phase: str) -> dict[int, Spans]:
    """Return when each main thread that launches is in a phase, inside the sample; threads never in it are left out."""
    phases, found = simulation.context.phases, {}
    for main in set(phases.main_thread.values()) & set(simulation.threads):
        own = phases.own(main)
        mine = own.code == phases.code(phase)
        spans = Spans(own.spans.start[mine], own.spans.end[mine])
        if len(spans.start):
            found[main] = _inside(simulation, spans)
    return found


def _inside(simulation: Simulation, spans: Spans) -> Spans:
    return clip(spans, simulation.sample.start_ns, simulation.sample.end_ns)


def _outside(simulation: Simulation, spans: Spans) -> Spans:
    """Return what is left of the sample."""
    return gaps(spans, simulation.sample.start_ns, simulation.sample.end_ns)


def _calls(simulation: Simulation, wanted: Callable[[str], bool]) -> Indices:
    """Return the calls of launching threads in the sample whose name is wanted, in order of start."""
    trace = simulation.context.trace
    calls = trace[tables.CALLS]
    first, last = np.searchsorted(array(calls, "start"), [simulation.sample.start_ns, simulation.sample.end_ns])
    codes, ids = pd.factorize(array(calls, "name_id")[first:last])
    named = np.array([wanted(api_calls.base_name(trace.text(int(each)))) for each in ids], np.bool_)
    chosen = named[codes] if len(codes) else np.zeros(0, np.bool_)
    found: Indices = first + np.flatnonzero(chosen & np.isin(array(calls, "thread")[first:last], simulation.threads))
    return found


def _spans(simulation: Simulation, rows: Indices) -> Spans:
    """Return when any of these calls is open."""
    calls = simulation.context.trace[tables.CALLS]
    return merge(array(calls, "start")[rows], array(calls, "end")[rows])


def _between_launches(simulation: Simulation, rows: Indices) -> dict[int, Spans]:
    """Return the host's time from the launch before to the launch of some operations, by launching thread.

    Args:
        simulation: The run as it was.
        rows: Rows of the context's operations.
    """
    calls, operations = simulation.context.trace[tables.CALLS], simulation.context.operations
    thread, start, end = (array(calls, name) for name in ("thread", "start", "end"))
    launching = np.unique(operations.call[simulation.operations])
    wanted = np.isin(launching, operations.call[rows])
    found = {}
    for each in simulation.threads:
        mine = thread[launching] == each
        call, chosen = launching[mine], wanted[mine]
        since = np.append(simulation.sample.start_ns, end[call[:-1]])[: len(call)]
        found[each] = merge(since[chosen], np.maximum(end[call], start[call])[chosen])
    return found


def _copies_of(simulation: Simulation, direction: str) -> Indices:
    """Return the copies of one direction in the sample, as rows of the context's operations."""
    operations, trace, ran = simulation.context.operations, simulation.context.trace, simulation.operations
    kinds = [kind for kind, label in trace.copy_kinds.items() if label == direction]
    mine = ran[operations.table[ran] == SOURCES.index(tables.COPIES)]
    found: Indices = mine[np.isin(array(trace[tables.COPIES], "copy_kind")[operations.row[mine]], kinds)]
    return found


def _copying(simulation: Simulation) -> Indices:
    """Return the calls of the sample that copy, and those that wait directly behind one on the same thread."""
    synchronizing = _calls(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    copying = _calls(simulation, api_calls.is_copy)
    launching = np.unique(simulation.context.operations.call[simulation.operations])
    rows = np.union1d(np.union1d(synchronizing, copying), launching)
    threads = array(simulation.context.trace[tables.CALLS], "thread")
    rows = rows[np.argsort(threads[rows], kind="stable")]
    thread = threads[rows]
    behind = np.isin(rows[1:], synchronizing) & np.isin(rows[:-1], copying) & (thread[1:] == thread[:-1])
    return np.union1d(copying, rows[1:][behind])


def _pinned_factor(simulation: Simulation, rows: Indices) -> tuple[npt.NDArray[np.float64], bool]:
    """Return what the length of each copy is multiplied by at the rate of pinned copies, and whether that is known.

    The rate is that of the capture's own pinned copies in the same direction; without any, the one measured on the
    machine beside the capture. A copy is never slower for it, and where neither is known its length stays.
    """
    operations, trace = simulation.context.operations, simulation.context.trace
    copies = trace[tables.COPIES]
    pageable = [kind for kind, label in trace.memory_kinds.items() if label == "Pageable"]
    staged = np.isin(array(copies, "source_kind"), pageable) | np.isin(array(copies, "target_kind"), pageable)
    size, length = array(copies, "bytes"), array(copies, "end") - array(copies, "start")
    direction, own = array(copies, "copy_kind"), operations.row[rows]
    factor, known = np.ones(len(rows)), True
    for kind in np.unique(direction[own]):
        mine = (direction[own] == kind) & staged[own] & (size[own] >= LARGE_BYTES)
        pinned = (direction == kind) & ~staged & (size >= LARGE_BYTES)
        measured = simulation.context.settings.copy_rates.get(trace.copy_kinds.get(int(kind), ""))
        rate = size[pinned].sum() / max(length[pinned].sum(), 1) if pinned.any() else 0.0
        rate = rate or (measured.high / 1e9 if measured else 0.0)
        if rate:
            factor[mine] = np.minimum(size[own[mine]] / rate / np.maximum(length[own[mine]], 1), 1)
        known = known and (rate > 0 or not mine.any())
    return factor, known
