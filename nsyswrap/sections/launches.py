"""Launches: latency from call to operation, queue time behind earlier work, and the pace of launches."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.launch_pace import LaunchTimes, Pace, by_phase, on_device, pace_of, paces
from nsyswrap.attribution.optimizer_pass import PHASE, SHORT_NS, find_pass
from nsyswrap.base import units
from nsyswrap.base.intervals import Times, Window
from nsyswrap.base.rows import taken
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.duration_stats import by_name
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.rules.launches import LAUNCH_BOUND
from nsyswrap.rules.optimizer import BESIDE_FUSED, MANY_KERNELS
from nsyswrap.sections.idle_findings import costliest_line
from nsyswrap.sections.severity import make_finding, ordered, worth_printing
from nsyswrap.sections.spec import STATISTICS, About, Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.changes.cuda_graphs import cuda_graphs
from nsyswrap.what_if.changes.fused_optimizer import fused_optimizer
from nsyswrap.what_if.saving import Saving, predict
from nsyswrap.what_if.simulate import Simulation


def run(
    context: TraceContext,
    window: Window,
    launches: LaunchTimes,
    attributions: tuple[Attribution, ...],
    simulation: Simulation,
) -> Section:
    """Return launch latency and queue time by the call that launched.

    If the device was idle when the call began, the time from the call's start to the operation's start is launch
    latency. Otherwise the time from the call's return to the operation's start is queue time. ``just_in_time_share`` is
    the share of operations whose call began on an idle device: near 1 the host barely keeps up, near 0 it runs ahead.
    One call may launch many operations, for example a CUDA graph. The launch interval is the time from call to call of
    one process on one device.
    """
    operations, rows = context.operations, launches.row
    began, idle, call = launches.began, launches.just_in_time, taken(operations.call, rows)
    start, returned = taken(operations.start, rows), taken(array(context.trace[tables.CALLS], "end"), call)
    # Because of clock errors, an operation may seem to begin before its call.
    latency, queue = np.maximum(start - began, 0), np.maximum(start - returned, 0)
    codes, ids = pd.factorize(coded(context.trace[tables.CALLS], "name_id")[call])
    names = [base_name(context.trace.text(int(each))) for each in ids]
    parts = []
    for kind, chosen, duration in (("latency", idle, latency), ("queue", ~idle, queue)):
        part = by_name(names, taken(codes, chosen), taken(duration, chosen))
        part.insert(1, "kind", kind)
        parts.append(part)
    # A fix of the program is one for all devices, so it is simulated once.
    graphs, fused = (cache(partial(predict, simulation, change)) for change in (cuda_graphs, fused_optimizer))
    return SECTION.made(
        window,
        facts=(
            Fact("launches", len(rows), "count"),
            Fact("just_in_time_share", float(idle.mean()) if len(rows) else None, "share"),
            Fact("median_launch_latency_ns", _median(latency[idle]), "ns"),
            Fact("median_operation_ns", _median(taken(operations.end, rows) - start), "ns"),
            Fact("median_launch_interval_ns", _median(launches.since[launches.since >= 0]), "ns"),
        ),
        tables={"summary": pd.concat(parts, ignore_index=True), "phases": by_phase(context, launches)},
        findings=ordered(
            finding
            for each in attributions
            for finding in (_launch_bound(context, each, launches, graphs), _optimizer(context, each, fused))
        ),
    )


def _launch_bound(
    context: TraceContext, attribution: Attribution, launches: LaunchTimes, saving: Callable[[], Saving]
) -> Finding | None:
    """Return the finding on a launch-bound device; None where it takes too little of the window."""
    window, lost = attribution.window, attribution.idle_of(LAUNCH_BOUND.key)
    mine = on_device(context, launches, attribution.device_id)
    if not worth_printing(lost, window) or not len(mine.row):
        return None
    pace = pace_of(context, mine)
    phases = {name: each for name, each in paces(context, mine).items() if each.is_bound}
    found = find_pass(context, attribution.device_id, attribution.window)
    is_many = found.is_many if found else context.phases.ranges.empty
    return make_finding(
        rule=LAUNCH_BOUND,
        lost_ns=lost,
        saving=saving(),
        advice=LAUNCH_BOUND.advice.format(optimizer=", a fused optimizer (fused=True)" if is_many else ""),
        evidence=(
            f"all: {_words(pace)}",
            *(f"phase {name}: {_words(each)}" for name, each in phases.items()),
            *costliest_line(context, attribution, LAUNCH_BOUND.key),
        ),
        device_id=attribution.device_id,
        window=window,
    )


def _words(pace: Pace) -> str:
    interval = pace.median_launch_interval_ns
    return (
        f"{units.counted(pace.count, 'operation')}, {units.share(pace.late_share)} launched too late, "
        f"one every {units.duration(interval or 0)}, {units.duration(pace.median_operation_ns)} long (medians)"
    )


def _optimizer(context: TraceContext, attribution: Attribution, saving: Callable[[], Saving]) -> Finding | None:
    """Return the finding on the optimizer of one device; None where it takes too little of the window."""
    device, window, idle = attribution.device_id, attribution.window, attribution.idle_of(MANY_KERNELS.key)
    found = find_pass(context, device, window)
    if found is None or not found.is_many or not worth_printing(idle + found.short_ns, window):
        return None
    lost, said = idle + found.short_ns, BESIDE_FUSED if found.is_fused else MANY_KERNELS
    return make_finding(
        rule=MANY_KERNELS,
        headline=said.headline.format(share=units.share(lost / window.length_ns)),
        lost_ns=lost,
        saving=saving(),
        advice=said.advice,
        evidence=(
            f"{units.counted(round(found.per_step), 'kernel')} a step in phase {PHASE}",
            f"{units.share(found.short_share)} of them shorter than {units.duration(SHORT_NS)}",
            f"{units.duration(found.short_ns)} in the short ones, {units.duration(idle)} idle between them",
            *costliest_line(context, attribution, MANY_KERNELS.key),
        ),
        device_id=device,
        window=window,
    )


def _median(values: Times) -> float | None:
    return float(np.median(values)) if len(values) else None


SECTION = SectionSpec(
    key="launches",
    title="Launches",
    run=run,
    about=About.BOTH,
    needs=(tables.CALLS,),
    of_operations=True,
    place=210,
    columns={
        "phases": "phase count just_in_time_share median_launch_interval_ns median_operation_ns",
        "summary": f"name kind {STATISTICS}",
    },
    kinds={Kind.NUMBER: "median_launch_interval_ns median_operation_ns"},
    headings={
        "just_in_time_share": "launched while the GPU was idle",
        "median_launch_interval_ns": "median time between launches",
    },
)
