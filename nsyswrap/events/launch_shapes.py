"""How full a GPU each kernel launch could keep, from its launch configuration alone."""

from typing import Any

import numpy as np
import pandas as pd

from nsyswrap.hardware.occupancy_calculator import WARP_THREADS, Shapes, limiters, limits_of, occupancy
from nsyswrap.intervals import Indices
from nsyswrap.model import Gpu
from nsyswrap.tables import array

UNTOLD = ""


def estimates(frame: pd.DataFrame, rows: Indices, gpu: Gpu) -> dict[str, Any]:
    """Return estimates of each launch.

    Args:
        frame: The table of kernels.
        rows: Its rows to look at.
        gpu: The GPU they ran on.

    Returns:
        theoretical_occupancy, achieved_estimate, sm_efficiency_estimate and waves as ratios of shape (rows,), NaN where
        the export does not say; limiter as texts, empty where it is not known.
    """
    grid = array(frame, "grid_blocks")[rows]
    names = ("block_threads", "registers", "shared_bytes", "shared_executed_bytes")
    shapes = Shapes(*(array(frame, name)[rows].astype(np.int64) for name in names))
    nothing = np.full(len(rows), np.nan)
    multiprocessors = gpu.sm_count if gpu.sm_count > 0 else np.nan
    per_sm = np.where(grid > 0, grid / multiprocessors, np.nan)
    limits = limits_of(gpu)
    if limits is None:
        estimates = dict.fromkeys(("theoretical_occupancy", "achieved_estimate", "waves"), nothing)
        return {**estimates, "sm_efficiency_estimate": np.minimum(per_sm, 1), "limiter": UNTOLD}
    blocks, share = occupancy(limits, shapes)
    # What ran did fit: a shape that does not is one the export does not tell.
    known = (shapes.threads > 0) & (shapes.registers > 0) & (blocks > 0)
    resident = np.where(known, blocks, np.nan)
    return {
        "theoretical_occupancy": np.where(known, share, np.nan),
        "achieved_estimate": np.minimum(resident, per_sm) * shapes.threads / (limits.warps * WARP_THREADS),
        "sm_efficiency_estimate": np.minimum(per_sm, 1),
        "waves": per_sm / resident,
        "limiter": np.where(known, np.array(limiters(limits, shapes), dtype=object), UNTOLD),
    }
