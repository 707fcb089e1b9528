"""Rules for the hand-written matrix kernels of cuBLAS, cuDNN and TensorRT."""

import re

from nsyswrap.hardware.kernel_names.rule import KNOWN_FUNCTION, KNOWN_LIBRARY, NEUTRAL_WORDS, KernelRule, Verdict

PROFILES = "public profiles on GitHub"
TENSOR_PIPE = "Nsight Compute on an H200: tensor pipe busy"
NO_TENSOR_PIPE = "Nsight Compute on an H200: tensor pipe under 2 %"

BLAS: tuple[KernelRule, ...] = (
    KernelRule(
        key="instruction_name",
        pattern=re.compile(
            r"(?<![A-Za-z0-9])[hsidczb](?:884|1688|8816|8832|16816|16832|16864|161616)(?:tf32|bf16|sp)?"
            r"(?:gemm|cudnn|fprop|dgrad|wgrad|conv|g_)"
        ),
        verdict=Verdict.TENSOR,
        precision="@instruction",
        library="@blas_vendor",
        op="@matrix",
        source="pytorch/pytorch issue 54324; NVIDIA/TensorRT issue 1179; " + PROFILES,
    ),
    KernelRule(
        key="blas_name",
        pattern=re.compile(
            r"^(?:trt_|cudnn_\w{0,12}?_|_5x_cudnn_)?(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)_"
            r"(?!\w{0,120}(?:[hiq]mma|[hi]?mma\d))\w{0,60}?(?<![A-Za-z0-9])(?:gc?|gz|[hsdczi])(?:gemm|cudnn)(?:Batched|Ex)?(?![A-Za-z])"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@blas",
        library="@blas_vendor",
        op="@matrix",
        source="apache/mxnet issue 9774; NVIDIA/apex issue 666; " + PROFILES,
    ),
    KernelRule(
        key="gemv",
        pattern=re.compile(
            r"^(?:gemv(?:2[NT]|NSP|TNSP)\w{0,20}|(?:internal::)?gemvx::kernel|kgemv_\w{1,40})(?=[<(]|$)"
            r"|^[^\n]{0,200}?cublasGemvParams|^(?:kernel|internal::kernel)<.{0,200}?cublasGemv|^ormtr_gerc|"
            + KNOWN_LIBRARY
            + r"\w{0,60}?(?:(?<![a-z])gemv|GemV|Gemv)"
            + rf"|^_{{0,2}}(?:(?:{NEUTRAL_WORDS})_){{0,4}}gemv(?:_(?:{NEUTRAL_WORDS}|quant)){{0,6}}(?=[<(]|$)"
            + r"|^gemv[nct]c?_(?:template_)?(?:batched_)?kernel(?:_batched)?(?=[<(]|$)"
            r"|^(?:cuds_)?sy(?:he)?mv[lu]?_\w{1,40}<|^\w{1,40}<[^\n]{0,400}?cublas[GST]\w{1,6}mv\w{0,6}Params"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@types",
        library="@gemv_vendor",
        op="gemv",
        source=NO_TENSOR_PIPE,
    ),
    KernelRule(
        key="small_gemm",
        pattern=re.compile(
            r"^gemmSN_|^gemmk1_|^[sdcz]gemm_(?:largek(?=_|<)|\d+x\d+x\d+_[NT]{2}|sm\d\d_|batched_smallsq)"
            r"|^[sdczh]gemm\d+x\d+_kernel_core|^magma_\w{0,20}(?:[sdczh]gemm|[sdcz]trmm|bdmm)"
            r"|^(?:gemm|herk)_template_(?:batched_|vbatched_)?[nt]{2}_kernel"
            r"|^(?:inf_patching::impl::patch_|batch_)gemm_kernel(?:\d|_64addr)"
            r"|^fermi\w{0,8}Cgemm|^gemm_kernel[12]x[12](?![a-z])"
            r"|^cublas_?(?:syrk|syr2k|herk|symm|hemm|trmm|syherk)(?![a-z])"
            r"|^(?:syrk|syr2k|herk|symm|hemm|trmm(?:\d|_left|_right)?|syherk|syhemm)_(?:batched_)?kernel(?:_val|_core|_ldgsts)?"
            r"(?=<.{0,400}?cublas|$)"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@blas",
        library="@blas_vendor",
        op="@matrix",
        source=NO_TENSOR_PIPE + "; NVIDIA/apex issue 666",
    ),
)

CUDNN: tuple[KernelRule, ...] = (
    KernelRule(
        key="conv_depthwise",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:conv2d_grouped_direct|[dw]grad2d_grouped_direct|(?:conv|dgrad|wgrad)2d_c1_k1|[dw]grad2d_shmem_tiling"
            r"|conv_depthwise[23]d|_?causal_conv1d_|DepthwiseConv2d\w{0,40}GPU)|"
            + KNOWN_LIBRARY
            + r"\w{0,60}?[dD]epthwise(?!_?_?sep)"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@types",
        library="@depthwise_vendor",
        op="conv_depthwise",
        source=NO_TENSOR_PIPE + "; causal_conv1d from " + PROFILES,
    ),
    KernelRule(
        key="conv_simt",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:(?:im|ex)plicit_convolve_|precomputed_convolve_|convolve_common_engine|[wd]grad_(?:alg\d_)?engine"
            r"|[wd]grad_alg\d_\w{0,20}?engine|convolveNd_|[wd]grad2d_alg\d|conv1D_NCHW|winograd3x3Kernel"
            r"|pointwise_mult_and_sum_complex|dgrad_1x1_stride_2x2|first_layer_wgrad_kernel"
            r"|direct_group(?:ed)?_conv)"
        ),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@types",
        library="cudnn",
        op="conv",
        source=NO_TENSOR_PIPE,
    ),
    KernelRule(
        key="rnn_pointwise",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:elemWiseRNN|(?:LSTM|GRU|RNN|GENERIC)_elementWise|RNN_bidirectional_accum|persistRNN_init"
            r"|(?:lstm|gru|rnn)_cell_(?:for|back)ward)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@rnn_vendor",
        op="rnn",
        source=NO_TENSOR_PIPE,
    ),
    KernelRule(
        key="rnn_tensor",
        pattern=re.compile(r"^(?:RNN_\w{0,60}?HMMA|(?:volta|turing|ampere|ada|hopper|blackwell)_(?:lstm|gru|rnn)_)"),
        verdict=Verdict.TENSOR,
        precision="@rnn",
        library="cudnn",
        op="rnn",
        source=TENSOR_PIPE,
    ),
    KernelRule(
        key="rnn_simt",
        pattern=re.compile(r"^(?:RNN_(?:block|dyn)?[Pp]ersist|persist(?:ent)?_?RNN|LSTM_persist|PersistentRNN)"),
        verdict=Verdict.SIMT_ELIGIBLE,
        precision="@rnn",
        library="cudnn",
        op="rnn",
        source=NO_TENSOR_PIPE,
    ),
)

VENDOR: tuple[KernelRule, ...] = (*BLAS, *CUDNN)
