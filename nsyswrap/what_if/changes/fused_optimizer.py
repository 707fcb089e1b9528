"""The change "fused optimizer"."""

import numpy as np

from nsyswrap.attribution.optimizer_pass import SHORT_NS, of_fused_optimizer
from nsyswrap.base.intervals import union
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.rules import optimizer
from nsyswrap.what_if.affected_parts import before_launches, in_phase, spans_of_calls
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fix import Fix
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

# An optimizer that handles the tensors one by one reads or writes each 18 times, a fused one 7 times. Source:
# torch.optim.Adam, its formula counted with foreach=False and fused=True.
FUSED_PASSES = 7 / 18


def fused_optimizer(simulation: Simulation, _lost: object = None) -> WhatIf:
    """Return the change "fused optimizer": no launches of single tensors, and less memory traffic.

    An optimizer that is fused already stays; what else runs in its phase is left out as far as its kernels are short.
    """
    context, ran = simulation.context, simulation.operations
    in_optimizer = context.phase_of_operations[ran] == context.phases.code(OPTIMIZER)
    mine = ran[in_optimizer & (context.operations.kind[ran] == COMPUTE)]
    is_fused = of_fused_optimizer(context, mine)
    length = context.operations.end[mine] - context.operations.start[mine]
    if is_fused.any():
        others = mine[~is_fused & (length < SHORT_NS)]
        change = Change(host=before_launches(simulation, others), operations=others, factor=np.zeros(len(others)))
        return WhatIf(change, "without the short kernels beside the fused optimizer, and without their launches")
    spans = spans_of_calls(simulation, np.unique(context.operations.call[mine]))
    host = {thread: union(spans, each) for thread, each in in_phase(simulation, OPTIMIZER).items()}
    # A kernel that is shorter than its launch moves little memory, so one fused pass does not need it.
    factor = np.where(length < SHORT_NS, 0.0, FUSED_PASSES)
    return WhatIf(
        Change(host=host or spans, operations=mine, factor=factor),
        "no time of the host in the optimizer, no short kernels, and each tensor is read once",
    )


FIXES = (Fix((optimizer.MANY_KERNELS,), fused_optimizer),)
