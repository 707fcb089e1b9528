"""The operators in the names of Inductor's kernels."""

import pytest

from nsyswrap.operators.fused_names import fused_operators


@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("triton_poi_fused_add_relu_3", ("add", "relu")),
        ("triton_per_fused__to_copy_add_native_layer_norm_1", ("_to_copy", "add", "native_layer_norm")),
        ("triton_red_fused__softmax__to_copy_mul_15", ("_softmax", "_to_copy", "mul")),
        ("triton_poi_fused_gelu_gelu_backward_view_0", ("gelu", "gelu_backward", "view")),
        ("triton_poi_fused_mm_2", ("mm",)),
        (
            "triton_per_fused__safe_softmax_add_exp_prepare_softmax_online_sub_10",
            ("_safe_softmax", "add", "exp", "prepare_softmax_online", "sub"),
        ),
        ("triton_poi_fused__new_operator_bitwise_not_tril_14", ("_new", "operator", "bitwise_not", "tril")),
        ("triton_poi_kernel", ()),
        ("nvjet_sm90_tst_128x64", ()),
        ("", ()),
    ],
)
def test_a_kernel_has_the_operators_of_its_name(kernel: str, operators: tuple[str, ...]) -> None:
    assert fused_operators(kernel) == operators
