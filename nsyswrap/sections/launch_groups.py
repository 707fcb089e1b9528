"""The compute kernels of a window, and the same kernels grouped by launch configuration."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMPUTE
from nsyswrap.hardware.launch_estimates import estimates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.model import Gpu
from nsyswrap.trace import tables
from nsyswrap.trace.tables import LAUNCH, coded


def kernels_in(context: TraceContext, window: Window) -> tuple[Indices, Times]:
    """Return the operations that are compute kernels and run in a window, and how long each runs in it, in ns."""
    rows = context.operations.from_table(tables.KERNELS)
    return running(context, taken(rows, taken(context.operations.kind, rows) == COMPUTE), window)


def kernels_by_device(context: TraceContext, window: Window) -> dict[int, Indices]:
    """Return the compute kernels that run in the window, as operations by device, for devices that ran any."""
    device_id, (rows, _) = context.operations.device_id, kernels_in(context, window)
    of_row = taken(device_id, rows)
    found = {device: taken(rows, of_row == device) for device in context.operations.devices}
    return {device: mine for device, mine in found.items() if len(mine)}


def launch_groups(context: TraceContext, kernels: Mapping[int, Indices], window: Window) -> pd.DataFrame:
    """Return the compute kernels of a window, one row for each device, name and launch configuration.

    Returns:
        device_id, name, verdict, count, total_ns, blocks of the grid, and the estimates of ``launch_estimates``.
    """
    gpus = {gpu.device_id: gpu for gpu in context.trace.gpus}
    chosen = kernels or {0: np.empty(0, np.intp)}
    own = find_own_windows(context, window)
    found = [_of_device(context, rows, gpus.get(each, Gpu(each, "")), own.on(each)) for each, rows in chosen.items()]
    return pd.DataFrame({name: _joined([each[name] for each in found]) for name in found[0]})


def _joined(parts: list[Any]) -> Any:  # noqa: ANN401 - lists or arrays
    return [text for part in parts for text in part] if isinstance(parts[0], list) else np.concatenate(parts)


def _of_device(context: TraceContext, rows: Indices, gpu: Gpu, window: Window) -> dict[str, Any]:
    """Return the columns of one device, as lists of texts and arrays of numbers."""
    operations, frame = context.operations, context.trace[tables.KERNELS]
    kernel = taken(operations.row, rows)
    codes, first = tables.groups([taken(coded(frame, column).codes, kernel) for column in ("name_id", *LAUNCH)])
    duration = np.minimum(taken(operations.end, rows), window.end_ns) - np.maximum(
        taken(operations.start, rows), window.start_ns
    )
    total = np.zeros(len(first), np.int64)
    np.add.at(total, codes, duration)
    shown, kinds = kernel[first], context.kernel_names.of(rows[first])
    estimated = estimates(frame, shown, gpu)
    limiter = estimated.pop("limiter")
    return {
        "device_id": np.full(len(first), gpu.device_id, np.int64),
        "name": [each.name for each in kinds],
        "verdict": [str(each.verdict) for each in kinds],
        "count": np.bincount(codes, minlength=len(first)),
        "total_ns": total,
        "blocks": coded(frame, "grid_blocks")[shown],
        **estimated,
        "limiter": [limiter] * len(first) if isinstance(limiter, str) else limiter.tolist(),
    }
