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
        examples=("nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT",),
        source=TENSOR_PIPE + "; Blackwell names from " + PROFILES,
    ),
    KernelRule(
        key="cutlass_simt_name",
        pattern=re.compile(r"cutlass\w{0,60}?_simt_"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@cutlass",
        library="@cutlass_vendor",
        op="@matrix",
        examples=("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(T1::Params)",),
        source=NO_TENSOR_PIPE + "; NVIDIA/cutlass media/docs/cpp/profiler.md",
    ),
    KernelRule(
        key="cutlass_tensorop_name",
        pattern=re.compile(r"cutlass\w{0,60}?tensorop_"),
        verdict=Verdict.TENSOR,
        precision="@cutlass",
        library="@cutlass_vendor",
        op="@matrix",
        examples=("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4>(T1::Params)",),
        source=TENSOR_PIPE + "; Blackwell names from " + PROFILES,
    ),
    KernelRule(
        key="cutlass_simt_template",
        pattern=re.compile(r"MmaSimt|OpClassSimt|UniversalFMA"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@types",
        library="@cutlass_vendor",
        op="@matrix",
        examples=(
            (
                "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaPipelined<"
                "cutlass::gemm::GemmShape<128, 128, 8>, "
                "cutlass::gemm::threadblock::MmaPolicy<cutlass::gemm::warp::MmaSimt<"
                "cutlass::gemm::GemmShape<32, 64, 8>, float, cutlass::layout::ColumnMajor, float> > > > >"
            ),
        ),
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
        examples=(
            (
                "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_"
                "4gemm6kernel13GemmUniversalINS5_17"
                "GroupProblemShapeIN4cute5tupleIJiiiEEEEENS5_10collective13CollectiveMmaINS5_"
                "39MainloopSm90ArrayTmaGmmaWarp"
                "SpecializedILi4ENSA_IJNS9_1CILi2EEENSG_ILi1EEESI_EEE"
            ),
            (
                "kernel_cutlass_kernel_flashinfergemmkernelsdense_blockscaled_gemm_"
                "sm100Sm100BlockScaledPersistentDenseGemm"
                "Kernel_object_at__TiledMMA_ThrLayoutVMNK11110000_PermutationMNK____MMAAtom"
            ),
        ),
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
        examples=("kernel_cutlass_kernel_quacksoftmaxSoftmax_object_at__tensorptrbf16gmemalign16odiv8div81_0",),
        source=PROFILES + "; Dao-AILab/quack",
    ),
    KernelRule(
        key="cute_dsl",
        pattern=re.compile(r"^kernel_cutlass_\w{0,300}?(?:Gemm|gemm|FlashAttention|Attention|MLA|Mla)"),
        verdict=Verdict.TENSOR,
        precision="@operands",
        library="@cutlass_vendor",
        op="@matrix",
        examples=(
            (
                "kernel_cutlass_kernel___main__HopperWgmmaGemmKernel_object_at__CopyAtom_ThrID10_TVLayoutSrc1819201_"
                "TVLayoutDst1819201_Valuetypef16_tensor000o111012_CopyAtom_ThrID10_TVLayoutSrc1819201_TVL_0"
            ),
        ),
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
        examples=("sm50_xmma_pooling_coalescedC_NHWC_kMAX_2_False_execute_kernel_trt",),
        source=PROFILES,
    ),
    KernelRule(
        key="xmma_depthwise",
        pattern=re.compile(r"xmma_\w{0,60}?(?:conv2d_c1_k1|depthwise)"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@xmma",
        library="@xmma_vendor",
        op="conv_depthwise",
        examples=(
            (
                "sm90_xmma_depthwise_convolution_wgrad_tiling_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize1x8x8_"
                "1x3x3_1x1x1_1x1x1_"
                "stage3_warpsize4x1x1_g32_betaTrue_execute_kernel__5x_cudnn"
            ),
        ),
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
        examples=(
            (
                "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_"
                "execute_kernel__5x_cublas"
            ),
        ),
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
        examples=(
            (
                "sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_nchw_vect_c_32_"
                "tilesize64x96x64_stage3_warpsize2x2x1_g1_tensor16x8x32_t1r3s3"
            ),
        ),
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
        examples=(
            (
                "void xmma_cudnn::gemm::kernel<xmma_cudnn::implicit_gemm::wgrad_indexed::Kernel_traits<"
                "xmma_cudnn::Ampere_hmma_fp32_traits, xmma_cudnn::Cta_tile<xmma_cudnn::Ampere, 256, 128, 32, "
                "4, 2, 1, 1> > >"
            ),
        ),
        source=PROFILES,
    ),
)

GENERATED_BY_NVIDIA: tuple[KernelRule, ...] = (*CUTLASS, *XMMA)
