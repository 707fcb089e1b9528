"""The change that fixes each cause, in two forms: one for a pessimistic and one for an optimistic simulation.

A saving is the difference between the simulation of the run as it was and the simulation with the change. Each saving
states what it assumes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from nsyswrap.attribution.copy_table import DOWNLOAD, UPLOAD
from nsyswrap.attribution.first_launches import find_loading_launches
from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.events import api_calls
from nsyswrap.events.operations import COMPUTE
from nsyswrap.events.thread_states import WAITS
from nsyswrap.intervals import NOTHING, Indices, Spans, subtract, union
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.model import SavingMethod
from nsyswrap.what_if.affected_parts import (
    before_launches,
    calls_named,
    copies_and_their_waits,
    copies_in_direction,
    in_data,
    in_phase,
    in_states,
    outside_of,
    pinned_factor,
    spans_of_calls,
    staged_copies,
)
from nsyswrap.what_if.dependency_graph import Change, Factors
from nsyswrap.what_if.simulate import Simulation

HALF = 0.5
# A fix that saves a smaller share of the time is not worth a warning, or a place in the plan. Source: ours; two runs of
# one program differ by as much.
LEAST_SAVING_SHARE = 0.01
CANNOT = "no saving is predicted: the simulation does not reproduce this run"
# An optimizer that handles the tensors one by one reads or writes each 18 times, a fused one 7 times. Source:
# torch.optim.Adam, its formula counted with foreach=False and fused=True.
FUSED_PASSES = 7 / 18


@dataclass(frozen=True)
class WhatIf:
    """The change of a fix, pessimistic and optimistic.

    Attributes:
        low: The pessimistic change: the least that the fix does.
        high: The optimistic change: the most that the fix does.
        assumed: The assumptions of both, in words.
    """

    low: Change
    high: Change
    assumed: str


@dataclass(frozen=True)
class Saving:
    """What a fix saves, in ns of the window; None where nothing can be predicted.

    Attributes:
        low_ns: Lower bound.
        high_ns: Upper bound.
        method: "simulated", "estimated", or None where nothing is predicted.
        evidence: Lines of evidence that state the assumptions.
        what_if: The change that was simulated; None where the saving does not come from a simulation.
    """

    low_ns: int | None
    high_ns: int | None
    method: SavingMethod | None
    evidence: tuple[str, ...]
    what_if: WhatIf | None = field(default=None, compare=False, repr=False)


NO_SAVING = Saving(0, 0, None, ())


def predict(simulation: Simulation, what: Callable[[Simulation], WhatIf]) -> Saving:
    """Return how much time of the window a fix saves.

    Args:
        simulation: The run as it was.
        what: Returns the change; not called where the simulation does not predict.
    """
    if not simulation.predicts:
        return Saving(None, None, None, (CANNOT,))
    change = what(simulation)
    found = sorted(simulation.saving(each) or 0 for each in (change.low, change.high))
    return Saving(max(found[0], 0), max(found[1], 0), "simulated", (f"simulated: {change.assumed}",), change)


def loader_waits(simulation: Simulation) -> WhatIf:
    """Return the change "more loader workers": batches come faster, and the training process waits less for them."""
    waiting = in_states(simulation, WAITS)
    host = {
        main: subtract(waiting.get(main, NOTHING), outside_of(simulation, data))
        for main, data in in_data(simulation).items()
    }
    return WhatIf(
        Change(host=host or waiting, host_factor=HALF, loader_factor=HALF),
        Change(host=host or waiting, loader_factor=0),
        "batches come twice as fast, or always in time",
    )


def loader_work(simulation: Simulation) -> WhatIf:
    """Return the change "load in the background": the training process no longer prepares data."""
    waiting = in_states(simulation, WAITS)
    host = {main: subtract(data, waiting.get(main, NOTHING)) for main, data in in_data(simulation).items()}
    return _saved(host, "half of the preparation moves to workers, or all of it")


def launch_calls(simulation: Simulation) -> WhatIf:
    """Return the change "fewer launch calls"."""
    rows = np.unique(simulation.context.operations.call[simulation.operations])
    return _saved(spans_of_calls(simulation, rows), "half of the time in launch calls is saved, or all of it")


def loads(simulation: Simulation) -> WhatIf:
    """Return the change "load everything before": calls that load code, and first launches that do, take less time."""
    rows = find_loading_launches(simulation.context)
    inside = np.isin(rows, simulation.context.operations.call[simulation.operations])
    first, loading = spans_of_calls(simulation, rows[inside]), in_states(simulation, (api_calls.MODULE_LOAD,))
    spans = {thread: union(each, first) for thread, each in loading.items()}
    return _saved(spans, "half of the time in loading modules is saved, or all of it")


def latency(_simulation: Simulation) -> WhatIf:
    """Return the change "no launch latency": operations begin when they are launched."""
    return WhatIf(Change(), Change(latency_factor=0), "operations begin as soon as they are launched")


def waits(simulation: Simulation) -> WhatIf:
    """Return the change "no synchronization": the waits are removed, or the calls as well."""
    rows = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=spans_of_calls(simulation, rows)),
        "the waits in synchronizing calls are removed, or the calls as well",
    )


def reads(simulation: Simulation) -> WhatIf:
    """Return the change "read values later": synchronizing calls and copies to the host no longer block the CPU."""
    mine = copies_in_direction(simulation, DOWNLOAD)
    reading = np.unique(simulation.context.operations.call[mine])
    synchronizing = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    rows = np.union1d(synchronizing, reading[reading >= 0])
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=spans_of_calls(simulation, rows), operations=mine, factor=0.0),
        "the waits are removed, or the waits and the copies",
    )


def one_copy(simulation: Simulation) -> WhatIf:
    """Return the change "one copy instead of many small ones": the waits after them are removed, or the copies too."""
    copies = copies_in_direction(simulation, UPLOAD)
    rows = copies_and_their_waits(simulation, copies)
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=spans_of_calls(simulation, rows), operations=copies, factor=0.0),
        "the waits after small copies are removed, or the waits and the copies",
    )


def worker_starts(spans: Mapping[int, Spans], _simulation: Simulation) -> WhatIf:
    """Return the change "keep loader processes": no time to start them, no wait for their first batch.

    Args:
        spans: Idle time in which they are started, by launching thread.
    """
    return WhatIf(
        Change(host=spans, host_factor=HALF, loader_factor=HALF),
        Change(host=spans, loader_factor=0),
        "half of the time to start processes is saved and batches come twice as fast, or both take no time",
    )


def idle_host(spans: Mapping[int, Spans], _simulation: Simulation) -> WhatIf:
    """Return the change "the host saves the time in which the GPU was idle for one reason".

    Args:
        spans: That time, by launching thread.
    """
    return _saved(spans, "the host saves half of this time, or all of it")


def marks(spans: Mapping[int, Spans], share: float, _simulation: Simulation) -> WhatIf:
    """Return the change "fewer NVTX ranges".

    Args:
        spans: The time in which the host records ranges, by launching thread.
        share: The share of it that the marks themselves take.
    """
    return WhatIf(
        Change(host=spans, host_factor=1 - min(share, 1.0)),
        Change(host=spans),
        "the host saves the time of the marks, or all of the time around them",
    )


def fused_optimizer(simulation: Simulation) -> WhatIf:
    """Return the change "fused optimizer": fewer launches, and in the optimistic form less memory traffic as well."""
    context, ran = simulation.context, simulation.operations
    in_optimizer = context.phase_of_operations[ran] == context.phases.code(OPTIMIZER)
    mine = ran[in_optimizer & (context.operations.kind[ran] == COMPUTE)]
    spans = spans_of_calls(simulation, np.unique(context.operations.call[mine]))
    host = {thread: union(spans, each) for thread, each in in_phase(simulation, OPTIMIZER).items()}
    length = context.operations.end[mine] - context.operations.start[mine]
    # A kernel that is shorter than its launch moves little memory, so one fused pass does not need it.
    factor = np.where(length < SHORT_NS, 0.0, FUSED_PASSES)
    return WhatIf(
        Change(host=host or spans, host_factor=HALF),
        Change(host=host or spans, operations=mine, factor=factor),
        "half of the host's time in the optimizer is saved, or all of it with the short kernels and repeated passes",
    )


def fewer_operations(gaps: Spans, device: int, simulation: Simulation) -> WhatIf:
    """Return the change "fuse operations": gaps between them are removed, and short kernels that a compiler may fuse.

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
    fused = (length < SHORT_NS) & simulation.context.kernel_names.may_be_fused(rows)
    factor = np.where(fused, 0.0, np.maximum(1 - gap / length, 0.0))
    launches = before_launches(simulation, rows[factor == 0])
    assumed = (
        "gaps are saved, and time and launches of kernels that are shorter than their launch, if a compiler may fuse "
        "them; or half of all that"
    )
    return WhatIf(
        Change(operations=rows, factor=(1 + factor) * HALF, host=launches, host_factor=HALF),
        Change(operations=rows, factor=factor, host=launches),
        assumed,
    )


def pinned_copies(simulation: Simulation) -> WhatIf:
    """Return the change "pinned memory": staged copies and waits after them do not block the host, and run faster."""
    copies = staged_copies(simulation)
    rows = copies_and_their_waits(simulation, copies)
    factor, known = pinned_factor(simulation, copies)
    rate = "run at the rate of pinned copies" if known else "run as before: the rate of pinned copies is not known here"
    return WhatIf(
        Change(waits=rows),
        Change(waits=rows, host=spans_of_calls(simulation, rows), operations=copies, factor=factor),
        f"waits after copies no longer block the host; at most, copies do not block it either and {rate}",
    )


def allocation(simulation: Simulation) -> WhatIf:
    """Return the change "allocate less in the step"."""
    rows = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.ALLOCATION)
    spans = spans_of_calls(simulation, rows)
    return WhatIf(
        Change(host=spans, host_factor=HALF),
        Change(host=spans, waits=rows),
        "half of the time in calls that allocate or free is saved, or all of it",
    )


def beside_kernels(device: int, kind: int, named: str, simulation: Simulation) -> WhatIf:
    """Return the change "overlap with kernels": at most, operations of one kind delay no kernel.

    Args:
        device: The GPU.
        kind: Kind of the operations, one of ``operations.KINDS`` by its index.
        named: Their name in the evidence, in the plural.
        simulation: The run as it was.
    """
    ran, operations = simulation.operations, simulation.context.operations
    rows = ran[(operations.kind[ran] == kind) & (operations.device_id[ran] == device)]
    return faster(rows, HALF, 0.0, f"half of the time of {named} overlaps with kernels, or all of it")


def faster(rows: Indices, low: Factors, high: Factors, assumed: str) -> WhatIf:
    """Return the change "faster operations".

    Args:
        rows: Rows of the context's operations.
        low: Factor for their length in the pessimistic simulation; one number, or one for each row.
        high: The same in the optimistic simulation.
        assumed: Both in words.
    """
    return WhatIf(Change(operations=rows, factor=low), Change(operations=rows, factor=high), assumed)


def _of_states(kinds: tuple[int, ...], what: str, simulation: Simulation) -> WhatIf:
    return _saved(in_states(simulation, kinds), f"half of the time {what} is saved, or all of it")


OF_CAUSE: Mapping[str, Callable[[Simulation], WhatIf]] = {
    "queued": latency,
    "launch": launch_calls,
    "module_load": loads,
    "allocation": allocation,
    "blocking_copy": pinned_copies,
    "synchronization": waits,
    "data_wait": loader_waits,
    "data_work": loader_work,
    "peer_wait": partial(_of_states, (api_calls.PEER_RANK_WAIT,), "in calls that wait for other ranks"),
    "lock": partial(_of_states, (api_calls.LOCK_WAIT,), "waiting for a lock"),
    "off_cpu": partial(_of_states, (api_calls.OFF_CPU,), "off the CPU"),
    "garbage_collection": partial(_of_states, (api_calls.GARBAGE_COLLECTION,), "in garbage collection"),
    "file_io": partial(_of_states, (api_calls.FILE_IO, api_calls.CHECKPOINT), "in calls on files"),
}
"""The change that fixes each cause of idle time."""


def _saved(spans: Spans | Mapping[int, Spans], assumed: str) -> WhatIf:
    return WhatIf(Change(host=spans, host_factor=HALF), Change(host=spans), assumed)
