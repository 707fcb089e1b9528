"""CUDA graphs: their launches, the kernels inside them, and launches that the capture does not show in full."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Window, clip, merge, total
from nsyswrap.events.duration_stats import by_name
from nsyswrap.events.operations import launch_rows
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.model import Fact, Finding, Section, Severity
from nsyswrap.rules import graphs
from nsyswrap.rules.rule import Rule
from nsyswrap.sections.spec import STATISTICS, About, Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# What the capture shows of a graph launch: each operation, one row for the whole graph, or nothing.
NODES, WHOLE, HIDDEN = "nodes", "whole", "hidden"
SHOWN = (NODES, WHOLE, HIDDEN)

NO_GRAPH = "No launch of a CUDA graph was recorded in the window."
REMEDY = "Capture again with --cuda-graph-trace=node. It slows the program, so take times from a capture without it."


@dataclass(frozen=True)
class _InGraphs:
    """The launches and operations of CUDA graphs in a window.

    Attributes:
        launches: Rows in ``trace[CALLS]`` of calls that launch a graph and touch the window.
        operations: Operations that touch the window and ran inside a graph, or are a graph traced as a whole.
        whole: Whether each of these operations is a graph traced as a whole.
    """

    launches: Indices
    operations: Indices
    whole: npt.NDArray[np.bool_]


def run(context: TraceContext, window: Window) -> Section:
    """Return the launches of CUDA graphs by how much the capture shows of them, and the kernels inside."""
    found = _find(context, window)
    if not (len(found.launches) or len(found.operations)):
        return SECTION.made(window, (Fact("graph_launches", 0, "count"),), {}, (), (NO_GRAPH,))
    launches = _launches(context, found, window)
    operations, trace = context.operations, context.trace
    rows, duration = running(context, found.operations[operations.table[found.operations] == 0], window)
    codes, ids = pd.factorize(coded(trace[tables.KERNELS], "name_id")[operations.row[rows]])
    kernels = by_name([trace.text(int(each)) for each in ids], codes, duration)
    inside = int(kernels["total_ns"].sum()) + _length(context, found.operations[found.whole], window)
    everything = _length(
        context,
        np.concatenate([context.operations.from_table(spec) for spec in (tables.KERNELS, tables.GRAPHS)]),
        window,
    )
    return SECTION.made(
        window,
        facts=(
            Fact("graph_launches", len(found.launches), "count"),
            Fact("kernels_in_graphs", int(kernels["count"].sum()), "count"),
            Fact("kernel_time_in_graphs_share", inside / everything if everything else None, "share"),
            Fact("shown_by", " and ".join(launches["shown"]), "text"),
        ),
        tables={"launches": launches, "kernels": kernels},
        findings=_findings(launches, window, lost=bool(len(context.unrecorded_launches.kernels.rows))),
    )


def _find(context: TraceContext, window: Window) -> _InGraphs:
    """Return the launches and operations of graphs.

    A kernel ran in a graph if it has a graph node. A copy or memset ran in a graph if a graph launch launched it.
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    launches = launch_rows(context.trace)
    inside = np.isin(operations.call, launches) if len(launches) else np.zeros(len(operations.call), bool)
    of_kernels = operations.from_table(tables.KERNELS)
    nodes = array(context.trace[tables.KERNELS], "graph_node_id")
    if nodes.any():
        inside[of_kernels] |= nodes[operations.row[of_kernels]] != 0
    inside[operations.from_table(tables.GRAPHS)] = True
    rows, _ = running(context, np.flatnonzero(inside), window)
    start, end = array(calls, "start")[launches], array(calls, "end")[launches]
    low, high = find_own_windows(context, window).by_process(calls.iloc[launches])
    touching = launches[(start < high) & (end > low)]
    whole = np.isin(rows, operations.from_table(tables.GRAPHS))
    return _InGraphs(touching, rows, whole)


def _launches(context: TraceContext, found: _InGraphs, window: Window) -> pd.DataFrame:
    """Return the number of launches, their host time and their GPU time, one row for each value of ``SHOWN``.

    ``gpu_ns`` is the time in which these graphs or operations inside them run, summed over GPUs.
    """
    operations = context.operations
    call, host = found.launches, context.trace[tables.CALLS].iloc[found.launches]
    low, high = find_own_windows(context, window).by_process(host)
    duration = np.minimum(array(host, "end"), high) - np.maximum(array(host, "start"), low)
    as_whole = np.isin(call, operations.call[operations.from_table(tables.GRAPHS)])
    in_nodes = np.isin(call, operations.call) & ~as_whole
    rows = []
    for shown, launched, ran in (
        (NODES, in_nodes, ~found.whole),
        (WHOLE, as_whole, found.whole),
        (HIDDEN, ~(in_nodes | as_whole), np.zeros(len(found.whole), bool)),
    ):
        mine = found.operations[ran]
        if not (launched.any() or len(mine)):
            continue
        row = {"shown": shown, "count": int(launched.sum()), "host_ns": int(duration[launched].sum())}
        rows.append(row | {"operation_count": len(mine), "gpu_ns": _busy(context, mine, window)})
    return pd.DataFrame(rows)


def _busy(context: TraceContext, rows: Indices, window: Window) -> int:
    """Return the time inside the window in which any of these operations runs, summed over GPUs."""
    operations, own, busy = context.operations, find_own_windows(context, window), 0
    for device in operations.devices:
        mine = rows[operations.device_id[rows] == device]
        part = own.on(device)
        busy += total(clip(merge(operations.start[mine], operations.end[mine]), part.start_ns, part.end_ns))
    return busy


def _length(context: TraceContext, rows: Indices, window: Window) -> int:
    return int(running(context, rows, window)[1].sum())


def _findings(launches: pd.DataFrame, window: Window, *, lost: bool) -> tuple[Finding, ...]:
    """Return one finding for each way in which the capture does not show graphs; their time lost is 0.

    Where kernels outside graphs are ``lost``, too, the way in which graphs are traced changes nothing.
    """
    by_shown = {row["shown"]: row for row in launches.to_dict("records")}
    found = []
    if whole := by_shown.get(WHOLE):
        counted = units.counted(whole["operation_count"], "CUDA graph was", "CUDA graphs were")
        headline = f"{counted} traced as a whole: this report does not show the kernels inside."
        evidence = f"{units.duration(whole['gpu_ns'])} of GPU time inside"
        found.append(_finding(graphs.WHOLE, Severity.NOTE, headline, evidence, window))
    if (hidden := by_shown.get(HIDDEN)) and not lost:
        launches_of = units.counted(hidden["count"], "launch")
        headline = f"{launches_of} of CUDA graphs left no trace on the GPU: the time in which they ran looks idle."
        evidence = f"{units.duration(hidden['host_ns'])} in the calls that launched them"
        found.append(_finding(graphs.HIDDEN, Severity.WARNING, headline, evidence, window))
    return tuple(found)


def _finding(rule: Rule, severity: Severity, headline: str, evidence: str, window: Window) -> Finding:
    return Finding(rule.key, severity, headline, 0, None, REMEDY, (evidence,), None, window)


SECTION = SectionSpec(
    key="cuda_graphs",
    title="CUDA graphs",
    run=run,
    about=About.BOTH,
    needs=(tables.CALLS,),
    reads=(),
    place=130,
    group=PageGroup.GPU,
    columns={"kernels": f"name {STATISTICS}", "launches": "shown count host_ns operation_count gpu_ns"},
    kinds={Kind.TEXT: "shown"},
    captions={"launches": "Graph launches, by how they were traced", "kernels": "Kernels inside graphs"},
    facts={
        "graph_launches": "launches of graphs",
        "kernels_in_graphs": "kernels inside graphs",
        "kernel_time_in_graphs_share": "kernel time inside graphs",
        "shown_by": "traced as",
    },
)
