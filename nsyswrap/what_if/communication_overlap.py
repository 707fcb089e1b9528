"""What running collectives beside the backward pass would save: not all of them fit, and kernels get slower meanwhile.

::

    as it is     |## backward ##||coll.|coll.|coll.|
    mended       |# # # backward ##||coll.|            the first layer's gradients are ready when the pass is over
                 |coll.|coll.|                         beside collectives kernels have fewer multiprocessors

A collective keeps a multiprocessor for each of its blocks. A kernel whose blocks filled the GPU in one wave then takes
two; one of many waves gets slower by little more than its share. Source: blocks are handed out in waves, as in CUDA's
programming guide; NCCL's kernels have one block a channel.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap import tables
from nsyswrap.events.operations import COMMUNICATION, COMPUTE
from nsyswrap.hardware.launch_estimates import estimates
from nsyswrap.intervals import Indices, Spans, Times, Window, containing, covered
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Gpu
from nsyswrap.tables import array
from nsyswrap.what_if.changes import HALF, WhatIf, faster

PHASE = "backward"
# What DistributedDataParallel takes to divide the gradients by the number of ranks, of the collectives' own time.
# Source: 132 to 263 us beside 983 to 2037 us of collectives, in four programs on two H200 with NVLink; less where links
# are slower.
AVERAGING_SHARE = 0.13


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one GPU, in ns.

    Attributes:
        kernels: Length of each compute kernel of the backward pass, in order of start.
        slower: How many times as long each takes beside a collective.
        collectives: What of each collective no kernel hides, in order of start.
    """

    kernels: npt.NDArray[np.int64]
    slower: npt.NDArray[np.float64]
    collectives: npt.NDArray[np.int64]

    def saved(self) -> float:
        """Return what the step gets shorter by.

        The collectives run from the start of the backward pass. The one that comes first is of the first layer, whose
        gradients are ready last: parameters are sent in their order, and stay behind the pass.
        """
        if not len(self.collectives):
            return 0.0
        whole = float(self.collectives.sum())
        hidden = whole - float(self.collectives[0])
        left, lost = hidden, 0.0
        for length, slower in zip(self.kernels.tolist(), self.slower.tolist(), strict=True):
            if left <= 0:
                break
            beside = min(length * slower, left)
            left -= beside
            lost += beside * (1 - 1 / slower)
        return max(hidden - left - lost - AVERAGING_SHARE * whole, 0.0)


def beside_backward(context: TraceContext, window: Window, device: int) -> WhatIf:
    """Return what running collectives beside the kernels of the backward pass changes.

    A collective ends on all GPUs together, so those of all devices change alike.

    Args:
        context: The trace.
        window: Stretch of time.
        device: The GPU that tells how much can be hidden.
    """
    ran = context.replay(window).operations
    rows = ran[context.operations.kind[ran] == COMMUNICATION]
    each = list(steps_of(context, ran, device))
    whole = sum(float(step.collectives.sum()) for step in each)
    share = sum(step.saved() for step in each) / whole if whole else 0.0
    length = np.maximum(context.operations.end[rows] - context.operations.start[rows], 1)
    saved = share * exposed(context, rows) / length
    return faster(
        rows,
        1 - HALF * saved,
        1 - saved,
        "half of this comes true, or all: collectives run beside the backward pass, but for the first layer's; kernels "
        "get slower by the multiprocessors that they keep, and gradients are divided by the number of ranks",
    )


def steps_of(context: TraceContext, ran: Indices, device: int) -> Iterator[Step]:
    """Yield the steps that some operations belong to; all operations as one where there are no steps.

    Args:
        context: The trace.
        ran: Rows of the context's operations.
        device: The GPU they ran on.
    """
    operations = context.operations
    mine = np.sort(ran[operations.device_id[ran] == device])
    collectives = mine[operations.kind[mine] == COMMUNICATION]
    kernels = _backward_kernels(context, mine)
    slower = slowdown(context, kernels, collectives, device)
    of_kernels, of_collectives = (_step_of(context, rows) for rows in (kernels, collectives))
    for number in tables.distinct(of_collectives).tolist():
        its, sent = kernels[of_kernels == number], collectives[of_collectives == number]
        lengths = operations.end[its] - operations.start[its]
        yield Step(lengths, slower[of_kernels == number], exposed(context, sent))


def exposed(context: TraceContext, collectives: Indices) -> Times:
    """Return how much of each collective no kernel of its GPU hides, in ns."""
    operations = context.operations
    start, end = operations.start[collectives], operations.end[collectives]
    found = np.zeros(len(collectives), np.int64)
    if not len(collectives):
        return found
    whole = Window(int(start.min()), int(end.max()) + 1, "", "user")
    for device in tables.distinct(operations.device_id[collectives]).tolist():
        mine = operations.device_id[collectives] == device
        alone = operations.exclusive(device, whole)[COMMUNICATION]
        found[mine] = covered(alone, start[mine], end[mine])
    return found


def slowdown(context: TraceContext, kernels: Indices, collectives: Indices, device: int) -> npt.NDArray[np.float64]:
    """Return how many times as long each kernel takes while a collective runs beside it; 1 where that is not known.

    Args:
        context: The trace.
        kernels: Rows of the context's operations.
        collectives: The same, of the collectives.
        device: The GPU they ran on.
    """
    gpu = next((gpu for gpu in context.trace.gpus if gpu.device_id == device), Gpu(device, ""))
    frame, row = context.trace[tables.KERNELS], context.operations.row
    kept = float(np.median(array(frame, "grid_blocks")[row[collectives]])) if len(collectives) else 0.0
    left = gpu.sm_count - kept
    if left < 1:
        return np.ones(len(kernels))
    fewer = gpu.sm_count / left
    # A full wave is no more than one, whatever the last digit says.
    waves = estimates(frame, row[kernels], gpu)["waves"] * (1 - 1e-9)
    # Of a kernel whose waves are not known it is taken to have many.
    found: npt.NDArray[np.float64] = np.where(
        np.isnan(waves), fewer, np.ceil(waves * fewer) / np.maximum(np.ceil(waves), 1)
    )
    return found


def _backward_kernels(context: TraceContext, rows: Indices) -> Indices:
    """Return the compute kernels launched in the backward pass; all of them where no phase is known."""
    operations = context.operations
    kernels = rows[(operations.kind[rows] == COMPUTE) & (operations.table[rows] == 0)]
    backward: Indices = kernels[context.phase_of_operations[kernels] == context.phases.code(PHASE)]
    return backward if len(backward) else kernels


def _step_of(context: TraceContext, rows: Indices) -> Indices:
    """Return the number of the step in which each operation was launched, of its process; -1 for none."""
    operations, frame = context.operations, context.steps.frame
    launched = array(context.trace[tables.CALLS], "start")[operations.call[rows]]
    found = np.full(len(rows), -1, np.intp)
    for process in tables.distinct(operations.process[rows]).tolist():
        mine = np.flatnonzero(operations.process[rows] == process)
        steps = np.flatnonzero(array(frame, "process") == process)
        steps = steps[np.argsort(array(frame, "start")[steps], kind="stable")]
        begins = Spans(array(frame, "start")[steps], array(frame, "end")[steps])
        at = containing(begins, launched[mine])
        found[mine] = np.where(at >= 0, steps[at], -1) if len(steps) else -1
    return found
