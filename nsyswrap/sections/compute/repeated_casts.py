"""Weights that are cast again in each micro-batch of a step, though they have not changed.

::

    as it is    |cast weights| forward, backward |cast weights| forward, backward | optimizer
    once        |cast weights| forward, backward                forward, backward | optimizer

``torch.autocast`` keeps what it cast until its block ends, so a block for each micro-batch casts again. A cast is one
again where the same memory was cast to the same type before, and nothing was written there since.
"""

from functools import partial

import numpy as np

from nsyswrap.events.xray_record import Tensor
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import OperatorCall
from nsyswrap.operators.work import plain
from nsyswrap.rules import compute
from nsyswrap.sections.compute.kernel_findings import Flags
from nsyswrap.sections.compute.operator_kernels import OperatorWindow, inputs, without
from nsyswrap.sections.compute.passed_tensors import in_order, written

COPY = "copy_"


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where casts that repeat take enough of the window."""
    again = repeated(found.context, found.joined)
    change = partial(without, found.joined, again, "what was cast before in a step is not cast again")
    return found.finding(compute.REPEATED_CASTS, again, change)


def repeated(context: TraceContext, joined: JoinedKernels) -> Flags:
    """Return which kernels cast what was cast before in the step; a forward pass that is computed again is left out."""
    again = np.zeros(len(joined.calls) + 1, np.bool_)
    for mine in in_order(context, joined):
        known: dict[int, set[tuple[object, ...]]] = {}
        for at in joined.call[mine].tolist():
            call = joined.calls[at]
            if (found := _cast(call)) is not None:
                source, to = found
                of_memory = known.setdefault(source.storage or 0, set())
                key = (source.shape, source.strides, to)
                again[at] = key in of_memory
                of_memory.add(key)
            for tensor in written(call):
                known.pop(tensor.storage or 0, None)
    chosen: Flags = again[joined.call]
    return chosen


def _cast(call: OperatorCall) -> tuple[Tensor, str] | None:
    """Return what a call of the forward pass casts, and to which type; None for other calls."""
    if plain(call.name) != COPY or call.role or len(inputs(call)) <= 1:
        return None
    target, source = inputs(call)[:2]
    is_cast = target.dtype != source.dtype and source.storage is not None
    return (source, target.dtype) if is_cast else None
