"""Batch norms of images in channels-first layout, which give each channel one block.

::

    16 channels, 132 multiprocessors:   statistics   16 blocks read the tensor once          1338 us
                                        application  4096 blocks read it and write it          56 us

The second kernel of the same layer shows how long one pass over the tensor takes on the whole GPU.

Source: Normalization.cuh of PyTorch for the blocks and the passes; the times are of a MobileNet on an H200.
"""

import re
from functools import partial

import numpy as np
import numpy.typing as npt

from nsyswrap.hardware.kernel_work import has_block_a_channel
from nsyswrap.model import Finding
from nsyswrap.operators.candidates import channels_last, with_alternatives
from nsyswrap.rules import compute
from nsyswrap.sections.compute.kernel_findings import KernelWindow
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, costliest_names
from nsyswrap.what_if.saving import WhatIf, faster
from nsyswrap.what_if.simulate import Simulation

_STATISTICS = re.compile(r"batch_norm_collect_statistics_kernel")
# It reads and writes the tensor, on all of the GPU.
_APPLIES, APPLIED_PASSES = re.compile(r"batch_norm_transform_input_kernel"), 2
# How often PyTorch's kernels read or write the tensor. The backward kernel reads the input and the gradient, and then
# reads both again and writes.
PASSES = ((_STATISTICS, 1), (re.compile(r"batch_norm_backward_kernel"), 5))


def find_findings(found: KernelWindow) -> tuple[Finding, ...]:
    """Return a finding where batch norms with one block for each channel take enough of the window."""
    kernels, own = found.kernels, _own(found.kernels)
    change, evidence = partial(on_whole_gpu, kernels), partial(costliest_names, kernels, own[kernels.code])
    return found.finding_on(compute.BATCH_NORM, own[kernels.code], change, evidence)


def on_whole_gpu(kernels: GroupedKernels, simulation: Simulation) -> WhatIf:
    """Return the change "batch norms use all multiprocessors"."""
    own, share = _own(kernels), needed_shares(kernels)
    mine = np.isin(kernels.rows, simulation.operations) & own[kernels.code]
    assumed = (
        "those kernels take as long for each pass over the tensor as the kernel that applies the norm, and cuDNN's the "
        "time that a full GPU would"
    )
    what = faster(kernels.rows[mine], share[kernels.code[mine]], assumed)
    return with_alternatives(simulation, what, kernels.rows, kernels.inside, own[kernels.code], channels_last)


def needed_shares(kernels: GroupedKernels) -> npt.NDArray[np.float64]:
    """Return the share of its time that each group needs on all multiprocessors, shape (groups,).

    It is known from the passes of PyTorch's kernels, and otherwise from blocks and multiprocessors: that is too high,
    as one block does not fill a multiprocessor.
    """
    # The kernel that applies the norm follows the one that collects the statistics.
    collects, applies = (
        np.flatnonzero(kernels.which([bool(names.search(each.kind.name)) for each in kernels.groups])[kernels.code])
        for names in (_STATISTICS, _APPLIES)
    )
    following = np.searchsorted(applies, collects)
    collects, following = collects[following < len(applies)], following[following < len(applies)]
    channels = np.array([each.blocks for each in kernels.groups], np.int64)[kernels.code[collects]]
    times = kernels.mean_ns[kernels.code[applies[following]]] / APPLIED_PASSES
    pass_ns = {int(each): float(times[channels == each].mean()) for each in np.unique(channels)}
    shares = np.ones(len(kernels.groups))
    for at, group in enumerate(kernels.groups):
        passes = next((count for names, count in PASSES if names.search(group.kind.name)), None)
        if passes and group.blocks in pass_ns and kernels.mean_ns[at] > 0:
            shares[at] = passes * pass_ns[group.blocks] / kernels.mean_ns[at]
        elif group.blocks > 0 and group.gpu.sm_count > 0:
            shares[at] = group.blocks / group.gpu.sm_count
    return np.minimum(shares, 1.0)


def _own(kernels: GroupedKernels) -> npt.NDArray[np.bool_]:
    return kernels.which([has_block_a_channel(each.kind.name) for each in kernels.groups])
