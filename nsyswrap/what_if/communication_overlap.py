"""The change "run collectives during the backward pass", for programs that do not do so yet.

::

    as it is     |## backward ##||coll.|coll.|coll.|
    changed      |# # # backward ##||coll.|            the last gradients are ready at the end of the pass
                 |coll.|coll.|                         during collectives, kernels have fewer multiprocessors

With small buckets, almost nothing is left to send after the pass. Where collectives begin during the
backward pass already, the transfer itself is the limit, and only fewer bytes help.

A collective occupies one multiprocessor for each of its blocks. A kernel whose blocks filled the GPU in one wave then
takes two waves; a kernel of many waves gets slower by little more than the share of multiprocessors. Source: CUDA's
programming guide says that blocks run in waves; NCCL's kernels have one block a channel.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Spans, Times, Window, containing, covered
from nsyswrap.events.operations import COMMUNICATION, COMPUTE
from nsyswrap.hardware.kernel_names.collectives import ALL_REDUCE, REDUCE_SCATTER, kind_of
from nsyswrap.hardware.occupancy_calculator import estimates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.model import Gpu
from nsyswrap.ranks.collectives import NO_COLLECTIVES, Collectives
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.beside_waits import share_of_multiprocessors
from nsyswrap.what_if.saving import HALF, WhatIf, faster
from nsyswrap.what_if.simulate import Simulation

PHASE = "backward"
# Collectives that reduce gradients; the next layer needs the result of other collectives at once.
REDUCTIONS = frozenset({ALL_REDUCE, REDUCE_SCATTER})
# Dividing gradients moves each twice; Adam, which moves most of the usual optimizers, moves seven numbers for each.
# Source: torch.optim.Adam with fused=True, its formula counted.
FEWEST_PASSES = 2 / 7


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one GPU, in ns.

    Attributes:
        kernels: Length of each compute kernel of the backward pass, in order of start.
        slower: Factor for the length of each kernel while a collective runs.
        collectives: Exposed transfer of each collective, in order of start.
    """

    kernels: npt.NDArray[np.int64]
    slower: npt.NDArray[np.float64]
    collectives: npt.NDArray[np.int64]

    def saved(self, averaging_ns: float) -> float:
        """Return by how much the step gets shorter where almost nothing is left to send after the pass, in ns.

        Args:
            averaging_ns: Time to divide the gradients by the number of ranks.
        """
        left, lost = float(self.collectives.sum()), 0.0
        whole = left
        for length, slower in zip(self.kernels.tolist(), self.slower.tolist(), strict=True):
            if left <= 0:
                break
            beside = min(length * slower, left)
            left -= beside
            lost += beside * (1 - 1 / slower)
        return max(whole - left - lost - averaging_ns, 0.0)


def is_reduction(context: TraceContext, rows: Indices) -> npt.NDArray[np.bool_]:
    """Return which collectives reduce gradients, by the name of their kernel."""
    frame, operations = context.trace[tables.KERNELS], context.operations
    found = np.zeros(len(rows), bool)
    of_kernels = operations.table[rows] == 0
    names = coded(frame, "name_id")[operations.row[rows[of_kernels]]]
    wanted = [each for each in np.unique(names) if kind_of(context.trace.text(int(each))) in REDUCTIONS]
    found[of_kernels] = np.isin(names, wanted)
    return found


def overlaps_already(
    context: TraceContext, rows: Indices, device: int, collectives: Collectives = NO_COLLECTIVES
) -> bool:
    """Return whether most transfer of some collectives begins before the last backward kernel of their step ends."""
    operations = context.operations
    mine = operations.on(device)
    kernels = backward_kernels(context, mine)
    of_kernels, of_rows = (step_of(context, each) for each in (kernels, rows))
    ends: dict[int, int] = {}
    for number in tables.distinct(of_kernels).tolist():
        ends[number] = int(operations.end[kernels[of_kernels == number]].max())
    last = np.array([ends.get(number, np.iinfo(np.int64).min) for number in of_rows.tolist()], np.int64)
    begun = collectives.begun(operations, rows)
    length = operations.end[rows] - begun
    return bool(length[begun < last].sum() > HALF * length.sum()) if len(rows) else False


def beside_backward(device: int, simulation: Simulation) -> WhatIf:
    """Return the change "run gradient reductions during the backward pass".

    A collective ends on all GPUs together, so the collectives of all devices get the same factor.

    Args:
        device: The GPU that shows how much can overlap.
        simulation: The run as it was.
    """
    context, ran = simulation.context, simulation.operations
    rows = ran[context.operations.kind[ran] == COMMUNICATION]
    rows = rows[is_reduction(context, rows)]
    collectives = simulation.collectives
    each = list(steps_of(context, ran, device, collectives))
    whole = sum(float(step.collectives.sum()) for step in each)
    length = np.maximum(context.operations.end[rows] - collectives.begun(context.operations, rows), 1)
    exposed_part = exposed(context, rows, collectives) / length
    averaging = _averaging_ns(context, ran, device) / max(len(each), 1)
    saved = sum(step.saved(averaging * FEWEST_PASSES) for step in each)
    return faster(
        rows,
        1 - saved / max(whole, 1.0) * exposed_part,
        "collectives run during the backward pass, in small buckets, and take multiprocessors from it",
    )


def _averaging_ns(context: TraceContext, ran: Indices, device: int) -> float:
    """Return an upper bound of the time to divide all gradients in the sample, in ns: the time of the optimizer.

    Dividing reads and writes each gradient once. Every optimizer reads each gradient and reads and writes each weight,
    so it moves at least as much.
    """
    operations = context.operations
    mine = ran[(operations.device_id[ran] == device) & (operations.kind[ran] == COMPUTE)]
    mine = mine[context.phase_of_operations[mine] == context.phases.code(OPTIMIZER)]
    return float((operations.end[mine] - operations.start[mine]).sum())


def fewer_bytes(simulation: Simulation) -> WhatIf:
    """Return the change "half the bytes": the collectives of all devices take half their time."""
    ran, operations = simulation.operations, simulation.context.operations
    rows = ran[operations.kind[ran] == COMMUNICATION]
    return faster(rows, HALF, "collectives send half the bytes in half the time")


def steps_of(context: TraceContext, ran: Indices, device: int, known: Collectives = NO_COLLECTIVES) -> Iterator[Step]:
    """Yield the steps of some operations; where there are no steps, all operations as one step."""
    operations = context.operations
    mine = np.sort(ran[operations.device_id[ran] == device])
    collectives = mine[operations.kind[mine] == COMMUNICATION]
    collectives = collectives[is_reduction(context, collectives)]
    kernels = backward_kernels(context, mine)
    slower = slowdown(context, kernels, collectives, device)
    of_kernels, of_collectives = (step_of(context, rows) for rows in (kernels, collectives))
    for number in tables.distinct(of_collectives).tolist():
        its, sent = kernels[of_kernels == number], collectives[of_collectives == number]
        lengths = operations.end[its] - operations.start[its]
        yield Step(lengths, slower[of_kernels == number], exposed(context, sent, known))


def exposed(context: TraceContext, collectives: Indices, known: Collectives = NO_COLLECTIVES) -> Times:
    """Return the exposed transfer of each collective, in ns; all exposed time where the other ranks are not known."""
    operations = context.operations
    start, end = known.begun(operations, collectives), operations.end[collectives]
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
    """Return the factor for the length of each kernel while a collective runs; 1 where it is not known."""
    gpu = next((gpu for gpu in context.trace.gpus if gpu.device_id == device), Gpu(device, ""))
    frame, row = context.trace[tables.KERNELS], context.operations.row
    share = share_of_multiprocessors(context, collectives, device)
    if not 0 < share < 1:
        return np.ones(len(kernels))
    fewer = 1 / (1 - share)
    # Rounding errors must not make a full wave count as two.
    waves = estimates(frame, row[kernels], gpu)["waves"] * (1 - 1e-9)
    # A kernel with an unknown number of waves is treated as one of many waves.
    found: npt.NDArray[np.float64] = np.where(
        np.isnan(waves), fewer, np.ceil(waves * fewer) / np.maximum(np.ceil(waves), 1)
    )
    return found


def backward_kernels(context: TraceContext, rows: Indices) -> Indices:
    """Return the compute kernels launched in the backward pass; all of them where no phase is known."""
    operations = context.operations
    kernels = rows[(operations.kind[rows] == COMPUTE) & (operations.table[rows] == 0)]
    backward: Indices = kernels[context.phase_of_operations[kernels] == context.phases.code(PHASE)]
    return backward if len(backward) else kernels


def step_of(context: TraceContext, rows: Indices) -> Indices:
    """Return the row of the step in which each operation was launched, of its own process; -1 for none."""
    operations, frame = context.operations, context.steps.frame
    began, call = array(context.trace[tables.CALLS], "start"), operations.call[rows]
    found = np.full(len(rows), -1, np.intp)
    for process in tables.distinct(operations.process[rows]).tolist():
        mine = np.flatnonzero((operations.process[rows] == process) & (call >= 0))
        steps = np.flatnonzero(array(frame, "process") == process)
        steps = steps[np.argsort(array(frame, "start")[steps], kind="stable")]
        begins = Spans(array(frame, "start")[steps], array(frame, "end")[steps])
        at = containing(begins, began[call[mine]])
        found[mine] = np.where(at >= 0, steps[at], -1) if len(steps) else -1
    return found
