"""Depthwise convolutions in PyTorch's own kernels, which read each pixel once for each weight of the filter."""

import re
from functools import partial

import numpy as np

from nsyswrap.model import Finding
from nsyswrap.operators.candidates import channels_last, with_alternatives
from nsyswrap.rules import compute
from nsyswrap.sections.compute.kernel_findings import Flags, KernelWindow
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup, costliest_names
from nsyswrap.what_if.saving import WhatIf, faster
from nsyswrap.what_if.simulate import Simulation

OPERATION, LIBRARY = "conv_depthwise", "pytorch"
READ_AND_WRITTEN = 2
# In this type cuDNN can be slower. Source: docs/sections/compute.md, depthwise convolutions of 7 x 7.
FULL = "fp32"
# Filters of 1, 3 and 5 have kernels of their own, whose names say so. All others have these, whatever their size.
# Source: DepthwiseConv2d.cu of PyTorch.
_ANY_FILTER = re.compile(r"conv_depthwise2d_(?:forward_kernel_generic<|backward_kernel<(?:\(int\))?0,)")
OTHER_FILTER = (
    "no saving is predicted: the names do not show the size of the filter, and the arithmetic of a large one takes "
    "longer than its tensors need at the memory's peak rate"
)


def find_findings(found: KernelWindow) -> tuple[Finding, ...]:
    """Return a finding where PyTorch's own depthwise kernels take enough of the window."""
    kernels, own = found.kernels, _own(found.kernels)
    unknown = OTHER_FILTER if any(_ANY_FILTER.search(each.kind.name) for each in kernels.groups) else ""
    change, evidence = partial(at_peak, kernels), partial(costliest_names, kernels, own[kernels.code])
    return found.finding_on(compute.DEPTHWISE, own[kernels.code], change, evidence, unknown)


def _own(kernels: GroupedKernels) -> Flags:
    return kernels.which([each.kind.op == OPERATION and each.kind.library == LIBRARY for each in kernels.groups])


def needed_share(group: LaunchGroup, mean_ns: float) -> float | None:
    """Return the share of a launch's time that its tensors need at the memory's peak rate; None if not known.

    A convolution that keeps the size of the image reads as many elements as it writes. With a stride it reads more, and
    its gradient fewer.
    """
    peak, each = group.gpu.memory_bytes_per_second, group.of_element
    if not peak or group.work is None or each is None or each.written is None or mean_ns <= 0:
        return None
    return min(READ_AND_WRITTEN * group.work.elements_high * each.written * 1e9 / (peak * mean_ns), 1.0)


def at_peak(kernels: GroupedKernels, simulation: Simulation) -> WhatIf:
    """Return the change "depthwise convolutions move each tensor once, at the memory's peak rate".

    The gradient of the weights reads two tensors of the same size as the other kernels, so it needs as long as these do
    on average.
    """
    own = _own(kernels)
    share = np.array([needed_share(*each) or np.nan for each in zip(kernels.groups, kernels.mean_ns, strict=True)])
    known = own & ~np.isnan(share)
    needed = float(np.average((share * kernels.mean_ns)[known], weights=kernels.count[known])) if known.any() else 0.0
    others = np.minimum(needed / np.maximum(kernels.mean_ns, 1), 1.0) if needed else np.ones(len(own))
    factor = np.where(own, np.where(known, share, others), 1.0)[kernels.code]
    mine = np.isin(kernels.rows, simulation.operations) & own[kernels.code]
    assumed = "those kernels take the time that their tensors need at the memory's peak rate"
    is_full = np.array([each.kind.precision == FULL for each in kernels.groups], np.bool_)
    what = faster(kernels.rows[mine], factor[mine], assumed, or_nothing=bool((own & is_full).any()))
    return with_alternatives(simulation, what, kernels.rows, kernels.inside, own[kernels.code], channels_last)
