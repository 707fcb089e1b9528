"""Root cause: the optimizer launches very many short kernels, at least one for each parameter."""

import numpy as np

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.optimizer_pass import PHASE, find_pass
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.rows import taken
from nsyswrap.rules import optimizer


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the generic pieces of gaps that end with a kernel of the optimizer."""
    found = find_pass(idle.context, idle.device_id, idle.window)
    if found is None or not found.is_many:
        return idle.none
    ender = idle.gaps.ender
    phase = taken(idle.context.phase_of_operations, np.maximum(ender, 0))
    ends: Mask = (ender >= 0) & (phase == idle.context.phases.code(PHASE))
    return taken(ends, idle.gap) & idle.is_cause(*GENERIC)


ROOT_CAUSE = RootCause(130, optimizer.MANY_KERNELS, find, has_section=True)
