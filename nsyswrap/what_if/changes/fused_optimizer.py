"""The change "fused optimizer"."""

import numpy as np

from nsyswrap.attribution.optimizer_pass import SHORT_NS
from nsyswrap.base.intervals import union
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.rules import optimizer
from nsyswrap.what_if.affected_parts import in_phase, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

# An optimizer that handles the tensors one by one reads or writes each 18 times, a fused one 7 times. Source:
# torch.optim.Adam, its formula counted with foreach=False and fused=True.
FUSED_PASSES = 7 / 18


def fused_optimizer(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "fused optimizer": no launches of single tensors, and less memory traffic."""
    context, ran = simulation.context, simulation.operations
    in_optimizer = context.phase_of_operations[ran] == context.phases.code(OPTIMIZER)
    mine = ran[in_optimizer & (context.operations.kind[ran] == COMPUTE)]
    spans = spans_of_calls(simulation, np.unique(context.operations.call[mine]))
    host = {thread: union(spans, each) for thread, each in in_phase(simulation, OPTIMIZER).items()}
    length = context.operations.end[mine] - context.operations.start[mine]
    # A kernel that is shorter than its launch moves little memory, so one fused pass does not need it.
    factor = np.where(length < SHORT_NS, 0.0, FUSED_PASSES)
    return WhatIf(
        Change(host=host or spans, operations=mine, factor=factor),
        "no time of the host in the optimizer, no short kernels, and each tensor is read once",
    )


FIXES = (Fix((optimizer.MANY_KERNELS,), fused_optimizer),)
