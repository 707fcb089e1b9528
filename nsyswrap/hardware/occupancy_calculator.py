"""Theoretical occupancy: how many blocks of a kernel fit on a multiprocessor, and which resource limits them.

::

    warps of a block                     w  = ceil(threads / 32)
    blocks that warps allow              floor(warps of a multiprocessor / w)
    blocks that registers allow          floor(warps that their registers allow / w)
    blocks that shared memory allows     floor(shared memory / shared memory of a block)
    resident blocks                      the minimum of these and of the hardware's limit of blocks
    occupancy                            resident blocks * w / warps of a multiprocessor
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.model import Gpu
from nsyswrap.trace.tables import coded

Shares = npt.NDArray[np.float64]

WARP_THREADS = 32
BLOCK_THREADS = 1024
# Registers are allocated to a warp in units of this size, all from one of four partitions of the register file.
REGISTER_UNIT = 256
PARTITIONS = 4
OLDEST = (7, 0)
RESERVING = (8, 0)

LIMITERS = ("threads", "registers", "shared memory", "blocks")
NO_LIMITER = "none"
# More blocks than any multiprocessor holds: the limit by a resource that a kernel does not use.
UNLIMITED = np.int64(1 << 30)


# Warps, blocks and KiB of shared memory of a multiprocessor. Source: cuda_occupancy.h of CUDA 13.5 and the table of
# compute capabilities in the CUDA C++ Programming Guide.
_TABLE = {
    (7, 0): (64, 32, 96),
    (7, 5): (32, 16, 64),
    (8, 0): (64, 32, 164),
    (8, 6): (48, 16, 100),
    (8, 9): (48, 24, 100),
    (9, 0): (64, 32, 228),
    (10, 0): (64, 32, 228),
    (10, 3): (64, 32, 228),
    (12, 0): (48, 24, 100),
}
UNKNOWN_LIMITER = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources of one multiprocessor.

    Attributes:
        warps: Warps of 32 threads.
        registers: 32-bit registers.
        shared_bytes: Shared memory in total.
        reserved_bytes: Shared memory that the system reserves for each block.
        shared_unit_bytes: Unit in which shared memory is allocated.
    """

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_bytes: int
    shared_unit_bytes: int


def _limits(capability: tuple[int, int], warps: int, blocks: int, registers: int, shared_bytes: int) -> Limits:
    reserved, unit = (1024, 128) if capability >= RESERVING else (0, 256)
    return Limits(warps, blocks, registers, shared_bytes, reserved, unit)


LIMITS: Mapping[tuple[int, int], Limits] = MappingProxyType(
    {each: _limits(each, warps, blocks, 65536, shared * 1024) for each, (warps, blocks, shared) in _TABLE.items()}
)


def limits_of(gpu: Gpu) -> Limits | None:
    """Return the resources of a multiprocessor of this GPU, from the export or else the table; None where unknown.

    GPUs older than compute capability 7.0 allocate registers by other rules, and count as unknown.
    """
    capability = gpu.compute_capability
    if capability is None or capability < OLDEST:
        return None
    if min(gpu.sm_warps, gpu.sm_blocks, gpu.sm_registers, gpu.sm_shared_bytes) <= 0:
        return LIMITS.get(capability)
    return _limits(capability, gpu.sm_warps, gpu.sm_blocks, gpu.sm_registers, gpu.sm_shared_bytes)


@dataclass(frozen=True, slots=True)
class Shapes:
    """How kernels were launched: int64 arrays of equal length.

    Attributes:
        registers: Registers of a thread; 0 for none.
        shared_bytes: Static and dynamic shared memory of a block.
        executed_bytes: Shared memory of a multiprocessor that the driver reserved for the kernel; 0 where unknown.
    """

    threads: npt.NDArray[np.int64]
    registers: npt.NDArray[np.int64]
    shared_bytes: npt.NDArray[np.int64]
    executed_bytes: npt.NDArray[np.int64]


def block_limits(limits: Limits, shapes: Shapes) -> npt.NDArray[np.int64]:
    """Return how many blocks each resource allows on a multiprocessor.

    Returns:
        Shape (4, n), in the order of ``LIMITERS``; 0 where no block fits.

    Source: the occupancy calculator in cuda_occupancy.h of the CUDA toolkit. Barriers and clusters are not in an
    export, so the result is an upper bound.
    """
    warps = warps_of(shapes.threads)
    fits = (shapes.threads >= 1) & (shapes.threads <= BLOCK_THREADS)
    by_threads = np.where(fits, limits.warps // warps, 0)
    taken = _up(shapes.registers * WARP_THREADS, REGISTER_UNIT)
    in_part = limits.registers // PARTITIONS // np.maximum(taken, 1)
    # Registers are allocated as if the number of warps in a block were a multiple of the number of partitions.
    one_fits = taken * _up(warps, PARTITIONS) <= limits.registers
    by_registers = np.where(one_fits, in_part * PARTITIONS // warps, 0)
    by_registers = np.where(shapes.registers > 0, by_registers, UNLIMITED)
    whole = np.where(shapes.executed_bytes > 0, shapes.executed_bytes, limits.shared_bytes)
    needed = _up(shapes.shared_bytes + limits.reserved_bytes, limits.shared_unit_bytes)
    by_shared = np.where(needed > 0, whole // np.maximum(needed, 1), UNLIMITED)
    return np.stack([by_threads, by_registers, by_shared, np.full(len(warps), limits.blocks)]).astype(np.int64)


def warps_of(threads: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of warps in blocks with these numbers of threads, at least 1."""
    return np.maximum(-(-threads // WARP_THREADS), 1)


def occupancy(limits: Limits, shapes: Shapes) -> tuple[npt.NDArray[np.int64], Shares]:
    """Return the blocks resident on a multiprocessor, and the share of its warps that they use."""
    blocks = block_limits(limits, shapes).min(axis=0)
    return blocks, blocks * warps_of(shapes.threads) / limits.warps


def limiters(limits: Limits, shapes: Shapes) -> list[str]:
    """Return the resource that limits the blocks of each kernel, comma-separated on ties; "none" at full occupancy."""
    every = block_limits(limits, shapes)
    full = occupancy(limits, shapes)[1] >= 1
    least = every == every.min(axis=0)
    return [
        NO_LIMITER if full[at] else ", ".join(np.array(LIMITERS)[least[:, at]].tolist()) for at in range(every.shape[1])
    ]


def _up(values: npt.NDArray[np.int64], unit: int) -> npt.NDArray[np.int64]:
    """Return the values rounded up to multiples of the unit."""
    return -(-values // unit) * unit


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
