"""The profiler's own cost: what recording added to the run, and how long a step takes without it."""

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.causes import CODE
from nsyswrap.base import units
from nsyswrap.base.intervals import Times, Window
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.hardware.profiler_cost import GRAPH_OPERATION, KINDS, OPERATION, ProfilerCost
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.program.calibration import median_of
from nsyswrap.sections.spec import PageGroup, SectionSpec
from nsyswrap.trace.tables import array
from nsyswrap.what_if.fixed_step import WIDEST_FACTOR
from nsyswrap.what_if.simulate import Simulation
from nsyswrap.what_if.without_profiler import WithoutProfiler, in_graphs, without_profiler

NOT_MEASURED = (
    "What nsys adds to each call was not measured on the machine of this capture. That time counts for other causes, "
    "and no step without the profiler is simulated. 'nsyswrap profile' measures it and keeps it in run.json."
)
NOT_SIMULATED = "There is no step without the profiler: the simulation does not reproduce this run."
STEP_FACTS = ("without_profiler_ns", "without_profiler_low_ns", "without_profiler_high_ns")
SHARE_FACTS = ("without_profiler_share", "without_profiler_low_share", "without_profiler_high_share")
# A machine whose pace changes by less is not worth a sentence. Source: ours, as the least share of a finding.
NOTABLE_SLOWDOWN = 1.02
NAMES = {
    "launch": "launches",
    "convolution_launch": "launches of convolutions and batch norms",
    "graph_launch": "launches of CUDA graphs",
    "graph_node": "kernels in CUDA graphs",
    "call": "other CUDA calls",
    "range": "NVTX ranges",
    "mark": "ranges of --annotate",
    "os_call": "calls of the operating system",
    "operation": "operations on the GPU",
    "graph_operation": "operations of CUDA graphs on the GPU",
}


def run(
    context: TraceContext,
    window: Window,
    simulation: Simulation,
    attributions: tuple[Attribution, ...],
    recorded_calls: RecordedCalls,
) -> Section:
    """Return what recording cost by kind of call, the idle time that it explains, and the step without the profiler."""
    if recorded_calls.cost is None:
        return SECTION.made(window, notes=(NOT_MEASURED,))
    found = without_profiler(simulation, recorded_calls, window)
    measured = context.steps.measured if window.is_of_steps else context.steps.frame[:0]
    idle = sum(int(each.pieces.length[each.pieces.cause == CODE["profiler"]].sum()) for each in attributions)
    return SECTION.made(
        window,
        facts=(Fact("profiler_idle_ns", idle, "ns"), *_facts(array(measured, "end") - array(measured, "start"), found)),
        tables={"calls": _calls(context, window, recorded_calls)},
        notes=(_note(found),),
    )


def _facts(lengths: Times, found: WithoutProfiler | None) -> tuple[Fact, ...]:
    """Return the step as recorded and without the profiler, and the shares, which need no steps."""
    median = median_of(lengths) if len(lengths) else None
    shares = (None, None) if found is None else (found.run, found.step)
    run, of_step = ((None, None, None) if each is None else (each.point, *each.ends) for each in shares)
    recorded = None if median is None else median.point
    # The pace of this run is in the upper share, and that of the fastest steps in the lower one.
    paces = (recorded, recorded, None if median is None else median.high)
    times = [
        None if share is None or step is None else round(step * share)
        for share, step in zip(of_step, paces, strict=True)
    ]
    return (
        Fact("recorded_step_ns", None if recorded is None else round(recorded), "ns"),
        *(Fact(name, time, "ns") for name, time in zip(STEP_FACTS, times, strict=True)),
        *(Fact(name, share, "share") for name, share in zip(SHARE_FACTS, run, strict=True)),
    )


def _calls(context: TraceContext, window: Window, calls: RecordedCalls) -> pd.DataFrame:
    """Return the number of calls of each kind, what nsys adds to one, and the usual cost of all, in ns."""
    start, end = np.array([window.start_ns]), np.array([window.end_ns])
    counts, totals, cost = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0), calls.cost or ProfilerCost()
    for times in (times for thread in calls.threads.values() for times in thread):
        counts[times.kind] += float(times.count(start, end)[0])
        totals[times.kind] += float(times.added(start, end, cost).usual[0])
    begun, in_graph = context.operations.start, in_graphs(context)
    inside = (begun >= window.start_ns) & (begun < window.end_ns)
    for kind, mine in ((OPERATION, inside & ~in_graph), (GRAPH_OPERATION, inside & in_graph)):
        counts[kind] = float(mine.sum())
        totals[kind] = counts[kind] * cost[kind].added.point
    rows = [
        (NAMES[kind], round(count), *map(round, (each.alone, *each.added.in_order, totals[kind])))
        for kind, count in counts.items()
        if calls.cost is not None and count and (each := cost[kind])
    ]
    columns = ["kind", "count", "alone_ns", "low_ns", "usual_ns", "high_ns", "total_ns"]
    frame = pd.DataFrame(rows, columns=columns).astype({"kind": object, "count": "int64"})
    return frame.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _note(found: WithoutProfiler | None) -> str:
    if found is None:
        return NOT_SIMULATED
    times = found.run.map(lambda share: min(share, 1.0))
    low, usual, high = map(units.share, times.in_order)
    of_range = f" ({low} to {high})" if low != high else ""
    said = f"Without the profiler the run takes {usual} of the recorded time{of_range}."
    if times.high > WIDEST_FACTOR * times.low:
        said = "How long the run takes without the profiler is unknown: the estimate is wider than a factor of 3."
    return (
        f"{said} A simulation takes the measured cost out of each recorded call on the launching threads. Code that "
        f"stays in the CPU's caches costs least; other code costs most.{_pace(found)}"
    )


def _pace(found: WithoutProfiler) -> str:
    """Return sentences on the pace of the machine; none where it did not change much."""
    said = ""
    if found.slowdown >= NOTABLE_SLOWDOWN:
        said += (
            f" While it was recorded, a thread was up to {found.slowdown:.2f} times as slow as in its fastest steps. "
            "The step without the profiler is at the recorded pace, and its lower bound at the pace of those."
        )
    if found.machine >= NOTABLE_SLOWDOWN:
        said += (
            " The pace of this machine changes: while the cost was measured, the same code took up to "
            f"{found.machine:.2f} times as long. The lower bound allows for it."
        )
    return said


SECTION = SectionSpec(
    key="profiler_cost",
    title="The profiler's own cost",
    run=run,
    of_operations=True,
    place=260,
    group=PageGroup.ABOUT,
    columns={"calls": "kind count alone_ns low_ns usual_ns high_ns total_ns"},
    facts={
        "profiler_idle_ns": "idle because of the profiler",
        "without_profiler_ns": "step without the profiler, simulated",
        "without_profiler_low_ns": "step, at least",
        "without_profiler_high_ns": "step, at most",
        "without_profiler_share": "run without the profiler",
        "without_profiler_low_share": "run, at least",
        "without_profiler_high_share": "run, at most",
        "baseline_difference_share": "simulated against measured",
    },
)
