"""The operators of some kernels, as alternatives that can be measured.

Kernels of one operator belong together in the forward and the backward pass, and so do those of all layers that do the
same on tensors of the same sizes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.events.alternatives import Alternative, MeasuredAlternatives, numbered
from nsyswrap.events.xray_record import RecordedOperator, Tensor, tensors_of
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.operators.join import JoinedKernels, join_kernels
from nsyswrap.operators.observed_calls import BACKWARD, OperatorCall
from nsyswrap.operators.work import plain, products_of
from nsyswrap.what_if.measured_change import with_measured
from nsyswrap.what_if.saving import LEAST_SAVING_SHARE, AlternativeKernels, WhatIf
from nsyswrap.what_if.simulate import Simulation

Flags = npt.NDArray[np.bool_]
MakeAlternative = Callable[[RecordedOperator], Alternative | None]
# Eight alternatives take at most 20 s. Source: ours; one takes a second, and one that is compiled several.
MOST_MEASURED = 8
# More operators are no chain that can be compiled in time. Source: ours.
MOST_OPERATORS = 64
CUDNN, TRIED = "aten::cudnn_convolution", 6
CONVOLUTIONS, IMAGES = frozenset({"convolution", "cudnn_convolution", "_conv_depthwise2d"}), 4
# Both take the same first arguments.
BATCH_NORMS, OF_BATCH_NORM = frozenset({"cudnn_batch_norm", "native_batch_norm"}), 8
DOUBLE, FULL, TF32 = "float64", "float32", "tf32"


def pick(findings: Iterable[Finding]) -> tuple[Alternative, ...]:
    """Return the alternatives that are worth measuring: those with most time, at most eight.

    Args:
        findings: The findings of a report.
    """
    time: dict[Alternative, int] = {}
    for finding in findings:
        for each in finding.what_if.alternatives if isinstance(finding.what_if, WhatIf) else ():
            if each.time_ns >= LEAST_SAVING_SHARE * finding.window.length_ns:
                time[each.alternative] = max(time.get(each.alternative, 0), each.time_ns)
    return tuple(sorted(time, key=lambda each: -time[each])[:MOST_MEASURED])


def reasons(measured: MeasuredAlternatives) -> tuple[str, ...]:
    """Return sentences on what was not measured, and why."""
    if measured.failure:
        return (f"Alternatives were not measured, so their savings are simulated: {measured.failure}.",)
    return tuple(f"Not measured: {each.words}. Reason: {why}." for each, why in measured.reasons.items())


def with_alternatives(  # noqa: PLR0913, PLR0917 - kernels, and what they are for
    simulation: Simulation, what: WhatIf, rows: Indices, own_ns: Times, chosen: Flags, make: MakeAlternative
) -> WhatIf:
    """Return a change with what was measured of its operators, and with those that can be.

    Args:
        simulation: The run as it was.
        what: The change as it is simulated.
        rows: Row of each kernel of the window in the context's operations.
        own_ns: Time of each.
        chosen: Which of them the change is about.
        make: As for ``single_candidates``.
    """
    context = simulation.context
    if context.xray is None:
        return what
    found = single_candidates(context, join_kernels(context, rows, own_ns), chosen, make)
    return with_measured(simulation, what, found)


def single_candidates(
    context: TraceContext,
    joined: JoinedKernels,
    chosen: Flags,
    make: MakeAlternative,
) -> tuple[AlternativeKernels, ...]:
    """Return an alternative for each operator that launched some of the chosen kernels.

    Args:
        context: The trace, its events and its loop.
        joined: Kernels with their operators.
        chosen: Which of them could be faster.
        make: Returns the alternative of an operator of the forward pass; None where there is none.
    """
    groups: dict[RecordedOperator, list[int]] = {}
    for at, each in enumerate(joined.calls):
        if each.forward is not None and is_whole([each.forward]):
            groups.setdefault(numbered([each.forward])[0][0], []).append(at)
    wanted = set(np.unique(joined.call[chosen]).tolist())
    found = []
    for operator, calls in groups.items():
        if wanted.isdisjoint(calls):
            continue
        made = make(operator)
        if made is not None:
            found.append(candidate_of(context, joined, made, calls))
    return tuple(found)


def sequence_candidates(
    context: TraceContext,
    joined: JoinedKernels,
    sequences: Iterable[tuple[Sequence[RecordedOperator], Sequence[int | None], Flags | None]],
    make: Callable[[tuple[RecordedOperator, ...]], Alternative | None],
) -> tuple[AlternativeKernels, ...]:
    """Return an alternative for each kind of sequence of operators.

    Args:
        context: The trace, its events and its loop.
        joined: Kernels with their operators.
        sequences: The operators of each of them, the memory of the results that later operators take, and its kernels;
            None for all of these operators, forward and backward.
        make: Returns the alternative of a sequence whose tensors have numbers of their own.
    """
    belonging: dict[int, list[int]] = {}
    for at, each in enumerate(joined.calls):
        belonging.setdefault(id(each.forward), []).append(at)
    found: dict[Alternative, tuple[list[int], list[Flags]]] = {}
    for operators, used, kernels in sequences:
        if not is_whole(operators) or len(operators) > MOST_OPERATORS:
            continue
        same, numbers = numbered(operators)
        made = make(same)
        if made is None:
            continue
        made = replace(made, outputs=tuple(sorted(numbers[each] for each in used if each in numbers)))
        calls, flags = found.setdefault(made, ([], []))
        calls += [at for each in operators for at in belonging[id(each)]]
        flags += [] if kernels is None else [kernels]
    taken = np.zeros(len(joined.rows), np.bool_)
    result = []
    for alternative, (calls, flags) in found.items():
        mine = np.logical_or.reduce(flags) if flags else np.isin(joined.call, calls)
        result.append(candidate_of(context, joined, alternative, calls, mine & ~taken))
        taken |= mine
    return tuple(result)


def channels_last(operator: RecordedOperator) -> Alternative | None:
    """Return a convolution or a batch norm of images in channels-last layout; None for other operators.

    PyTorch chooses the library of a batch norm by its layout, so it is measured by the operator that chooses.
    """
    name, taken = plain(operator.name), list(tensors_of(operator.inputs))
    if name in BATCH_NORMS and len(operator.inputs) >= OF_BATCH_NORM:
        inputs = (*operator.inputs[:OF_BATCH_NORM], True)
        operator = replace(operator, name="aten::batch_norm", inputs=inputs, outputs=operator.outputs[:1])
    elif name not in CONVOLUTIONS:
        return None
    return Alternative("channels_last", (operator,)) if taken and len(taken[0].shape) == IMAGES else None


def in_tf32(operator: RecordedOperator) -> Alternative | None:
    """Return a product or convolution of FP32 that uses TF32; None for other operators."""
    return Alternative("tf32", (operator,)) if _is_product_in(operator, FULL) else None


def in_single(operator: RecordedOperator, *, tf32: bool) -> Alternative | None:
    """Return a product or convolution of FP64 that computes in FP32, or in TF32; None for other operators."""
    return Alternative("single", (operator,), tf32=tf32) if _is_product_in(operator, DOUBLE) else None


def _is_product_in(operator: RecordedOperator, dtype: str) -> bool:
    return products_of(operator) is not None and all(each.dtype == dtype for each in tensors_of(operator.inputs))


def candidate_of(
    context: TraceContext,
    joined: JoinedKernels,
    alternative: Alternative,
    calls: Sequence[int],
    kernels: Flags | None = None,
) -> AlternativeKernels:
    """Return an alternative with its kernels, the gradients that are computed, and how its products ran.

    Args:
        context: The trace, its events and its loop.
        joined: Kernels with their operators.
        alternative: The operators and the change.
        calls: Indices of the calls that belong to it, forward and backward.
        kernels: Its kernels; None for all of these calls.
    """
    mine = np.isin(joined.call, calls) if kernels is None else kernels
    rows, names = joined.rows[mine], context.kernel_names
    kinds = {names.kinds[code].precision for code in np.unique(names.code[rows]).tolist() if code >= 0}
    tried = (each.operator for at in calls if (each := joined.calls[at]).name == CUDNN)
    made = replace(
        alternative,
        gradients=_gradients(alternative.operators, [joined.calls[at] for at in calls]),
        tf32=alternative.tf32 or TF32 in kinds,
        benchmark=any(each is not None and each.inputs[TRIED : TRIED + 1] == (True,) for each in tried),
    )
    return AlternativeKernels(made, rows, int(joined.own_ns[mine].sum()))


def is_whole(operators: Sequence[RecordedOperator]) -> bool:
    """Return whether all is known that is needed to run some operators again."""
    tensors = [each for operator in operators for each in tensors_of((*operator.inputs, *operator.outputs))]
    return bool(tensors) and all(each.dtype and each.storage is not None for each in tensors)


def _gradients(operators: Sequence[RecordedOperator], calls: Sequence[OperatorCall]) -> tuple[Tensor, ...]:
    """Return the tensors that operators take from outside whose gradients the backward pass computes.

    Those are the ones of a size that its operators return; all of them where no size agrees.
    """
    backward = [each.operator for each in calls if each.role == BACKWARD and each.operator is not None]
    returned = {_size(tensor) for each in backward for tensor in tensors_of(each.outputs)}
    taken = [each for each in dict.fromkeys(_taken(operators)) if each.shape and each.dtype.startswith(("float", "bf"))]
    found = tuple(each for each in taken if _size(each) in returned)
    return found or (tuple(taken) if backward else ())


def _taken(operators: Sequence[RecordedOperator]) -> Iterator[Tensor]:
    """Yield the tensors that operators take and none of them made; running statistics have no gradient."""
    made: set[int | None] = set()
    for each in operators:
        is_norm = plain(each.name) in {*BATCH_NORMS, "batch_norm"}
        inputs = (*each.inputs[:3], *each.inputs[5:]) if is_norm else each.inputs
        yield from (tensor for tensor in tensors_of(inputs) if tensor.storage not in made)
        made |= {tensor.storage for tensor in tensors_of(each.outputs)}


def _size(tensor: Tensor) -> tuple[int, ...]:
    return tuple(sorted(each for each in tensor.shape if each > 1))
