"""Rules for attention and for matrix products on quantised weights."""

import re

from nsyswrap.hardware.kernel_names.rule import HEAD, KNOWN_FUNCTION, KNOWN_LIBRARY, KernelRule, Verdict

PROFILES = "public profiles on GitHub"
TENSOR_PIPE = "Nsight Compute on an H200: tensor pipe busy"

ATTENTION: tuple[KernelRule, ...] = (
    KernelRule(
        key="cudnn_sdpa",
        pattern=re.compile(r"cudnn_generated_\w{0,60}?sdpa"),
        verdict=Verdict.TENSOR,
        precision="@attention",
        library="cudnn",
        op="attention",
        examples=(
            "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1_kernel0_0",
        ),
        source=TENSOR_PIPE,
    ),
    KernelRule(
        key="memory_efficient_tensor",
        pattern=re.compile(
            r"fmha_cutlass[FB]_(?:b?f16_\w{0,60}?sm(?:7\d|8\d|9\d|1\d\d)|f32_\w{0,60}?sm(?:8\d|9\d|1\d\d))"
            r"|Attention(?:Backward)?Kernel<(?:(?:cutlass::)?arch::Sm[789]\d, )?cutlass::(?:half_t"
            r"|bfloat16_t)(?!, (?:cutlass::)?arch::Sm[56])|AttentionKernel<float, (?:cutlass::)?arch::Sm[89]"
            r"|AttentionBackwardKernel<(?:cutlass::)?arch::Sm[89]\d, float"
        ),
        verdict=Verdict.TENSOR,
        precision="@attention",
        library="pytorch_memeff",
        op="attention",
        examples=(
            (
                "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t, "
                "cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)"
            ),
            (
                "fmha_cutlassB_f32_aligned_128x64_k65536_dropout_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<"
                "cutlass::arch::Sm80, float, true, true, false, 128, 64, 65536, false>::Params)"
            ),
        ),
        source=TENSOR_PIPE + " (f32 from sm80 on is three TF32 products)",
    ),
    KernelRule(
        key="memory_efficient_simt",
        pattern=re.compile(r"fmha_cutlass[FB]_(?:b?f16|f32)_|Attention(?:Backward)?Kernel<(?:float|cutlass::|arch::)"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@attention_simt",
        library="pytorch_memeff",
        op="attention",
        examples=("fmha_cutlassF_f32_aligned_64x64_rf_sm75", "fmha_cutlassF_f32_notaligned_64x64_rf_sm50"),
        source="PyTorch aten/src/ATen/native/transformers/cuda/mem_eff_attention/gemm_kernel_utils.h",
    ),
    KernelRule(
        key="llama_attention_simt",
        pattern=re.compile(r"^flash_attn_(?:ext_)?(?:vec|tile)(?![a-z])"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@attention_simt",
        library="llama.cpp",
        op="attention",
        examples=("void flash_attn_vec_ext_f16<128, 1, (ggml_type)1, (ggml_type)1, false>(char const*, char const*)",),
        source="ggml-org/llama.cpp ggml/src/ggml-cuda/fattn-vec.cuh",
    ),
    KernelRule(
        key="flash",
        pattern=re.compile(
            r"(?<![A-Za-z_])(?:flash_(?:fwd|bwd)_|FlashAttn(?:Fwd|Bwd)Sm\d|FlashAttention(?:Forward|Backward)Sm\d"
            r"|CollectiveMainloop(?:Fwd|Bwd)|(?:Batch|Single)?PrefillWith(?:Ragged|Paged)?KVCache|BatchMLAPaged?Attention"
            r"|flash_?mla(?![a-z])"
            r"|flash_attn_(?:ext_f16|mma_ext)|FMHA_kernel_traits|fmha_(?:fprop|dgrad|fwd|bwd)_\w{0,80}?kernel)"
            r"|^flashinfer::(?:\w{1,40}::){0,3}(?:PersistentKernelTemplate<[^\n]{0,400}?Attention|BatchMLAPage)"
            r"|flashinfer(?:::|\d\d)(?:Sparse)?CollectiveMainloop|^qk_int(?:4|8)?_sv_"
            r"|^(?:sm(?:90|100)\w?::(?:\w{1,40}::){0,4})sparse_attn_fwd_\w{0,40}kernel"
            r"|^(?:\w{1,40}::){0,4}sparse_attn_fwd_\w{0,40}kernel<[^\n]{0,400}?(?:sm(?:90|100)\w?::|Sparse\w{1,20}Params)"
        ),
        verdict=Verdict.TENSOR,
        precision="@attention_types",
        library="@flash",
        op="attention",
        examples=(
            (
                "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<256, 64, 64, 4, false, false, "
                "cutlass::half_t, "
                "Flash_kernel_traits<256, 64, 64, 4, cutlass::half_t> >, true, true, false, false, false, "
                "true, false, false>"
            ),
            (
                "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, "
                "64, 128, 8, 2, 4, "
                "2, false, false, cutlass::bfloat16_t, Flash_kernel_traits<128, 64, 128, 8, cutlass::bfloat16_t> > >"
            ),
            (
                "void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<("
                "flashinfer::MaskMode)1, 128u, 2u, "
                "4u, 4u, 4u, 4u, 1u, (flashinfer::PosEncodingMode)0, __nv_bfloat16, __nv_bfloat16, "
                "__nv_bfloat16, float>>"
            ),
            (
                "void flash_attn_ext_f16<(int)256, (int)256, (int)4, (int)2, (int)2, (int)1, (bool)0, "
                "(bool)0>(const char *)"
            ),
        ),
        source=TENSOR_PIPE + "; FlashInfer and llama.cpp from " + PROFILES + "; deepseek-ai/FlashMLA csrc",
    ),
    KernelRule(
        key="turbomind_simt",
        pattern=re.compile(
            r"^(?:turbomind::)?attention_kernel<[^\n]{0,400}?MMA_SIMT|^turbomind::linear_attn::(?:\w{1,40}::){0,3}\w{0,20}Recurrent"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@attention_simt",
        library="lmdeploy",
        op="attention",
        examples=(
            (
                "void turbomind::attention_kernel<turbomind::AttentionUniversal<turbomind::arch::Sm80, "
                "turbomind::attention::Mainloop<turbomind::arch::Sm80, turbomind::attention::Impl<"
                "turbomind::attention::MMA_SIMT, __half, __half, 1, 1, 32> > > >(int)"
            ),
            "void turbomind::linear_attn::delta_rule::Sm90GdrRecurrentKernel<__nv_bfloat16, __nv_bfloat16, 4>(int)",
        ),
        source="InternLM/lmdeploy src/turbomind/kernels/attention; LMDeploy 0.18",
    ),
    KernelRule(
        key="turbomind_tensor",
        pattern=re.compile(
            r"^(?:turbomind::)?attention_kernel<[^\n]{0,400}?MMA_(?:884|1688|16816|81616)"
            r"|^turbomind::linear_attn::(?:\w{1,40}::){0,3}(?:Sm\d{2,3}(?:Fused|Kkt)\w{0,40}|ChunkedGdr)Kernel"
        ),
        verdict=Verdict.TENSOR,
        precision="@attention_types",
        library="lmdeploy",
        op="attention",
        examples=(
            (
                "void turbomind::attention_kernel<turbomind::AttentionUniversal<turbomind::arch::Sm80, "
                "turbomind::attention::Mainloop<turbomind::arch::Sm80, turbomind::attention::Impl<"
                "turbomind::attention::MMA_16816, __half, __half, 1, 64, 64> > > >(int)"
            ),
            "void turbomind::linear_attn::delta_rule::Sm90FusedGdrFwdKernel<__nv_bfloat16, __nv_bfloat16, 128>(int)",
        ),
        source="InternLM/lmdeploy src/turbomind/kernels; LMDeploy 0.18",
    ),
    KernelRule(
        key="fmha_tensorrt",
        pattern=re.compile(
            r"^(?:\w{1,40}::){0,4}(?:fmhaSm\d{2,3}|fmha_v2_|fmha_mhca_|fused_multihead_attention_\w{0,60}?sm(?:7|8|9|1\d)\d)"
        ),
        verdict=Verdict.TENSOR,
        precision="@attention",
        library="tensorrt_llm",
        op="attention",
        examples=("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",),
        source=PROFILES,
    ),
    KernelRule(
        key="decode_attention",
        pattern=re.compile(
            r"(?<![A-Za-z_])(?:(?:Batch|Single)DecodeWith|paged_attention_v[12]_?kernel|masked_multihead_attention_kernel)"
            r"|^mmha::"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@attention_simt",
        library="@decode",
        op="attention",
        examples=(
            "void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128, 16, 128>(float*, float*)",
        ),
        source="flashinfer-ai/flashinfer include/flashinfer/attention/decode.cuh; vllm-project/vllm csrc/attention",
    ),
)

QUANTISED: tuple[KernelRule, ...] = (
    KernelRule(
        key="quantised_gemv",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:mul_mat_vec(?:_[qf])?(?![a-z_])|gemm_half_q_half_|kgemm_4bit_inference_naive|kgemv_4bit_inference"
            r"|dequantize_mul_mat_vec|VecQuant\dMat|moe_vec_q(?=[<(]|$)|cudaCoreGemm|router_gemm_kernel_\w{1,20}_output)|"
            + KNOWN_LIBRARY
            + r"router_gemm_kernel|^(?:trtllm_dsv3_router_gemm|dsv3MinLatencyKernels)::router_gemm_kernel"
            r"|^cuda_core_gemm::cudaCoreGemm"
            r"|^(?:\w{1,40}::){0,4}kernel<(?:\w{1,40}::){0,3}weight_only::"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@quantised",
        library="@quantised_vendor",
        op="@quantised_op",
        examples=(
            "void mul_mat_vec<__half, __half, (int)1, (int)256>(const T1 *, const float *, const int *, float *)",
            "void router_gemm_kernel_bf16_output<__nv_bfloat16, 128, 8, 1, 256, 7168>(__nv_bfloat16*)",
        ),
        source=PROFILES + "; NVIDIA/TensorRT-LLM weightOnlyBatchedGemv, cudaCoreGemm: products of a few rows by FMA",
    ),
    KernelRule(
        key="quantised_simt",
        pattern=re.compile(
            KNOWN_FUNCTION + r"(?:(?:mul_mat_|moe_)q\d_[0-9K](?=[<(]|$)|moe_wna16_gemm_kernel|gemm_4bit_simt)"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@quantised",
        library="@quantised_vendor",
        op="gemm",
        examples=(
            "void mul_mat_q4_0<__half, true>(void const*, void const*, __half*, int, int, int, int, int)",
            "void moe_q4_K<c10::BFloat16, false>(void const*, void const*, c10::BFloat16*, int const*, int const*)",
            "void moe_wna16_gemm_kernel<__half, 4, 64>(__half const*, __half*, unsigned int const*, __half const*)",
            "void gemm_4bit_simt<__half, 32, 64, 2>(int, int, int, __half const*, unsigned char const*)",
        ),
        source="vllm-project/vllm csrc/quantization/gguf (dp4a), csrc/moe (HFMA2); bitsandbytes csrc",
    ),
    KernelRule(
        key="quantised_tensor",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:Marlin(?:_24)?(?=[<(]|$)|gemm\w{0,3}_forward_4bit_cuda_m\d|tinygemm_m16n8k16|mul_mat_f(?![a-z_])"
            r"|kgemm_4bit_inference(?=[<(]|$)|gemm_4bit_sm\d\d_)|^deep_gemm::sm(?:90|100|120)_\w{1,80}_impl(?=[<(]|$)"
            r"|^(?:deep_gemm::)?sm(?:90|100|120)_\w{0,40}(?:gemm|bmk_bnk|bmn_bnk|mqa_logits|mega_moe)(?!\w{0,40}metadata)"
            r"|^turbomind::gemm::gemm_(?:kernel|universal)_sm\d|^deep_gemm::fp8_gemm_kernel|^hadacore::hadamard_transform|^hadamard_transform_kernel<(?:\d|IL)"
            r"|^transformer_engine::(?:\w{1,40}::){0,3}\w{0,40}Hadamard(?:Transform|AmaxTma)Kernel"
            r"|^(?:sglang|vllm|tensorrt_llm)::(?:\w{1,40}::){0,4}fused_a_gemm_kernel|^fused_a_gemm_kernel<(?:\d|ILi\d)"
        ),
        verdict=Verdict.TENSOR,
        precision="@quantised",
        library="@quantised_vendor",
        op="@quantised_op",
        examples=(
            (
                "void marlin::Marlin<c10::BFloat16, 1125899906909960l, 256, 1, 8, 8, 4, 8, false>(int4 const*, "
                "int4 const*)"
            ),
            (
                "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_"
                "RM<(at::native::KReductionType)0>, "
                "at::native::BLayout_TC_int4<8, 128>, at::native::ALayout_RM<(at::native::KReductionType)0>, "
                "8, 8>(void const*)"
            ),
            "void sm90_fp8_gemm_1d2d_impl<0u, 2112u, 7168u, 1u, 128u, 128u>(float*, int*)",
            "void kgemm_4bit_inference<__half, 128>(int, int, int, __half*, unsigned char*, float*, __half*)",
            "void hadacore::hadamard_transform_kernel<1, 2, 8, false, (c10::ScalarType)5>(unsigned char*, int)",
            "void fused_a_gemm_kernel<1, 2112, 7168, 16, 16, 256, 7>(__nv_bfloat16*, __nv_bfloat16 const*)",
        ),
        source=(
            TENSOR_PIPE + " (tinygemm); " + PROFILES + "; deepseek-ai/DeepGEMM deep_gemm/include/impls; "
            "pytorch/ao hadacore; NVIDIA/TensorRT-LLM dsv3FusedAGemm.cu: mma.sync"
        ),
    ),
    KernelRule(
        key="trtllm_gen",
        pattern=re.compile(r"^(?:bmm|gemm)_[A-Z]\w{0,300}?(?:_sm1\d\d[af]?$|(?<=_)t\d+x\d+x\d+(?:u\d)?_s\d)"),
        verdict=Verdict.TENSOR,
        precision="@trtllm_gen",
        library="tensorrt_llm",
        op="gemm",
        examples=(
            (
                "bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16tokFp32_t128x8x512_s5_et128x8_m128x8x64_c1x1x1_rM_TN_"
                "transOut_schPd2x1x2x3_"
                "biasFp32M_bN_rgTma_clmp_dynB_sm100f"
            ),
        ),
        source=PROFILES,
    ),
    KernelRule(
        key="llama_mmq",
        pattern=re.compile(r"^mul_mat_q(?![a-z0-9_])"),
        verdict=Verdict.TENSOR,
        precision="@mmq",
        library="llama.cpp",
        op="gemm",
        examples=(
            "void mul_mat_q<(ggml_type)12, (int)64, (bool)0>(const char *, const int *, const int *, float *)",
            "void mul_mat_q<(ggml_type)40, (int)24, (bool)0>(const char *, const int *, const int *)",
        ),
        source="ggml-org/llama.cpp ggml-cuda/mmq.cuh; int8 products on tensor cores from 7.5 on, dp4a before",
    ),
    KernelRule(
        key="instruction_word",
        pattern=re.compile(
            HEAD + r"(?<![a-zA-Z0-9])(?<!no_)(?<!non_)(?<!without_)(?:wgmma|tcgen05|utcmma|umma|[hiqgw]mma"
            r"|m16n8k(?:8|16|32)|m16n16k16|mma_?sync)(?![a-zA-Z])"
        ),
        verdict=Verdict.TENSOR,
        precision="@operands",
        op="@matrix",
        examples=("void hgemm_wmma_m16n16k16_naive_kernel<16, 16, 16>(__half*, __half*, __half*, int, int, int)",),
        source="xlite-dev/LeetCUDA kernels/hgemm",
    ),
)

MATRIX_PRODUCTS: tuple[KernelRule, ...] = (*ATTENTION, *QUANTISED)
