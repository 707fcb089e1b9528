"""Readers of precision, library and operation: one for each convention. The first pattern that matches decides."""

import re
from collections.abc import Mapping

from nsyswrap.hardware.kernel_names.rule import HEAD

# Patterns are texts: few are used in one capture, and ``re`` compiles and keeps those.
Reader = tuple[tuple[str, str], ...]


def _reader(*lines: tuple[str, str]) -> Reader:
    return lines


def _heads(*lines: tuple[str, str]) -> Reader:
    """Return a reader of words in the head of a name, in upper or lower case."""
    return tuple((f"(?i){HEAD}(?:{words})", value) for words, value in lines)


READERS: Mapping[str, Reader] = {
    # nvjet: one letter for each matrix. Three letters: A and B, compute type, D. Five: A, B, C, compute type, D.
    "@nvjet": _reader(
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)(?:[qr]|o[qr])", "fp8"),
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)o", "fp4"),
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)h", "fp16"),
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)t", "bf16"),
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)s", "tf32"),
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)d", "fp64"),
        (r"^nvjet_(?:sm\d{2,3}[a-z]?_)?(?!sm\d)b", "int8"),
    ),
    # xmma: pairs of types, operands first. `tf32f32` in second place means that the operands are rounded to TF32.
    "@xmma": _reader(
        (r"_e[45]m[23]", "fp8"),
        (r"_e2m1|_f4", "fp4"),
        (r"tf32", "tf32"),
        (r"_b?i4", "int4"),
        (r"_i8|int8|Int8", "int8"),
        (r"_bf16", "bf16"),
        (r"_f16|fp16|FP16", "fp16"),
        (r"_c?f64", "fp64"),
        (r"_c?f32|fp32|FP32", "fp32"),
    ),
    # CUTLASS's names for its kernels: the types come before or after the shape of the instruction.
    "@cutlass": _reader(
        (r"(?<!u)e4m3|e5m2", "fp8"),
        (r"e2m3|e3m2", "fp6"),
        (r"e2m1|xf4|_f4(?![0-9])", "fp4"),
        (r"_[su]4(?![0-9])|i(?:8832|16864)", "int4"),
        (r"_[su]8(?![0-9])|i(?:8816|16832|161616)|_i\d+x\d+x", "int8"),
        (r"_[dz](?:884|168\d{1,2})|_f64", "fp64"),
        (r"tf32", "tf32"),
        (r"bf16", "bf16"),
        (r"_f16|_h(?:884|1688|16816|161616)|_h\d+x", "fp16"),
        (r"_[sc]1688", "tf32"),
        (r"_s(?:884|16816|161616)", "fp16"),
        (r"simt_[sc]gemm|simt_\w{0,12}_[sc]gemm|_f32", "fp32"),
        (r"simt_dgemm|simt_zgemm", "fp64"),
        (r"simt_hgemm", "fp16"),
        (r"simt_igemm", "int8"),
    ),
    # Names that begin with an architecture: volta_fp16_s884gemm_fp16_..., ampere_s1688gemm_...
    "@instruction": _reader(
        (r"bf16", "bf16"),
        (r"tf32", "tf32"),
        (r"int8|i(?:8816|16832|161616)", "int8"),
        (r"int4|i(?:8832|16864)", "int4"),
        (r"[dz](?:884|168\d{1,2})", "fp64"),
        (r"fp16|h(?:884|1688|16816|161616)|s(?:884|16816|161616)|(?:volta|turing)\w{0,40}s1688", "fp16"),
        (r"[sc]1688", "tf32"),
    ),
    # BLAS letters without an instruction: s, d, c, z, h, i, and a storage type before them.
    "@blas": _reader(
        (r"int8|(?<![a-zA-Z])i(?:gemm|cudnn)", "int8"),
        (r"bf16|bfloat16", "bf16"),
        (r"fp16|(?<![a-zA-Z])h(?:gemm|cudnn)", "fp16"),
        (r"(?<![a-zA-Z])g?[dz](?:gemm|cudnn)|double", "fp64"),
        (r"(?:g|s|c)(?:gemm|cudnn)|Cgemm|float", "fp32"),
    ),
    # C++ types of the operands, demangled or not.
    "@types": _reader(
        (r"float_e[45]m|__nv_fp8|[Ff]loat8_e[45]m|_fp8_", "fp8"),
        (r"e2m1|float4_t|_fp4_", "fp4"),
        (r"tfloat32|tf32|OpMultiplyAddFastF32", "tf32"),
        (r"(?<![a-z_u])int8_t|(?<!un)signed char|_int8_", "int8"),
        (r"bfloat16|BFloat16|bf16", "bf16"),
        (r"half|Half|fp16", "fp16"),
        (r"double", "fp64"),
        (r"float", "fp32"),
    ),
    # The same for templates of tensor-core kernels, in which `float` is an accumulator or a scale.
    "@operands": _reader(
        (r"float_e[45]m|__nv_fp8|[Ff]loat8_e[45]m|_fp8_", "fp8"),
        (r"e2m1|float4_t|_fp4_", "fp4"),
        (r"tfloat32|tf32|TF32|OpMultiplyAddFastF32", "tf32"),
        (r"(?<![a-z_u])int8_t|(?<!un)signed char|_int8_|S8S8", "int8"),
        (r"bfloat16|BFloat16|bf16", "bf16"),
        (r"half|Half|fp16|float16|f16", "fp16"),
        (r"double|F64F64", "fp64"),
    ),
    # Classes of the old xmma templates.
    "@traits": _reader(
        (r"hmma_tf32", "tf32"),
        (r"hmma_bf16", "bf16"),
        (r"[hg]mma", "fp16"),
        (r"imma", "int8"),
        (r"dmma", "fp64"),
        (r"qmma", "fp8"),
    ),
    # Attention kernels name the types of Q, K and V.
    "@attention": _reader(
        (r"[Ee]4m3|[Ee]5m2|fp8", "fp8"),
        (r"int8", "int8"),
        (r"bf16|[Bb]f(?:loat)?16|BFloat16", "bf16"),
        (r"f16|fp16|Fp16|half|Half", "fp16"),
        (r"_f32_|float", "tf32"),
    ),
    "@attention_types": _reader(
        (r"e4m3|e5m2|fp8", "fp8"),
        (r"qk_int\d?", "int8"),
        (r"bfloat16|BFloat16|bf16", "bf16"),
        (r"half|Half|f16|fp16", "fp16"),
    ),
    "@attention_simt": _reader(
        (r"bf16|bfloat16", "bf16"), (r"f16|fp16|half|Half|uint16|unsigned short", "fp16"), (r"_f32|float", "fp32")
    ),
    # Quantised weights: the product uses the type of the activations, or the type in the head of the name.
    "@quantised": _reader(
        (r"^(?:mul_mat_q\d|moe_q\d|moe_vec_q)", "int8"),
        (r"deep_gemm::\w{0,20}fp8|fp8_gemm", "fp8"),
        (r"deep_gemm::\w{0,20}bf16|tinygemm|BFloat16|bfloat16", "bf16"),
        (r"deep_gemm::\w{0,20}tf32", "tf32"),
        (r"kgemm_4bit_inference_naive$|kgemv_4bit_inference$", "int4"),
        (r"kgem[mv]_4bit[^\n]{0,40}float", "fp32"),
        (r"kgemm_4bit_inference_naive", "int4"),
        (r"sm100_\w{0,30}fp4|mega_moe", "fp4"),
        (r"sm(?:90|100|120)_\w{0,30}fp8", "fp8"),
        (r"sm(?:90|100|120)_\w{0,30}bf16|_bf16|fused_a_gemm|router_gemm_kernel_", "bf16"),
        (r"sm(?:90|100|120)_\w{0,30}tf32", "tf32"),
        (r"FP16Details", "fp16"),
        (r"BF16Details", "bf16"),
        (r"Half|half|cuda_m16n", "fp16"),
        (r"transformer_engine", "bf16"),
        (r"mul_mat_vec<float", "fp32"),
    ),
    # llama.cpp's types of weights by number: 39 and 40 are multiplied as FP4 on Blackwell and as int8 before.
    "@mmq": _reader((r"<(?:\(ggml_type\))?(?:39|40)(?!\d)", ""), (r"", "int8")),
    "@quantised_vendor": _reader(
        (r"^mul_mat_q\d|^moe_", "vllm"),
        (r"^mul_mat|dequantize_mul", "llama.cpp"),
        (r"gptq", "gptq"),
        (r"awq|gemm_forward_4bit", "awq"),
        (r"[mM]arlin", "marlin"),
        (r"^turbomind", "lmdeploy"),
        (r"deep_gemm|fp8_gemm_kernel|^sm\d{2,3}_", "deepgemm"),
        (r"transformer_engine", "transformer_engine"),
        (r"hadamard", "pytorch"),
        (r"kgem[mv]|gemm_4bit", "bitsandbytes"),
        (r"^sglang", "sglang"),
        (r"router_gemm|weight_only::|cudaCoreGemm|fused_a_gemm", "tensorrt_llm"),
        (r"^at::", "pytorch"),
        (r"half_q_half", "exllama"),
    ),
    "@quantised_op": _reader(
        (r"mqa_logits", "attention"),
        (r"[hH]adamard", "other"),
        (r"mul_mat_vec|kgemm_4bit_inference_naive|kgemv|moe_vec_q|weight_only::|cudaCoreGemm", "gemv"),
        (r"", "gemm"),
    ),
    "@decode": _reader((r"flashinfer", "flashinfer"), (r"masked_multihead|mmha", "tensorrt_llm"), (r"", "vllm")),
    # trtllm-gen: result, then both operands. Of mixed operands the wider type counts.
    "@trtllm_gen": _reader(
        (r"^[bg]e?mm_[A-Za-z0-9]+_[A-Za-z0-9]{0,20}E[45]m", "fp8"),
        (r"^[bg]e?mm_[A-Za-z0-9]+_[A-Za-z0-9]{0,20}E2m1", "fp4"),
        (r"^[bg]e?mm_[A-Za-z0-9]+_[A-Za-z0-9]{0,20}Bfloat16", "bf16"),
        (r"^[bg]e?mm_[A-Za-z0-9]+_[A-Za-z0-9]{0,20}Fp16", "fp16"),
    ),
    # Names that begin with an architecture: cuDNN's convolutions, TensorRT's copies of cuBLAS and cuDNN kernels, else
    # cuBLAS.
    "@blas_vendor": _reader((r"^trt_", "tensorrt"), (r"cudnn|gcgemm|Cgemm", "cudnn"), (r"", "cublas")),
    "@xmma_vendor": _reader((r"cudnn", "cudnn"), (r"cublas", "cublas"), (r"", "tensorrt")),
    "@xmma_or_blas": _reader((r"cudnn", "cudnn"), (r"_trt$", "tensorrt"), (r"mul_mat_q", "llama.cpp"), (r"", "cublas")),
    "@layout_vendor": _reader(
        (r"^at::", "pytorch"),
        (r"deep_gemm", "deepgemm"),
        (r"^(?:machete|allspark|vllm|rearrange_kn)", "vllm"),
        (r"arlin|^permute_cols", "marlin"),
        (r"^turbomind", "lmdeploy"),
        (r"^cask\w{0,20}cublas", "cublas"),
        (r"^cutlass", "cutlass"),
        (r"genericReformat|copyPacked|copyVectorized|permutationKernel", "tensorrt"),
        (r"region_transform|transpose_readWrite", "cublas"),
        (r"packR2C", "cufft"),
        (r"", "cudnn"),
    ),
    "@conv_aux_vendor": _reader((r"^at::", "pytorch"), (r"stream_executor|redzone", "xla"), (r"", "cudnn")),
    "@quant_vendor": _reader(
        (r"^at::", "pytorch"),
        (r"vllm", "vllm"),
        (r"tensorrt_llm", "tensorrt_llm"),
        (r"flashinfer", "flashinfer"),
        (r"marlin", "marlin"),
        (r"fbgemm", "fbgemm"),
        (r"transformer_engine", "transformer_engine"),
        (r"dequantize_block|quantize_mmq|quantize_q8|convert_unary", "llama.cpp"),
        (r"^k[QDTG]|^kdequant|^kget", "bitsandbytes"),
        (r"^QuantInt8|QuantFP8", "sageattention"),
        (r"", ""),
    ),
    "@cutlass_vendor": _reader(
        (r"cudnn", "cudnn"),
        (r"(?<![a-z_])cutlass_[5-9]\d_|_bias_\w{2,4}_(?:relu|gelu)", "cublas"),
        (r"^cutlass::device_kernel<at::|2at4cuda", "pytorch"),
        (r"vllm", "vllm"),
        (r"deep_gemm", "deepgemm"),
        (r"flash_attn", "flash_attention"),
        (r"flashinfer", "flashinfer"),
        (r"tensorrt_llm", "tensorrt_llm"),
        (r"", "cutlass"),
    ),
    "@cute_dsl": _heads(
        ("norm", "norm"),
        ("softmax", "softmax"),
        ("quantiz", "quant"),
        ("entropy", "loss"),
        ("top_?k", "sort"),
        ("rope|rotary", "attention_aux"),
        ("copy|transpose", "layout"),
        ("reduc|histogram", "reduction"),
        ("sampl", "random"),
        ("cumsum", "scan"),
        ("", "elementwise"),
    ),
    "@gemv_vendor": _reader(
        (r"cublas|gemvx|^gemv", "cublas"),
        (r"cusolver|^orm|^update_column", "cusolver"),
        (r"^at::", "pytorch"),
        (r"vllm", "vllm"),
        (r"tensorrt_llm", "tensorrt_llm"),
        (r"awq", "awq"),
        (r"kgemm|kgemv", "bitsandbytes"),
        (r"", ""),
    ),
    "@depthwise_vendor": _reader(
        (r"^at::|^conv_depthwise", "pytorch"),
        (r"tensorflow|DepthwiseConv2dGPU", "tensorflow"),
        (r"causal_conv1d", "mamba"),
        (r"", "cudnn"),
    ),
    "@media": _reader(
        (r"^vision", "torchvision"),
        (r"^torchaudio", "torchaudio"),
        (r"^nvjpeg", "nvjpeg"),
        (r"^dali", "dali"),
        (r"^npp", "npp"),
    ),
    "@myelin": _reader((r"mha|Mha", "attention"), (r"Conv", "conv"), (r"", "gemm")),
    "@torch_extension": _reader((r"^split_embedding", "fbgemm"), (r"^cu[AC]|^scaled_", "apex"), (r"", "pytorch")),
    "@collective": _reader(
        (r"deep_ep|^(?:intranode|internode)|notify_dispatch|cached_notify|clean_low_latency", "deep_ep"),
        (r"vllm|^cross_device", "vllm"),
        (r"^flashinfer", "flashinfer"),
        (r"^sglang|device::distributed::", "sglang"),
        (r"^tensorrt_llm|moeA2A|moeAllToAll|fusedMoeComm", "tensorrt_llm"),
        (r"nvshmem|_on_stream_kernel", "nvshmem"),
        (r"userbuffers", "transformer_engine"),
        (r"^turbomind", "lmdeploy"),
        (r"mscclpp", "mscclpp"),
        (r"^(?:c10d|at|torch)::|(?:one|two)_shot_all_reduce_kernel|^multimem_|exchangeSplit|allToAllV", "pytorch"),
        (r"^gloo", "gloo"),
        (r"^(?:UCC|ucc)_|ucc_ec_", "ucc"),
        (r"^uc[pt]_", "ucx"),
        (r"^nccl_|^ubx_|nccl(?:DevComm|Window)", "nccl"),
        (r"^(?:stream_executor|xla)", "xla"),
    ),
    "@framework": _reader(
        (r"^(?:tensorflow|Eigen)|_GPU_DT_", "tensorflow"),
        (r"^(?:mxnet|mshadow)", "mxnet"),
        (r"^(?:paddle|phi)", "paddle"),
        (r"^fbgemm", "fbgemm"),
        (r"^transformer_engine", "transformer_engine"),
        (r"^apex", "apex"),
        (r"^onnxruntime", "onnxruntime"),
        (r"^sgl", "sglang"),
    ),
    "@serving": _reader(
        (r"^vllm", "vllm"),
        (r"^flashinfer", "flashinfer"),
        (r"^(?:tensorrt_llm|moe|trtllm)", "tensorrt_llm"),
        (r"^sgl", "sglang"),
    ),
    "@state_space": _reader((r"^ssm_", "llama.cpp"), (r"^_?chunk_(?:local|global)", "fla"), (r"", "mamba")),
    "@matmul_ogs": _reader(
        (r"^_(?:p_)?matmul\w{0,4}_[NT]{3}_\w{1,12}?x(?:fp8|float8|e[45]m)", "fp8"),
        (r"^_(?:p_)?matmul\w{0,4}_[NT]{3}_\w{1,12}?xbf16", "bf16"),
        (r"^_(?:p_)?matmul\w{0,4}_[NT]{3}_\w{1,12}?xfp16", "fp16"),
        (r"^_(?:p_)?matmul\w{0,4}_[NT]{3}_\w{1,12}?xmxfp8", "fp8"),
        (r"^_(?:p_)?matmul\w{0,4}_[NT]{3}_\w{1,12}?xmxfp4", "fp4"),
    ),
    "@named": _reader(
        (r"^fast_hadamard|FastHadamard", "sglang"),
        (r"_f32[<(]|^k_bin_bcast|^k_get_rows|^unary_gated_op", "llama.cpp"),
        (r"^kOptimizer", "bitsandbytes"),
    ),
    "@rnn_vendor": _reader((r"^at::", "pytorch"), (r"", "cudnn")),
    "@rnn": _reader((r"bfloat16", "bf16"), (r"half|HMMA", "fp16"), (r"double", "fp64"), (r"float|<f,", "fp32")),
    "@kv_cache": _reader(
        (r"vllm::", "vllm"),
        (r"flashinfer::", "flashinfer"),
        (r"^rope_(?:neox|norm|vision|multi)", "llama.cpp"),
        (r"", "triton"),
    ),
    "@flash": _reader(
        (r"fmha\w{0,20}Reduction", "tensorrt_llm"),
        (r"^transformer_engine", "transformer_engine"),
        (r"^turbomind", "lmdeploy"),
        (r"cudnn", "cudnn"),
        (r"flashinfer|(?:Prefill|Decode)With|MergeStates", "flashinfer"),
        (r"flash_attn_(?:ext|stream_k|combine|mask)", "llama.cpp"),
        (r"^qk_int", "sageattention"),
        (r"^at::", "pytorch"),
        (r"vllm", "vllm"),
        (r"", "flash_attention"),
    ),
    # The operation of a matrix kernel. A complex product in single precision is a step of a convolution by FFT.
    "@matrix": _reader(
        (
            r"fprop|dgrad|wgrad|cudnn_(?!generated)|gcgemm|Cgemm|::conv::|4conv6kernel|Conv[23]d|[Ii]mplicit_?[Gg]emm",
            "conv",
        ),
        (r"Fmha|FMHA|fmha|Attention|attention|FlashAttn", "attention"),
        (r"conv(?!ert)(?=[^<]{0,200}$)", "conv"),
        (r"", "gemm"),
    ),
    "@triton": _reader(
        (r"attention|attn|sdpa|(?:fwd|bwd)_kernel|prefill|decode|chunk|delta|gqa|kda_|recompute|inverse", "attention"),
        (r"conv(?!ert)", "conv"),
        (r"", "gemm"),
    ),
    # Operations that are not products, from words in the head.
    "@work": _heads(
        ("eigenmetakernel", "elementwise"),
        ("hadamard", "other"),
        ("softmax", "softmax"),
        ("norm|moments|gammabeta|welford|::bn_|fusedparams|internalgradients", "norm"),
        ("pool", "pooling"),
        ("_loss|ctc_|entropy|criterion", "loss"),
        ("multi_tensor|adam|(?<![a-z])(?:lamb|lion|sgd)(?![a-z])|optimizer|amp_update|lpnorm", "optimizer"),
        ("embedding|compute_grad_weight|segment|krn_partial|sum_and_scatter", "embedding"),
        ("(?:lstm|gru|rnn)_?cell", "rnn"),
        ("sort|topk|kthvalue|median|compute_mode|unique|deviceselect|partition|run_?length", "sort"),
        ("scan|cumsum|cumprod|adjacent_difference", "scan"),
        ("distribution|random|multinomial|philox|randperm|bernoulli|rng|dropout|generate_seed", "random"),
        ("scatter|gather|index|searchsorted|histogram|take(?![a-z])|embed|nonzero|write_indices", "index"),
        ("upsample|grid_sampler|roi_|interpolat|affine|resize|nms|nearest_neighbor", "resize"),
        ("im2col|col2im|vol2col|vol2im", "conv_aux"),
        (
            "catarray|concat|(?<!direct_)copy|transpose|permute|padding|_pad|flip|roll_|tri[ul]|(?<![a-z])split_",
            "layout",
        ),
        ("fft", "fft"),
        ("nvjpeg", "other"),
        ("quant|fp8|float8", "quant"),
        ("elementwise|pointwise", "elementwise"),
        ("reduce|reduction|_sum|argmax|_max|_mean", "reduction"),
        ("", "elementwise"),
    ),
}


def value_of(field: str, subject: str) -> str:
    """Return the value of a rule's field for one name: the field itself or what its reader finds; empty for nothing.

    Args:
        field: ``precision``, ``library`` or ``op`` of a rule.
        subject: The name as ``classify.subject`` returns it.
    """
    if not field.startswith("@"):
        return field
    return next((value for pattern, value in READERS[field] if re.search(pattern, subject)), "")
