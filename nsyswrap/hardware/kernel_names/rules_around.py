"""Rules for the work around matrix kernels. Its names hold the words of matrix work, so these rules come first."""

import re

from nsyswrap.hardware.kernel_names.rule import KNOWN_FUNCTION, KNOWN_LIBRARY, NAMESPACES, KernelRule, Verdict

PROFILES = "public profiles on GitHub"
MEASURED = "capture of PyTorch 2.11 on an H200; Nsight Compute there: tensor pipe under 3 %"

SUMS: tuple[KernelRule, ...] = (
    KernelRule(
        key="splitk_reduce",
        pattern=re.compile(
            r"^(?:cublasLt::)?splitKreduce_kernel|^cutlass\w{0,30}::Kernel2?<.{0,200}?ReduceSplitK"
            r"|^sm\d{2,3}_xmma_\w{0,300}?_(?:execute_split_k_kernel|splitK_?[rR]educe)"
            r"|^(?:cudnn::(?:\w{1,30}::){0,3})?reduce_wgrad_|^[wd]grad2d_\w{1,40}_nhwc_reduce(?=[<(]|$)"
            r"|^cublasLt::epilogue::(?:impl::)?globalKernel|^(?:epilogue::)?(?:impl::)?globalKernel<[^\n]{0,400}?cublasLt|^mul_mat_q_stream_k_fixup"
            r"|^(?:\w{1,40}::)?Kernel2?<(?:\w{1,40}::){1,4}ReduceSplitK|^(?:allspark::)?f16_gemm_splitk_reduce_kernel"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@xmma_or_blas",
        op="splitk_reduce",
        source=MEASURED,
    ),
    KernelRule(
        key="cublas_dot",
        pattern=re.compile(
            r"^(?:dot|reduce_1Block|asum|nrm2|iamax|iamin)_?\w{0,20}kernel\w{0,20}<.{0,400}?cublas|^(?:dot"
            r"|reduce_1Block)_kernel$"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cublas",
        op="reduction",
        source=MEASURED,
    ),
    KernelRule(
        key="cublas_vector",
        pattern=re.compile(
            r"^(?:scal|axpy|copy|swap|rot|geam)\w{0,20}kernel\w{0,20}<.{0,400}?cublas|^(?:scal|axpy)_kernel(?:_val)?$"
            r"|^\w{1,40}<[^\n]{0,400}?cublas(?:Ger|Syr|Her|Syher2?|Sphpr2?|T[bp]sv|Dgmm|Matinv)Params"
            r"|^get_minmax_block_ker<|^(?:prolog|epilog)_\w{1,40}<(?:\w{1,40}::){0,3}oz\d_"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="cublas",
        op="elementwise",
        source=MEASURED + "; around products that emulate FP64 with int8 (Ozaki), from " + PROFILES,
    ),
)

LAYOUT: tuple[KernelRule, ...] = (
    KernelRule(
        key="layout",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:(?:nchw|nhwc)To(?:Nchw|Nhwc|Folded)|[fF]oldedNhwc|nhwcSliceC|nhwcAddPadding|nchwAddPadding"
            r"|tensorTransformGeneric|genericTranspose_kernel|region_transform_|transpose_readWrite_|copyPackedKernel"
            r"|copyVectorizedKernel|permutationKernelPL|packR2C|reorder_tensor_kernel|prepack_B_kernel|permute_cols_kernel"
            r"|rearrange_kn_weight_|unified_encode_int4b_device|marlin_int4_fp8_preprocess)|^genericReformat::|^init_device_workspace_kernel<xmma"
            r"|^(?:deep_gemm::)?(?:transpose_(?:and_pack_)?fp32|pack_fp32_into_ue8m0)|^at::native::\w{0,60}_Bint4_layout"
            r"|^(?:machete|allspark|marlin_moe_wna16)::(?:prepack_B|permute_cols|rearrange_kn)|^cask\w{0,20}::"
            r"(?:compressSparse|\w{0,20}SparseMeta)"
            r"|^(?:cutlass::)?device_kernel<(?:(?:cutlass::)?transform::kernel::|INS_9transform6kernel)"
            r"|^turbomind::gemm::(?:pack_|convert_kernel)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@layout_vendor",
        op="layout",
        source=MEASURED,
    ),
    KernelRule(
        key="conv_aux",
        pattern=re.compile(
            KNOWN_LIBRARY
            + r"(?:compute\w{0,20}OffsetsKernel|init_device_workspace_kernel|kern_precompute_indices|scalePackedTensor"
            r"|scaleTensor|convertTensor_kernel|flip_filter)|"
            + KNOWN_FUNCTION
            + r"(?:(?:im2col|col2im|vol2col|vol2im)(?:\d?d)?_(?:gpu_)?kernel|fft[12]d_(?:r2c|c2r)_\d"
            r"|winograd(?:Forward|Wgrad|Dgrad)?(?:Data|Filter|Output|Delta)\d|winogradWgrad(?:Data|Output|Delta)"
            r"|generateWinogradTiles)|^(?:stream_executor::|xla::)?(?:\w{1,40}::){0,4}(?:RedzoneAllocator|redzone_checker)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@conv_aux_vendor",
        op="conv_aux",
        source=MEASURED,
    ),
    KernelRule(
        key="gemm_aux",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"(?:__)?(?:\w{0,20}prepare_(?:moe_)?grouped_gemm_|compute_gemm_pointers|compute_arg_sorts(?=[<(]|$)"
            r"|(?:int4_|fp8_|mxfp4_|mxfp8_|nvfp4_){0,3}get_(?:group_|grouped_)?gemm_starts"
            r"|(?:lora_|batched_|moe_lora_)?moe_align_block_size|(?:lora_)?count_and_sort_expert_tokens|compute_pplx_data"
            r"|compute_batched_moe_data|compute_expert_(?:blockscale_)?offsets|compute_problem_sizes(?=_|[<(]|$)"
            r"|computeExpertFirstTokenOffset|computeStridesTmaWarpSpecialized|expandInputRows|shuffle(?:Input)?Rows(?=Kernel)"
            r"|finalizeMoeRouting|preprocessTopkId|getMIndicesKernel|buildMinLatencyActiveExpertMaps|doActivationKernel"
            r"|apply_shuffle_mul_sum|(?:block|fused|global)ExpertPrefixSum|mergeExpertPrefixSum|routingIndices\w{0,40}Kernel|topkGating(?=[<(]|$|Softmax|Sigmoid|Softplus))|"
            + KNOWN_LIBRARY
            + r"(?:__)?(?:\w{0,40}gemm_arguments|offsetPointerArray)"
            r"|^(?:expert_specialization::)\w{0,60}(?:PreCompute|_quant)|^turbomind::gemm::(?:prepare_|fill_strided)"
            r"|^(?:deep_gemm::)?smxx_\w{1,60}|^offsetPointerArray_kernel<"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        op="gemm_aux",
        source=MEASURED + "; vllm-project/vllm csrc/moe, csrc/quantization/cutlass_w8a8; sgl-project/sglang sgl-kernel",
    ),
)

ATTENTION_AUX: tuple[KernelRule, ...] = (
    KernelRule(
        key="kv_cache",
        pattern=re.compile(
            KNOWN_FUNCTION
            + r"_?(?:reshape_and_cache|concat_and_cache)_|"
            + KNOWN_FUNCTION
            + r"(?:AppendPagedKVCache|copy_blocks_(?:mla_)?kernel|concat_mla_|ConcatMLA|mla_copy_qkv|store_kv_cache_"
            r"|transfer_(?:page_head_)?kernel_impl|indexer_k_quant_and_cache|gather_and_maybe_dequant_cache"
            r"|cp_gather_(?:cache|and_upconvert|indexer_k))"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@kv_cache",
        op="attention_aux",
        source=PROFILES,
    ),
    KernelRule(
        key="flash_aux",
        pattern=re.compile(
            r"FlashAttention(?:Forward|Backward)(?:Combine|Preprocess|Postprocess)|(?<![A-Za-z_])(?:"
            r"FlashAttn(?:Fwd|Bwd)(?:Combine|Preprocess|Postprocess)|fmha\w{0,20}Reduction|flash_fwd_\w{0,20}combine"
            r"|flash_bwd_(?:dot_do_o|convert|clear)|compute_dot_do_o_|convert_dq_to_|lean_reduction_kernel"
            r"|prepare_varlen_num_blocks|get_mla_metadata|flash_attn_(?:stream_k_fixup|combine_results"
            r"|mask_to_KV_max)|fmha_\w{0,20}(?:reduce|combine)_|(?:Persistent)?VariableLengthMergeStates"
            r"|merge_attn_states|paged_attention_v2_reduce)|"
            + KNOWN_LIBRARY
            + r"(?:MergeStates?|merge_states?|unpack_cudnn|fill_philox|transform_bias_rescale_qkv)"
            r"|^_fwd_kernel_(?:stage2|ep_(?:scatter|gather)_?\d?)(?=[<(]|$)"
            r"|^_(?:bwd_preprocess_do_o_dot|attn_bwd_preprocess)|^convert_vertical_slash_indexes_kernel"
            r"|^transformer_engine::(?:fused_attn|flash_attention)::|^turbomind::attention::reduce<"
            r"|^turbomind::linear_attn::\w{0,40}::\w{0,60}(?:Cumsum|Prepare)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@flash",
        op="attention_aux",
        source=MEASURED,
    ),
    KernelRule(
        key="rope",
        pattern=re.compile(
            r"^(?:_triton_)?_?(?:fused_)?(?:qk_norm_)?m?rope_(?:neox|norm|vision|multi|forward|backward|fwd|bwd|kernel)(?![a-z])"
            r"|^_?rotary_(?:embedding|kernel)(?![a-z])|"
            + KNOWN_LIBRARY
            + r"\w{0,60}?(?:[Rr]otary|(?<![a-z])[mx]?rope(?![a-z])|RoPE|Rope)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@kv_cache",
        op="attention_aux",
        source=PROFILES,
    ),
)

QUANTISATION: tuple[KernelRule, ...] = (
    KernelRule(
        key="quant",
        pattern=re.compile(
            r"^(?!nvjpeg|[^<(]{0,400}?(?:(?<!quant_deep_)[gG]emm(?!_?quant)|gemv|GEMM|[mM]at_?[mM]ul|mul_mat|attn|attention"
            r"|Attention|_mm_kernel))(?:(?:quantize_(?:mmq|q8)_|dequantize_block(?=_|<)|convert_unary(?![a-z])|QuantInt8Kernel|(?:MeanScale|SubMean|TransposePadPermute)Kernel(?=<\d)"
            r"|k(?:De)?[qQ]uantize(?:Blockwise)?(?![a-z])|kdequant_|kTransformRowToFormat|kget\w?ColRowStats"
            r"|_?per_token_(?:group_)?quant_(?:fp8|int8|8bit)|(?:vllm::)?convert_fp8_kernel|(?:allspark::)?restore_N32_K16_dequantize_"
            r"|kernel_cutlass_kernel_flashinferquantiz)|"
            + NAMESPACES
            + r"::[^<(]{0,400}?(?:[qQ]uantiz|_quant_|[qQ]uant(?:Int8|FP8|Fp8)|_quant\b|Quant\w{0,20}Kernel"
            r"|marlin_repack|cast_transpose|FP8rowwise|FP8_q|cvt_fp16_to_fp4|awq_\w{0,20}repack|_dequant|dequant_|fake_quant))"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@quant_vendor",
        op="quant",
        source=PROFILES,
    ),
)

AROUND: tuple[KernelRule, ...] = (*SUMS, *LAYOUT, *ATTENTION_AUX, *QUANTISATION)
