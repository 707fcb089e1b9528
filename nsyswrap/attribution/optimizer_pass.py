"""The optimizer's pass over the parameters in each step: how many kernels it launches, and how short they are."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Times, Window, containing, merge
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMPUTE, SOURCES
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

PHASE = "optimizer"
# A fused optimizer launches a few kernels for all parameters together, a foreach optimizer some dozens. An optimizer
# that handles the tensors one by one launches about ten for each. Source: torch.optim's Adam, counted in tests/captures
# and workloads/faults.
MANY = 100
# Kernels that are shorter than a launch do not keep the GPU busy. Source: launches take 5 to 10 us in all captures of
# tests/captures.
SHORT_NS = 10_000
# PyTorch's fused optimizers update many parameters in each of these kernels. Source: ATen/native/cuda/Fused*.cu.
FUSED = re.compile("Fused(?:Optimizer|Adam|Sgd|Adagrad)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pass:
    """The kernels of the optimizer in a window.

    Attributes:
        per_step: Number of kernels in a step.
        short_share: Share of the kernels that are shorter than a launch.
        kernel_ns: Total time of the kernels.
        short_ns: Total time of the short kernels.
        is_fused: Whether the optimizer is fused: the short kernels are of what else runs in its phase.
    """

    per_step: float
    short_share: float
    kernel_ns: int
    short_ns: int
    is_fused: bool

    @property
    def is_many(self) -> bool:
        """Return whether it launches very many kernels in each step, most of them short."""
        return self.per_step >= MANY and self.short_share > 1 / 2


@memo
def find_pass(context: TraceContext, device_id: int, window: Window) -> Pass | None:
    """Return the optimizer's kernels on one device; None without such a kernel or a whole step in the window."""
    operations, code = context.operations, context.phases.code(PHASE)
    if code < 0:
        return None
    rows = operations.on(device_id)
    rows = taken(rows, taken(context.phase_of_operations, rows) == code)
    rows = taken(rows, taken(operations.kind, rows) == COMPUTE)
    per_step = _per_step(context, rows, window)
    start, end = taken(operations.start, rows), taken(operations.end, rows)
    inside = (start >= window.start_ns) & (end <= window.end_ns)
    if per_step is None or not inside.any():
        return None
    length: Times = taken(end - start, inside)
    short = length < SHORT_NS
    is_fused = bool(of_fused_optimizer(context, taken(rows, inside)).any())
    return Pass(per_step, float(short.mean()), int(length.sum()), int(taken(length, short).sum()), is_fused)


def of_fused_optimizer(context: TraceContext, rows: Indices) -> npt.NDArray[np.bool_]:
    """Return which operations are kernels of a fused optimizer, shape (rows,)."""
    found: npt.NDArray[np.bool_] = context.operations.table[rows] == SOURCES.index(tables.KERNELS)
    ids = coded(context.trace[tables.KERNELS], "name_id")[context.operations.row[rows[found]]]
    fused = [each for each in tables.distinct(ids).tolist() if FUSED.search(context.trace.text(each))]
    found[found] = np.isin(ids, fused)
    return found


def _per_step(context: TraceContext, rows: Indices, window: Window) -> float | None:
    """Return how many of the operations a measured step of the window launches; None where it contains no step."""
    steps = context.steps.measured_of(tables.distinct(context.operations.process[rows]), window)
    if not len(steps):
        return None
    launched = taken(array(context.trace[tables.CALLS], "start"), taken(context.operations.call, rows))
    inside = containing(merge(array(steps, "start"), array(steps, "end")), launched) >= 0
    return int(inside.sum()) * steps["process"].nunique() / len(steps)
