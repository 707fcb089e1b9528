"""Attention that is written by parts: two products with a softmax between them, each through the memory.

::

    as it is    queries x keys -> scores -> scale -> mask -> softmax -> cast -> x values
                               every arrow writes a tensor of length x length and reads it again
    fused       one kernel, two or three in the backward pass; the scores stay on the multiprocessors

It is known by shapes: a batched product, then elementwise operators and one softmax on its result, then a batched
product of what they made. All else in that module on a tensor of the scores' shape belongs to it: masks, dropout and
casts, and the same in the backward pass. So do copies that lay out what a product takes: a fused kernel reads heads
where they lie. Source: sdp_utils.cpp of PyTorch 2.11, which only wants the elements of a head next to one another.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.events.alternatives import Alternative
from nsyswrap.events.operations import COPY
from nsyswrap.events.xray_record import Argument, RecordedOperator, Tensor, tensors_of
from nsyswrap.hardware.peak_rates import speed_up
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding, Gpu
from nsyswrap.operators.candidates import sequence_candidates
from nsyswrap.operators.join import JoinedKernels, find_launchers
from nsyswrap.operators.observed_calls import BACKWARD, OperatorCall
from nsyswrap.operators.peak import KernelRates, find_rates
from nsyswrap.operators.work import ATTENTION, plain
from nsyswrap.rules import compute
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.compute.kernel_findings import Flags
from nsyswrap.sections.compute.operator_kernels import (
    OperatorWindow,
    all_tensors,
    factors,
    inputs,
    is_inside,
    of_calls,
    outputs,
    shortened,
)
from nsyswrap.sections.compute.passed_tensors import written
from nsyswrap.sections.places import LISTED, Place
from nsyswrap.what_if.measured_change import with_measured
from nsyswrap.what_if.saving import AlternativeKernels, WhatIf
from nsyswrap.what_if.simulate import Simulation

# PyTorch's own attention by parts has the safe softmax, and nothing else has. It casts half precision to FP32. Source:
# attention.cpp, _scaled_dot_product_attention_math.
PRODUCTS, SAFE = frozenset({"bmm", "baddbmm"}), "_safe_softmax"
SOFTMAX = frozenset({"_softmax", SAFE})
# What fused attention does with the scores besides: scaling, masks and biases, casts, dropout.
BETWEEN = frozenset({
    *("mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "where", "masked_fill", "masked_fill_"),
    *("copy_", "clone", "_to_copy", "fill_", "native_dropout", "bernoulli_", "_fused_dropout"),
})  # fmt: skip
COPIES = frozenset({"copy_", "clone"})
MASKS = frozenset({"add", "add_", "sub", "sub_", "where", "masked_fill", "masked_fill_"})
# Share of the peak that fused attention reaches, where the capture has none. Source: J. Shah et al.,
# "FlashAttention-3", 2024: FlashAttention-2 reaches 35 % on an H100; on an A100 it is more.
USUAL_SHARE = 0.35
# The forward pass has the same two products. The backward pass computes one again, besides its four. With a triangular
# mask the fused kernels leave out the blocks that it hides: half of all.
REPEATED, OF_TRIANGLE = 5 / 4, 0.5
# Source: sdp_utils.cpp of PyTorch 2.11. FlashAttention: half precision, heads of at most 256, no mask. With cuDNN 9.15
# or later, cuDNN comes first on GPUs of these generations: heads of at most 128, a multiple of 8. The memory-efficient
# kernel wants heads of a multiple of 8 elements in half precision, of 4 in single.
HALF, WIDEST, FLASH_FROM = frozenset({"float16", "bfloat16"}), 256, 8
CUDNN_ON, CUDNN_WIDEST, MULTIPLE, MULTIPLE_OF_SINGLE = frozenset({9, 10}), 128, 8, 4
CUDNN = (
    "On this GPU it takes cuDNN's kernel for these shapes and types, with any mask. is_causal=True skips what a "
    "triangular mask hides."
)
FLASH = "On this GPU it takes FlashAttention for these shapes and types."
MASKED = (
    "On this GPU it takes FlashAttention with is_causal=True or without a mask; another mask makes it take a slower "
    "fused kernel."
)
EFFICIENT = (
    "On this GPU it takes its memory-efficient kernel for these shapes and types; half precision and heads of at most "
    "256 would allow a faster one."
)
IN_PARTS = (
    "For these shapes and types it has no fused kernel: make the width of a head a multiple of 8, and use half "
    "precision."
)
# Source: sdp_utils_cpp.h, check_last_dim_stride_equals_1_dense.
OF_PYTORCH = (
    " Here that function computes by parts itself, in FP32: no fused kernel takes what it gets. The reason is often a "
    "mask whose last size is expanded: copy it with mask.contiguous(), or leave it out where it hides nothing."
)


MATRIX = 2
Size = tuple[int, int, int]


class Attention(NamedTuple):
    """One call of attention by parts.

    Attributes:
        place: The module and the line of its first product.
        scores: Size of the scores: batch and heads together, and the lengths of queries and keys in ascending order.
        dtype: Type of queries and keys.
        is_masked: Whether something is added to the scores, or chosen among them.
        is_causal: Whether a triangular mask hides half of them.
        is_of_pytorch: Whether ``scaled_dot_product_attention`` computes so, for want of a fused kernel.
    """

    place: Place
    scores: Size
    width: int
    dtype: str
    is_masked: bool
    is_causal: bool
    is_of_pytorch: bool = False


def find_findings(found: OperatorWindow) -> tuple[Finding, ...]:
    """Return a finding where attention by parts takes enough of the window."""
    joined = found.joined
    attention, mine = find_attention(joined.calls), by_parts(joined)
    if not mine.any():
        return ()
    wanted = [each.place for each in attention]
    return found.finding(
        compute.ATTENTION_BY_PARTS,
        mine,
        partial(_fused, joined, mine),
        advice=compute.ATTENTION_BY_PARTS.advice
        + Wording(
            OF_PYTORCH
            if any(each.is_of_pytorch for each in attention)
            else f" {backend(attention, found.context.trace.gpus)}",
            "",
        ),
        evidence=tuple(_evidence(joined, mine, attention)),
        places=[each for each in found.costliest_places(mine) if each in wanted] or wanted,
    )


def find_attention(calls: Sequence[OperatorCall]) -> tuple[Attention, ...]:
    """Return the calls of attention by parts in the forward pass, one of each kind and place."""
    forward = [each for each in calls if each.role != BACKWARD]
    at_softmax = (at for at, each in enumerate(forward) if SOFTMAX & _names(each))
    found = (_around(forward, at) for at in at_softmax)
    return tuple(dict.fromkeys(each[0] for each in found if each is not None))


def by_parts(joined: JoinedKernels) -> Flags:
    """Return which kernels are parts of attention by parts, in all passes."""
    return _parts_of(joined, find_attention(joined.calls))


def _parts_of(joined: JoinedKernels, found: Sequence[Attention]) -> Flags:
    parts: Flags = joined.exact & np.append(_are_parts(joined.calls, found), False)[joined.call]
    return parts


def _are_parts(calls: Sequence[OperatorCall], found: Sequence[Attention]) -> Flags:
    """Return which calls are parts of some attention, in all passes."""
    scores = {(each.place.module, each.scores) for each in found}
    are_parts, copies = np.zeros(len(calls), np.bool_), dict[int | None, int]()
    for at, call in enumerate(calls if scores else ()):
        sizes = _sizes(all_tensors(call))
        are_parts[at] = any(size in sizes and is_inside(call.module, module) for module, size in scores)
        if are_parts[at] and _is_product(call):
            taken = [copies.get(each.storage) for each in factors(call)]
            are_parts[[each for each in taken if each is not None and calls[each].module == call.module]] = True
        is_copy = plain(call.name) in COPIES and len({each.dtype for each in all_tensors(call)}) == 1
        for each in written(call):
            copies.pop(each.storage, None)
            if is_copy and each.storage is not None:
                copies[each.storage] = at
    return are_parts


def _candidates(context: TraceContext, joined: JoinedKernels) -> tuple[AlternativeKernels, ...]:
    """Return the fused operator for each kind of attention, which can be measured."""
    forward = [each for each in joined.calls if each.role != BACKWARD]
    around = (_around(forward, at) for at, each in enumerate(forward) if SOFTMAX & _names(each))
    sequences = []
    for found, parts in (each for each in around if each is not None):
        operators = {id(each.forward): each.forward for each in parts if each.forward is not None}
        sequences.append(([*operators.values()], (), _parts_of(joined, [found])))
    return sequence_candidates(context, joined, sequences, _at_once)


def _at_once(operators: tuple[RecordedOperator, ...]) -> Alternative | None:
    """Return fused attention in place of its parts; None where they are not the operators that autograd knows."""
    names = [plain(each.name) for each in operators]
    if names[0] not in PRODUCTS or names[-1] not in PRODUCTS or not SOFTMAX & set(names):
        return None
    scores = operators[0].outputs[0]
    masks = (each for one in operators[1:-1] if plain(one.name) in MASKS for each in tensors_of(one.inputs))
    return Alternative("fused", operators, is_causal=any(_is_triangle(each, scores) for each in masks))


def _is_triangle(mask: Tensor, scores: Argument) -> bool:
    """Return whether a mask is one for all samples and heads, between equally many queries and keys.

    A mask of padding differs between samples.
    """
    if not isinstance(scores, Tensor) or len(mask.shape) < MATRIX or prod(scores.shape[:-2]) == 1:
        return False
    return mask.shape[-2:] == scores.shape[-2:] and mask.shape[-1] == mask.shape[-2] and prod(mask.shape[:-2]) == 1


def _around(calls: Sequence[OperatorCall], at: int) -> tuple[Attention, Sequence[OperatorCall]] | None:
    """Return the attention around a softmax over the last size with the calls of its forward pass, if there is one."""
    scores = _softmax_size(calls[at])
    before = next((each for each in range(at - 1, -1, -1) if _is_product(calls[each])), None)
    after = next((each for each in range(at + 1, len(calls)) if _is_product(calls[each])), None)
    if scores is None or before is None or after is None:
        return None
    first, last = calls[before], calls[after]
    parts = [each for each in calls[before + 1 : after] if scores in _sizes(all_tensors(each)) and each != calls[at]]
    names = set[str]().union(*map(_names, parts))
    if names - BETWEEN or not all(is_inside(each.module, first.module) for each in (*parts, last)):
        return None
    for each in (first, last):
        if plain(each.name) not in PRODUCTS or each.operator is None:
            return None
    queries, _ = factors(first)
    if scores not in _sizes(outputs(first)) or scores in _sizes(factors(first)) or scores != _size(factors(last)[0]):
        return None
    whole = [each for each in calls[before : after + 1] if each in {first, last, calls[at]} or each in parts]
    masks = [tensor for each in parts if plain(each.name) in MASKS for tensor in inputs(each)]
    is_causal = any(_is_triangle(each, outputs(first)[0]) for each in masks)
    is_masked, is_of_pytorch = bool((names | _names(calls[at])) & MASKS), SAFE in _names(calls[at])
    dtype = _before_the_cast(queries, calls[:before]) if is_of_pytorch else queries.dtype
    return Attention(Place.of(first), scores, queries.shape[-1], dtype, is_masked, is_causal, is_of_pytorch), whole


def _before_the_cast(tensor: Tensor, calls: Sequence[OperatorCall]) -> str:
    """Return the half precision of what a tensor was made of by the last call with it; its own type where none was."""
    of_it = (each for each in reversed(calls) if tensor.storage in {one.storage for one in all_tensors(each)})
    return next((each.dtype for each in inputs(next(of_it, OperatorCall())) if each.dtype in HALF), tensor.dtype)


def _names(call: OperatorCall) -> frozenset[str]:
    """Return the operators that a call computes: several in a kernel of a compiler."""
    return frozenset(plain(each) for each in call.name.split(" + "))


def _softmax_size(call: OperatorCall) -> Size | None:
    """Return the size of what a softmax over the last size takes; None where it is over another one."""
    arguments = () if call.operator is None else call.operator.inputs
    if len(_names(call)) > 1:  # scores are the largest tensor of a compiler's kernel, and the last size is its own
        sizes = [_size(each) for each in inputs(call) if len(each.shape) >= MATRIX]
        return max(sizes, key=prod, default=None)
    if len(arguments) <= 1 or not isinstance(arguments[0], Tensor) or len(arguments[0].shape) < MATRIX:
        return None
    return _size(arguments[0]) if arguments[1] in {-1, len(arguments[0].shape) - 1} else None


def _is_product(call: OperatorCall) -> bool:
    return call.work is not None and call.work.is_product


def _size(tensor: Tensor) -> Size:
    """Return the size of a batch of matrices, whether they are transposed or not."""
    low, high = sorted(tensor.shape[-2:])
    return prod(tensor.shape[:-2]), low, high


def _sizes(tensors: Sequence[Tensor]) -> set[Size]:
    return {_size(each) for each in tensors if len(each.shape) >= MATRIX}


def _fused(joined: JoinedKernels, mine: Flags, simulation: Simulation) -> WhatIf:
    """Return the change "fused attention": its products take the fused time, and all between them is gone."""
    context, found = simulation.context, find_attention(joined.calls)
    rates = find_rates(context, joined)
    fused = of_calls(joined, lambda call: plain(call.name) in ATTENTION) & (rates.needed_ns > 0)
    own = int(joined.own_ns[fused].sum())
    share = min(float(rates.needed_ns[fused].sum()) / own, 1.0) if own else USUAL_SHARE
    repeated = np.where(of_calls(joined, lambda call: call.role == BACKWARD), REPEATED, 1.0)
    shown = np.where(_parts_of(joined, [each for each in found if each.is_causal]), OF_TRIANGLE, 1.0)
    in_full = [each for each in found if each.is_of_pytorch and each.dtype in HALF]
    pace = speed_up("half", next((each.compute_capability for each in context.trace.gpus), None))
    faster = np.where(_parts_of(joined, in_full), pace, 1.0)
    needed = np.fmax(shown * repeated * rates.compute_ns / faster / share, _bytes_ns(context, joined, rates))
    length = np.maximum(joined.own_ns, 1)
    factor = np.where(rates.is_product, np.minimum(np.nan_to_num(needed / length, nan=1.0), 1.0), 0.0)
    chosen = mine & np.isin(joined.rows, simulation.operations)
    launchers, ran = find_launchers(context), simulation.operations
    copied = (context.operations.kind[ran] == COPY) & launchers.exact[ran] & (launchers.call[ran] >= 0)
    copies = ran[copied][_are_parts(launchers.calls, found)[launchers.call[ran[copied]]]]
    rows, factor = np.append(joined.rows[chosen], copies), np.append(factor[chosen], np.zeros(len(copies)))
    assumed = (
        f"fused attention runs at {units.share(share)} of the peak, computes one product again in the backward pass, "
        "and neither writes nor reads the scores"
    )
    what = shortened(simulation, rows, factor, assumed)
    return with_measured(simulation, what, _candidates(context, joined))


def _bytes_ns(context: TraceContext, joined: JoinedKernels, rates: KernelRates) -> npt.NDArray[np.float64]:
    """Return the time that the bytes of each kernel need without the scores, at the peak of the memory."""
    scores = {each.scores for each in find_attention(joined.calls)}
    kept = []
    for call in joined.calls:
        sizes = [(each.bytes or 0, len(each.shape) >= MATRIX and _size(each) in scores) for each in all_tensors(call)]
        kept.append(sum(size for size, is_scores in sizes if not is_scores) / max(sum(size for size, _ in sizes), 1))
    devices = context.operations.device_id[joined.rows]
    peak = {each.device_id: each.memory_bytes_per_second / 1e9 for each in context.trace.gpus}
    rate = np.array([peak.get(each) or np.nan for each in devices.tolist()])
    moved: npt.NDArray[np.float64] = rates.bytes * np.append(kept, 1.0)[joined.call] / rate
    return moved


def backend(found: Sequence[Attention], gpus: Sequence[Gpu]) -> str:
    """Return which kernel ``scaled_dot_product_attention`` takes on these GPUs, in words."""
    majors = {each.compute_capability[0] for each in gpus if each.compute_capability}
    is_half, widest = all(each.dtype in HALF for each in found), max(each.width for each in found)
    multiple = MULTIPLE if is_half else MULTIPLE_OF_SINGLE
    fits = all(each.width % multiple == 0 for each in found)
    if is_half and fits and majors and majors <= CUDNN_ON and widest <= CUDNN_WIDEST:
        return CUDNN
    if is_half and widest <= WIDEST and all(each >= FLASH_FROM for each in majors):
        return MASKED if any(each.is_masked for each in found) else FLASH
    return EFFICIENT if fits else IN_PARTS


def _evidence(joined: JoinedKernels, mine: Flags, found: Sequence[Attention]) -> Iterator[str]:
    """Yield the sizes of the scores, and how long all but the products takes."""
    shapes = dict.fromkeys(f"{batch:,} x {low:,} x {high:,}" for batch, low, high in (each.scores for each in found))
    yield f"scores of batch and heads x length x length: {', '.join(list(shapes)[:LISTED])}"
    between = mine & ~of_calls(joined, _is_product)
    yield f"{units.duration(int(joined.own_ns[between].sum()))} of it outside of the products"
