"""Names of kernels from unknown makers stay unknown: no verdict comes from a word that happens to be inside another."""

import pytest

from nsyswrap.hardware.kernel_names.classify import Verdict, classify

BY_CHANCE = (
    # The name of an operation together with words that may mean anything.
    "where_am_i(int*)",
    "binary_search_kernel",
    "binary_search_kernel(int const*, int, int)",
    "my_softmax_f32",
    "acme_softmax_kernel<float>(float*)",
    "fill_tank_kernel",
    "pad_thai_kernel",
    "lion_tracker",
    "scale_model_railway",
    "residual_stress_solver",
    "copycat_kernel",
    "sort_of_a_gemini",
    "routing_protocol_step",
    "random_walk_pagerank",
    "optimizer_of_routes",
    "transpose_and_multiply_tiles",
    # A word inside another word.
    "DeviceSegmentedMatmul",
    "DeviceSegmentedMatmul<float>(float*)",
    "DeviceReduceAndMultiplyKernel",
    "SynchWToken_kernel",
    "ballgatherer_kernel",
    "wall_reduce_kernel",
    "europe_population_kernel",
    "grope_around_kernel",
    "upscaleTensorCoreGemm",
    "gamma_sync_kernel",
    "summa_kernel",
    "void SUMMA::multiply<float>(float*)",
    "symmetric_kernel",
    "hemmed_in_kernel",
    "merge_states_kernel",
    "conversation_kernel",
    "larfoo_kernel",
    "potrix_kernel",
    "symmetrize_kernel<float>(float*)",
    # The name of a known kernel's function with a maker before it.
    "my_flash_fwd_kernel",
    "acme_flash_attn_vec_kernel",
    "void acme::nchwToNhwcKernel<float>(float*)",
    "void acme::Marlin<4>(int4*)",
    "acme_nchwToNhwcKernel",
    "marlin_fishing_kernel",
    "acme::fp8_gemm_kernel",
    "fp8_gemm_kernel",
    "router_gemm_kernel",
    "my_gemv_kernel",
    "acme_gemv_tensorcore",
    "acme_depthwise_conv",
    "my_causal_conv1d",
    "acme_quantize_rows_and_multiply",
    "dequant_and_dot_kernel",
    "acme_rotary_press",
    "acme::max_pool_then_project",
    "max_pool_then_project",
    "upsample_by_transposed_product",
    "batch_norm_folded_into_product",
    "matmul_allreduce_kernel",
    "acme_allreduce_kernel",
    "mine::splitKreduce_kernel",
    "sgemm_64x64_mine",
    "acme::fused_a_gemm_kernel<1>(int)",
    "fused_a_gemm_kernel",
    "acme_gemv_int4",
    "recurrent_update_kernel",
    "my_selective_scan_fwd_kernel",
    "_matmul_ogs_mine",
    "moe_sum_and_multiply_kernel",
    "acme_moe_kernel",
    "sm90_softmax_and_product_impl",
    "kernel_cutlass_mystery",
    "hadamard_transform_of_mine",
    "acme::attention_kernel<MMA_16816>",
    "acme::fused_dropout_kernel<4>(float*)",
    "gemm_4bit_mine",
    # A convention of a framework around a product.
    "gemm_vectorized4_kernel",
    "dot_vectorized4_kernel",
    "reduction_matmul_kernel",
    "wrapped_matmul",
    "wrapped_dot",
    "input_camera_lidar_fusion",
    "and_sensor_fusion",
    "dali_painting_kernel",
    "native::attend<float>(float*)",
    # Kernels whose own names say that they do not use tensor cores.
    "no_wmma_kernel",
    "tensor_core_free_kernel",
    "without_mma_sync",
)


def test_a_name_of_an_unknown_maker_is_unknown() -> None:
    """A prefix or a namespace of another unknown maker does not change the verdict."""
    found = [classify(f"{maker}{name}") for name in BY_CHANCE for maker in ("", "zorp_", "zorp::")]
    assert [each for each in found if each.verdict is not Verdict.UNKNOWN or each.precision] == []


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("softmax_kernel", "softmax"),
        ("fused_add_kernel<float>(float*)", "elementwise"),
        ("_layer_norm_bwd_fused", "norm"),
        ("transpose_f32", "layout"),
        ("ReduceSumKernel", "reduction"),
        ("void add<float>(float*, float*)", "elementwise"),
        ("copyKernel", "layout"),
        ("relu_forward_kernel", "elementwise"),
    ],
)
def test_a_name_of_known_words_alone_says_what_it_does(name: str, op: str) -> None:
    found = classify(name)
    assert (found.verdict, found.op, found.rule) == (Verdict.NOT_ELIGIBLE, op, "named_operation")


@pytest.mark.parametrize(
    "name",
    [
        "void cudnn::ops::nchwToNhwcKernel<float, float>(float const*)",
        "nchwToNhwcKernel<float, float>(float const*)",
        "DeviceSegmentedReduceKernel<float>(float*)",
        "DeviceRadixSortOnesweepKernel",
        "void vllm::rotary_embedding_kernel<float>(float*)",
        "at::native::max_pool_forward_nchw<float, int>(int)",
        "upsample_bilinear2d_out_frame<float>(int)",
        "loop_add_multiply_fusion_3",
        "wrapped_convert",
    ],
)
def test_known_libraries_keep_their_verdict(name: str) -> None:
    assert classify(name).verdict is Verdict.NOT_ELIGIBLE
