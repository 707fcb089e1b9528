"""The work of products is computed from the sizes that PyTorch writes into its ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.hardware.kernel_work import ProductWork, product_work


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "aten::mm, op_id = 7, sizes = [[64, 128], [128, 32]], input_op_ids = []",
            ProductWork(2 * 64 * 128 * 32, 14336),
        ),
        ("aten::mm, seq = 3, op_id = 7, sizes = [[2, 3], [3, 4]]", ProductWork(48, 26)),
        ("aten::addmm, seq = 3, sizes = [[4], [2, 3], [3, 4], [], []]", ProductWork(48, 26)),
        ("aten::bmm, op_id = 1, sizes = [[5, 2, 3], [5, 3, 4]]", ProductWork(240, 130)),
        ("aten::baddbmm, op_id = 1, sizes = [[1], [5, 2, 3], [5, 3, 4], [], []]", ProductWork(240, 130)),
    ],
)
def test_sizes_give_operations_and_elements(text: str, expected: ProductWork) -> None:
    assert product_work(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "aten::mm, op_id = 7",
        "aten::add, sizes = [[2, 3], [2, 3]]",
        "aten::linear, sizes = [[2, 3], [4, 3]]",
        "aten::mm, sizes = [[2, 3], [4, 3]]",
        "aten::mm, sizes = [[2, 3]]",
        "aten::mm, sizes = [[2, 3], [3, 4",
        "aten::mm, sizes = [[2, 3], [3,, 4]]",
        "aten::bmm, sizes = [[2, 2, 3], [5, 3, 4]]",
        "aten::mm, sizes = [[[2], 3], [3, 4]]",
        "forward",
    ],
)
def test_other_ranges_are_no_products(text: str) -> None:
    assert product_work(text) is None


@given(*(st.integers(1, 1 << 20) for _ in range(4)))
def test_a_batch_is_so_many_products(batch: int, rows: int, inner: int, columns: int) -> None:
    one = product_work(f"aten::mm, sizes = [[{rows}, {inner}], [{inner}, {columns}]]")
    every = product_work(f"aten::bmm, sizes = [[{batch}, {rows}, {inner}], [{batch}, {inner}, {columns}]]")
    assert one is not None
    assert every == ProductWork(batch * one.operations, batch * one.elements)
