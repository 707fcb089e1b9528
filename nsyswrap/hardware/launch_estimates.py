"""Estimates of how full kernels keep a GPU, from the configuration of their launches alone."""

from typing import Any

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.hardware.occupancy_calculator import WARP_THREADS, Shapes, limiters, limits_of, occupancy
from nsyswrap.model import Gpu
from nsyswrap.trace.tables import coded

UNKNOWN_LIMITER = ""


def estimates(frame: pd.DataFrame, rows: Indices, gpu: Gpu) -> dict[str, Any]:
    """Return the estimates of some kernel launches.

    Returns:
        theoretical_occupancy, achieved_estimate and sm_efficiency_estimate as shares of 1, waves (blocks of the grid by
        the blocks that the GPU holds at once): float64, shape (n,), NaN where the export does not hold the inputs.
        limiter: the resource that stops one more block; ``UNKNOWN_LIMITER`` where that is not known.
    """
    grid = coded(frame, "grid_blocks")[rows]
    names = ("block_threads", "registers", "shared_bytes", "shared_executed_bytes")
    shapes = Shapes(*(coded(frame, name)[rows] for name in names))
    nothing = np.full(len(rows), np.nan)
    multiprocessors = gpu.sm_count if gpu.sm_count > 0 else np.nan
    per_sm = np.where(grid > 0, grid / multiprocessors, np.nan)
    limits = limits_of(gpu)
    if limits is None:
        estimates = dict.fromkeys(("theoretical_occupancy", "achieved_estimate", "waves"), nothing)
        return {**estimates, "sm_efficiency_estimate": np.minimum(per_sm, 1), "limiter": UNKNOWN_LIMITER}
    blocks, share = occupancy(limits, shapes)
    # A kernel that ran fits on the GPU: where the calculator finds no room, the export lacks its configuration.
    known = (shapes.threads > 0) & (shapes.registers > 0) & (blocks > 0)
    resident = np.where(known, blocks, np.nan)
    return {
        "theoretical_occupancy": np.where(known, share, np.nan),
        "achieved_estimate": np.minimum(resident, per_sm) * shapes.threads / (limits.warps * WARP_THREADS),
        "sm_efficiency_estimate": np.minimum(per_sm, 1),
        "waves": per_sm / resident,
        "limiter": np.where(known, np.array(limiters(limits, shapes), dtype=object), UNKNOWN_LIMITER),
    }
