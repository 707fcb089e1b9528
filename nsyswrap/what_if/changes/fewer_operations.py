"""The change "fuse operations"."""

import numpy as np

from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.base.intervals import Spans
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMPUTE
from nsyswrap.rules import gpu
from nsyswrap.what_if.affected_parts import before_launches
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix, LostTime
from nsyswrap.what_if.saving import HALF, WhatIf
from nsyswrap.what_if.simulate import Simulation


def fewer_operations(simulation: Simulation, lost: LostTime) -> WhatIf:
    """Return the change for the gaps of the device."""
    pieces, chosen = lost.device.pieces, lost.device.of_rule(lost.rule)
    return fused(Spans(taken(pieces.start, chosen), taken(pieces.end, chosen)), lost.device.device_id, simulation)


def fused(gaps: Spans, device: int, simulation: Simulation) -> WhatIf:
    """Return the change "fuse operations": gaps between them are removed, and short kernels that a compiler may fuse.

    Args:
        gaps: The gaps between operations of the device.
        device: The GPU.
        simulation: The run as it was.
    """
    operations, ran = simulation.context.operations, simulation.operations
    mine = ran[(operations.device_id[ran] == device) & (operations.kind[ran] == COMPUTE)]
    at = np.minimum(np.searchsorted(gaps.end, operations.start[mine]), len(gaps.end) - 1)
    follows = gaps.end[at] == operations.start[mine]
    rows, gap = mine[follows], (gaps.end - gaps.start)[at[follows]]
    length = np.maximum(operations.end[rows] - operations.start[rows], 1)
    is_fused = (length < SHORT_NS) & simulation.context.kernel_names.may_be_fused(rows)
    factor = np.where(is_fused, 0.0, np.maximum(1 - gap / length, 0.0))
    launches = before_launches(simulation, rows[factor == 0])
    assumed = (
        "gaps are saved, and time and launches of kernels that are shorter than their launch, if a compiler may fuse "
        "them; or half of all that"
    )
    return WhatIf(
        Change(operations=rows, factor=(1 + factor) * HALF, host=launches, host_factor=HALF),
        Change(operations=rows, factor=factor, host=launches),
        assumed,
    )


FIXES = (Fix((gpu.BETWEEN_OPERATIONS,), fewer_operations, is_of_device=True),)
