"""Launches: how long from the call to the operation, told apart from waiting behind earlier work."""

from dataclasses import replace

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.root_causes import LAUNCH_BOUND, OPTIMIZER, claimed, sampled_lines
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.duration_stats import by_name
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.sections import launch_bound, optimizer_kernels
from nsyswrap.sections.launch_bound import by_phase, find_launched
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import array


def run(context: TraceContext, window: Window) -> Section:
    """Return launch latency and queue time by the call that launched.

    Of an operation whose device was idle when its call began, the time from the call's start to the operation's
    start is launch latency; of any other, the time from the call's return to the operation's start is queue time.
    ``just_in_time_share`` is the share of operations whose call began on an idle device: near 1 the host barely
    keeps up, near 0 it runs ahead. One call may launch many operations, as that of a CUDA graph does; the launch
    interval is from call to call of one process on one device.
    """
    operations, trace = context.operations, context.trace
    launched = find_launched(context, window)
    rows, began, idle = launched.row, launched.began, launched.just_in_time
    calls = trace[tables.CALLS]
    call = operations.call[rows]
    start, returned = operations.start[rows], array(calls, "end")[call]
    # An operation that seems to begin before its call does so by the error between two clocks.
    latency, queue = np.maximum(start - began, 0), np.maximum(start - returned, 0)
    codes, names = _names(context, call)
    parts = []
    for kind, chosen, duration in (("latency", idle, latency), ("queue", ~idle, queue)):
        part = by_name(names, codes[chosen], duration[chosen])
        part.insert(1, "kind", kind)
        parts.append(part)
    return Section(
        key="launches",
        title="Launches",
        window=window,
        facts=(
            Fact("launches", len(rows), "count"),
            Fact("just_in_time_share", float(idle.mean()) if len(rows) else None, "share"),
            Fact("median_launch_latency_ns", _median(latency[idle]), "ns"),
            Fact("median_operation_ns", _median(operations.end[rows] - start), "ns"),
            Fact("median_launch_interval_ns", _median(launched.since[launched.since >= 0]), "ns"),
        ),
        tables={"summary": pd.concat(parts, ignore_index=True), "phases": by_phase(context, launched)},
        findings=_findings(context, launched, window),
    )


def _findings(context: TraceContext, launched: launch_bound.Launched, window: Window) -> tuple[Finding, ...]:
    """Return what the launches cost: those of the optimizer, and all others."""
    devices = context.operations.used_in(window)
    between = {each: claimed(context, each, window, LAUNCH_BOUND) for each in devices}
    of_optimizer = {each: claimed(context, each, window, OPTIMIZER) for each in devices}
    optimizer = (optimizer_kernels.finding(context, each, window, idle) for each, idle in of_optimizer.items())
    found = (*launch_bound.findings(context, launched, window, between), *(each for each in optimizer if each))
    return tuple(
        replace(each, evidence=(*each.evidence, *sampled_lines(context, int(each.device_id or 0), window, each.rule)))
        for each in found
    )


def _median(values: Times) -> float | None:
    return float(np.median(values)) if len(values) else None


def _names(context: TraceContext, call: Indices) -> tuple[Indices, list[str]]:
    """Return the code of each call's name, and the names; versions of one call have the same name."""
    codes, ids = pd.factorize(array(context.trace[tables.CALLS], "name_id")[call])
    return codes, [base_name(context.trace.text(int(each))) for each in ids]


SECTION = SectionSpec("launches", "Launches", (tables.CALLS,), run, of_operations=True, of_gains=True)
