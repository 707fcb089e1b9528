"""The operators that a kernel of torch.compile fuses, from its name.

Inductor names a kernel after the operators that it computes: ``triton_per_fused_add_native_layer_norm_3``. Source:
torch/_inductor/utils.py, ``get_fused_kernel_name`` with ``original_aten``, and ``SIMDScheduling.define_kernel``.
"""

import re

_FUSED = re.compile(r"^triton_(?:poi|red|per|tem|for|mm|mix|unk|split_scan)_fused_(.+?)(?:_\d+)?(?:\.kd)?$")
# Names of operators that hold an underscore: the names in a kernel's are joined by one.
_LONG = """
    _adaptive_avg_pool2d _embedding_bag _fft_c2c _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_div
    _foreach_lerp _foreach_mul _foreach_sqrt _fused_rms_norm _fused_rms_norm_backward _grouped_mm _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional _safe_softmax
    _scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_mm _softmax _softmax_backward_data _to_copy _unsafe_index
    _unsafe_view _weight_norm_interface as_strided as_strided_scatter avg_pool2d avg_pool2d_backward
    binary_cross_entropy binary_cross_entropy_with_logits bitwise_and bitwise_not bitwise_or bitwise_xor
    clamp_max clamp_min constant_pad_nd convert_element_type convolution_backward cross_entropy_loss
    diagonal_copy elu_backward embedding_dense_backward empty_like empty_strided full_like gelu_backward
    hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss index_add index_copy index_put
    index_select inductor_lookup_seed inductor_randint inductor_random inductor_seeds leaky_relu
    leaky_relu_backward linalg_vector_norm log_sigmoid_backward log_sigmoid_forward logical_and logical_not
    logical_or logical_xor masked_fill masked_scatter max_pool2d_with_indices max_pool2d_with_indices_backward
    max_pool3d_with_indices mse_loss mse_loss_backward native_batch_norm native_batch_norm_backward
    native_channel_shuffle native_dropout native_dropout_backward native_group_norm native_group_norm_backward
    native_layer_norm native_layer_norm_backward new_empty new_full new_ones new_zeros nll_loss2d_backward
    nll_loss2d_forward nll_loss_backward nll_loss_forward ones_like pixel_shuffle prepare_softmax_online
    rand_like randn_like reflection_pad2d repeat_interleave scalar_tensor scatter_add scatter_reduce
    select_backward select_scatter sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss
    smooth_l1_loss_backward softplus_backward split_with_sizes std_mean sym_size tanh_backward
    threshold_backward upsample_bicubic2d upsample_bilinear2d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d var_mean zeros_like
""".split()  # noqa: SIM905 - as quoted words they take thrice the lines
_KNOWN = re.compile("|".join(sorted(_LONG, key=lambda each: (-len(each), each))))
# An operator with another name; those of ATen that are private begin with an underscore.
_OTHER = re.compile(r"_?[^_]+|_+$")


def fused_operators(kernel: str) -> tuple[str, ...]:
    """Return the operators that a kernel of Inductor computes, in its name's order; none for other kernels."""
    found = _FUSED.match(kernel)
    if found is None:
        return ()
    names, rest = [], found[1]
    while rest and (each := _KNOWN.match(rest) or _OTHER.match(rest)):
        names.append(each[0])
        rest = rest[each.end() :].removeprefix("_")
    return tuple(names)
