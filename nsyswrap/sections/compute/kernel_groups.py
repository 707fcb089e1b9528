"""The compute kernels of a window in groups of equal name, grid and block, with the work of one launch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.rows import taken
from nsyswrap.hardware.kernel_names.classify import Classification
from nsyswrap.hardware.kernel_work import ElementWork, LaunchWork, element_work, is_newer, launch_work
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Gpu
from nsyswrap.sections.places import LISTED
from nsyswrap.sections.summaries import kernels_in
from nsyswrap.trace import tables
from nsyswrap.trace.tables import coded


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """Launches of one kernel with one grid and one block on one GPU.

    Attributes:
        kind: Classification of the kernel's name.
        blocks: Blocks of the grid; 0 where the export has none.
        of_element: What the kernel does for each element; None where its name does not show it.
        work: The work of one launch; None where name and grid do not show it.
    """

    gpu: Gpu
    kind: Classification
    blocks: int
    block_threads: int
    of_element: ElementWork | None
    work: LaunchWork | None


@dataclass(frozen=True)
class GroupedKernels:
    """The compute kernels of a window, by start.

    Attributes:
        rows: Row of each kernel in the context's operations, shape (n,).
        code: Index into ``groups`` of each kernel, shape (n,).
        inside: Length of each kernel inside the window in ns, shape (n,).
        total_ns: Time of each group inside the window, shape (groups,).
        count: Kernels of each group, shape (groups,).
        mean_ns: Mean length of a launch of each group, also outside the window, shape (groups,).
    """

    rows: Indices
    code: Indices
    inside: Times
    groups: Sequence[LaunchGroup]
    total_ns: Times
    count: Times
    mean_ns: npt.NDArray[np.float64]

    @property
    def gpu_count(self) -> int:
        """Return how many GPUs ran kernels, at least 1."""
        return max(len({group.gpu.device_id for group in self.groups}), 1)

    def per_gpu(self, time_ns: int) -> int:
        """Return a time of kernels as the mean over the GPUs that ran kernels, in ns."""
        return round(time_ns / self.gpu_count)

    def share_of(self, time_ns: int, window: Window) -> float:
        """Return a time of kernels as a share of the window, on average over the GPUs that ran kernels."""
        return time_ns / (window.length_ns * self.gpu_count)

    def time_of(self, chosen: npt.NDArray[np.bool_]) -> int:
        """Return the time of the groups that are chosen, shape (groups,), inside the window, in ns."""
        return int(self.total_ns[chosen].sum())

    def which(self, wanted: Sequence[bool]) -> npt.NDArray[np.bool_]:
        """Return a choice of groups as an array, also where there are none."""
        return np.array(wanted, np.bool_)


def grouped_kernels(context: TraceContext, window: Window) -> GroupedKernels:
    """Return the compute kernels of a window in groups."""
    operations, frame, (rows, inside) = context.operations, context.trace[tables.KERNELS], kernels_in(context, window)
    grid, block = (coded(frame, each).only(taken(operations.row, rows)) for each in ("grid_blocks", "block_threads"))
    codes, first = tables.groups([taken(context.kernel_names.code, rows), grid.codes, block.codes])
    code = codes.astype(np.min_scalar_type(-1 - len(first)))
    length = taken(operations.end, rows) - taken(operations.start, rows)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, code, inside)
    whole, count = np.bincount(code, length, len(first)), np.bincount(code, minlength=len(first))
    found = _groups(context, rows[first], grid[first].tolist(), block[first].tolist())
    return GroupedKernels(rows, code, inside, found, total, count, whole / np.maximum(count, 1))


def _groups(context: TraceContext, rows: Indices, grid: list[int], block: list[int]) -> list[LaunchGroup]:
    """Return the group of each kernel in ``rows``, from its grid and its block."""
    gpus = {gpu.device_id: gpu for gpu in context.trace.gpus}
    newer = any(is_newer(name) for name in context.trace.strings.values())
    devices, kinds = taken(context.operations.device_id, rows).tolist(), context.kernel_names.of(rows)
    found = []
    for device, kind, blocks, threads in zip(devices, kinds, grid, block, strict=True):
        each = element_work(kind.name, newer=newer)
        work = launch_work(each, blocks, threads) if each and blocks > 0 and threads > 0 else None
        found.append(LaunchGroup(gpus.get(device, Gpu(device, "")), kind, blocks, threads, each, work))
    return found


def costliest_names(kernels: GroupedKernels, chosen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    """Return one line for each kernel name that takes most time among some kernels, chosen by shape (n,)."""
    of_group, names = pd.factorize(np.array([each.kind.name for each in kernels.groups], dtype=object))
    code = of_group[kernels.code[chosen]]
    total, count = np.bincount(code, kernels.inside[chosen], len(names)), np.bincount(code, minlength=len(names))
    return tuple(
        f"{units.duration(int(total[each]))} in {units.counted(int(count[each]), 'launch')} of {names[each]}"
        for each in np.argsort(-total, kind="stable")[:LISTED]
        if total[each]
    )
