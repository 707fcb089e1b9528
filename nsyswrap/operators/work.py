"""The work of an operator, from the shapes, strides and types of what it takes and returns.

Of products it is exact: two operations for each multiplication with addition. Source: the formulas of
``torch.utils.flop_counter``, which the tests compare, except for the gradient of the weights of a grouped convolution:
it needs as many operations as the forward pass. Attention with a causal mask is counted in full there;
``least_operations`` counts the half that the mask leaves.

Other operators, such as elementwise ones, reductions, norms, losses and optimizers, have one operation for each element
of their largest tensor: their bytes limit them. Bytes are the least: each tensor is read once, or written once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from nsyswrap.events.xray_record import Argument, RecordedOperator, Tensor, tensors_of

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The work of one call of an operator.

    Attributes:
        operations: Floating-point operations, with causal attention in full.
        least_operations: The same with the half of causal attention that is needed.
        repeated_operations: Those of ``least_operations`` that repeat what the forward pass computed, as the backward
            pass of fused attention does.
        bytes: The least that it reads and writes; None where a type is not known.
        is_product: Whether it multiplies matrices.
        dtype: Type of its matrices, or of its largest tensor.
    """

    operations: int
    least_operations: int
    repeated_operations: int
    bytes: int | None
    is_product: bool
    dtype: str


class Products(NamedTuple):
    """The operations of a product."""

    operations: int
    least: int
    repeated: int = 0


def work_of(operator: RecordedOperator) -> OperatorWork | None:
    """Return the work of an operator; None where what it took is not known."""
    tensors = [*tensors_of(operator.inputs), *tensors_of(operator.outputs)]
    if not tensors:
        return None
    products = products_of(operator)
    largest = max(tensors, key=lambda each: each.elements)
    if products is not None:
        first = next(tensors_of(_matrices(operator)), largest)
        return OperatorWork(*products, least_bytes(operator), is_product=True, dtype=first.dtype)
    name = plain(operator.name)
    computes = name not in MOVES and any(
        each.dtype.startswith(("float", "bfloat", "complex", "half")) for each in tensors
    )
    operations = largest.elements if computes else 0
    return OperatorWork(operations, operations, 0, least_bytes(operator), is_product=False, dtype=largest.dtype)


def products_of(operator: RecordedOperator) -> Products | None:
    """Return the operations of a product of matrices, a convolution or attention; None for other operators."""
    name = plain(operator.name)
    try:
        if name in ATTENTION:
            return _attention(ATTENTION[name], operator.inputs)
        formula = FORMULAS.get(name)
        return None if formula is None else Products(*(formula(operator),) * 2)
    except (IndexError, TypeError, ValueError):
        return None  # it took something else than the formula knows


def least_bytes(operator: RecordedOperator) -> int | None:
    """Return the bytes that an operator reads and writes at least; None where a type is not known."""
    name, inputs = plain(operator.name), operator.inputs
    written = list(tensors_of(operator.outputs))
    if name.endswith("_"):
        written = list(tensors_of([inputs[at] for at in CHANGED.get(name, (0,)) if at < len(inputs)]))
    read = read_by(operator)
    if name in GATHERS:  # as many elements of the table as it returns
        read = [*written, *tensors_of(inputs[1:])]
    return _sum([*_distinct(read), *_distinct(written)])


def read_by(operator: RecordedOperator) -> list[Tensor]:
    """Return the tensors that an operator reads, without those that it takes to write its results to."""
    name = plain(operator.name)
    read = list(tensors_of(operator.inputs[1 if name in OVERWRITES else 0 :]))
    places = set() if name.endswith("_") else {_place(each) for each in tensors_of(operator.outputs)} - {None}
    return [each for each in read if _place(each) not in places]


# Copies, fills and views: no arithmetic.
MOVES = frozenset({
    *("copy_", "_to_copy", "clone", "contiguous", "fill_", "zero_", "cat", "stack", "index_select", "gather"),
    *("embedding", "index", "constant_pad_nd", "slice_backward", "select_backward", "_foreach_copy_"),
    *("repeat", "roll", "flip"),
})  # fmt: skip
# They read as much of their first tensor as they return.
GATHERS = frozenset({"embedding", "index_select", "gather", "index", "take", "_embedding_bag"})
# The arguments that an operator changes, where it is not only the first.
CHANGED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("_fused_adam_", "_fused_adamw_"), (0, 2, 3, 4)),
    **dict.fromkeys(("_fused_sgd_", "_fused_adagrad_"), (0, 2)),
}
# Those that overwrite their first tensor without reading it.
OVERWRITES = frozenset({"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_", "normal_", "uniform_"})


def _distinct(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors without those that are the same part of the same memory."""
    return list({_place(each) or at: each for at, each in enumerate(tensors)}.values())


def _place(tensor: Tensor) -> tuple[object, ...] | None:
    """Return the part of memory that a tensor is; None where that is not known."""
    return None if tensor.storage is None else (tensor.storage, tensor.shape, tensor.strides)


def _sum(tensors: Sequence[Tensor]) -> int | None:
    sizes = [each.bytes for each in tensors]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def plain(name: str) -> str:
    """Return the name of an operator of ATen without its namespace; others keep theirs."""
    return name.removeprefix("aten::")


def _shape(argument: Argument) -> Shape:
    if not isinstance(argument, Tensor):
        raise TypeError("no tensor")
    return argument.shape


def _matrices(operator: RecordedOperator) -> tuple[Argument, ...]:
    """Return the factors of a product: what is added to it comes before them."""
    return operator.inputs[1 if plain(operator.name) in ADDS else 0 :]


ADDS = frozenset({"addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "addbmm", "_addmm_activation"})


def _matrix_product(operator: RecordedOperator) -> int:
    """Return 2 b m n k: (b, m, k) by (b, k, n); vectors are matrices with one row or column."""
    left, right = (_shape(each) for each in _matrices(operator)[:2])
    if left[-1] != right[-1 if len(right) == 1 else -2]:
        raise ValueError("the inner sizes differ")
    return 2 * prod(left) * (right[-1] if len(right) > 1 else 1)


def _linear(operator: RecordedOperator) -> int:
    inputs, weight = (_shape(each) for each in operator.inputs[:2])
    return 2 * prod(inputs) * (weight[0] if len(weight) > 1 else 1)


def _grouped_product(operator: RecordedOperator) -> int:
    """Return the operations of a product by groups of rows, of columns or of the inner size, or of a batch."""
    left, right = (_shape(each) for each in operator.inputs[:2])
    by_columns = len(right) < 3  # noqa: PLR2004 - a matrix: each group of the left has some of its columns
    return 2 * prod(left[-2:] if by_columns else left) * right[-1]


def _convolution(operator: RecordedOperator) -> int:
    """Return two operations for each weight at each place of the result, or of the input where it is transposed."""
    name, (inputs, weight) = plain(operator.name), (_shape(each) for each in operator.inputs[:2])
    transposed = "transpose" in name or (name in {"convolution", "_convolution"} and operator.inputs[6] is True)
    return _places(inputs, weight, inputs if transposed else _shape(operator.outputs[0]))


def _places(inputs: Shape, weight: Shape, at: Shape) -> int:
    batch = prod(inputs[: len(inputs) - len(weight) + 1])
    return 2 * batch * prod(weight) * prod(at[len(at) - len(weight) + 2 :])


def _convolution_backward(operator: RecordedOperator) -> int:
    """Return the operations of the forward pass for each of the gradients of the input and of the weight."""
    gradient, inputs, weight = (_shape(each) for each in operator.inputs[:3])
    wanted = operator.inputs[10]
    if not isinstance(wanted, tuple):
        raise TypeError("no mask")
    return _places(inputs, weight, inputs if operator.inputs[7] is True else gradient) * sum(map(bool, wanted[:2]))


def _recurrent(operator: RecordedOperator) -> int:
    """Return two operations for each weight and token: all layers and directions of a network multiply with each."""
    inputs, weights = operator.inputs[:2]
    if not isinstance(weights, tuple):
        raise TypeError("no weights")
    matrices = sum(prod(each.shape) for each in tensors_of(weights) if len(each.shape) > 1)
    forward = 2 * prod(_shape(inputs)[:-1]) * matrices
    wanted = operator.inputs[21] if plain(operator.name).endswith("_backward") else None
    return forward * (1 + bool(wanted[3])) if isinstance(wanted, tuple) else forward


FORMULAS: Mapping[str, Callable[[RecordedOperator], int]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "_int_mm", "_scaled_mm", "_sparse_mm"), _matrix_product),
    **dict.fromkeys(ADDS, _matrix_product),
    "linear": _linear,
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm"), _grouped_product),
    **dict.fromkeys(
        (
            *("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "_slow_conv2d_forward"),
            *(
                "cudnn_convolution_transpose",
                "cudnn_convolution_relu",
                "cudnn_convolution_add_relu",
                "mkldnn_convolution",
            ),
            *("slow_conv3d_forward", "_conv_depthwise2d", "conv_depthwise3d", "slow_conv_transpose2d"),
            *("slow_conv_transpose3d", "slow_conv_dilated2d", "slow_conv_dilated3d"),
        ),
        _convolution,
    ),
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(("_cudnn_rnn", "_cudnn_rnn_backward"), _recurrent),
}


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """Where an operator of attention has its arguments.

    Attributes:
        query: Index of the queries; keys and values follow.
        causal: Index of the flag, or of the number of the mask, that makes it causal.
        heads_first: Whether the sizes are (batch, heads, length, width), and not (batch, length, heads, width).
        is_backward: Whether it is the backward pass.
        packed: Index of the bounds of packed sequences: with them, the lengths are not known.
    """

    query: int
    causal: int
    heads_first: bool = True
    is_backward: bool = False
    packed: int | None = None


# Source: native_functions.yaml of PyTorch 2.13, and flash_attn/flash_attn_interface.py of FlashAttention 2.8.
ATTENTION: Mapping[str, AttentionArguments] = {
    "_scaled_dot_product_flash_attention": AttentionArguments(0, 4),
    "_scaled_dot_product_efficient_attention": AttentionArguments(0, 6),
    "_scaled_dot_product_cudnn_attention": AttentionArguments(0, 6),
    "_scaled_dot_product_flash_attention_backward": AttentionArguments(1, 11, is_backward=True, packed=6),
    "_scaled_dot_product_efficient_attention_backward": AttentionArguments(1, 11, is_backward=True),
    "_scaled_dot_product_cudnn_attention_backward": AttentionArguments(1, 14, is_backward=True, packed=9),
    "_cudnn_attention_forward": AttentionArguments(0, 10, packed=4),
    "_cudnn_attention_backward": AttentionArguments(1, 14, is_backward=True, packed=9),
    "_flash_attention_forward": AttentionArguments(0, 8, heads_first=False, packed=3),
    "_efficient_attention_forward": AttentionArguments(0, 9, heads_first=False, packed=4),
    "_flash_attention_backward": AttentionArguments(1, 11, heads_first=False, is_backward=True, packed=6),
    "_efficient_attention_backward": AttentionArguments(1, 14, heads_first=False, is_backward=True, packed=6),
    "flash_attn::_flash_attn_forward": AttentionArguments(0, 5, heads_first=False),
    "flash_attn::_flash_attn_backward": AttentionArguments(1, 11, heads_first=False, is_backward=True),
}


def _attention(where: AttentionArguments, inputs: Sequence[Argument]) -> Products | None:
    """Return the operations of fused attention; None where its sequences are packed, so that their lengths are unknown.

    The forward pass has two products, of queries with keys and of weights with values. The backward pass computes the
    first again, and four more.
    """
    if where.packed is not None and isinstance(inputs[where.packed], Tensor) and _shape(inputs[where.packed]) != (0,):
        return None
    query, key, value = (_shape(each) for each in inputs[where.query : where.query + 3])
    if not where.heads_first:
        query, key, value = ((*each[:-3], each[-2], each[-3], each[-1]) for each in (query, key, value))
    *batch, length, width = query
    of_keys = 2 * prod(batch) * length * key[-2] * width
    of_values = 2 * prod(batch) * length * key[-2] * value[-1]
    again = of_keys if where.is_backward else 0
    operations = 3 * of_keys + 2 * of_values if where.is_backward else of_keys + of_values
    if not inputs[where.causal] or not isinstance(inputs[where.causal], int):
        return Products(operations, operations, again)
    share = causal_share(length, key[-2])
    return Products(operations, round(operations * share), round(again * share))


def causal_share(queries: int, keys: int) -> float:
    """Return the share of the pairs of queries and keys that a causal mask leaves: each query sees keys up to its own.

    The first query is that of the first key, as in ``scaled_dot_product_attention`` of PyTorch.
    """
    seen = min(queries, keys)
    return (seen * (seen + 1) / 2 + (queries - seen) * keys) / max(queries * keys, 1)
