"""Rules for kernels named by compilers: Inductor, Triton, XLA, TensorRT's Myelin."""

import re

from nsyswrap.hardware.kernel_names.rule import HEAD, KernelRule, Verdict

PROFILES = "public profiles on GitHub"
H200 = "captures of PyTorch 2.11 and JAX 0.11 on an H200"

# Operations of XLA that multiply no matrices: a fusion is named after its operations. Source: openxla/stablehlo
# docs/spec.md.
_HLO = (
    r"add|subtract|multiply|divide|remainder|negate|abs|sign|select|convert|compare|and|or|not|xor|clamp|maximum|minimum"
    r"|power|sqrt|rsqrt|cbrt|tanh|sine|cosine|exponential|log|logistic|erf|floor|ceil|is_finite|round_nearest_\w{3,4}"
    r"|slice|dynamic_slice|dynamic_update_slice|iota|bitcast|bitcast_convert|pad|transpose|reshape|reverse|broadcast"
    r"|concatenate|copy|scatter|gather|reduce|reduce_window|select_and_scatter|sort|dynamic|update|shift_left"
    r"|shift_right_logical|shift_right_arithmetic|rng_bit_generator|map|exponential_minus_one|log_plus_one"
)

COMPILED: tuple[KernelRule, ...] = (
    KernelRule(
        key="inductor_pointwise",
        pattern=re.compile(r"^triton_(?:poi|for|spl)_"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="inductor",
        op="elementwise",
        source=H200,
    ),
    KernelRule(
        key="inductor_reduction",
        pattern=re.compile(r"^triton_(?:per|red)_"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="inductor",
        op="reduction",
        source=H200,
    ),
    KernelRule(
        key="inductor_template",
        pattern=re.compile(r"^triton_(?:tem_|mm|bmm|addmm|convolution|flex|unk_)"),
        verdict=Verdict.UNKNOWN,
        library="inductor",
        op="@triton",
        source=H200 + "; the name has no type and no instruction",
    ),
    KernelRule(
        key="xla_matrix",
        pattern=re.compile(r"^(?:triton_|__triton_)?(?:nested_)?gemm_fusion|^triton_gemm|^cudnn_fusion|^fusion_dot"),
        verdict=Verdict.UNKNOWN,
        library="xla",
        op="gemm",
        source=H200 + "; pytorch/xla pull request 6407",
    ),
    KernelRule(
        key="xla_fusion",
        pattern=re.compile(
            rf"^(?:wrapped(?:_(?:{_HLO})){{1,6}}|(?:loop|input|block)(?:_(?:{_HLO})){{0,12}}_fusion(?:_\d+)*"
            rf"|(?:(?:{_HLO})_){{1,12}}fusion(?:_\d+)*|fusion(?:_\d+)*|triton_softmax_\d+|sort_\d+_\d+)$"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="xla",
        op="elementwise",
        source=H200,
    ),
    KernelRule(
        key="xla_runtime",
        pattern=re.compile(r"^stream_executor::"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="xla",
        op="other",
        source=H200,
    ),
    KernelRule(
        key="myelin_matrix",
        pattern=re.compile(r"^_gemm_mha|^__myl_\w{0,200}?(?:Fc|Gemm|Conv(?!e)|Mha|Mat[mM]ul)"),
        verdict=Verdict.UNKNOWN,
        library="tensorrt",
        op="@myelin",
        source=PROFILES + "; the name has no type and no instruction",
    ),
    KernelRule(
        key="myelin",
        pattern=re.compile(
            r"^__myl_|^generatedNativePointwise|^pointwiseV\d|^cu(?:Slice|Resize|Gather|Eltwise|Scale)Layer"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="tensorrt",
        op="elementwise",
        source=PROFILES,
    ),
)

TRITON: tuple[KernelRule, ...] = (
    KernelRule(
        key="matmul_ogs",
        pattern=re.compile(
            r"^_(?:p_)?matmul(?:_ogs)?_[NT]{3}_[a-z0-9]{1,16}x(?:bf16|fp16|fp8|float8|mxfp[48]|e[45]m)\w{0,20}?x[a-z]"
        ),
        verdict=Verdict.TENSOR,
        precision="@matmul_ogs",
        library="triton",
        op="gemm",
        source="triton-lang/triton python/triton_kernels: the name has the types of the result and of both operands",
    ),
    KernelRule(
        key="recurrent",
        pattern=re.compile(
            r"^_?fused_recurrent_(?!\w{0,80}_dw(?:[<(]|$))\w{0,60}?(?:fwd|bwd|update|decode)"
            r"|^fused_sigmoid_gating_delta_rule_update_kernel"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        library="fla",
        op="attention",
        source="fla-org/flash-linear-attention: products of the state with a vector, by elementwise work and sums",
    ),
    KernelRule(
        key="triton_matrix",
        pattern=re.compile(
            r"^(?:_?fused_moe_kernel|_?invoke_fused_moe|_w\d+a\d+|\w{0,40}?block_scaled_mm"
            r"|_?matmul_(?:persistent_)?kernel|_?bsr_|_?(?:attn_)?(?:fwd"
            r"|bwd)(?:_inner)?(?:_d[kqv]{1,3})?(?:_kernel)?(?=$|_0d|_\d)|_attn_(?:fwd|bwd)\w{0,20}"
            r"|\w{0,40}?unified_attention|_\w{0,40}?(?:decode|prefill)\w{0,40}?kernel|_?grouped_gqa"
            r"|_fwd_grouped_kernel|_fwd_kernel_\w{1,40}|_?chunk_(?!(?:(?:local|global)_)?cumsum)\w{0,60}?(?:kernel|fwd|bwd)|\w{0,20}?recompute_w_u"
            r"|\w{0,40}?gated_delta_rule|_?kda_|_bmm_chunk|merge_16x16_to_\w{0,40}?inverse)"
        ),
        verdict=Verdict.UNKNOWN,
        library="triton",
        op="@triton",
        source=H200 + "; " + PROFILES + "; the name has no type and no instruction",
    ),
)

HINTS: tuple[KernelRule, ...] = (
    KernelRule(
        key="cutlass_other",
        pattern=re.compile(r"^cutlass\w{0,30}::(?:Kernel2?|device_kernel)<"),
        verdict=Verdict.UNKNOWN,
        library="@cutlass_vendor",
        op="@matrix",
        source="vllm-project/vllm pull request 23280; names cut short before they tell the instruction",
    ),
    KernelRule(
        key="mentions_attention",
        pattern=re.compile(
            HEAD + r"(?:[aA]ttention|[aA]ttn|ATTN|sdpa|SDPA|fmha|kernel_mha|(?<![a-z])m[hql]a(?![a-z])|MLA|MHA)"
        ),
        verdict=Verdict.UNKNOWN,
        op="attention",
        source=PROFILES,
    ),
    KernelRule(
        key="mentions_convolution",
        pattern=re.compile(
            HEAD + r"(?:(?<![a-zA-Z])[cC]onv(?:olution|olve)?(?![a-z])|(?<=[a-z])Conv(?:olution)?(?![a-z])"
            r"|fprop|dgrad|wgrad)"
        ),
        verdict=Verdict.UNKNOWN,
        op="conv",
        source=PROFILES,
    ),
    KernelRule(
        key="mentions_product",
        pattern=re.compile(
            HEAD + r"(?:[gG]emm|GEMM|[mM]at(?:rix)?_?[mM]ul|mul_?mat|[bB]mm(?![a-z])|BMM|_mm(?![a-z])|(?<![a-z])mm_"
            r"|[mM]oe(?![a-z])|MoE"
            r"|_mlp(?![a-z])|einsum|contraction|(?<![a-z])ffn|xmma|(?<![a-z])linear(?:_fwd|_bwd|_kernel))"
        ),
        verdict=Verdict.UNKNOWN,
        op="gemm",
        source=PROFILES,
    ),
    KernelRule(
        key="tensor_map",
        pattern=re.compile(r"CUtensorMap"),
        verdict=Verdict.UNKNOWN,
        op="",
        source=PROFILES + "; kernels fed by the tensor memory accelerator are products more often than not",
    ),
)
