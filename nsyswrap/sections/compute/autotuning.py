"""Measured steps in which a library times its algorithms: cudnn.benchmark does so for each new shape.

::

    host    |run A|wait|run A|wait|run B|wait|run B|wait| ... |run the fastest|
    GPU      [A]        [A]        [  B  ]    [  B  ]          [A]

After each run the host waits for the GPU, so it is known by calls: launches of cuDNN's kernels alone, then a wait,
many times in a row, with different kernels. Source: ``time_sorted_plan`` of cuDNN's frontend, which PyTorch calls: one
run to warm up, and at least one that is timed, for up to ten algorithms.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Spans, clip, merge, subtract, total, union
from nsyswrap.events import api_calls
from nsyswrap.events.operations import MEMSET
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.model import Finding
from nsyswrap.rules import compute
from nsyswrap.sections.compute.kernel_findings import Flags, KernelWindow
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.severity import NOTE_SHARE, make_finding
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.affected_parts import calls_named, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.saving import WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

LIBRARY, WAIT = "cudnn", "ynchronize"
# Waits in a row, each after launches of cuDNN alone: a program that times a single layer has fewer kernels, and a wait
# after each step has other kernels before it. Ours: three algorithms, each run twice.
LEAST_WAITS, LEAST_KERNELS = 6, 3


class Tuning(NamedTuple):
    """Where a library times its algorithms.

    Attributes:
        rows: The operations that it runs for that, rows of the context's operations.
        spans: The time of the host, by thread.
    """

    rows: Indices
    spans: dict[int, Spans]
    times: int


def find_findings(found: KernelWindow) -> Iterator[Finding]:
    """Yield a finding where that takes enough of the window."""
    kernels, window, tuning = found.kernels, found.window, find_tuning(found.context, found.kernels.rows)
    lost = sum(total(clip(each, window.start_ns, window.end_ns)) for each in tuning.spans.values())
    if (share := kernels.share_of(lost, window)) >= NOTE_SHARE:
        inside = kernels.inside[np.isin(kernels.rows, tuning.rows)]
        yield make_finding(
            rule=compute.AUTOTUNING,
            headline=compute.AUTOTUNING.headline.format(share=units.share(share)),
            lost_ns=kernels.per_gpu(lost),
            saving=predict(found.simulation, partial(_chosen, tuning)),
            evidence=(
                f"{units.counted(tuning.times, 'time')}, with {units.counted(len(tuning.rows), 'kernel')} timed",
                *place_lines(found.context, tuning.rows, inside),
            ),
            window=window,
        )


def find_tuning(context: TraceContext, rows: Indices) -> Tuning:
    """Return where a library times its algorithms, among some compute kernels: rows of the context's operations."""
    calls, names = context.trace[tables.CALLS], context.kernel_names
    rows = rows[context.operations.call[rows] >= 0]
    call, code = context.operations.call[rows], names.code[rows]
    own = np.append([each.library == LIBRARY for each in names.kinds], False)[code]
    if not own.any():
        return Tuning(rows[:0], {}, 0)
    start, ends, thread = array(calls, "start"), array(calls, "end"), coded(calls, "thread")
    named = coded(calls, "name_id")
    waits = np.flatnonzero(named.among(np.array([WAIT in context.trace.text(int(each)) for each in named.ids], bool)))
    # The library clears its own memory before it runs an algorithm, so a memset ends nothing.
    others = (context.operations.call >= 0) & (context.operations.kind != MEMSET)
    launching = np.union1d(context.operations.call[others], waits)
    chosen: list[Indices] = []
    spans: dict[int, Spans] = {}
    for each in np.unique(thread[call[own]]).tolist():
        mine, its = np.flatnonzero(thread.equal(each, call)), waits[thread.equal(each, waits)]
        mine = mine[np.argsort(start[call[mine]], kind="stable")]
        launched = start[call[mine]]
        parts = list(_runs(np.searchsorted(start[its], launched), own[mine], code[mine], len(its)))
        if parts:
            chosen += [rows[mine[launches]] for launches, _ in parts]
            # Before that the host builds the algorithms, since the last launch or wait of its process.
            its_process = tables.process_of(thread.ids) == tables.process_of(np.array([each]))[0]
            stops = launching[thread.among(its_process, launching)]
            begins = [ends[_last_before(stops, waits, int(call[mine[launches[0]]]))] for launches, _ in parts]
            phases = context.phases.own(each)
            loads = phases.code == context.phases.code(DATA)
            data = Spans(phases.spans.start[loads], phases.spans.end[loads])
            spans[each] = subtract(merge(begins, ends[[its[last] for _, last in parts]]), data)
    return Tuning(np.concatenate(chosen) if chosen else np.empty(0, np.intp), spans, len(chosen))


def _last_before(stops: Indices, waits: Indices, first: int) -> int:
    """Return the last launch or wait before the first launch of an algorithm; the library waits right before it."""
    before = stops[: np.searchsorted(stops, first)]
    if len(before) > 1 and before[-1] in waits:
        before = before[:-1]
    return int(before[-1]) if len(before) else first


def _runs(segment: Indices, own: Flags, code: Indices, waits: int) -> Iterator[tuple[Indices, int]]:
    """Yield the launches of each run of algorithms on a thread, and the number of the wait that ends it.

    Args:
        segment: The number of waits before each launch, ascending.
        own: Whether each is one of cuDNN's kernels.
        code: What is launched.
        waits: How many waits there are.
    """
    found = np.unique(segment)
    others = np.bincount(segment, ~own, waits + 1)[found]
    timed = (others == 0) & (found < waits)
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], timed, [False]]).astype(np.int8)))
    for first, last in zip(bounds[::2].tolist(), bounds[1::2].tolist(), strict=True):
        launches = np.flatnonzero((segment >= found[first]) & (segment <= found[last - 1]))
        if last - first >= LEAST_WAITS and len(np.unique(code[launches])) >= LEAST_KERNELS:
            yield launches, int(found[last - 1])


def _chosen(tuning: Tuning, simulation: Simulation) -> WhatIf:
    """Return the change "no algorithms are timed", nor is memory freed for it and allocated again."""
    rows = tuning.rows[np.isin(tuning.rows, simulation.operations)]
    again = _allocated_again(tuning, simulation)
    calls = spans_of_calls(simulation, again)
    host = {thread: union(each, calls) for thread, each in tuning.spans.items()}
    return WhatIf(
        Change(operations=rows, factor=0.0, host=host, waits=again),
        "no algorithm is timed in these steps, and no memory is freed after it and allocated again",
    )


def _allocated_again(tuning: Tuning, simulation: Simulation) -> Indices:
    """Return the calls that free memory right after algorithms were timed, and as many that allocate after each.

    PyTorch empties its cache then, since the algorithms took much memory. Source: ``emptyCache`` in its Conv_v8.cpp.
    """
    calls = simulation.context.trace[tables.CALLS]
    start, thread = array(calls, "start"), coded(calls, "thread")
    rows = calls_named(simulation, lambda name: api_calls.call_kind(name) == api_calls.ALLOCATION)
    launching = np.unique(simulation.context.operations.call[simulation.operations])
    chosen = []
    for each, tuned in tuning.spans.items():
        its, launched = rows[thread.equal(each, rows)], start[launching[thread.equal(each, launching)]]
        before = np.searchsorted(tuned.end, start[its], "right") - 1
        since = np.where(before >= 0, tuned.end[before], np.iinfo(np.int64).min)
        frees = (before >= 0) & (np.searchsorted(launched, since) == np.searchsorted(launched, start[its]))
        missing = 0
        for call, is_free in zip(its.tolist(), frees.tolist(), strict=True):
            if is_free or missing:
                chosen.append(call)
            missing = max(missing + (1 if is_free else -1), 0)
    return np.array(chosen, np.intp)
