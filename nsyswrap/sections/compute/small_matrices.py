"""Equal products of small matrices, one after the other, each too small for the GPU.

A library divides the result of a product into tiles, one for each block, and takes smaller tiles where there are few.
So blocks times the area of a tile, which the name shows, is how much of the GPU a product could use with large tiles::

    nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT, 128 blocks    128 * 64 * 8 = 65,536 results at most
    a GPU of 132 multiprocessors                          132 * 256 * 128 = 4,325,376 results at once: 1.5 % of it
"""

import re
from functools import partial

import numpy as np
import numpy.typing as npt

from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.base import units
from nsyswrap.base.rows import taken
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.rules import compute
from nsyswrap.sections.compute.kernel_findings import KernelWindow
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup
from nsyswrap.sections.compute.limits import is_matrix
from nsyswrap.sections.occupancy import FEW_BLOCKS
from nsyswrap.sections.places import LISTED
from nsyswrap.what_if.affected_parts import before_launches
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

PRODUCTS = frozenset({"gemm", "gemv"})
# Kernels that finish a product whose inner size was split.
PARTS_OF_PRODUCTS = frozenset({"splitk_reduce", "gemm_aux"})
# Results of a large tile. Source: NVIDIA's "Matrix Multiplication Background User's Guide": of the tiles of cuBLAS
# those of 256 x 128 and 128 x 256 results are the most efficient.
LARGE_TILE = 256 * 128
_TILE = re.compile(r"(?:tilesize|_)(\d{1,3})x(\d{1,3})(?=x\d|_)")


def find_findings(found: KernelWindow) -> tuple[Finding, ...]:
    """Return a finding where equal small products that follow one another take enough of the window."""
    following = runs(found.context, found.kernels)
    change, evidence = partial(_batched, found.kernels, following), partial(_evidence, found.kernels, following)
    return found.finding_on(compute.SMALL_MATRICES, following > 1, change, evidence)


def is_small(group: LaunchGroup, mean_ns: float) -> bool:
    """Return whether a group's kernel is a short product that could use less than half of the GPU.

    Longer ones with small grids are in the finding on small grids.
    """
    is_product = is_matrix(group) and group.kind.op in PRODUCTS
    return is_product and mean_ns < SHORT_NS and part_of_gpu(group) < FEW_BLOCKS


def part_of_gpu(group: LaunchGroup) -> float:
    """Return the part of the GPU that a product could use with large tiles; 1 where that is not known.

    Where the name shows no tile, the grid alone counts.
    """
    if group.blocks <= 0 or group.gpu.sm_count <= 0:
        return 1.0
    tile = _TILE.search(group.kind.name)
    area = int(tile[1]) * int(tile[2]) / LARGE_TILE if tile else 1.0
    return min(group.blocks * area / group.gpu.sm_count, 1.0)


def runs(context: TraceContext, kernels: GroupedKernels) -> npt.NDArray[np.int64]:
    """Return how many equal small products follow one another on a stream, for each kernel; 0 for other kernels."""
    small = kernels.which([is_small(*each) for each in zip(kernels.groups, kernels.mean_ns.tolist(), strict=True)])
    part = kernels.which([each.kind.op in PARTS_OF_PRODUCTS for each in kernels.groups])
    found = np.zeros(len(kernels.rows), np.int64)
    if not small.any():
        return found
    counted = np.flatnonzero(~part[kernels.code])
    rows = kernels.rows[counted]
    stream, device = taken(context.operations.stream, rows), context.operations.device_id[rows]
    order = np.lexsort((context.operations.start[rows], stream, device.astype(np.int64)))
    code, stream, device = kernels.code[counted][order], stream[order], device[order]
    new = (np.diff(code) != 0) | (np.diff(stream) != 0) | (np.diff(device) != 0)
    run = np.cumsum(np.append(True, new)) - 1
    found[counted[order]] = np.where(small[code], np.bincount(run)[run], 0)
    return found


def _batched(kernels: GroupedKernels, following: npt.NDArray[np.int64], simulation: Simulation) -> WhatIf:
    """Return the change "one launch for each run of equal products"; the inner size of a product is not known."""
    mine = np.isin(kernels.rows, simulation.operations) & (following > 1)
    part = np.array([part_of_gpu(each) for each in kernels.groups], np.float64)
    rows, factor = kernels.rows[mine], np.maximum(1 / following[mine], part[kernels.code[mine]])
    launches = before_launches(simulation, rows[1:])
    return WhatIf(
        Change(operations=rows, factor=factor, host=launches),
        "one launch for each run of equal products, which takes as long as one of them or as its tiles fill the GPU",
    )


def _evidence(kernels: GroupedKernels, following: npt.NDArray[np.int64]) -> tuple[str, ...]:
    mine = following > 1
    code = kernels.code[mine]
    total = np.bincount(code, kernels.inside[mine], len(kernels.groups))
    count = np.bincount(code, minlength=len(kernels.groups))
    most = np.zeros(len(kernels.groups), np.int64)
    np.maximum.at(most, code, following[mine])
    return tuple(
        f"{units.duration(int(total[each]))} in {units.counted(int(count[each]), 'launch')} of "
        f"{units.counted(kernels.groups[each].blocks, 'block')}, up to {units.count(int(most[each]))} in a row: "
        f"{kernels.groups[each].kind.name}"
        for each in np.argsort(-total, kind="stable")[:LISTED].tolist()
        if total[each]
    )
