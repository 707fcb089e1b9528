"""The parts of a simulated sample that a change affects: intervals of launching threads, calls and operations."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.copy_table import DOWNLOAD, LARGE_BYTES
from nsyswrap.base.intervals import Indices, Spans, clip, gaps, merge
from nsyswrap.events import api_calls
from nsyswrap.events.operations import SOURCES
from nsyswrap.events.thread_states import NAMES
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.simulate import Simulation


def in_states(simulation: Simulation, kinds: tuple[int, ...]) -> dict[int, Spans]:
    """Return when each launching thread is in one of these states, inside the sample."""
    found = {}
    for thread in simulation.threads:
        states = simulation.states.of(thread)
        mine = np.isin(states.code // NAMES, kinds)
        found[thread] = inside_sample(simulation, Spans(states.spans.start[mine], states.spans.end[mine]))
    return found


def in_data(simulation: Simulation) -> dict[int, Spans]:
    """Return when each main thread that launches is in its data phase, inside the sample."""
    return in_phase(simulation, DATA)


def in_phase(simulation: Simulation, phase: str) -> dict[int, Spans]:
    """Return when each main thread that launches is in a phase, inside the sample; threads never in it are left out."""
    phases, found = simulation.context.phases, {}
    for main in set(phases.main_thread.values()) & set(simulation.threads):
        own = phases.own(main)
        mine = own.code == phases.code(phase)
        spans = Spans(own.spans.start[mine], own.spans.end[mine])
        if len(spans.start):
            found[main] = inside_sample(simulation, spans)
    return found


def on_all_cores(simulation: Simulation, work_ns: int) -> int:
    """Return how long all cores that the program may use take for some work, in ns; 0 where they are unknown."""
    record = simulation.context.settings.host
    cores = [float(each) for each in (record.cores.get("allowed"), record.quota_cores) if each]
    return round(work_ns / min(cores)) if cores else 0


def inside_sample(simulation: Simulation, spans: Spans) -> Spans:
    """Return the spans, clipped to the sample."""
    return clip(spans, simulation.sample.start_ns, simulation.sample.end_ns)


def outside_of(simulation: Simulation, spans: Spans) -> Spans:
    """Return the time of the sample outside of the spans."""
    return gaps(spans, simulation.sample.start_ns, simulation.sample.end_ns)


def calls_named(simulation: Simulation, wanted: Callable[[str], bool]) -> Indices:
    """Return the calls of launching threads in the sample with a wanted name, as rows of ``trace[CALLS]``, by start.

    Args:
        simulation: The run as it was.
        wanted: Returns whether the calls of a name are wanted.
    """
    trace = simulation.context.trace
    calls = trace[tables.CALLS]
    first, last = np.searchsorted(array(calls, "start"), [simulation.sample.start_ns, simulation.sample.end_ns])
    codes, ids = pd.factorize(coded(calls, "name_id")[first:last])
    named = np.array([wanted(api_calls.base_name(trace.text(int(each)))) for each in ids], np.bool_)
    chosen = named[codes] if len(codes) else np.zeros(0, np.bool_)
    found: Indices = first + np.flatnonzero(chosen & np.isin(coded(calls, "thread")[first:last], simulation.threads))
    return found


def spans_of_calls(simulation: Simulation, rows: Indices) -> Spans:
    """Return the time in which any of these calls is open."""
    calls = simulation.context.trace[tables.CALLS]
    return merge(array(calls, "start")[rows], array(calls, "end")[rows])


def before_launches(simulation: Simulation, rows: Indices) -> dict[int, Spans]:
    """Return the time before the launches of some operations, by thread: from the launch before each of them.

    Args:
        simulation: The run as it was.
        rows: Rows of the context's operations.
    """
    calls, operations = simulation.context.trace[tables.CALLS], simulation.context.operations
    thread, start, end = coded(calls, "thread"), array(calls, "start"), array(calls, "end")
    launching = np.unique(operations.call[simulation.operations])
    wanted = np.isin(launching, operations.call[rows])
    found = {}
    for each in simulation.threads:
        mine = thread.equal(each, launching)
        call, chosen = launching[mine], wanted[mine]
        since = np.append(simulation.sample.start_ns, end[call[:-1]])[: len(call)]
        found[each] = merge(since[chosen], np.maximum(end[call], start[call])[chosen])
    return found


def copies_in_direction(simulation: Simulation, direction: str) -> Indices:
    """Return the copies of one direction in the sample, as rows of the context's operations."""
    operations, trace, ran = simulation.context.operations, simulation.context.trace, simulation.operations
    kinds = [kind for kind, label in trace.copy_kinds.items() if label == direction]
    mine = ran[operations.table[ran] == SOURCES.index(tables.COPIES)]
    found: Indices = mine[np.isin(array(trace[tables.COPIES], "copy_kind")[operations.row[mine]], kinds)]
    return found


def staged_copies(simulation: Simulation) -> Indices:
    """Return the copies of pageable memory that pinned memory makes faster, as rows of the context's operations.

    Small copies to the host read values: there the host waits for the GPU's work, whatever the memory.
    """
    operations, trace, ran = simulation.context.operations, simulation.context.trace, simulation.operations
    mine = ran[operations.table[ran] == SOURCES.index(tables.COPIES)]
    large = array(trace[tables.COPIES], "bytes")[operations.row[mine]] >= LARGE_BYTES
    reads_value = np.isin(mine, copies_in_direction(simulation, DOWNLOAD)) & ~large
    found: Indices = mine[api_calls.is_pageable(trace, operations.row[mine]) & ~reads_value]
    return found


def copies_and_their_waits(simulation: Simulation, copies: Indices) -> Indices:
    """Return the calls that make the copies, and the waits directly after one of them on the same thread.

    Args:
        simulation: The run as it was.
        copies: Rows of the context's operations.
    """
    synchronizing = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.SYNCHRONIZATION)
    copying = np.intersect1d(calls_named(simulation, api_calls.is_copy), simulation.context.operations.call[copies])
    launching = np.unique(simulation.context.operations.call[simulation.operations])
    rows = np.union1d(np.union1d(synchronizing, copying), launching)
    threads = coded(simulation.context.trace[tables.CALLS], "thread")
    rows = rows[np.argsort(threads[rows], kind="stable")]
    thread = threads[rows]
    behind = np.isin(rows[1:], synchronizing) & np.isin(rows[:-1], copying) & (thread[1:] == thread[:-1])
    return np.union1d(copying, rows[1:][behind])


def pinned_factor(simulation: Simulation, rows: Indices) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the factor for the length of each copy at the rate of pinned copies, and whether all rates are known.

    The rate is that of the capture's own pinned copies in the same direction. Without any, it is the rate that was
    measured on the machine of the capture. The factor is at most 1; it is 1 where no rate is known.
    """
    operations, trace = simulation.context.operations, simulation.context.trace
    copies = trace[tables.COPIES]
    staged = api_calls.is_pageable(trace, np.arange(len(copies)))
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
