"""Norms, losses and activations that are written by parts, where PyTorch has one operator for the whole function.

::

    RMS norm by parts    x -> cast -> square -> mean -> add -> rsqrt -> times x -> cast -> times weight
                         every arrow but those around the mean writes a tensor as large as x and reads it again
    functional.rms_norm  reads x, writes the result

A part is known by what PyTorch computes and by the sizes: a root of a mean over the last size, then a product with what
the mean was of; a softmax or exponentials of scores with a logarithm or a choice; a tangent or an error function among
products and sums of one size, or a bend of a tensor times that tensor, as in SiLU and Mish. The backward pass of a part
has its module and its line.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.events.alternatives import Alternative
from nsyswrap.events.xray_record import Tensor
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.operators.candidates import sequence_candidates
from nsyswrap.operators.join import JoinedKernels
from nsyswrap.operators.observed_calls import BACKWARD, OperatorCall
from nsyswrap.operators.work import plain
from nsyswrap.rules import compute
from nsyswrap.rules.rule import Rule
from nsyswrap.sections.compute.attention_by_parts import by_parts
from nsyswrap.sections.compute.kernel_findings import Flags
from nsyswrap.sections.compute.operator_kernels import (
    USUAL_SHARE,
    OperatorWindow,
    all_tensors,
    fewer,
    inputs,
    memory_rate,
    outputs,
)
from nsyswrap.sections.compute.passed_tensors import used_later
from nsyswrap.what_if.measured_change import with_measured
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

ROOTS, MEANS = frozenset({"rsqrt", "sqrt"}), frozenset({"mean", "var", "sum", "std", "var_mean", "std_mean"})
CHAINED = frozenset({
    *("mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "rsub", "pow", "pow_", "square", "neg", "reciprocal"),
    *("copy_", "_to_copy", "clone", "exp", "log", "log_", "erf", "tanh", "sigmoid", "sqrt", "rsqrt", "clamp", "clamp_"),
    *("mean", "var", "sum", "std", "var_mean", "std_mean", "amax", "max", "logsumexp", "where", "masked_fill"),
    *("masked_fill_", "gather", "scatter_", "fill_", "zero_", "eq", "ne", "_softmax", "_log_softmax", "log1p", "index"),
})  # fmt: skip
Groups = npt.NDArray[np.intp]
ASSUMED = f"one operator reads its input and writes its result once, at {units.share(USUAL_SHARE)} of the memory's peak"
OF_LOSS = "softmax and its backward pass stay, and the choice of a class takes one gradient more"
COPIES = frozenset({"copy_", "clone"})
BENT, SOFTMAX = frozenset({"tanh", "erf"}), frozenset({"_softmax", "_log_softmax"})
SUMS = frozenset({"add", "add_", "sub", "rsub", "mul", "mul_", "div", "div_"})
# Of a GELU by parts there are a bend, at least two products and a sum.
LEAST_PARTS = 4
# How far apart the parts of one function may be: a mean and its root, a root and the product with it. Ours.
NEAR = 4
# The tensors of full size that the fused operator reads or writes. A norm or an activation reads its input and writes
# its result; the backward pass reads both gradients' sources and writes one. PyTorch's cross entropy keeps the softmax,
# its backward pass, and the sum over all classes that smooths labels; its choice writes a gradient, most of it zeros,
# to which the gradient of the sum is added. Source: LossNLL.cpp of PyTorch.
FORWARD_TENSORS, BACKWARD_TENSORS, OF_CHOICE, OF_SMOOTHING = 2, 3, 1, 2
# PyTorch's norm of groups of channels reads what it takes once more, for the sums of each group. Source:
# group_norm_kernel.cu, RowwiseMomentsCUDAKernel and ComputeInternalGradientsCUDAKernel.
FORWARD_OF_GROUPS, BACKWARD_OF_GROUPS, IMAGE = 1, 2, 3
SUMS_OF_CLASSES, CHOICES = frozenset({"sum", "mean"}), frozenset({"gather", "index"})


class Function(NamedTuple):
    """One call of a function by parts.

    Attributes:
        parts: Indices of its calls in the forward pass.
        size: Bytes of its input as it comes, which the fused operator reads.
    """

    rule: Rule
    parts: tuple[int, ...]
    elements: int
    size: int


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding for each kind of function whose parts take enough of the window."""
    joined = found.joined
    if found.context.xray is None:
        return ()
    functions = find_functions(joined.calls)
    group = _groups(joined.calls, functions)
    group[np.unique(joined.call[by_parts(joined)])] = -1
    remain = dict(_remain(found.context, joined, functions, group))
    findings: list[Finding] = []
    for rule in dict.fromkeys(each.rule for each in functions):
        mine = np.isin(group // 2, [at for at, each in enumerate(functions) if each.rule is rule]) & (group >= 0)
        own = np.where(mine, group, -1)
        kinds = {at: share for at, share in remain.items() if (own == at).any()}
        change = partial(_at_once, joined, own, kinds, [each for each in functions if each.rule is rule])
        findings += found.finding(rule, joined.exact & np.append(mine, False)[joined.call], change, is_usual=True)
    return tuple(findings)


def _at_once(
    joined: JoinedKernels, group: Groups, remain: Mapping[int, float], functions: Sequence[Function], run: Simulation
) -> WhatIf:
    """Return the change "one operator for each function"; what is measured is the function as a compiler fuses it.

    PyTorch's cross entropy has several kernels, and a compiler makes fewer, so nothing is measured of a loss.
    """
    calls, sequences = joined.calls, []
    for each in functions if functions[0].rule is not compute.LOSS_BY_PARTS else ():
        parts = [calls[at] for at in each.parts]
        operators = {id(call.forward): call.forward for call in parts if call.forward is not None}
        later = [call for call in calls[each.parts[-1] + 1 :] if call.role != BACKWARD]
        sequences.append(([*operators.values()], used_later(parts, later), None))
    found = sequence_candidates(run.context, joined, sequences, partial(Alternative, "compiled"))
    assumed = OF_LOSS if functions[0].rule is compute.LOSS_BY_PARTS else ASSUMED
    return with_measured(run, fewer(joined, group, remain, assumed, run), found)


def parts_of_functions(joined: JoinedKernels) -> Flags:
    """Return which kernels are parts of such functions."""
    group = _groups(joined.calls, find_functions(joined.calls))
    chosen: Flags = joined.exact & np.append(group >= 0, False)[joined.call]
    return chosen


def find_functions(calls: Sequence[OperatorCall]) -> tuple[Function, ...]:
    """Return the functions by parts of the forward pass, each call in one of them at most."""
    forward = [at for at, each in enumerate(calls) if each.role != BACKWARD and each.operator is not None]
    found: list[Function] = []
    taken: set[int] = set()
    for find in (_norm, _loss, _activation):
        for place in range(len(forward)):
            function = find(calls, forward, place)
            if function is not None and taken.isdisjoint(function.parts):
                taken.update(function.parts)
                found.append(function)
    return tuple(sorted(found, key=lambda each: each.parts))


def _norm(calls: Sequence[OperatorCall], forward: Sequence[int], place: int) -> Function | None:
    """Return the norm whose root is at a place: the root of a mean over the last size, then a product with all."""
    root = calls[forward[place]]
    low = next(iter(inputs(root)), None)
    if plain(root.name) not in ROOTS or low is None or low.elements < 2 or low.shape[-1:] != (1,):  # noqa: PLR2004
        return None
    before = range(place - 1, max(place - 1 - NEAR, -1), -1)
    mean = next((at for at in before if _reduces(calls[forward[at]], low, root.module)), None)
    if mean is None:
        return None
    whole = inputs(calls[forward[mean]])[0].elements
    after = range(place + 1, min(place + 1 + NEAR, len(forward)))
    if not any(plain(calls[forward[at]].name) in SUMS and _largest(calls[forward[at]]) == whole for at in after):
        return None
    return _function(compute.NORM_BY_PARTS, calls, forward, (mean, place), {whole, low.elements})


def _reduces(call: OperatorCall, low: Tensor, module: str) -> bool:
    """Return whether a call is a mean over the last size, with a result of a shape."""
    taken = inputs(call)
    return (
        plain(call.name) in MEANS
        and call.module == module
        and bool(taken)
        and len(taken[0].shape) == len(low.shape)
        and taken[0].shape[:-1] == low.shape[:-1]
        and taken[0].shape[-1] > 1
    )


def _loss(calls: Sequence[OperatorCall], forward: Sequence[int], place: int) -> Function | None:
    """Return the cross entropy whose softmax is at a place: more than one operator on its result, and no product."""
    call = calls[forward[place]]
    taken = inputs(call)
    if plain(call.name) not in SOFTMAX or not taken:
        return None
    whole = taken[0].elements
    parts = _around(calls, forward, (place, place), {whole, whole // taken[0].shape[-1]})
    names = [plain(calls[at].name) for at in parts]
    after = next((calls[at] for at in forward if at > parts[-1]), None)
    is_fused = after is not None and plain(after.name).startswith("nll_loss")
    is_loss = ("_softmax" in names and "log" in names) or ("_log_softmax" in names and len(names) > 2)  # noqa: PLR2004
    if is_fused or not is_loss or any(name in BENT for name in names):
        return None
    return Function(compute.LOSS_BY_PARTS, parts, whole, taken[0].bytes or 0)


def _activation(calls: Sequence[OperatorCall], forward: Sequence[int], place: int) -> Function | None:
    """Return the activation whose tangent, error function or sigmoid is at a place."""
    call = calls[forward[place]]
    taken = inputs(call)
    if itself := _times_itself(calls, forward, place):
        return Function(compute.ACTIVATION_BY_PARTS, itself, taken[0].elements, taken[0].bytes or 0)
    if plain(call.name) not in BENT or not taken:
        return None
    found = _function(compute.ACTIVATION_BY_PARTS, calls, forward, (place, place), {taken[0].elements})
    if found is None:
        return None
    names = [plain(calls[at].name) for at in found.parts]
    after = [plain(calls[at].name) for at in found.parts if at > forward[place]]
    is_gelu = {"add", "add_"} & set(after) and {"mul", "mul_"} & set(after)
    return found if is_gelu and len(names) >= LEAST_PARTS and MEANS.isdisjoint(names) else None


def _times_itself(calls: Sequence[OperatorCall], forward: Sequence[int], place: int) -> tuple[int, ...]:
    """Return the calls of SiLU or Mish: a bend of a tensor, and its product with that tensor; none for others.

    Halves of a tensor share its memory, as in gated units, but have gaps.
    """
    name, before = plain(calls[forward[place]].name), max(place - 1, 0)
    is_mish = name == "tanh" and plain(calls[forward[before]].name) == "softplus"
    parts = tuple(forward[before if is_mish else place : place + 2])
    given, product = next(iter(inputs(calls[parts[0]])), None), calls[parts[-1]]
    if not (is_mish or name == "sigmoid") or plain(product.name) not in {"mul", "mul_"} or given is None:
        return ()
    is_dense = given.strides is None or given.strides[:1] == (given.elements // max(given.shape[0], 1),)
    itself = (given.storage, given.shape)
    return parts if is_dense and itself in {(each.storage, each.shape) for each in inputs(product)} else ()


def _function(
    rule: Rule, calls: Sequence[OperatorCall], forward: Sequence[int], span: tuple[int, int], sizes: set[int]
) -> Function | None:
    parts = _around(calls, forward, span, sizes)
    first = next((each for each in inputs(calls[parts[0]]) if each.elements in sizes), None)
    last = next((each for at in reversed(parts) for each in outputs(calls[at]) if each.elements == max(sizes)), first)
    if first is None or last is None:
        return None
    return Function(rule, parts, max(sizes), ((first.bytes or 0) + (last.bytes or 0)) // 2)


def _around(
    calls: Sequence[OperatorCall], forward: Sequence[int], span: tuple[int, int], sizes: set[int]
) -> tuple[int, ...]:
    """Return the calls around some: those of the same module, one after the other, on tensors of these sizes."""
    module, role, is_of_rows = calls[forward[span[0]]].module, calls[forward[span[0]]].role, span[0] < span[1]

    def is_part(at: int) -> bool:
        call = calls[forward[at]]
        is_near = call.module == module and _largest(call) in sizes and call.role == role
        return is_near and plain(call.name) in CHAINED and not (is_of_rows and _joins(call)) and not _is_copy(call)

    low, high = span
    while low > 0 and is_part(low - 1):
        low -= 1
    while high + 1 < len(forward) and is_part(high + 1):
        high += 1
    return tuple(forward[low : high + 1])


def _is_copy(call: OperatorCall) -> bool:
    """Return whether a call copies a tensor as it is, to another place."""
    return plain(call.name) in COPIES and len({each.dtype for each in all_tensors(call)}) == 1


def _joins(call: OperatorCall) -> bool:
    """Return whether a call joins two tensors of full size, as residual connections and gates do, and no norm does."""
    whole = {each.storage for each in inputs(call) if each.elements == _largest(call)}
    return plain(call.name) in SUMS and len(whole) > 1


def _largest(call: OperatorCall) -> int:
    return max((each.elements for each in all_tensors(call)), default=0)


def _groups(calls: Sequence[OperatorCall], found: Sequence[Function]) -> Groups:
    """Return the group of each call; -1 for none.

    Function number n has the groups 2 n and 2 n + 1 of its forward and its backward pass.
    """
    group = np.full(len(calls), -1, np.intp)
    for number, function in enumerate(found):
        group[list(function.parts)] = 2 * number
    by_line: dict[tuple[str, str], list[int]] = {}
    for number, function in enumerate(found):
        for at in function.parts:
            mine = by_line.setdefault((calls[at].module, calls[at].line), [])
            if number not in mine:
                mine.append(number)
    for at, call in enumerate(calls):
        if call.role == BACKWARD and call.work is not None and not call.work.is_product and call.line:
            numbers = by_line.get((call.module, call.line), ())
            group[at] = next((2 * each + 1 for each in numbers if _is_backward(call, calls, found[each])), -1)
    return group


def _is_backward(call: OperatorCall, calls: Sequence[OperatorCall], function: Function) -> bool:
    """Return whether a call of the backward pass is one of a function's: it is on its input, or on its means."""
    return 1 < _largest(call) <= function.elements and _largest(call) in {_largest(calls[at]) for at in function.parts}


def _remain(
    context: TraceContext, joined: JoinedKernels, found: Sequence[Function], group: Groups
) -> Iterator[tuple[int, float]]:
    """Yield for each group the share of its time that the fused operator takes."""
    rate, calls = memory_rate(context) * USUAL_SHARE, joined.calls
    for number in np.unique(group[group >= 0]).tolist():
        function, is_backward = found[number // 2], number % 2
        mine = np.append(group == number, False)[joined.call] & joined.exact
        tensors, stays = BACKWARD_TENSORS if is_backward else FORWARD_TENSORS, 0
        if _is_of_groups([calls[at] for at in function.parts]):
            tensors += BACKWARD_OF_GROUPS if is_backward else FORWARD_OF_GROUPS
        if function.rule is compute.LOSS_BY_PARTS:
            # A loss that chooses a class and adds up all of them as well smooths labels.
            parts = [calls[at] for at in function.parts]
            chooses = any(plain(each.name) in CHOICES for each in parts)
            smooths = chooses and any(_is_sum_of_classes(each, function) for each in parts)
            tensors = (OF_CHOICE + (OF_SMOOTHING if smooths else 0)) if is_backward else 0
            kept = np.array(
                ["softmax" in each.name or (smooths and _is_sum_of_classes(each, function)) for each in calls], np.bool_
            )
            stays = int(joined.own_ns[mine & np.append(kept, False)[joined.call]].sum())
        # Functions of one line in a loop share the group of their backward passes.
        alike = sum(
            each.rule is function.rule
            and not calls[each.parts[0]].role
            and _lines(calls, each) == _lines(calls, function)
            for each in found
        )
        launches = float(joined.part[mine].sum()) / max(len(np.unique(joined.call[mine])), 1)
        needed = tensors * function.size * (max(alike, 1) if is_backward else 1) * launches
        own = int(joined.own_ns[mine].sum())
        yield number, min((needed / rate + stays) / own, 1.0) if rate and own else 1.0


def _is_of_groups(parts: Sequence[OperatorCall]) -> bool:
    """Return whether a norm has a weight for each channel of images: such a norm is one of groups of channels."""
    shapes = {each.shape for call in parts for each in inputs(call) if len(each.shape) >= IMAGE}
    return any(max(shape) > 1 and shape[-2:] == (1, 1) and max(shape) == prod(shape) for shape in shapes)


def _is_sum_of_classes(call: OperatorCall, function: Function) -> bool:
    taken = inputs(call)
    return plain(call.name) in SUMS_OF_CLASSES and bool(taken) and taken[0].elements == function.elements


def _lines(calls: Sequence[OperatorCall], function: Function) -> frozenset[tuple[str, str]]:
    return frozenset((calls[at].module, calls[at].line) for at in function.parts)
