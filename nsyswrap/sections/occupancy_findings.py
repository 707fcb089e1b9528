"""Advice on occupancy: grids that leave multiprocessors without work, and kernels that leave them few warps."""

import numpy as np
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.events.operations import SOURCES
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Severity
from nsyswrap.tables import array
from nsyswrap.what_if.changes import WhatIf, faster, gains

# A grid is small where it leaves half of the multiprocessors without a block. Source: torch_tb_profiler advises a
# larger batch below 50 % of GPU utilization; the CUDA C++ Best Practices Guide wants a block for each multiprocessor.
SMALL_GRID = 0.50
# Ours: the CUDA C++ Best Practices Guide names no number; it says that low occupancy hides less of the latency of
# memory, and that above some point more occupancy gains nothing.
LOW = 0.25
# Worth a sentence from 5 % of the window on (source: torch_tb_profiler), a warning from 20 % on (ours).
NOTE_SHARE, WARNING_SHARE = 0.05, 0.20
# Products of matrices hold their tiles in registers and shared memory, and hide latency inside each warp: their few
# warps are a choice. Source: V. Volkov, "Better performance at lower occupancy", GTC 2010.
BY_CHOICE = (Verdict.TENSOR, Verdict.SIMT_ELIGIBLE)
# The time of shorter kernels is that of launching them, whatever their grid. Source: launches take 5 to 10 us in all
# captures of tests/captures.
SHORT_NS = 10_000
DEAREST = 3


def findings(context: TraceContext, launches: pd.DataFrame, window: Window) -> tuple[Finding, ...]:
    """Return what is worth saying of each device's launches.

    Args:
        context: The trace and its operations.
        launches: Kernels by device, name and launch configuration, with their estimates.
        window: Stretch they are about.
    """
    found: list[Finding | None] = []
    for device, mine in launches.groupby("device_id"):
        long = mine["total_ns"] >= SHORT_NS * mine["count"]
        small = mine[(mine["sm_efficiency_estimate"] < SMALL_GRID) & (mine["verdict"] != Verdict.SIMT_ELIGIBLE) & long]
        low = mine[
            ~mine["verdict"].isin(BY_CHOICE)
            & (mine["theoretical_occupancy"] < LOW)
            & (mine["sm_efficiency_estimate"] >= SMALL_GRID)
        ]
        found += [_small_grid(context, int(str(device)), small, window), _low(context, int(str(device)), low, window)]
    return tuple(sorted((each for each in found if each), key=lambda finding: finding.order))


def _small_grid(context: TraceContext, device: int, small: pd.DataFrame, window: Window) -> Finding | None:
    """Return advice on grids too small for the GPU; spread evenly, their work would take this part of their time."""
    return _finding(
        rule="occupancy/small_grid",
        headline="Kernels with too few blocks for half of the GPU take {share} of the time.",
        advice="Give each kernel more work: a larger batch, batched operations instead of a loop over small tensors, "
        "or torch.compile to fuse small kernels. Where the model is small, a smaller GPU does as well.",
        spent=small,
        ratio=small["sm_efficiency_estimate"],
        context=context,
        device=device,
        window=window,
    )


def _low(context: TraceContext, device: int, low: pd.DataFrame, window: Window) -> Finding | None:
    """Return advice on kernels that fill few warps."""
    limiters = low.groupby("limiter")["total_ns"].sum().sort_values(ascending=False).index
    return _finding(
        rule="occupancy/low",
        headline="Kernels that fill less than a quarter of the GPU's warps take {share} of the time.",
        advice=f"Limited by {', then '.join(map(str, limiters))}. In kernels of your own let a block take less: "
        "smaller tiles or num_stages in Triton, __launch_bounds__ in CUDA. Leave kernels of a library as they are; "
        "measure with Nsight Compute first, since some kernels are fast with few warps.",
        spent=low,
        ratio=low["theoretical_occupancy"] / LOW,
        context=context,
        device=device,
        window=window,
    )


def _finding(  # noqa: PLR0913 - the parts of a finding that differ
    *,
    rule: str,
    headline: str,
    advice: str,
    spent: pd.DataFrame,
    ratio: "pd.Series[float]",
    context: TraceContext,
    device: int,
    window: Window,
) -> Finding | None:
    cost = int(spent["total_ns"].sum())
    share = cost / window.length_ns
    if share < NOTE_SHARE:
        return None
    gained = gains(context, window, lambda *_: _filled(context, spent, ratio, device, window))
    return Finding(
        rule=rule,
        severity=Severity.WARNING if share >= WARNING_SHARE else Severity.NOTE,
        headline=headline.format(share=units.share(share)),
        lost_ns=cost,
        saving_low_ns=gained.low_ns,
        saving_high_ns=gained.high_ns,
        advice=advice,
        evidence=(*_dearest(spent), *gained.said),
        device_id=device,
        window=window,
    )


def _filled(
    context: TraceContext, spent: pd.DataFrame, ratio: "pd.Series[float]", device: int, window: Window
) -> WhatIf:
    """Return what filling the GPU changes: those kernels take their ratio of the time, or half-way to it."""
    operations, kernels = context.operations, context.trace[tables.KERNELS]
    ran = context.replay(window).operations
    ran = ran[(operations.table[ran] == SOURCES.index(tables.KERNELS)) & (operations.device_id[ran] == device)]
    rows = operations.row[ran]
    codes, ids = pd.factorize(array(kernels, "name_id")[rows])
    names = np.array([context.trace.text(int(each)) for each in ids], dtype=object)[codes]
    launched = pd.MultiIndex.from_arrays([names, array(kernels, "grid_blocks")[rows]])
    known = ratio.groupby([spent["name"], spent["blocks"]]).mean()
    factor = np.asarray(known.reindex(launched).fillna(1.0), np.float64)
    said = "those kernels take the time that a full GPU would, or half-way to that"
    return faster(ran, np.add(factor, 1) / 2, factor, said)


def _dearest(spent: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each of the launch configurations that take most time."""
    rows = spent.sort_values(["total_ns", "name"], ascending=[False, True]).head(DEAREST)
    wanted = rows[["total_ns", "count", "blocks", "theoretical_occupancy", "name"]]
    return tuple(
        f"{units.duration(int(total))} in {units.count(int(count))} launches of {units.count(int(blocks))} blocks, "
        f"theoretical occupancy {units.share(occupancy)}: {name}"
        for total, count, blocks, occupancy, name in wanted.itertuples(index=False)
    )
