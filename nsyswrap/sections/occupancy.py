"""Occupancy: how full kernels could keep the multiprocessors, and what limits them; estimates, not measurements."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.occupancy_findings import findings
from nsyswrap.sections.occupancy_launches import UNTOLD, find_launches, kernels_by_device
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import array

ESTIMATES = ("theoretical_occupancy", "achieved_estimate", "sm_efficiency_estimate")
NOTE = (
    "Occupancy is worked out from how kernels were launched, weighted by their time; nothing of it was measured. It is "
    "an upper bound: clusters and barriers are not in a capture. Collectives are left out."
)


def run(context: TraceContext, window: Window) -> Section:
    """Return the occupancy of kernels by name, and of all of them weighted by time.

    ``unfilled_share`` is the share of kernel time in launches that leave room for more blocks from their start: less
    than one wave. ``tail_share`` is the part of the places that launches of a wave or more leave empty in their last.
    """
    kernels = kernels_by_device(context, window)
    launches = find_launches(context, kernels, window)
    waves = launches["waves"]
    filled = launches[waves >= 1]
    tail = 1 - filled["waves"] / np.ceil(filled["waves"])
    return Section(
        key="occupancy",
        title="Occupancy",
        window=window,
        facts=(
            Fact("theoretical_occupancy_share", weighted(launches["theoretical_occupancy"], launches), "share"),
            Fact("achieved_estimate_share", weighted(launches["achieved_estimate"], launches), "share"),
            Fact("sm_efficiency_estimate_share", sm_efficiency(context, kernels, window), "share"),
            Fact("unfilled_share", weighted((waves < 1).astype(float).where(waves.notna()), launches), "share"),
            Fact("tail_share", weighted(tail, filled), "share"),
        ),
        tables={"kernels": _by_name(launches)},
        findings=findings(context, launches, window),
        notes=_notes(launches),
    )


def weighted(values: "pd.Series[float]", launches: pd.DataFrame) -> float | None:
    """Return the mean of values that are known, weighted by the time of their launches; None where none is."""
    known = values.notna()
    weights = launches["total_ns"][known].to_numpy(float)
    return float(np.average(values[known].to_numpy(float), weights=weights)) if weights.sum() else None


def _by_name(launches: pd.DataFrame) -> pd.DataFrame:
    """Return a row a name, dearest first; the limiter is the one that stands for most of its time."""
    code, names = pd.factorize(launches["name"])
    weight = launches["total_ns"].to_numpy(float)
    table = pd.DataFrame({"name": np.asarray(names, dtype=object)})
    for column in ESTIMATES:
        value = launches[column].to_numpy(float)
        known = ~np.isnan(value)
        total = np.bincount(code[known], weight[known], len(names))
        summed = np.bincount(code[known], (value * weight)[known], len(names))
        table[column] = np.divide(summed, total, out=np.full(len(names), np.nan), where=total > 0)
    by_limiter = launches.assign(code=code).groupby(["code", "limiter"], sort=False)["total_ns"].sum().reset_index()
    dearest = by_limiter.loc[by_limiter.groupby("code")["total_ns"].idxmax()]
    table["limiter"] = dearest["limiter"].to_numpy(object)
    summed_up = launches.groupby(code)[["count", "total_ns"]].sum()
    table[["count", "total_ns"]] = summed_up.to_numpy(np.int64)
    return table.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)


def sm_efficiency(context: TraceContext, kernels: Mapping[int, Indices], window: Window) -> float | None:
    """Return the share of all multiprocessors that had a block to run, over the window and all GPUs that ran kernels.

    At each instant the blocks of the running kernels are spread over the multiprocessors; none is counted twice.
    None where a GPU's multiprocessors or a kernel's grid are not known.

    Source: "Est. SM Efficiency" of torch_tb_profiler.
    """
    operations, grid = context.operations, array(context.trace[tables.KERNELS], "grid_blocks")
    counts = {gpu.device_id: gpu.sm_count for gpu in context.trace.gpus}
    busy = 0.0
    for device, rows in kernels.items():
        blocks = grid[operations.row[rows]]
        if counts.get(device, 0) <= 0 or blocks.min() <= 0:
            return None
        start = np.maximum(operations.start[rows], window.start_ns)
        end = np.minimum(operations.end[rows], window.end_ns)
        busy += busy_multiprocessors(start, end, blocks, counts[device]) / counts[device]
    return busy / (window.length_ns * len(kernels)) if kernels else None


def busy_multiprocessors(start: Times, end: Times, blocks: npt.NDArray[np.int64], multiprocessors: int) -> float:
    """Return the summed time of multiprocessors that have a block to run, in ns.

    ::

        blocks    |--2--|        of 4 multiprocessors
                     |--3--|
        busy      |22|44|33|

    Args:
        start: Starts of kernels in ns, ascending, shape (n,).
        end: Their ends, shape (n,).
        blocks: Blocks of their grids, at least 1, shape (n,).
        multiprocessors: How many the GPU has.
    """
    wanted = np.minimum(blocks, multiprocessors)
    reach = np.maximum.accumulate(end)
    meets = np.concatenate([[False], start[1:] < reach[:-1], [False]])
    alone = ~(meets[:-1] | meets[1:])
    busy = float(np.dot(wanted[alone].astype(float), (end - start)[alone].astype(float)))
    # Few kernels overlap: only of these the times have to be put in order.
    at = np.concatenate([start[~alone], end[~alone]])
    change = np.concatenate([wanted[~alone], -wanted[~alone]])
    order = np.argsort(at, kind="stable")
    level = np.minimum(np.cumsum(change[order]), multiprocessors)
    return busy + float(np.dot(level[:-1].astype(float), np.diff(at[order]).astype(float)))


def _notes(launches: pd.DataFrame) -> tuple[str, ...]:
    untold = launches.loc[launches["limiter"] == UNTOLD, "total_ns"].sum()
    if not untold:
        return (NOTE,)
    lost = f"Of {units.duration(int(untold))} of kernel time the capture does not tell the GPU or the launch."
    return (NOTE, lost)


SECTION = SectionSpec("occupancy", "Occupancy", (tables.KERNELS,), run)
