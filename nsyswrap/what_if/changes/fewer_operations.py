"""The change "fuse operations"."""

from collections.abc import Mapping

import numpy as np

from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.base.intervals import Spans
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMPUTE
from nsyswrap.rules import gpu
from nsyswrap.what_if.affected_parts import before_launches
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def fewer_operations(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change for the gaps of all devices."""
    gaps = {}
    for each in lost.attributions:
        chosen = each.of_rule(lost.rule)
        gaps[each.device_id] = Spans(taken(each.pieces.start, chosen), taken(each.pieces.end, chosen))
    return fused(gaps, simulation)


def fused(gaps: Mapping[int, Spans], simulation: Simulation) -> WhatIf:
    """Return the change "fuse operations": no gaps between them, and no short kernels that a compiler may fuse."""
    operations, ran = simulation.context.operations, simulation.operations
    kernels = ran[operations.kind[ran] == COMPUTE]
    length = operations.end - operations.start
    gap_before = np.zeros(len(length), np.int64)
    for device, its in gaps.items():
        mine = kernels[operations.device_id[kernels] == device]
        if not len(its.end):
            continue
        at = np.minimum(np.searchsorted(its.end, operations.start[mine]), len(its.end) - 1)
        gap_before[mine] = np.where(its.end[at] == operations.start[mine], (its.end - its.start)[at], 0)
    rows = kernels[gap_before[kernels] > 0]
    is_fused = (length[rows] < SHORT_NS) & simulation.context.kernel_names.may_be_fused(rows)
    factor = np.where(is_fused, 0.0, np.maximum(1 - gap_before[rows] / np.maximum(length[rows], 1), 0.0))
    change = Change(operations=rows, factor=factor, host=before_launches(simulation, rows[factor == 0]))
    return WhatIf(change, "without these gaps, and without kernels shorter than their launch that a compiler may fuse")


FIXES = (Fix((gpu.BETWEEN_OPERATIONS,), fewer_operations),)
