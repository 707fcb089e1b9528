"""Products of small matrices, one after the other, each with fewer blocks than the GPU has multiprocessors."""

from functools import partial

import numpy as np
import numpy.typing as npt

from nsyswrap import units
from nsyswrap.events.operations import streams_of
from nsyswrap.intervals import Indices, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.sections.compute.kernel_groups import Group, GroupedKernels
from nsyswrap.sections.compute.limits import SMALL_GRID, is_matrix
from nsyswrap.sections.occupancy import SHORT_NS
from nsyswrap.sections.severity import make_finding, worth_printing
from nsyswrap.what_if.changes import WhatIf, faster, predict
from nsyswrap.what_if.simulate import Simulation

PRODUCTS = frozenset({"gemm", "gemv"})
# Kernels that finish a product whose inner size was split.
PARTS_OF_PRODUCTS = frozenset({"splitk_reduce", "gemm_aux"})
LISTED = 3


def find_findings(simulation: Simulation, kernels: GroupedKernels, window: Window) -> tuple[Finding, ...]:
    """Return a finding where equal small products that follow one another take enough of the window."""
    following = runs(simulation.context, kernels)
    mine = following > 1
    lost = int(kernels.inside[mine].sum())
    if not worth_printing(lost, window):
        return ()
    return (
        make_finding(
            rule="compute/small_matrices",
            headline=f"Equal products of small matrices, one after the other, take "
            f"{units.share(lost / window.length_ns)} of the time.",
            lost_ns=lost,
            saving=predict(simulation, partial(_batched, kernels, following)),
            advice="Compute them at once: torch.bmm or torch.matmul over stacked tensors instead of a loop over heads, "
            "experts or samples; torch.vmap does that for a function.",
            evidence=_evidence(kernels, following),
            device_id=None,
            window=window,
        ),
    )


def is_small(group: Group, mean_ns: float) -> bool:
    """Return whether a group's kernel is a short product with blocks for less than half of the GPU.

    Longer ones are in the finding on small grids.
    """
    few = 0 < group.blocks < SMALL_GRID * group.gpu.sm_count
    return few and is_matrix(group) and group.kind.op in PRODUCTS and mean_ns < SHORT_NS


def runs(context: TraceContext, kernels: GroupedKernels) -> npt.NDArray[np.int64]:
    """Return how many equal small products follow one another on a stream, for each kernel; 0 for other kernels."""
    small = kernels.which([is_small(*each) for each in zip(kernels.groups, kernels.mean_ns.tolist(), strict=True)])
    part = kernels.which([each.kind.op in PARTS_OF_PRODUCTS for each in kernels.groups])
    found = np.zeros(len(kernels.rows), np.int64)
    if not small.any():
        return found
    counted = np.flatnonzero(~part[kernels.code])
    rows = kernels.rows[counted]
    stream, device = streams_of(context.trace, context.operations, rows), context.operations.device_id[rows]
    order: Indices = np.lexsort([context.operations.start[rows], stream, device])
    code, stream, device = kernels.code[counted][order], stream[order], device[order]
    new = (np.diff(code) != 0) | (np.diff(stream) != 0) | (np.diff(device) != 0)
    run = np.cumsum(np.append(True, new)) - 1
    found[counted[order]] = np.where(small[code], np.bincount(run)[run], 0)
    return found


def _batched(kernels: GroupedKernels, following: npt.NDArray[np.int64], simulation: Simulation) -> WhatIf:
    """Return the change "one launch for each run of equal products": its blocks spread over the multiprocessors."""
    mine = np.isin(kernels.rows, simulation.operations) & (following > 1)
    filled = np.array([each.blocks / max(each.gpu.sm_count, 1) for each in kernels.groups], np.float64)
    factor = np.minimum(np.maximum(1 / following[mine], filled[kernels.code[mine]]), 1.0)
    assumed = "each run of equal products takes the time of one launch that fills the GPU, or half-way to that"
    return faster(kernels.rows[mine], (1 + factor) / 2, factor, assumed)


def _evidence(kernels: GroupedKernels, following: npt.NDArray[np.int64]) -> tuple[str, ...]:
    mine = following > 1
    code = kernels.code[mine]
    total = np.bincount(code, kernels.inside[mine], len(kernels.groups))
    count = np.bincount(code, minlength=len(kernels.groups))
    most = np.zeros(len(kernels.groups), np.int64)
    np.maximum.at(most, code, following[mine])
    return tuple(
        f"{units.duration(int(total[each]))} in {units.count(int(count[each]))} launches of "
        f"{units.count(kernels.groups[each].blocks)} blocks, up to {units.count(int(most[each]))} in a row: "
        f"{kernels.groups[each].kind.name}"
        for each in np.argsort(-total, kind="stable")[:LISTED].tolist()
        if total[each]
    )
