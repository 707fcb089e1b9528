"""Activations that are computed again in the backward pass, to save memory: what that costs.

::

    forward     [ block 0 ][ block 1 ]
    backward                          [ block 1 again ][ gradients of block 1 ][ block 0 again ][ gradients of block 0 ]
    kept                              [ gradients of block 1 ][ gradients of block 0 ]

What would have to be kept is at most all that is returned by operators that are computed again. The X-ray step shows
how much room there is beside the most that a step takes.
"""

from functools import partial

from nsyswrap.base import units
from nsyswrap.model import Finding, Severity
from nsyswrap.operators.checkpoints import find_checkpoints
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import RECOMPUTED
from nsyswrap.rules import compute
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.compute.operator_kernels import OperatorWindow, of_calls, outputs, without
from nsyswrap.sections.places import Place
from nsyswrap.sections.step_memory import find_step_memory, words_on_room


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where what is computed again takes enough of the window, and the memory might hold it."""
    joined, context = found.joined, found.context
    again = of_calls(joined, lambda call: call.role == RECOMPUTED)
    needed, step = kept_bytes(joined), find_step_memory(context)
    memory = min((each.memory_bytes for each in context.trace.gpus if each.memory_bytes), default=0)
    if memory and needed > memory:
        return ()
    if step is not None and step.limit:
        check = words_on_room(step, needed)
    else:
        room = f"the GPU's {units.size(memory)} have" if memory else "the GPU has"
        check = f"See whether {room} room for it beside what is in use now, torch.cuda.max_memory_allocated()."
    check = f" That needs {units.size(needed)} at most. {check}"
    checkpoints = find_checkpoints(context.settings.xray)
    return found.finding(
        compute.RECOMPUTATION,
        again,
        partial(without, joined, again, "nothing is computed again, neither on the GPU nor by the host"),
        advice=compute.RECOMPUTATION.advice + Wording(check, ""),
        places=[Place(module, line) for line, its in checkpoints.items() for module in its],
        worst=Severity.PROBLEM if step is not None and needed <= step.room else Severity.WARNING,
    )


def kept_bytes(joined: JoinedKernels) -> int:
    """Return the most memory that is in use at once if what a step computes again is kept, in bytes."""
    again = (each for each in joined.calls if each.role == RECOMPUTED)
    # Operators that change a tensor make none, but copies into new ones are theirs.
    made = (each for each in again if not each.name.endswith("_") or each.name.endswith("copy_"))
    return sum(tensor.bytes or 0 for each in made for tensor in outputs(each))
