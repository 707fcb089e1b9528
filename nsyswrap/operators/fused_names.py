"""The operators that a kernel of torch.compile fuses, from its name.

Inductor names a kernel after the operators that it computes: ``triton_per_fused_add_native_layer_norm_3``. Source:
torch/_inductor/utils.py, ``get_fused_kernel_name`` with ``original_aten``, and ``SIMDScheduling.define_kernel``.
"""

import re

_FUSED = re.compile(r"^triton_(?:poi|red|per|tem|for|mm|mix|unk|split_scan)_fused_(.+?)(?:_\d+)?(?:\.kd)?$")
# Names of operators of ATen that hold an underscore, the longest first: the names in a kernel's are joined by one.
_LONG = re.compile(
    "|".join(
        sorted(
            (
                *("native_layer_norm_backward", "native_layer_norm", "native_group_norm_backward", "native_group_norm"),
                *("native_batch_norm_backward", "native_batch_norm", "_native_batch_norm_legit_functional"),
                *("_native_batch_norm_legit", "native_dropout_backward", "native_dropout", "_softmax_backward_data"),
                *(
                    "_log_softmax_backward_data",
                    "_log_softmax",
                    "_softmax",
                    "_to_copy",
                    "_unsafe_view",
                    "_unsafe_index",
                ),
                *("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward", "index_put"),
                *("embedding_dense_backward", "threshold_backward", "gelu_backward", "silu_backward", "tanh_backward"),
                *(
                    "sigmoid_backward",
                    "max_pool2d_with_indices_backward",
                    "max_pool2d_with_indices",
                    "mse_loss_backward",
                ),
                *("mse_loss", "avg_pool2d_backward", "avg_pool2d", "_adaptive_avg_pool2d", "convolution_backward"),
                *(
                    "hardswish_backward",
                    "hardtanh_backward",
                    "select_scatter",
                    "slice_scatter",
                    "scatter_add",
                    "new_zeros",
                ),
                *(
                    "constant_pad_nd",
                    "upsample_nearest2d",
                    "upsample_bilinear2d",
                    "zeros_like",
                    "ones_like",
                    "full_like",
                ),
                *("empty_like", "new_empty", "new_full", "scalar_tensor", "logical_and", "logical_not", "bitwise_and"),
                *("masked_fill", "log_sigmoid_forward", "_fused_rms_norm", "slice_backward", "select_backward"),
                *("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention", "rsub"),
            ),
            key=lambda each: (-len(each), each),
        )
    )
)


def fused_operators(kernel: str) -> tuple[str, ...]:
    """Return the operators that a kernel of Inductor computes, in its name's order; none for other kernels."""
    found = _FUSED.match(kernel)
    if found is None:
        return ()
    names, rest = [], found[1]
    while rest:
        known = _LONG.match(rest)
        name = known[0] if known else rest.partition("_")[0] or rest
        names.append(name)
        rest = rest[len(name) :].removeprefix("_") if not rest[len(name) :].startswith("__") else rest[len(name) + 1 :]
    return tuple(name for name in names if name)
