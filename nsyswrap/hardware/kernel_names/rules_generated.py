"""Rules for the matrix kernels that NVIDIA generates: nvjet, CUTLASS, CuTe and xmma."""

import re

from nsyswrap.hardware.kernel_names.rule import KernelRule, Verdict

PROFILES = "public profiles on GitHub"
TENSOR_PIPE = "Nsight Compute on an H200: tensor pipe busy"
NO_TENSOR_PIPE = "Nsight Compute on an H200: tensor pipe under 2 %"

CUTLASS: tuple[KernelRule, ...] = (
    KernelRule(
        key="nvjet",
        pattern=re.compile(r"^nvjet_"),
        verdict=Verdict.TENSOR,
        precision="@nvjet",
        library="cublas",
        op="gemm",
        source=TENSOR_PIPE + "; Blackwell names from " + PROFILES,
    ),
    KernelRule(
        key="cutlass_simt_name",
        pattern=re.compile(r"cutlass\w{0,60}?_simt_"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@cutlass",
        library="@cutlass_vendor",
        op="@matrix",
        source=NO_TENSOR_PIPE + "; NVIDIA/cutlass media/docs/cpp/profiler.md",
    ),
    KernelRule(
        key="cutlass_tensorop_name",
        pattern=re.compile(r"cutlass\w{0,60}?tensorop_"),
        verdict=Verdict.TENSOR,
        precision="@cutlass",
        library="@cutlass_vendor",
        op="@matrix",
        source=TENSOR_PIPE + "; Blackwell names from " + PROFILES,
    ),
    KernelRule(
        key="cutlass_simt_template",
        pattern=re.compile(r"MmaSimt|OpClassSimt|UniversalFMA"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@types",
        library="@cutlass_vendor",
        op="@matrix",
        source="NVIDIA/cutlass include/cutlass/gemm/warp/mma_simt.h",
    ),
    KernelRule(
        key="cutlass_tensor_template",
        pattern=re.compile(
            r"(?<![A-Za-z])(?:Mma(?:Volta|Sparse|Mixed\w{0,12})?TensorOp|OpClass\w{0,24}TensorOp|TensorOpMultiplicand"
            r"|MMA_Atom|UMMA::|GMMA::|MainloopSm(?:70|75|80|89|90|10\d|12\d)|SM(?:70|75|80|89|90|10\d"
            r"|12\d)_(?:\d+x\d+x\d+|MMA)_|nvcuda::wmma|DeviceGemm\w{0,24}?Sm1\d\d|CollectiveMma(?![A-Za-z])|Sm(?:90|1\d\d)Fmha)|TiledMMA|vllm(?:::|\d\d)cutlass_[23]x_gemm"
        ),
        verdict=Verdict.TENSOR,
        precision="@operands",
        library="@cutlass_vendor",
        op="@matrix",
        source=TENSOR_PIPE + "; CuTe DSL from " + PROFILES,
    ),
    KernelRule(
        key="cute_dsl_other",
        pattern=re.compile(
            r"^kernel_cutlass_(?!\w{0,400}?(?:[gG]emm|GEMM|[aA]ttention|[mM]ma(?![a-z])|MMA|Mla|MLA|Conv))\w{0,300}?"
            r"(?:[nN]orm|[sS]oftmax|[qQ]uantiz|[cC]ross_?[eE]ntropy|[tT]op_?[kK]|[rR]ope|[rR]otary|[rR]educ|[sS]wiglu|[sS]ilu"
            r"|[gG]elu|[eE]lementwise|[cC]opy|[tT]ranspose|[hH]istogram|[sS]ampl|[cC]umsum|[aA]dd)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@cutlass_vendor",
        op="@cute_dsl",
        source=PROFILES + "; Dao-AILab/quack",
    ),
    KernelRule(
        key="cute_dsl",
        pattern=re.compile(r"^kernel_cutlass_\w{0,300}?(?:Gemm|gemm|FlashAttention|Attention|MLA|Mla)"),
        verdict=Verdict.TENSOR,
        precision="@operands",
        library="@cutlass_vendor",
        op="@matrix",
        source=PROFILES,
    ),
)

XMMA: tuple[KernelRule, ...] = (
    KernelRule(
        key="xmma_pooling",
        pattern=re.compile(r"^sm\d+_xmma_(?:pool|softmax|reformat|lrn|reduce|elementwise)"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@xmma_vendor",
        op="pooling",
        source=PROFILES,
    ),
    KernelRule(
        key="xmma_depthwise",
        pattern=re.compile(r"xmma_\w{0,60}?(?:conv2d_c1_k1|depthwise)"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@xmma",
        library="@xmma_vendor",
        op="conv_depthwise",
        source=NO_TENSOR_PIPE + "; TensorRT names from " + PROFILES,
    ),
    KernelRule(
        key="xmma_simt",
        pattern=re.compile(
            r"sm[56]\d_xmma|xmma_\w{0,120}?_(?:c?f32c?f32_f32f32_c?f32|[fdi]?ffma|dfma|i?dp4a|simt)(?=_|$)"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@xmma",
        library="@xmma_vendor",
        op="@matrix",
        source=NO_TENSOR_PIPE,
    ),
    KernelRule(
        key="xmma_tensor",
        pattern=re.compile(
            r"sm\d{2,3}_xmma_\w{0,200}?(?:(?:sp)?tensor\d+x\d+x\d+|warpgroupsize|gmma|_b?f16f16|_bf16|tf32"
            r"|_e[45]m[23]|_e2m1|_i8|_c?f64c?f64)"
        ),
        verdict=Verdict.TENSOR,
        precision="@xmma",
        library="@xmma_vendor",
        op="@matrix",
        source=TENSOR_PIPE + "; TensorRT names from " + PROFILES,
    ),
    KernelRule(
        key="xmma_template",
        pattern=re.compile(
            r"(?:[Vv]olta|[Tt]uring|[Aa]mpere|[Aa]da|[Hh]opper|[Bb]lackwell)_[hibdqg]mma(?:_\w{0,40}traits"
            r"|_implicit_gemm)"
        ),
        verdict=Verdict.TENSOR,
        precision="@traits",
        library="cudnn",
        op="conv",
        source=PROFILES,
    ),
)

GENERATED_BY_NVIDIA: tuple[KernelRule, ...] = (*CUTLASS, *XMMA)
