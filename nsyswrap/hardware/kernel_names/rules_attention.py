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
        source=TENSOR_PIPE + " (f32 from sm80 on is three TF32 products)",
    ),
    KernelRule(
        key="memory_efficient_simt",
        pattern=re.compile(r"fmha_cutlass[FB]_(?:b?f16|f32)_|Attention(?:Backward)?Kernel<(?:float|cutlass::|arch::)"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@attention_simt",
        library="pytorch_memeff",
        op="attention",
        source="PyTorch aten/src/ATen/native/transformers/cuda/mem_eff_attention/gemm_kernel_utils.h",
    ),
    KernelRule(
        key="llama_attention_simt",
        pattern=re.compile(r"^flash_attn_(?:ext_)?(?:vec|tile)(?![a-z])"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@attention_simt",
        library="llama.cpp",
        op="attention",
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
        source=PROFILES,
    ),
    KernelRule(
        key="llama_mmq",
        pattern=re.compile(r"^mul_mat_q(?![a-z0-9_])"),
        verdict=Verdict.TENSOR,
        precision="@mmq",
        library="llama.cpp",
        op="gemm",
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
        source="xlite-dev/LeetCUDA kernels/hgemm",
    ),
)

MATRIX_PRODUCTS: tuple[KernelRule, ...] = (*ATTENTION, *QUANTISED)
