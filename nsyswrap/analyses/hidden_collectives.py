"""What running collectives beside the backward pass would save: not all of them fit, and kernels get slower meanwhile.

::

    as it is     |## backward ##||coll.|coll.|coll.|
    mended       |## backward #  #  #  ##||coll.|      the last gradients are ready when the backward pass is over
                     |coll.|coll.|                    beside collectives kernels have fewer multiprocessors

A collective keeps as many multiprocessors as it has blocks. A kernel whose blocks filled the GPU in one wave then takes
two; one of many waves gets slower by little more than its share. Source: blocks are handed out in waves, as in CUDA's
programming guide; NCCL's kernels have one block a channel.
"""

import numpy as np

from nsyswrap import tables
from nsyswrap.analyses.base import Study
from nsyswrap.analyses.occupancy_launches import find_launches, kernels_by_device
from nsyswrap.analyses.operations import COMMUNICATION
from nsyswrap.analyses.replay_changes import HALF, WhatIf, faster
from nsyswrap.intervals import Indices, Window, total
from nsyswrap.tables import array

PHASE = "backward"
UNKNOWN_SLOWDOWN = 1.0


def beside_backward(study: Study, window: Window, device: int) -> WhatIf:
    """Return what running collectives beside the kernels of the backward pass changes.

    A collective ends on all GPUs together, so those of all devices change alike.

    Args:
        study: The trace.
        window: Stretch of time.
        device: The GPU that tells how much can be hidden.
    """
    kernels = _backward_kernels(study, window, device)
    slower = slowdown(study, window, device, kernels)
    hidden = _hidden_share(study, window, device, kernels)
    ran = study.replay(window).operations
    rows = ran[study.operations.kind[ran] == COMMUNICATION]
    return faster(
        rows,
        1 - HALF * hidden / slower,
        1 - hidden / slower,
        "half of this comes true, or all: every collective but the last of a step runs beside the backward pass, whose "
        f"kernels take {slower:.2f} times as long meanwhile",
    )


def slowdown(study: Study, window: Window, device: int, kernels: Indices) -> float:
    """Return how many times as long kernels take while a collective runs beside them, weighted by their time.

    Args:
        study: The trace.
        window: Stretch of time.
        device: The GPU they run on.
        kernels: Rows of the study's operations.
    """
    multiprocessors = next((gpu.sm_count for gpu in study.trace.gpus if gpu.device_id == device), 0)
    operations = study.operations
    collectives = _collectives(study, window, device)
    blocks = array(study.trace[tables.KERNELS], "grid_blocks")[operations.row[collectives]]
    left = multiprocessors - float(np.median(blocks)) if len(blocks) else 0.0
    launches = find_launches(study, {device: kernels}, window) if len(kernels) else None
    if launches is None or left < 1 or not launches["total_ns"].sum():
        return UNKNOWN_SLOWDOWN
    # A full wave is no more than one, whatever the last digit says.
    waves = launches["waves"].to_numpy() * (1 - 1e-9)
    fewer = multiprocessors / left
    # Of a launch whose waves are not known it is taken to be one of many.
    times = np.where(np.isnan(waves), fewer, np.ceil(waves * fewer) / np.maximum(np.ceil(waves), 1))
    return float(np.average(times, weights=launches["total_ns"]))


def _hidden_share(study: Study, window: Window, device: int, kernels: Indices) -> float:
    """Return what part of the exposed collectives there is room for beside the kernels, the last of each step aside."""
    operations = study.operations
    exposed = total(operations.exclusive(device, window)[COMMUNICATION])
    rows = _collectives(study, window, device)
    if not exposed or not len(rows):
        return 0.0
    length = operations.end[rows] - operations.start[rows]
    steps = study.steps.steady_inside(window).groupby("process").size().max() if len(study.steps.frame) else 1
    last = float(np.median(length)) * max(int(steps), 1)
    room = float((operations.end[kernels] - operations.start[kernels]).sum())
    return float(np.clip(min(1 - last / exposed, room / exposed), 0, 1))


def _collectives(study: Study, window: Window, device: int) -> Indices:
    operations = study.operations
    rows = operations.on(device)
    inside = (operations.start[rows] < window.end_ns) & (operations.end[rows] > window.start_ns)
    found: Indices = rows[inside & (operations.kind[rows] == COMMUNICATION)]
    return found


def _backward_kernels(study: Study, window: Window, device: int) -> Indices:
    """Return the compute kernels launched in the backward pass; all of them where no phase is known."""
    rows = kernels_by_device(study, window).get(device, np.empty(0, np.intp))
    backward: Indices = rows[study.phase_of_operations[rows] == study.phases.code(PHASE)]
    return backward if len(backward) else rows
