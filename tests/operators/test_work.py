"""The work of operators equals what PyTorch's own counter says, and their bytes are the least."""

import importlib
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.events.xray_record import Argument, RecordedOperator, Tensor
from nsyswrap.operators.work import causal_share, least_bytes, products_of, work_of


@pytest.fixture(scope="module")
def pytorch() -> ModuleType:
    """Return the module that has PyTorch, which is imported here: it takes two seconds."""
    return importlib.import_module("operator_recorder")


def test_products_of_a_model_equal_those_of_pytorch(pytorch: ModuleType) -> None:
    """Forward and backward, to the operation."""
    for name, model, inputs in pytorch.models():
        ours, theirs = pytorch.of_model(model, inputs)
        assert ours == theirs > 0, name


def test_fused_attention_equals_that_of_pytorch(pytorch: ModuleType) -> None:
    """A causal mask is counted in full, as PyTorch does."""
    for call in pytorch.attention_calls():
        ours, theirs = pytorch.of_attention(*call)
        assert ours == theirs > 0, call[0]


def tensor(*shape: int, dtype: str = "float32", **more: Any) -> Tensor:  # noqa: ANN401
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


def test_the_gradient_of_a_grouped_convolution_needs_as_much_as_its_forward_pass(pytorch: ModuleType) -> None:
    """With 4 groups, input and weight each have a gradient that costs the forward pass."""
    found = [each.operations for each in map(products_of, pytorch.grouped_convolution()) if each]
    assert found == [9216, 2 * 9216]
    assert pytorch.convolution_for_each_group() == sum(found)


@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (2, 2)])
def test_recurrent_networks_of_cudnn_multiply_each_token_by_all_weights(
    pytorch: ModuleType, layers: int, directions: int
) -> None:
    """On the CPU, PyTorch's counter sees the products. The backward pass has two for each."""
    shapes, expected = pytorch.recurrent(11, 3, 5, 7, layers=layers, directions=directions)
    weights = tuple(tensor(*shape) for shape in shapes)
    forward = products_of(RecordedOperator("aten::_cudnn_rnn", inputs=(tensor(11, 3, 5), weights)))
    passed = (tensor(33, 5), weights, *[None] * 19, (True, False, False, True))
    backward = products_of(RecordedOperator("aten::_cudnn_rnn_backward", inputs=passed))
    assert forward is not None
    assert backward is not None
    assert (forward.operations, backward.operations) == (expected, 2 * expected)


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
