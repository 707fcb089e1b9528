"""Rules for kernels of frameworks and libraries that are not matrix work."""

import re

from nsyswrap.hardware.kernel_names.rule import NEUTRAL_WORDS, NO_MATRIX, OPERATION_WORDS, KernelRule, Verdict

PROFILES = "public profiles on GitHub"
H200 = "capture of PyTorch 2.11 on an H200"

# Words of the work around the products of a mixture of experts.
_OF_EXPERTS = (
    r"sum|reduce|reduction|weighted|softmax|Softmax|sigmoid|Sigmoid|topk|TopK|Fast|fused_gate|gating|permute|unpermute"
    r"|align|sort|finalize|routing"
)

LIBRARIES: tuple[KernelRule, ...] = (
    KernelRule(
        key="cub",
        pattern=re.compile(
            r"^(?:at_cuda_detail::|\w{1,40}::)?(?:cub|thrust|cuda::std)::|^nv::topk::"
            r"|^Device(?:RadixSort(?:Onesweep|Histogram|ExclusiveSum|SingleTile|Upsweep|Downsweep)?|RadixSortScanBins"
            r"|Scan(?:ByKey)?(?:Init)?|Reduce(?:SingleTile|ByKey)?|SelectSweep|Segmented(?:Reduce|RadixSort)"
            r"|SegmentedSort\w{1,30}|Histogram(?:Init|Sweep)|MergeSort\w{1,20}|Merge|UniqueByKeySweep|CompactInit"
            r"|ThreeWayPartition(?:Init)?|RleSweep)Kernel(?=[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cub",
        op="@work",
        source=H200,
    ),
    KernelRule(
        key="cufft",
        pattern=re.compile(
            r"^(?:(?:DSE::)?(?:regular|vector|composite_2way|multi_bluestein|bluestein)_fft|generate_chirp_signal"
            r"|[ds]p(?:Radix|Vector)|real_complex::|(?:pre|post)process_kernel<.{0,120}?loadstore_modifier"
            r"|kernel_wrapper<.{0,200}?RealComplex)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cufft",
        op="fft",
        source=H200,
    ),
    KernelRule(
        key="experts",
        pattern=re.compile(
            rf"^(?=\w{{0,40}}?(?:{_OF_EXPERTS})(?![a-z]))_{{0,2}}(?:kimi_k2_)?[mM]oe_?"
            rf"(?:(?:{_OF_EXPERTS}|{NEUTRAL_WORDS}|general|dynamic|map|v\d)(?![a-z])_{{0,2}}){{1,12}}(?=[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        op="gemm_aux",
        source="sgl-project/sglang sgl-kernel/csrc/moe; NVIDIA/TransformerEngine permutation.cu; " + PROFILES,
    ),
    KernelRule(
        key="table_embeddings",
        pattern=re.compile(
            r"^(?:(?:nbit|embedding_ops|index_select|fbgemm_gpu)::(?:\w{1,40}::)?)?(?:"
            r"(?:\w{2,5}_)?(?:int_nbit_)?(?:split|dense|ssd)_embedding_(?:nobag_)?(?:backward_)?(?:codegen|count)_"
            r"|batch_index_select_dim0_codegen_|(?:direct_mapped_)?l[rfx]u_cache_|lfu_update_counts|emulate_cache_miss"
            r"|linearize_(?:cache_)?ind(?:ex|ices)_|bounds_check_indices_kernel|split_rowwise_adagrad_update"
            r"|generate_vbe_metadata|get_cache_indices_kernel|grad_mean_(?:vbe_)?kernel|permute_pooled_embs)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="fbgemm",
        op="embedding",
        source="FBGEMM 1.9",
    ),
    KernelRule(
        key="state_space",
        pattern=re.compile(
            r"^_?(?:fused_)?selective_scan_(?:fwd|bwd|update)|^fused_gdn_gating|^_(?:state_passing|chunk_cumsum)_(?:fwd|bwd)_kernel"
            r"|^_?chunk_(?:local|global)_cumsum|^ssm_(?:scan|conv)(?:_long_token)?_f32"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@state_space",
        op="scan",
        source="state-spaces/mamba csrc/selective_scan; fla-org/flash-linear-attention; ggml-org/llama.cpp ssm-conv.cu",
    ),
    KernelRule(
        key="bitsandbytes",
        pattern=re.compile(
            r"^k(?:(?:Precondition)?Optimizer(?:32bit|Static8bit)\w{1,40}|Int8VectorQuant|PercentileClipping"
            r"|EstimateQuantiles|HistogramScatterAdd2D|TransformRowToFormat|get(?:Col)?RowStats|ExtractOutliers"
            r"|DequantizeBlockwise|QuantizeBlockwise\w{0,20})(?=[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="bitsandbytes",
        op="@work",
        source="bitsandbytes-foundation/bitsandbytes csrc/kernels.cu",
    ),
    KernelRule(
        key="llama_other",
        pattern=re.compile(
            r"^(?:soft_max_(?:back_)?f32|cpy_(?:flt|f32|q|scalar)\w{0,20}|k_(?:set_rows|get_rows|argsort|sum_rows|copy_src1_to"
            r"|copy_dst_from|compute_batched_ptrs)\w{0,40}|(?:group_|l2_|rms_)?norm_(?:back_)?f32|rwkv_wkv7?_f32|topk_moe_cuda"
            r"|diag_mask_inf_f32|upscale_f32\w{0,20}|pad_(?:reflect_1d_)?f32|concat_(?:f32_dim\d|non_cont)|arange_f32"
            r"|timestep_embedding_f32|acc_f32|scale_f32|softcap_f32|unary_(?:gated_)?op_kernel|pool2d_nchw_kernel"
            r"|mm_ids_helper|reduce_rows_f32|cross_entropy_loss_(?:back_)?f32|opt_step_(?:adamw|sgd)_f32|count_equal"
            r"|add_id_kernel|roll_f32_cuda)(?=[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="llama.cpp",
        op="@work",
        source="ggml-org/llama.cpp ggml/src/ggml-cuda",
    ),
    KernelRule(
        key="triton_kernels",
        pattern=re.compile(
            r"^_(?:topk_(?:forward|backward)|finalize_(?:matmul|scatter)\w{0,40}|(?:combined_)?routing_(?:compute|memset)\w{0,40}"
            r"|expt_data_(?:compute|memset)|reduce_grouped\w{0,20}|sum_bitmatrix_\w{1,20}|upcast_from_mxfp|downcast_to_mxfp"
            r"|compute_writeback_idx)(?=[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="triton",
        op="gemm_aux",
        source="triton-lang/triton python/triton_kernels",
    ),
    KernelRule(
        key="magma",
        pattern=re.compile(
            r"^(?:magma_\w{0,20}(?:pivcast|pointer|max_nan)|(?:magma_?)?i?[sdczi](?:amax|computecolumn|displace_pointers|getf2"
            r"|getrf|lacpy|lan(?:sy|he)|lascl|laset|laswp|potf2|scal_|swap|transpose|trsv|sym[v]|hem[v])(?:\w{0,60})(?=[<(]|$)"
            r"|(?:adjust|stepinit)_ipiv_kernel|setup_pivinfo|kernel_[sdcz]set_pointer)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="magma",
        op="solver",
        source="PyTorch 2.8, libtorch_cuda_linalg",
    ),
    KernelRule(
        key="cusparse",
        pattern=re.compile(
            r"^cusparse::(?!\S{0,80}?(?:spmma|blocked_?ell|bsrmm))|^convert_CooToCsr"
            r"|^csr(?:mv|mm)_(?:alg\d|v\d|kernel)(?![a-z])|^sputnik::"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cusparse",
        op="sparse",
        source=H200,
    ),
    KernelRule(
        key="cusolver_lu_fp64",
        pattern=re.compile(r"^kernel<getrf_wo_pivot_params_<double\b"),
        verdict=Verdict.TENSOR,
        precision="fp64",
        library="cusolver",
        op="solver",
        source="Nsight Compute 2025.3 on an H200: 696,320 matrix instructions in a launch, most DMMA.8x8x4",
    ),
    KernelRule(
        key="cusolver",
        pattern=re.compile(
            r"^(?:cusolver|(?:batch_|kernel_)?(?:un)?(?:getr[fsi]|geqr[ft]?|orgqr|ormqr|ormtr|orgtr|unmqr|sytr[dfi]"
            r"|hetr[dfi]|steqr|syev[djx]?|heev[djx]?|gesv(?:d[jr]?)?|gebal|gebrd|lar(?:f[tgb]?|tg)|lacpy|lascl|laset|laswp"
            r"|lansy|laed|laqr|potr[fsi]|trtri|trsm|trsv|trmv|ger_)(?![a-z])|unblocked_LDinv|LDinv_|(?:batched_)?svd_(?:column|row|block)_"
            r"|xxtrf|ipiv_|colperm_kernel|batch_trsm)|^\w{1,40}<.{0,60}?sytrd_params"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cusolver",
        op="solver",
        source=H200,
    ),
    KernelRule(
        key="media",
        pattern=re.compile(r"^(?:nvjpeg|dali|npp|nppi|nvtiff|nv12|vision::ops|torchaudio|kornia|cvcuda)::"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@media",
        op="@work",
        source=H200 + "; " + PROFILES,
    ),
    KernelRule(
        key="tensorrt_other",
        pattern=re.compile(r"^(?:nvinfer1|cuEltwise|cuInt8|cuResize|cuSlice|cuGather|cuScale|cuPad)::" + NO_MATRIX),
        verdict=Verdict.NOT_ELIGIBLE,
        library="tensorrt",
        op="@work",
        source=PROFILES,
    ),
    KernelRule(
        key="cudnn_other",
        pattern=re.compile(
            r"^cudnn::(?:\w{1,30}::){0,2}(?:bn_|batchnorm|batch_norm|pooling_|softmax_|lrn_|ctc_|activation_"
            r"|dropout_|spatial_|transformer_|op_tensor|reduce_tensor|crossmap|norm|rmsnorm|layernorm)"
            r"|^cudnn::(?:\w{1,40}::){0,3}(?!\w{0,80}?(?:conv|Conv|wgrad|dgrad|fprop|[eE]ngine|sdpa|fmha))"
            + NO_MATRIX
            + r"(?:\w{1,60}::)?\w{1,80}<|^(?:bn_(?:fw|bw)_(?:tr|inf)_|bn_inf_|batchnorm_(?:fw|bw)tr_"
            r"|pooling_(?:fw|bw)_(?:4d_|5d_)?kernel|op_generic_tensor_kernel|op_tensor_kernel|cudnn_generated_\w{0,60}?norm)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cudnn",
        op="@work",
        source=H200 + "; " + PROFILES,
    ),
)

FRAMEWORKS: tuple[KernelRule, ...] = (
    KernelRule(
        key="aten",
        pattern=re.compile(r"^(?:at|c10|torch|caffe2|at_cuda_detail)::" + NO_MATRIX),
        verdict=Verdict.NOT_ELIGIBLE,
        library="pytorch",
        op="@work",
        source=H200,
    ),
    KernelRule(
        key="jiterator",
        pattern=re.compile(
            r"^" + NO_MATRIX + r"(?!\w{0,60}?(?:(?<![a-z])(?:dot|mma)(?![a-z])|conv(?!ert)|product))"
            r"(?:\w{1,40}_(?:vectorized\d+|unrolled_elementwise)_kernel$"
            r"|reduction_(?:prod|sum|nansum|mean|max|min|norm|var|std|any|all)_kernel$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="pytorch",
        op="elementwise",
        source=H200,
    ),
    KernelRule(
        key="torch_unqualified",
        pattern=re.compile(
            r"^(?:(?:at|c10|apex|native|unnamed>|_GLOBAL__N_\w{1,60})::(?:\w{1,60}::){0,4})?(?:elementwise_kernel_with_index"
            r"|reduce_kernel(?=<\d{1,4}, \d{1,2}, (?:at::native::)?ReduceOp<)"
            r"|vectorized_elementwise_kernel|unrolled_elementwise_kernel|kernelPointwiseApply\d|kernelReduce(?:All|Noncontig"
            r"|Contig)|kernelTransformReduce|kernelHistogram1D|indexSelect(?:Small|Large)Index|index_elementwise_kernel"
            r"|cunn_(?:Soft|Spatial|ClassNLL|Cross|LookupTable)\w{1,40}|CatArrayBatchedCopy|multi_tensor_apply_kernel"
            r"|fused_dropout_kernel|radixSortKVInPlace|bitonicSortKVInPlace|triu_tril_kernel|compute_cuda_kernel"
            r"|softmax_warp_(?:for|back)ward|MaxPool(?:For|Back)ward|vectorized_layer_norm_kernel|GammaBetaBackward"
            r"|RowwiseMomentsCUDAKernel|gatherTopK|sampleMultinomial|renormRowsL1|tensor_kernel_scan_(?:inner|outer)most"
            r"|embedding_backward_(?:feature_)?kernel|indexing_backward_kernel|THC\w{1,40}|RoIAlign(?:For|Back)ward"
            r"|distribution_(?:elementwise|nullary|binary)\w{0,40}|(?:max_pool_(?:for|back)ward|avg_pool[23]d\w{0,20}_out)_"
            r"|upsample_\w{1,40}_out_frame|nearest_neighbor_\dd_(?:kernel|nhwc|backward)"
            r"|batch_norm_(?:collect_statistics|transform_input|backward_reduce|backward_elemt)"
            r"|cuApplyLayerNorm|cuCompute(?:Part)?Grad(?:Input|GammaBeta)"
            r"|scaled_(?:upper_triang_)?masked_softmax_warp|randperm_handle_duplicate_keys|ComputeFusedParams"
            r"|ComputeInternalGradients|ComputeBackwardFusedParams|adaptive_?average_?(?:pool|grad)"
            r"|atomic_?adaptive_?average|[cp]dist_(?:kernel|backward)_cuda|coalesceValuesKernel|computeBlockwise"
            r"|computeDigitCumSum|compute_grad_weight(?:_bags)?(?=[<(]|$)|compute_num_of_partial_segments"
            r"|convert_indices_from_(?:coo_to_csr|csr_to_coo)_cuda|glu_backward_kernel|grid_sampler_[23]d_"
            r"|indexFunc(?:Small|Large)Index|krn_partial(?:s_per_segment|_segment_offset)|lpnorm_cleanup|roll_cuda_kernel"
            r"|searchsorted_cuda_kernel|tril_indices_kernel|write_indices(?=[<(]|$)|_assert_async_cuda_kernel)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@torch_extension",
        op="@work",
        source=H200 + "; NVIDIA/apex issue 666; " + PROFILES,
    ),
    KernelRule(
        key="other_framework",
        pattern=re.compile(
            r"^(?:tensorflow|Eigen|mxnet|mshadow|paddle|phi|caffe|onnxruntime|cudf|raft|cuml|fbgemm_gpu|apex"
            r"|oneflow|mindspore|detectron2|transformer_engine|deepspeed|faster_transformer|fastertransformer"
            r"|sgl_kernel)::" + NO_MATRIX + r"|^[A-Z][A-Za-z0-9]{1,40}_GPU_DT_"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@framework",
        op="@work",
        source="apache/mxnet issue 17665; " + PROFILES,
    ),
    KernelRule(
        key="serving",
        pattern=re.compile(
            r"^(?:vllm|flashinfer|tensorrt_llm|sglang|moe::dev|trtllm|lmdeploy"
            r"|turbomind)::(?![^<(]{0,400}?(?:[gG]emm|GEMM|_mm(?![a-z])|[mM]at_?[mM]ul|[aA]ttention|[aA]ttn|cutlass"
            r"|mha|mla|mqa|xqa|conv|ssm|[pP]refill|KernelTemplate|MLA|fused_moe_kernel|MoeKernel|gdn|GDN|delta_rule"
            r"|[rR]ecurrent|[lL]inear))"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@serving",
        op="@work",
        source=PROFILES,
    ),
    KernelRule(
        key="cupy",
        pattern=re.compile(r"^cupy_" + NO_MATRIX),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cupy",
        op="@work",
        source="cupy/cupy: names are cupy_<operation>__<types>",
    ),
)

WORDS: tuple[KernelRule, ...] = (
    KernelRule(
        key="named_operation",
        pattern=re.compile(
            rf"^(?=[^<(]{{0,100}}?(?:(?<![A-Za-z0-9])|(?<=[a-z])(?=[A-Z])|(?<=\bk)(?=[A-Z]))(?:{OPERATION_WORDS})(?![a-z]))"
            rf"_{{0,2}}(?:(?:{OPERATION_WORDS}|{NEUTRAL_WORDS})(?![a-z])_{{0,2}}){{1,12}}(?=[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@named",
        op="@work",
        source=H200 + "; " + PROFILES,
    ),
)
