"""Occupancy: estimates of how well kernels fill the multiprocessors, what limits it, and advice."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.row_sums import largest_first, text_column
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import SOURCES
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.hardware.kernel_work import has_block_a_channel, has_blocks_of_columns
from nsyswrap.hardware.occupancy_calculator import UNKNOWN_LIMITER
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.model import Fact, Finding, Section, Severity
from nsyswrap.rules.occupancy import LOW, SMALL_GRID
from nsyswrap.rules.rule import Rule
from nsyswrap.sections.places import LISTED, place_lines
from nsyswrap.sections.severity import make_finding, ordered
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.sections.summaries import kernels_by_device, launch_groups
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.saving import Saving, WhatIf, faster, predict
from nsyswrap.what_if.simulate import Simulation

ESTIMATES = ("theoretical_occupancy", "achieved_estimate", "sm_efficiency_estimate")
NOTE = (
    "Occupancy is estimated from the launch configuration of kernels and weighted by their time; it is not measured. "
    "It is an upper bound: a capture does not show clusters and barriers. Collectives are left out."
)

# A grid is small where it leaves half of the multiprocessors without a block, and so is a product in large tiles.
# Source: torch_tb_profiler advises a larger batch below 50 % of GPU utilization; the CUDA C++ Best Practices Guide
# demands a block for each multiprocessor.
FEW_BLOCKS = 0.50
# Below this share of the warps occupancy counts as low. Source: ours. The CUDA C++ Best Practices Guide has no number.
# It says that low occupancy hides less memory latency, and that above some point more occupancy does not help.
LOW_OCCUPANCY = 0.25
# There is a note from this share of the window. Source: torch_tb_profiler.
LOW_OCCUPANCY_SHARE = 0.05
# Matrix kernels keep their tiles in registers and shared memory, and hide latency inside each warp: they run few warps
# by design. Source: V. Volkov, "Better performance at lower occupancy", GTC 2010.
FEW_WARPS_BY_DESIGN = (Verdict.TENSOR, Verdict.SIMT_ELIGIBLE)
LIMITED = (
    "Limited by {limiters}. Measure with Nsight Compute first: some kernels are fast with few warps. In your own "
    "kernels, reduce what a block uses: smaller tiles or num_stages in Triton, __launch_bounds__ in CUDA. Leave "
    "kernels of a library as they are."
)
Places = Callable[[], tuple[str, ...]]


def run(context: TraceContext, window: Window, simulation: Simulation) -> Section:
    """Return the estimated occupancy of kernels by name, and the mean over all kernels weighted by time.

    ``unfilled_share`` is the share of kernel time in launches of less than one wave, which never fill the GPU.
    ``tail_share`` is the mean share of empty block slots in the last wave of launches of at least one wave.
    """
    kernels = kernels_by_device(context, window)
    launches = launch_groups(context, kernels, window)
    waves = launches["waves"]
    filled = launches[waves >= 1]
    tail = 1 - filled["waves"] / np.ceil(filled["waves"])
    code, names = pd.factorize(launches["name"])
    weight = launches["total_ns"].to_numpy(float)
    table: dict[str, npt.NDArray[Any]] = {}
    for column in ESTIMATES:
        value = launches[column].to_numpy(float)
        known = ~np.isnan(value)
        total = np.bincount(code[known], weight[known], len(names))
        summed = np.bincount(code[known], (value * weight)[known], len(names))
        table[column] = np.divide(summed, total, out=np.full(len(names), np.nan), where=total > 0)
    table["limiter"] = _main_limiters(code.tolist(), launches)
    for column in ("count", "total_ns"):
        table[column] = np.zeros(len(names), np.int64)
        np.add.at(table[column], code, array(launches, column))
    order = largest_first(table["total_ns"], list(names))
    name = text_column([str(names[each]) for each in order.tolist()])
    by_name = pd.DataFrame({"name": name, **{column: values[order] for column, values in table.items()}})
    return SECTION.made(
        window,
        facts=(
            Fact("theoretical_occupancy_share", weighted(launches["theoretical_occupancy"], launches), "share"),
            Fact("achieved_estimate_share", weighted(launches["achieved_estimate"], launches), "share"),
            Fact("sm_efficiency_estimate_share", sm_efficiency(context, kernels, window), "share"),
            Fact("unfilled_share", weighted((waves < 1).astype(float).where(waves.notna()), launches), "share"),
            Fact("tail_share", weighted(tail, filled), "share"),
        ),
        tables={"kernels": by_name},
        findings=ordered(find_findings(simulation, launches, context.steps.together(window))),
        notes=_notes(launches),
    )


def weighted(values: "pd.Series[float]", launches: pd.DataFrame) -> float | None:
    """Return the mean of the known values, weighted by the time of their launches; None where no value is known."""
    known = values.notna()
    weights = launches["total_ns"][known].to_numpy(float)
    return float(np.average(values[known].to_numpy(float), weights=weights)) if weights.sum() else None


def _main_limiters(codes: list[int], launches: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Return what limits most of the time of each name, given the code of the name of each launch."""
    time: dict[int, dict[str, int]] = {}
    for code, limiter, ns in zip(codes, launches["limiter"].tolist(), launches["total_ns"].tolist(), strict=True):
        of_name = time.setdefault(code, {})
        of_name[limiter] = of_name.get(limiter, 0) + ns
    return np.array([max(time[code], key=time[code].__getitem__) for code in range(len(time))], object)


def sm_efficiency(context: TraceContext, kernels: Mapping[int, Indices], window: Window) -> float | None:
    """Return the mean share of multiprocessors that have a block to run, over the window and all GPUs that ran kernels.

    At each instant the blocks of the running kernels are spread over the multiprocessors; no multiprocessor counts
    twice. The result is None where the number of multiprocessors of a GPU or the grid of a kernel is not known.

    Source: "Est. SM Efficiency" of torch_tb_profiler.
    """
    operations, grid = context.operations, coded(context.trace[tables.KERNELS], "grid_blocks")
    counts = {gpu.device_id: gpu.sm_count for gpu in context.trace.gpus}
    busy, whole = 0.0, 0
    for device, rows in kernels.items():
        blocks = grid[taken(operations.row, rows)]
        if counts.get(device, 0) <= 0 or blocks.min() <= 0:
            return None
        own = find_own_windows(context, window).on(device)
        start = np.maximum(taken(operations.start, rows), own.start_ns)
        end = np.minimum(taken(operations.end, rows), own.end_ns)
        whole += own.length_ns
        busy += busy_multiprocessors(start, end, blocks, counts[device]) / counts[device]
    return busy / whole if kernels else None


def busy_multiprocessors(start: Times, end: Times, blocks: npt.NDArray[np.int64], multiprocessors: int) -> float:
    """Return the time in which multiprocessors have a block to run, summed over multiprocessors, in ns.

    ::

        blocks    |--2--|        of 4 multiprocessors
                     |--3--|
        busy      |22|44|33|

    Args:
        start: Starts of kernels in ns, ascending, shape (n,).
        end: Ends of the kernels in ns, shape (n,).
        blocks: Blocks of the grid of each kernel, at least 1, shape (n,).
        multiprocessors: How many the GPU has.
    """
    wanted = np.minimum(blocks, multiprocessors)
    reach = np.maximum.accumulate(end)
    meets = np.concatenate([[False], start[1:] < reach[:-1], [False]])
    alone = ~(meets[:-1] | meets[1:])
    busy = float(np.dot(wanted[alone].astype(float), (end - start)[alone].astype(float)))
    # Few kernels overlap. Only their times have to be sorted.
    at = np.concatenate([start[~alone], end[~alone]])
    change = np.concatenate([wanted[~alone], -wanted[~alone]])
    order = np.argsort(at, kind="stable")
    level = np.minimum(np.cumsum(change[order]), multiprocessors)
    return busy + float(np.dot(level[:-1].astype(float), np.diff(at[order]).astype(float)))


def _notes(launches: pd.DataFrame) -> tuple[str, ...]:
    time = zip(launches["limiter"].tolist(), launches["total_ns"].tolist(), strict=True)
    unknown = sum(ns for limiter, ns in time if limiter == UNKNOWN_LIMITER)
    if not unknown:
        return (NOTE,)
    left_out = f"The capture lacks the GPU or the launch configuration for {units.duration(unknown)} of kernel time."
    return (NOTE, left_out)


def find_findings(simulation: Simulation, launches: pd.DataFrame, window: Window) -> Iterator[Finding | None]:
    """Yield the findings on the kernel launches of each device."""
    verdicts, filled = launches["verdict"].tolist(), array(launches, "sm_efficiency_estimate")
    long = array(launches, "total_ns") >= SHORT_NS * array(launches, "count")
    small = (filled < FEW_BLOCKS) & long & np.array([each != Verdict.SIMT_ELIGIBLE for each in verdicts], bool)
    # More work adds no block to these. Batch norms have a finding of their own, compute/batch_norm.
    small[small] = [
        not (has_block_a_channel(name) or has_blocks_of_columns(name)) for name in launches["name"].array[small]
    ]
    by_design = np.array([each in FEW_WARPS_BY_DESIGN for each in verdicts], bool)
    occupancy = array(launches, "theoretical_occupancy")
    low = ~by_design & (occupancy < LOW_OCCUPANCY) & (filled >= FEW_BLOCKS)
    for rows, ratio, rule in ((small, filled, SMALL_GRID), (low, occupancy / LOW_OCCUPANCY, LOW)):
        if not rows.any():
            continue
        kernels = launches[rows].assign(ratio=ratio[rows])
        # A fix of the program is one for all devices, so it is simulated once.
        saving = cache(partial(predict, simulation, partial(_filled, kernels)))
        for device, mine in kernels.groupby("device_id"):
            places = partial(_places, simulation.context, mine, int(str(device)), window)
            yield _finding(rule, saving, places, int(str(device)), mine, window)


def _finding(  # noqa: PLR0913, PLR0917 - the parts of a finding that differ
    rule: Rule, saving: Callable[[], Saving], places: Places, device: int, spent: pd.DataFrame, window: Window
) -> Finding | None:
    """Return the finding on some kernels of a device; None where they take too little of the window."""
    lost = int(spent["total_ns"].sum())
    share = lost / window.length_ns
    if share < LOW_OCCUPANCY_SHARE:
        return None
    limiters = spent.groupby("limiter")["total_ns"].sum().sort_values(ascending=False).index
    wanted = spent[["total_ns", "count", "blocks", "theoretical_occupancy", "name"]]
    costliest = largest_first(array(spent, "total_ns"), spent["name"].tolist())[:LISTED]
    return make_finding(
        rule=rule,
        headline=rule.headline.format(share=units.share(share)),
        lost_ns=lost,
        saving=saving(),
        advice=rule.advice or LIMITED.format(limiters=", then ".join(map(str, limiters))),
        evidence=(
            *tuple(
                f"{units.duration(int(total))} in {units.counted(int(count), 'launch')} of "
                f"{units.counted(int(blocks), 'block')}, "
                f"theoretical occupancy {units.share(occupancy)}: {name}"
                for total, count, blocks, occupancy, name in wanted.take(costliest).itertuples(index=False)
            ),
            *places(),
        ),
        device_id=device,
        window=window,
        usual_share=share,
        worst=Severity.WARNING,
    )


def _filled(spent: pd.DataFrame, simulation: Simulation) -> WhatIf:
    """Return the change "the kernels fill the GPU": their length gets the factor in the column ``ratio``."""
    context = simulation.context
    ran = simulation.operations
    ran = ran[context.operations.table[ran] == SOURCES.index(tables.KERNELS)]
    factor = np.nan_to_num(_ratio(context, spent, ran), nan=1.0)
    return faster(ran, factor, "those kernels take the time that a full GPU would")


def _ratio(context: TraceContext, spent: pd.DataFrame, ran: Indices) -> npt.NDArray[np.float64]:
    """Return the column ``ratio`` of some kernels by name and grid; NaN where it has none."""
    kernels, rows = context.trace[tables.KERNELS], context.operations.row[ran]
    codes, ids = pd.factorize(coded(kernels, "name_id")[rows])
    names = np.array([context.trace.text(int(each)) for each in ids], dtype=object)[codes]
    launched = pd.MultiIndex.from_arrays([names, coded(kernels, "grid_blocks")[rows]])
    known = spent.groupby(["name", "blocks"])["ratio"].mean()
    return np.asarray(known.reindex(launched), np.float64)


def _places(context: TraceContext, spent: pd.DataFrame, device: int, window: Window) -> tuple[str, ...]:
    """Return where the program launches those kernels of a GPU."""
    rows, inside = running(context, context.operations.from_table(tables.KERNELS), window)
    mine = (context.operations.device_id[rows] == device) & ~np.isnan(_ratio(context, spent, rows))
    return place_lines(context, rows[mine], inside[mine])


SECTION = SectionSpec(
    key="occupancy",
    title="Occupancy",
    run=run,
    about=About.BOTH,
    needs=(tables.KERNELS,),
    place=90,
    group=PageGroup.GPU,
    columns={"kernels": "name theoretical_occupancy achieved_estimate sm_efficiency_estimate limiter count total_ns"},
    kinds={Kind.TEXT: "limiter", Kind.NUMBER: "achieved_estimate sm_efficiency_estimate theoretical_occupancy"},
    units={"theoretical_occupancy": "share", "achieved_estimate": "share", "sm_efficiency_estimate": "share"},
    headings={
        "sm_efficiency_estimate": "SM efficiency, estimated",
        "achieved_estimate": "achieved occupancy, estimated",
    },
    facts={
        "achieved_estimate_share": "achieved occupancy, estimated",
        "sm_efficiency_estimate_share": "SM efficiency, estimated",
        "unfilled_share": "kernel time with too few blocks for the GPU",
        "tail_share": "places empty in last waves",
    },
)
