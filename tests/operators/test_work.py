"""The work of operators equals what PyTorch's own counter says, and their bytes are the least."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from nsyswrap.events.xray_record import Argument, RecordedOperator, Tensor
from nsyswrap.operators.work import causal_share, least_bytes, products_of, work_of


def argument(value: Any) -> Argument:  # noqa: ANN401 - whatever an operator takes
    """Return an argument as `xray.json` has it."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        storage = None if value.is_meta else value.untyped_storage().data_ptr()
        return Tensor(tuple(value.shape), tuple(value.stride()), dtype, storage)
    if isinstance(value, list | tuple):
        return tuple(argument(each) for each in value)
    return value if isinstance(value, int | float | str) else None


def recorded(function: object, args: Sequence[Any], result: object) -> RecordedOperator:
    """Return a call of an operator."""
    outputs = result if isinstance(result, tuple) else (result,)
    name = str(function).removeprefix("aten.").partition(".")[0]
    return RecordedOperator(f"aten::{name}", inputs=tuple(map(argument, args)), outputs=tuple(map(argument, outputs)))


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Records each call of an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RecordedOperator] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        self.calls.append(recorded(func, args, result))
        return result


def counted(run: Callable[[], Any]) -> tuple[int, int]:
    """Return the operations of the products of a program: ours, and those of PyTorch's counter."""
    with Recorder() as recorder:
        run()
    with FlopCounterMode(display=False) as counter:
        run()
    found = (products_of(each) for each in recorder.calls)
    return sum(each.operations for each in found if each), counter.get_total_flops()


def models() -> Iterator[tuple[str, nn.Module, torch.Tensor]]:
    """Yield models with an input each."""
    yield "linear", nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.rand(3, 5, 8)
    yield "convolutions", nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Conv2d(4, 6, 1)), torch.rand(2, 3, 9, 8)
    yield "one dimension", nn.Conv1d(3, 4, 3, padding=1), torch.rand(2, 3, 9)
    yield "transposed", nn.ConvTranspose2d(3, 4, 3, stride=2), torch.rand(2, 3, 5, 6)
    yield "attention", nn.MultiheadAttention(8, 2, batch_first=True), torch.rand(2, 5, 8)


@pytest.mark.parametrize(("model", "inputs"), [pytest.param(*each[1:], id=each[0]) for each in models()])
def test_products_of_a_model_equal_those_of_pytorch(model: nn.Module, inputs: torch.Tensor) -> None:
    """Forward and backward, to the operation."""

    def step() -> None:
        batch = inputs.clone().requires_grad_()
        out = model(batch, batch, batch) if isinstance(model, nn.MultiheadAttention) else model(batch)
        (out if isinstance(out, torch.Tensor) else out[0]).sum().backward()

    ours, theirs = counted(step)
    assert ours == theirs > 0


def attention_calls() -> list[tuple[str, list[Any], tuple[torch.Tensor, ...]]]:
    """Return calls of fused attention that PyTorch's counter knows, forward and backward, with their results."""
    query, key = (torch.empty(2, 3, size, 8, device="meta") for size in (7, 11))
    value = torch.empty(2, 3, 11, 16, device="meta")
    passed = [query, query, key, key]
    gradients = (query, key, key)
    return [
        ("_flash_attention", [query, key, key, 0.0, False, False], (query,)),
        ("_efficient_attention", [query, key, value, None, True, 0.0, False], (query,)),
        ("_cudnn_attention", [query, key, key, None, True, 0.0, True], (query,)),
        ("_flash_attention_backward", [*passed, query, query, None, None, 7, 11, 0.0, True], gradients),
        ("_efficient_attention_backward", [*passed, None, query, query, None, None, 0.0, [True], False], gradients),
    ]


@pytest.mark.parametrize(("name", "args", "result"), attention_calls())
def test_fused_attention_equals_that_of_pytorch(name: str, args: list[Any], result: tuple[torch.Tensor, ...]) -> None:
    """A causal mask is counted in full, as PyTorch does."""
    function = getattr(torch.ops.aten, f"_scaled_dot_product{name}")
    products = products_of(recorded(function, args, result))
    assert products is not None
    assert products.operations == flop_registry[function](*args, out_val=result)


def tensor(*shape: int, dtype: str = "float32", **more: Any) -> Tensor:  # noqa: ANN401
    """Return a tensor by its sizes."""
    return Tensor(shape, dtype=dtype, **more)


def test_causal_attention_needs_about_half() -> None:
    """Of 4 queries and 4 keys, 10 of 16 pairs; of long sequences the half."""
    query = tensor(1, 1, 4, 8)
    products = products_of(
        RecordedOperator("aten::_scaled_dot_product_flash_attention", inputs=(query, query, query, 0.0, True, False))
    )
    assert products is not None
    assert (products.operations, products.least) == (512, 320)
    assert causal_share(10_000, 10_000) == pytest.approx(0.5, abs=1e-4)


def test_the_operators_in_those_of_cudnn_attention_have_their_work() -> None:
    """They launch its kernels, so torch.profiler names them."""
    query, seed = tensor(1, 2, 4, 8), tensor()
    forward = (query, query, query, None, None, None, 4, 4, True, 0.0, True, False, None)
    backward = (*[query] * 5, tensor(1, 2, 4, 1), seed, seed, None, None, None, 4, 4, 0.0, True, None)
    for inner, outer, inputs, others in (
        ("forward", "", forward, (query, query, query, None, True, 0.0, True)),
        ("backward", "_backward", backward, backward),
    ):
        found = products_of(RecordedOperator(f"aten::_cudnn_attention_{inner}", inputs=inputs))
        assert found is not None
        assert found.operations > found.least
        assert found == products_of(
            RecordedOperator(f"aten::_scaled_dot_product_cudnn_attention{outer}", inputs=others)
        )


def test_packed_sequences_have_no_known_operations() -> None:
    """Their lengths are in a tensor whose values are not recorded."""
    query = tensor(100, 2, 8)
    packed = (query, query, query, tensor(5, dtype="int32"), tensor(5, dtype="int32"), 30, 30, 0.0, True, False)
    assert products_of(RecordedOperator("aten::_flash_attention_forward", inputs=packed)) is None


@pytest.mark.parametrize(
    ("left", "right", "operations"),
    [
        ((6, 4), (3, 4, 5), 2 * 6 * 4 * 5),
        ((3, 6, 4), (3, 4, 5), 2 * 3 * 6 * 4 * 5),
        ((6, 4), (4, 5), 2 * 6 * 4 * 5),
        ((3, 6, 4), (4, 15), 2 * 6 * 4 * 15),
    ],
)
def test_grouped_products_multiply_each_row_once(
    left: tuple[int, ...], right: tuple[int, ...], operations: int
) -> None:
    """Groups of rows, a batch, groups of the inner size, groups of columns."""
    products = products_of(RecordedOperator("aten::_grouped_mm", inputs=(tensor(*left), tensor(*right), None)))
    assert products is not None
    assert products.operations == operations


def test_the_gradient_of_a_grouped_convolution_needs_as_much_as_its_forward_pass() -> None:
    """With 4 groups, input and weight each have a gradient that costs the forward pass."""
    convolution, inputs = nn.Conv2d(8, 8, 3, groups=4), torch.rand(2, 8, 6, 6, requires_grad=True)
    with Recorder() as recorder:
        convolution(inputs).sum().backward()
    found = [each.operations for each in map(products_of, recorder.calls) if each]
    assert found == [9216, 2 * 9216]
    # PyTorch's counter agrees where each group is a convolution of its own.
    alone = [nn.Conv2d(2, 2, 3) for _ in range(4)]
    with FlopCounterMode(display=False) as counter:
        torch.cat([each(part) for each, part in zip(alone, inputs.chunk(4, 1), strict=True)], 1).sum().backward()
    assert counter.get_total_flops() == sum(found)


def test_fp8_products_have_their_type() -> None:
    """The type of the matrices is that of the work, not that of the result."""
    fp8 = "float8_e4m3fn"
    call = RecordedOperator(
        "aten::_scaled_mm", inputs=(tensor(4, 8, dtype=fp8), tensor(8, 2, dtype=fp8)), outputs=(tensor(4, 2),)
    )
    work = work_of(call)
    assert work is not None
    assert (work.dtype, work.operations, work.bytes) == (fp8, 128, 32 + 16 + 32)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "size"),
    [
        ("add", (tensor(10), tensor(10)), (tensor(10),), 120),
        ("add_", (tensor(10), tensor(10)), (tensor(10),), 120),
        ("copy_", (tensor(10), tensor(10, dtype="bfloat16")), (tensor(10),), 60),
        ("fill_", (tensor(10), 1), (tensor(10),), 40),
        ("sum", (tensor(10, 10), 1), (tensor(10),), 440),
        ("mul", (tensor(10, 10), tensor(10, 10, strides=(1, 0))), (tensor(10, 10),), 840),
        ("embedding", (tensor(1000, 10), tensor(3, dtype="int64")), (tensor(3, 10),), 120 + 24 + 120),
        ("_foreach_mul_", ((tensor(10), tensor(5)), 2), (), 120),
        ("_fused_sgd_", ((tensor(10),), (tensor(10),), (tensor(10),)), (), 200),
        ("_fused_adamw_", ((tensor(10),),) * 4 + ((), (tensor(),)), (), 284),
        (
            "mm",
            (tensor(2, 3, storage=1), tensor(3, 4, storage=2), tensor(2, 4, storage=3)),
            (tensor(2, 4, storage=3),),
            104,
        ),
        ("relu", (tensor(10, dtype="of the future"),), (tensor(10),), None),
    ],
)
def test_bytes_are_the_least(
    name: str, inputs: tuple[Argument, ...], outputs: tuple[Argument, ...], size: int | None
) -> None:
    """Each tensor is read once and written once: what is overwritten, repeated or not looked up is not read."""
    assert least_bytes(RecordedOperator(f"aten::{name}", inputs=inputs, outputs=outputs)) == size


sizes = st.integers(1, 50)


@given(sizes, sizes, sizes, sizes, st.integers(1, 4))
def test_the_work_of_parts_adds_up(rows: int, more: int, inner: int, columns: int, batch: int) -> None:
    """A product by rows of both parts, and a batch of products, do as much as one by all rows, and as many products."""

    def operations(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> int:
        products = products_of(RecordedOperator(f"aten::{name}", inputs=(tensor(*left), tensor(*right))))
        assert products is not None
        return products.operations

    one = operations("mm", (rows, inner), (inner, columns))
    assert one + operations("mm", (more, inner), (inner, columns)) == operations(
        "mm", (rows + more, inner), (inner, columns)
    )
    assert operations("bmm", (batch, rows, inner), (batch, inner, columns)) == batch * one


arguments: st.SearchStrategy[Argument] = st.recursive(
    st.one_of(
        st.none(),
        st.integers(),
        st.builds(
            Tensor,
            st.lists(st.integers(0, 9), max_size=4).map(tuple),
            dtype=st.sampled_from(["float32", "bfloat16", "int64", "?"]),
        ),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
NAMES = ["mm", "addmm", "convolution", "convolution_backward", "_flash_attention_backward", "add_", "embedding", "x"]


@given(st.sampled_from(NAMES), st.lists(arguments, max_size=12).map(tuple), st.lists(arguments, max_size=2).map(tuple))
def test_no_work_is_negative(name: str, inputs: tuple[Argument, ...], outputs: tuple[Argument, ...]) -> None:
    """Whatever an operator took: no error, nothing below zero, and no more repeated or needed than done."""
    work = work_of(RecordedOperator(f"aten::{name}", inputs=inputs, outputs=outputs))
    if work is not None:
        assert 0 <= work.repeated_operations <= work.least_operations <= work.operations
        assert work.bytes is None or work.bytes >= 0
