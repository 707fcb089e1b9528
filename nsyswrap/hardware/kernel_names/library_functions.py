"""Functions of libraries and the namespaces that they are in, for names that have lost their namespace.

Nsight Compute prints ``vectorized_elementwise_kernel<4, ...>`` for ``at::native::vectorized_elementwise_kernel<4,
...>``. Each name of this table is a library's own; generic names such as ``kernel`` or ``fill`` are left out.

Source: the kernels in the binaries of PyTorch 2.8, vLLM 0.11 and 0.20, sgl-kernel 0.3.21, Transformer Engine 2.20,
FBGEMM 1.9, LMDeploy 0.18, cuDNN 9.28 and CUB; the sources of FlashInfer and TensorRT-LLM.
"""

import re
from collections.abc import Mapping

FUNCTIONS: Mapping[str, str] = {
    "Eigen::internal": "EigenMetaKernel",
    "allspark": "ampere_hgemm_W8A16_perc_f16_f16_MtilexNtilex32_hmma16816_multistage_AN_BTN32K16_CN_splitk_kernel",
    "at::cuda": "kernelHistogram1D",
    "at::cuda::cub": "final_scan_kernel",
    "at::cuda::detail": "prepare_grouped_gemm_data",
    "at::cuda::philox": "unpack_cudnn",
    "at::native": """
        CatArrayBatchedCopy CatArrayBatchedCopy_alignedK_contig CatArrayBatchedCopy_contig
        CatArrayBatchedCopy_vectorized ChooseQuantizationParamsKernelImpl Compute1dBackwardFusedParamsCUDAKernel
        ComputeBackwardFusedParamsCUDAKernel ComputeFusedParamsCUDAKernel ComputeInternalGradientsCUDAKernel
        EmbeddingBag_accGradParametersKernel_max EmbeddingBag_updateOutputKernel_max
        EmbeddingBag_updateOutputKernel_sum_mean FusedAdamMathFunctor GammaBeta1dBackwardCUDAKernel1
        GammaBeta1dBackwardCUDAKernel2 GammaBetaBackwardCUDAKernel1 GammaBetaBackwardCUDAKernel2
        GammaBetaBackwardCUDAKernelTemplate GammaBetaBackwardSimpleCUDAKernel LayerNormForwardCUDAKernel MaxPoolForward
        MovingAverageMinMax MultiMarginLoss_backward_kernel MultiMarginLoss_forward_kernel RowwiseMomentsCUDAKernel
        _assert_async_cuda_kernel _embedding_bag_per_sample_weights_backward_kernel _fft_conjugate_copy_kernel
        _scatter_gather_elementwise_kernel _sparse_sum_backward_cuda_kernel _unfold_backward_elementwise_kernel
        adaptive_average_gradinput adaptive_average_gradinput_nhwc adaptive_average_pool adaptive_average_pool_nhwc
        adaptiveaveragegradinput adaptiveaveragepool adaptivemaxgradinput adaptivemaxpool add_padding_1 add_padding_2
        add_padding_3 amp_update_scale_cuda_kernel atomic_adaptive_average_gradinput atomicadaptiveaveragegradinput
        atomicadaptivemaxgradinput avg_pool2d_backward_out_cuda_frame avg_pool2d_backward_out_cuda_frame_nhwc
        avg_pool2d_out_cuda_frame avg_pool2d_out_cuda_frame_nhwc avg_pool3d_cuda_update_grad_input
        avg_pool3d_cuda_update_grad_input_atomic avg_pool3d_cuda_update_output
        avg_pool3d_single_backward_out_frame_stride1 batch_norm_backward_elemt_channels_last_kernel
        batch_norm_backward_elemt_kernel batch_norm_backward_kernel batch_norm_backward_reduce_channels_last_kernel
        batch_norm_backward_reduce_kernel batch_norm_collect_statistics_channels_last_kernel
        batch_norm_collect_statistics_kernel batch_norm_reduce_statistics_kernel
        batch_norm_transform_input_channels_last_kernel batch_norm_transform_input_kernel bitonicSortKVInPlace
        cdist_backward_kernel_cuda_impl cdist_kernel_cuda_impl col2im_batched_kernel col2im_kernel compute_grad_weight
        compute_grad_weight_atomic_accumulate compute_grad_weight_bags compute_num_of_partial_segments
        conv_depthwise2d_backward_kernel conv_depthwise2d_forward_kernel conv_depthwise2d_forward_kernel_generic
        conv_depthwise2d_grad_weight_kernel conv_depthwise3d_cuda_backward_input_kernel
        conv_depthwise3d_cuda_backward_weight_kernel conv_depthwise3d_cuda_kernel
        convert_indices_from_coo_to_csr_cuda_kernel convert_indices_from_csr_to_coo_cuda_kernel
        ctc_loss_backward_collect_gpu_kernel ctc_loss_backward_collect_nonblank_gpu_kernel
        ctc_loss_backward_log_beta_gpu_kernel ctc_loss_log_alpha_gpu_kernel ctc_loss_zero_padded_gradients
        cuda_sparse_coo_softmax_backward_kernel cuda_sparse_coo_softmax_kernel
        cunn_ClassNLLCriterion_updateOutput_kernel cunn_SoftMaxBackward cunn_SoftMaxBackwardSmem cunn_SoftMaxForward
        cunn_SoftMaxForwardGmem cunn_SoftMaxForwardReg cunn_SoftMaxForwardSmem cunn_SpatialSoftMaxBackward
        cunn_SpatialSoftMaxForward distribution_elementwise_grid_stride_kernel elementwise_kernel
        elementwise_kernel_with_index embedding_backward_feature_kernel embedding_backward_kernel
        embedding_bag_4bit_rowwise_offsets embedding_bag_nbits_rowwise_offsets_kernel fill_index_and_segment_kernel
        fill_reverse_indices_kernel fractional_max_pool2d_backward_out_cuda_frame fractional_max_pool2d_out_cuda_frame
        fractional_max_pool3d_backward_out_frame fractional_max_pool3d_out_frame fused_dropout_kernel
        fused_dropout_kernel_vec gatherKthValue gatherMedian gatherTopK glu_backward_kernel
        grid_sampler_2d_backward_kernel grid_sampler_2d_kernel grid_sampler_3d_backward_kernel grid_sampler_3d_kernel
        im2col_kernel indexFuncLargeIndex indexFuncSmallIndex indexSelectLargeIndex indexSelectSmallIndex
        index_elementwise_kernel index_put_kernel indexing_backward_kernel indexing_backward_kernel_small_stride
        indexing_backward_kernel_stride_1 jagged_dense_dense_elementwise_jagged_output_kernel_
        jagged_dense_dense_elementwise_jagged_output_opt_gather_kernel_
        jagged_dense_dense_elementwise_jagged_output_opt_search_kernel_ jagged_dense_elementwise_dense_output_kernel_
        krn_partial_segment_offset krn_partial_to_segment_idx krn_partials_per_segment layer_norm_grad_input_kernel
        layer_norm_grad_input_kernel_vectorized lpmax_cleanup lpnorm_cleanup masked_scatter_size_check
        masked_softmax_warp_forward matrix_to_m16n8k16_Bint4_layout max_pool3d_with_indices_backward_single_out_frame
        max_pool3d_with_indices_single_out_frame max_pool_backward_nchw max_pool_backward_nhwc max_pool_forward_nchw
        max_pool_forward_nhwc max_unpooling2d_backward_kernel max_unpooling2d_forward_kernel
        max_unpooling3d_backward_kernel max_unpooling3d_forward_kernel multi_tensor_apply_kernel
        multilabel_margin_loss_backward_kernel multilabel_margin_loss_forward_kernel nll_loss2d_backward_kernel
        nll_loss2d_backward_no_reduce_kernel nll_loss2d_forward_kernel nll_loss2d_forward_no_reduce_kernel
        nll_loss2d_forward_size_average_kernel nll_loss_backward_no_reduce_cuda_kernel
        nll_loss_backward_reduce_cuda_kernel_1d nll_loss_backward_reduce_cuda_kernel_2d
        nll_loss_forward_no_reduce_cuda_kernel nll_loss_forward_reduce_cuda_kernel_1d
        nll_loss_forward_reduce_cuda_kernel_2d pdist_backward_kernel_cuda_impl pdist_kernel_cuda_impl
        post_sum_div_kernel prefix_sum_kernel radixSortKVInPlace rand_uniform_kernel
        reduce_crow_indices_dim1_cuda_kernel reduce_sparse_csr_dim0_cuda_kernel reduce_sparse_csr_dim1_cuda_kernel
        reflection_pad1d_backward_out_kernel reflection_pad1d_out_kernel reflection_pad2d_backward_det_out_kernel
        reflection_pad2d_backward_out_kernel reflection_pad2d_out_kernel reflection_pad3d_backward_out_kernel
        reflection_pad3d_out_kernel remove_padding remove_padding_2 remove_padding_transform0213_2 renormRowsL1
        renorm_kernel replication_pad_backward_kernel replication_pad_forward_kernel1d replication_pad_forward_kernel2d
        replication_pad_forward_kernel3d roll_cuda_kernel rrelu_with_noise_cuda_kernel sampleMultinomialOnce
        sampleMultinomialWithReplacement sampled_addmm_dense_kernel search_end_matrix_indices_cuda_kernel
        searchsorted_cuda_kernel segment_reduce_backward_kernel segment_reduce_forward_kernel sort_postprocess_kernel
        sparse_semi_structured_apply_dense_k sparse_semi_structured_apply_kernel sparse_semi_structured_tile_kernel
        sum_and_scatter tensor_kernel_scan_innermost_dim tensor_kernel_scan_innermost_dim_with_indices
        tensor_kernel_scan_outer_dim tensor_kernel_scan_outer_dim_with_indices
        transform_bias_rescale_qkv_add_padding_kernel transform_bias_rescale_qkv_kernel tril_indices_kernel
        triu_indices_kernel triu_tril_kernel unrolled_elementwise_kernel unrolled_elementwise_kernel_for_multi_outputs
        upsample_bicubic2d_backward_out_frame upsample_bicubic2d_out_frame upsample_bilinear2d_backward_nhwc_out_frame
        upsample_bilinear2d_backward_out_frame upsample_bilinear2d_nhwc_out_frame upsample_bilinear2d_out_frame
        upsample_gen2d_aa_backward_out_frame upsample_gen2d_aa_out_frame upsample_linear1d_out_frame
        upsample_linear1d_out_frame_backward upsample_nearest1d_backward_out_frame upsample_nearest1d_out_frame
        upsample_nearest2d_backward_nhwc_out_frame upsample_nearest2d_backward_out_frame
        upsample_nearest2d_nhwc_out_frame upsample_nearest2d_out_frame upsample_nearest3d_backward_out_frame
        upsample_nearest3d_out_frame upsample_trilinear3d_backward_out_frame upsample_trilinear3d_out_frame
        vectorized_elementwise_kernel vectorized_gather_kernel vectorized_layer_norm_kernel
        vectorized_templated_elementwise_kernel vol2col_kernel vol2im_kernel weight_norm_bwd_first_dim_kernel
        weight_norm_bwd_last_dim_kernel weight_norm_fwd_first_dim_kernel weight_norm_fwd_last_dim_kernel
        write_fill_value write_indices
    """,
    "at::native::apply": "coalesceValuesKernel sparseElementwiseKernel sparseElementwiseKernelScalar",
    "at::native::detail": "chunk_cat_cuda_kernel split_with_sizes_copy_out_contiguous_no_cast_kernel",
    "at::native::internal": """
        adjacent_difference_kernel scatter_kernel unique_bool_write_inverse_indices unique_bool_write_output
    """,
    "at::native::kernel": "gru_cell_backward gru_cell_forward lstm_cell_backward lstm_cell_forward",
    "at::native::mbtopk": "computeBlockwiseKthCounts computeBlockwiseWithinKCounts gatherTopK radixFindKthValues",
    "at::native::nested": "transform_bias_rescale_qkv_kernel",
    "at::native::sbtopk": "gatherTopK",
    "c10d::symmetric_memory": "put_signal_kernel wait_signal_kernel",
    "cask_cudnn_infer": "computeBOffsetsKernel",
    "cub": "DeviceAdjacentDifferenceInitKernel RadixSortScanBinsKernel",
    "cub::detail::radix_sort": """
        DeviceRadixSortDownsweepKernel DeviceRadixSortExclusiveSumKernel DeviceRadixSortHistogramKernel
        DeviceRadixSortOnesweepKernel DeviceRadixSortSingleTileKernel DeviceRadixSortUpsweepKernel
        DeviceSegmentedRadixSortKernel
    """,
    "cub::detail::adjacent_difference": """
        DeviceAdjacentDifferenceDifferenceKernel DeviceAdjacentDifferenceInitKernel
    """,
    "cub::detail::histogram": "DeviceHistogramInitKernel DeviceHistogramSweepKernel",
    "cub::detail::merge_sort": """
        DeviceMergeSortBlockSortKernel DeviceMergeSortMergeKernel DeviceMergeSortPartitionKernel
    """,
    "cub::detail::reduce": "DeviceReduceKernel DeviceReduceSingleTileKernel DeviceSegmentedReduceKernel",
    "cub::detail::rle": "DeviceRleSweepKernel",
    "cub::detail::segmented_sort": "DeviceSegmentedSortKernelLarge DeviceSegmentedSortKernelSmall",
    "cub::detail::select": "DeviceSelectSweepKernel",
    "cub::detail::three_way_partition": "DeviceThreeWayPartitionInitKernel DeviceThreeWayPartitionKernel",
    "cub::detail::unique_by_key": "DeviceUniqueByKeySweepKernel",
    "cub::detail::scan": "DeviceCompactInitKernel DeviceScanInitKernel DeviceScanKernel",
    "cudnn": """
        batchnorm_add_relu_bwtr_nhwc_semiPersist batchnorm_relu_bwtr_nhwc_semiPersist bilinear_sampler_bw_4d
        bilinear_sampler_fw_4d bn_bw_1C11_kernel_new bn_bw_1C11_singleread bn_bw_1C11_singleread_spec
        bn_bw_1CHW_kernel_new bn_pointwise computeSoftmaxProbability compute_alphas_and_betas
        compute_alphas_and_betas_v8 compute_grads_deterministic compute_grads_non_deterministic divNorm_bw_45d_kernel
        divNorm_fw_45d_kernel dropout_apply_mask dropout_bp dropout_fp dropout_generate_mask generate_grid_bw_4d
        lrnBackward lrnBackward_evenC lrn_bw_Nd_kernel pooling_bw_avg_nhwc_kernel pooling_bw_max_nhwc_kernel
        softmax_bw_channel_4d_kernel softmax_bw_channel_5d_kernel softmax_bw_kernel
    """,
    "cudnn::cnn": """
        conv2d_grouped_direct_kernel conv2d_grouped_direct_kernel_int64 convNd_grouped_direct_kernel
        convolveNd_wgrad_engine cudnn_depthwise_nchw_dgrad_kernel_specialized cudnn_depthwise_nchw_fprop_kernel
        cudnn_depthwise_nchw_fprop_kernel_specialized cudnn_depthwise_nchw_wgrad_kernel dgrad2d_grouped_direct_kernel
        dgrad2d_grouped_direct_kernel_int64 kern_precompute_indices reduce_wgrad_nchw_helper scaleFilterNd_kernel
        wgrad2d_grouped_direct_kernel wgrad2d_grouped_direct_kernel_int64 wgrad_alg0_engine wgrad_alg1_engine
        wgrad_alg1_engine_NHWC wgrad_alg1_half_engine
    """,
    "cudnn::detail": """
        bn_bw_1C11_singleread_fp16 cubeTransposeDeviceGeneric_kernel dgrad2d_alg1_1 dgrad2d_alg1_1_half
        dgrad_alg1_engine dgrad_engine generate_grid_fw_4d implicit_convolve_sgemm lrnForward lrnForward_evenC
        lrn_fw_Nd_kernel wgrad_alg0_engine
    """,
    "cudnn::engines_precompiled": """
        convertTensor_kernel genericTranspose_kernel im2col4d_kernel nchwToNhwc3To4Kernel nchwToNhwcKernel
        nchwToNhwcTiledKernel nhwcToNchwKernel nhwcToNchwTiledKernel prepare_moe_grouped_gemm_bwd_arrays_kernel
        prepare_moe_grouped_gemm_fwd_arrays_kernel scalePackedTensor_kernel scaleTensor5d_kernel scaleTensor_kernel
        setTensor4d_kernel setTensor5d_kernel transposeDirect_kernel
    """,
    "cudnn::engines_runtime_compiled": """
        genericTranspose_kernel nchwToNhwc3To4Kernel nchwToNhwcKernel nhwcToNchwKernel
    """,
    "cudnn::fusion": """
        combineScaleBiasStats_1C11_general_kernel combineScaleBiasStats_1C11_packed_kernel compute_dot_do_o
        finalizeBNStats_1C11_general_kernel finalizeBNStats_1C11_packed_kernel fmha_dbias lean_reduction_fp8_kernel
        nchwToNhwcKernel nchwToNhwcKernel_16_bit nchwToNhwcKernel_32_bit nhwcToNchwKernel rearrange_n_convert_dq
        rope_fwd_kernel splitk_reduce_contiguous_kernel splitk_reduce_contiguous_runtime_kernel
        splitk_reduce_packed_contiguous_kernel splitk_reduce_packed_contiguous_runtime_kernel
        splitk_reduce_packed_strided_kernel splitk_reduce_strided_kernel
    """,
    "cudnn::fusion::contract_dbias_sm100_impl": "contract_dbias_sm100 contract_dbias_sm100_specialized",
    "cudnn::fusion::contract_dbias_sm90_impl": "contract_dbias_ragged_sm90 contract_dbias_sm90",
    "cudnn::ops": """
        pooling_bw_kernel_max softmax_fw_channel_4d_kernel softmax_fw_channel_5d_kernel softmax_fw_kernel
        softmax_fw_kernel_resident
    """,
    "cudnn::winograd": "generateWinogradTilesKernel",
    "cudnn::winograd_nonfused": """
        winogradForwardData4x4 winogradForwardData9x9_5x5 winogradForwardFilter4x4 winogradForwardFilter9x9_5x5
        winogradForwardOutput4x4 winogradForwardOutput9x9_5x5 winogradWgradData4x4 winogradWgradDelta4x4
        winogradWgradDelta9x9_5x5 winogradWgradOutput4x4 winogradWgradOutput9x9_5x5
    """,
    "expert_specialization": """
        cutlassMxfp8GroupedMmPreComputeKernel groupedGemmPreComputeKernel mxfp8_experts_quant_kernel
        sm100Mxfp8BlockscaledGroupedGemmPreComputeKernel
    """,
    "fbgemm_gpu": """
        _FP8rowwise_to_float_cuda_kernel _PaddedFP8rowwise_to_float_1d_cuda_kernel
        _PaddedFP8rowwise_to_float_2d_cuda_kernel _batched_complete_cumsum_kernel
        _block_bucketize_pooled_sparse_features_2d_weights_cuda_kernel2
        _block_bucketize_pooled_sparse_features_cuda_kernel2
        _block_bucketize_sequence_sparse_features_2d_weights_cuda_kernel2
        _block_bucketize_sequence_sparse_features_cuda_kernel2 _block_bucketize_sparse_features_cuda_kernel1
        _bucketize_sparse_features_cuda_kernel1 _bucketize_sparse_features_cuda_kernel2
        _compute_8bit_quantize_cuda_kernel _compute_FP8_quantize_cuda_kernel _compute_msfp_shared_exponent_cuda_kernel
        _float_to_FP8rowwise_cuda_kernel _float_to_fused8bitrowwise_cuda_kernel _float_to_fusednbitrowwise_cuda_kernel
        _float_to_paddedFP8rowwise_cuda_kernel _fused8bitrowwise_to_float_cuda_kernel
        _fused8bitrowwise_to_float_mixed_dim_cuda_kernel _fusednbitrowwise_to_float_cuda_kernel
        _get_8bit_qparam_cuda_kernel _get_FP8_qparam_cuda_kernel _offsets_range_cuda_kernel
        _populate_bucketized_permute_cuda_kernel _populate_bucketized_permute_warp_parallel_kernel
        _populate_length_to_feature_id_inplace_kernel _segment_sum_csr_cuda_kernel _single_thread_sum_padding_kernel
        accumulate_weights_and_counts_kernel batched_unary_embeddings_backward_kernel
        batched_unary_embeddings_forward_kernel cleanup_address_lookups compute_frequency_sequence_kernel
        compute_hash_size_kernel decay_row_utils delinearize_unique_index_kernel dense_vec_jagged_2d_bmm
        dense_vec_jagged_2d_transposed_bmm embedding_inplace_update_kernel_1 embedding_inplace_update_kernel_2
        expand_into_jagged_permute_kernel generic_histogram_binning_calibration_by_feature_kernel get_pruning_lengths
        get_source_mask_kernel get_util_samples get_util_thresholds group_index_select_or_add_2d_kernel
        histogram_binning_calibration_by_feature_kernel histogram_binning_calibration_kernel
        index_add_2d_with_unique_indices_kernel index_select_2d_kernel index_select_scalar_cumsum_kernel
        init_address_lookup_kernel invert_permute_kernel jagged_dense_bmm_kernel
        jagged_dense_dense_elementwise_jagged_output_kernel_
        jagged_dense_dense_elementwise_jagged_output_opt_gather_kernel_
        jagged_dense_dense_elementwise_jagged_output_opt_search_kernel_ jagged_dense_elementwise_dense_output_kernel_
        jagged_index_add_2d_kernel jagged_index_select_2d_kernel jagged_jagged_bmm_kernel
        jagged_jagged_elementwise_dense_output_kernel_ jagged_softmax_backward_kernel jagged_softmax_kernel
        jagged_unique_adjacent_diff_kernel jagged_unique_scatter_kernel keyed_jagged_index_add_dim1_kernel
        keyed_jagged_index_select_dim1_kernel linearize_index_flat_kernel masked_select_jagged_1d_compact_kernel
        masked_select_jagged_1d_lengths_kernel narrow_batched_broadcast_indices_kernel narrow_broadcast_indices_kernel
        outer_prod_jagged_2d_output pack_segments_cuda_kernel pack_segments_cuda_v2_kernel permute_1D_data_kernel_vec
        permute_1D_lengths_kernel permute_2D_data_kernel permute_2D_data_kernel_vec permute_2D_lengths_kernel
        permute_indices_weights_kernel permute_multi_embs_kernel process_item_zch prune_indices_per_table
        pruned_array_lookup_from_row_idx_kernel remap_indices_per_table_kernel
        remap_indices_update_utils_per_table_sorted_kernel reorder_batched_ad_indices_kernel_vec
        reorder_batched_ad_lengths_kernel reorder_batched_sequence_embeddings_kernel repeat_arange_kernel
        retrieve_pruned_and_inserted_rows retrieve_pruned_indices tbe_input_combine_with_length_kernel
        to_dense_segment_value_kernel unique_indices_length_kernel unpack_segments_cuda_kernel zipf_kernel
    """,
    "flashinfer": """
        AppendPagedKVMlaCacheKernel BatchQKApplyLlama31RotaryKernel BatchQKApplyRotaryKernel
        BatchQKApplyRotaryPosIdsCosSinCacheEnhancedHeadParallelismKernel
        BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel BatchQKApplyRotaryPosIdsCosSinCacheHeadParallelismKernel
        BatchQKApplyRotaryPosIdsCosSinCacheKernel BatchQKApplyRotaryPosIdsKernel MergeStateKernel MergeStatesKernel
        RopeQuantizeAppendPagedKVCacheKernel RopeQuantizeKernel
    """,
    "flashinfer::activation": "act_and_mul_kernel",
    "flashinfer::norm": "FusedAddRMSNormKernel FusedAddRMSNormQuantKernel RMSNormKernel RMSNormQuantKernel",
    "flashinfer::quantization": "PackBitsKernel SegmentPackBitsKernel",
    "flashinfer::sampling": """
        ChainSpeculativeSampling MinPSamplingFromProbKernel OnlineSoftmaxFusedKernel OnlineSoftmaxMapKernel
        OnlineSoftmaxReduceKernel RadixTopKKernel_Unified SamplingFromLogitsKernel SamplingFromProbKernel
        TopKMaskLogitsKernel TopKRenormProbKernel TopKSamplingFromProbKernel TopKTopPSamplingFromProbKernel
        TopPRenormProbKernel TopPSamplingFromProbKernel TreeSpeculativeSamplingTargetOnly
    """,
    "marlin": "awq_marlin_repack_kernel gptq_marlin_repack_kernel",
    "moe::dev::activation": "activationDeepSeekKernel",
    "moe::dev::finalize": "finalizeDeepSeekKernel finalizeKernelVecLoad",
    "moe::dev::routing": "routingIndicesCoopKernel",
    "moe::dev::routing::routingDeepSeek": """
        routingIndicesClusterKernel routingIndicesHistogramKernel routingIndicesOffsetsKernel routingMainKernel
    """,
    "moe::dev::routing::routingRenormalize": "routingIndicesBlockKernel",
    "mxnet::op::mxnet_op": "mxnet_generic_kernel",
    "nv::topk": "last_filter_kernel radix_topk_one_block_kernel",
    "nvjpeg": "dctQuantInvJpegKernelMultiChannel ycbcr_to_format_kernel_roi",
    "sgl_kernel": """
        LogitsBitmaskKernel VerifyTreeGreedy build_tree_efficient build_tree_efficient_partial_packed
        copy_to_gpu_no_ce_kernel cvt_fp16_to_fp4_expert per_tensor_absmax_kernel per_tensor_quant_fp8_kernel
        reconstructIndicesFromTreeMask timestep_embedding_kernel topk_transform_decode_kernel
        topk_transform_prefill_kernel topk_transform_prefill_ragged_kernel
    """,
    "sglang::gptq": """
        gemm_half_q_half_alt_4bit_kernel gemm_half_q_half_alt_8bit_kernel gemm_half_q_half_gptq_2bit_kernel
        gemm_half_q_half_gptq_3bit_kernel gemm_half_q_half_gptq_4bit_kernel gemm_half_q_half_gptq_8bit_kernel
        make_sequential_2bit_kernel make_sequential_3bit_kernel make_sequential_4bit_kernel make_sequential_8bit_kernel
        reconstruct_exllama_2bit_kernel reconstruct_exllama_3bit_kernel reconstruct_exllama_4bit_kernel
        reconstruct_exllama_8bit_kernel reconstruct_gptq_3bit_kernel reconstruct_gptq_kernel shuffle_2bit_kernel
        shuffle_3bit_kernel shuffle_4bit_kernel shuffle_8bit_kernel
    """,
    "tensorflow": "BiasGradNCHW_SharedAtomics",
    "tensorflow::functor": "ApplyAdamKernel",
    "tensorrt_llm::kernels": """
        addBiasSoftMax applyBiasRopeUpdateKVCache applyBiasRopeUpdateKVCacheV2 applyMLARopeAndAssignQKVKernelGeneration
        applyMLARopeAndAssignQKVKernelOptContext apply_per_channel_scale batchApplyPenalty block_scale_interleave_kernel
        computeSeqAndPaddingOffsets curandInitialize cvt_fp16_to_fp4 fusedQKNormRopeKernel
        fusedQKNormRopeKernelNTokenHeads generalLayerNorm generalRmsNorm loadChunkedKVCacheForMLAKernel
        perTokenQuantization quantize_with_block_size selective_scan_loop_kernel selective_scan_update_kernel
        setPagedKVCacheForMLAKernel topKStage2Sampling topPSsampling
    """,
    "tensorrt_llm::kernels::cutlass_kernels": """
        computeStridesTmaWarpSpecializedKernel doActivationKernel expandInputRowsKernel finalizeMoeRoutingKernel
    """,
    "transformer_engine": """
        GraphSafeGroupHadamardAmaxTmaKernel GraphSafeMultiAmaxMemcpyD2DKernelPreRHT GraphSafeMultiZeroAmaxKernel
        GroupHadamardAmaxTmaKernel HadamardAmaxTmaKernel HadamardTransformKernel MultiAmaxMemcpyD2DKernelPreRHT
        MultiZeroAmaxKernel ZeroAmaxKernel apply_dropout_mask block_scaled_1d_cast_transpose_kernel
        block_scaled_cast_transpose_kernel block_scaled_cast_transpose_kernel_notaligned compute_scale_from_amax_kernel
        dgated_act_kernel fused_qkv_rope_backward_kernel fused_qkv_rope_forward_kernel
        fused_rope_thd_linear_grid_backward_kernel fused_rope_thd_linear_grid_forward_kernel gated_act_kernel
        grouped_swizzle_col_scaling_uniform_shape_kernel grouped_swizzle_row_scaling_uniform_shape_kernel
        grouped_swizzle_scaling_variable_shape_kernel grouped_unswizzle_scaling_uniform_shape_kernel
        multi_padding_kernel multi_tensor_swizzle_col_scaling_kernel multi_tensor_swizzle_col_scaling_narrow_m_kernel
        multi_tensor_swizzle_row_scaling_kernel multi_tensor_swizzle_row_scaling_narrow_k_kernel
        multi_tensor_unswizzle_col_scaling_kernel multi_tensor_unswizzle_row_scaling_kernel multi_unpadding_kernel
        reduce_dbias_kernel scaled_gated_backward_kernel scaled_gated_forward_kernel scaled_unary_backward_kernel
        scaled_unary_forward_kernel swap_first_dims_untuned_kernel swizzle_col_scaling_kernel
        swizzle_col_scaling_narrow_m_kernel swizzle_row_scaling_kernel swizzle_row_scaling_narrow_k_kernel
        transpose_dbias_kernel transpose_dbias_kernel_notaligned unswizzle_scaling_kernel update_tensor_scale_inv_kernel
        zero_amax_kernel
    """,
    "transformer_engine::context_parallel": """
        thd_copy_valid_tokens_from_per_split_to_rank_local_kernel thd_grad_correction_kernel thd_lse_kernel
        thd_out_correction_kernel thd_partition_indices_kernel thd_read_half_tensor_kernel
        thd_reorder_between_sequence_and_cp_rank_order_kernel
    """,
    "transformer_engine::detail": """
        cast_transpose_fused_kernel_notaligned cast_transpose_general_kernel dgated_act_cast_transpose_kernel
        dgated_act_cast_transpose_kernel_notaligned reduce_dbias_kernel transpose_general_kernel
    """,
    "transformer_engine::dispatch::common": "update_tma_descriptors",
    "transformer_engine::dispatch::common::kernel": "group_reduce_dbias_kernel reduce_dbias_kernel",
    "transformer_engine::dispatch::fp8::group_amax_kernel": """
        grouped_amax_flat_kernel grouped_amax_zero_kernel grouped_compute_scale_kernel
    """,
    "transformer_engine::dispatch::fp8::group_quantize_kernel": """
        group_cast_fp8_kernel group_cast_fp8_rowwise_flat_kernel group_cast_fp8_same_shape_full_tile_kernel
        group_cast_fp8_variable_rowwise_flat_kernel group_cast_fp8_varying_first_rowwise_aligned_flat_kernel
    """,
    "transformer_engine::dispatch::fp8::kernel": "cast_fp8_gated_kernel",
    "transformer_engine::dispatch::fp8::quantize_1D_kernel": "cast_fp8_1D_kernel",
    "transformer_engine::dispatch::fp8::quantize_2D_kernel": "cast_fp8_2D_kernel",
    "transformer_engine::dispatch::fp8_blockwise": """
        group_block_scaled_1d_rw_kernel group_block_scaled_1d_tma_kernel group_block_scaled_2d_tma_kernel
    """,
    "transformer_engine::dispatch::fp8_blockwise::group_dequantize_kernel": """
        group_dequantize_blockwise_1d_cw_kernel group_dequantize_blockwise_1d_rw_kernel
        group_dequantize_blockwise_2d_cw_kernel group_dequantize_blockwise_2d_rw_kernel
    """,
    "transformer_engine::dispatch::mxfp8::dequantize_kernel": "dequantize_mxfp8_kernel",
    "transformer_engine::dispatch::mxfp8::gated_kernel": "quantize_gated_mxfp8_kernel",
    "transformer_engine::dispatch::mxfp8::group_dequantize_kernel": """
        group_dequantize_mxfp8_kernel update_tma_descriptors
    """,
    "transformer_engine::dispatch::mxfp8::group_quantize_kernel": "group_quantize_mxfp8_kernel",
    "transformer_engine::dispatch::mxfp8::group_scaled_swiglu_kernel": "group_scaled_swiglu_mxfp8_kernel",
    "transformer_engine::dispatch::mxfp8::quantize_kernel": "quantize_mxfp8_kernel zero_scales_kernel",
    "transformer_engine::dispatch::mxfp8::quantize_kernel::specialized": "quantize_mxfp8_kernel_cast_only",
    "transformer_engine::dispatch::mxfp8::quantize_kernel::specialized::bidim_detail": "quantize_bidim_kernel",
    "transformer_engine::dispatch::mxfp8::quantize_kernel::specialized::rowwise_detail": """
        quantize_contiguous_kernel
    """,
    "transformer_engine::dispatch::nvfp4::dequantize_kernel": "dequantize_fp4_kernel",
    "transformer_engine::dispatch::nvfp4::group_quantize_transpose_kernel": """
        group_quantize_transpose_nvfp4_kernel
    """,
    "transformer_engine::dispatch::nvfp4::quantize_4over6_kernel": "quantize_4over6_kernel",
    "transformer_engine::dispatch::nvfp4::quantize_transpose_kernel": """
        quantize_transpose_nvfp4_2D_kernel quantize_transpose_nvfp4_kernel
    """,
    "transformer_engine::dispatch::nvfp4::quantize_transpose_tuned_kernel": """
        quantize_transpose_nvfp4_tuned_1D_kernel
    """,
    "transformer_engine::dispatch::nvfp4::rowwise_amax_kernel": """
        compute_columnwise_amax_kernel compute_rowwise_amax_kernel
    """,
    "transformer_engine::flash_attention": "prepare_kernel_bwd prepare_kernel_fwd",
    "transformer_engine::fp8_block_scaling_recipe": """
        fp8_block_scaling_compute_partial_amax_kernel fp8_block_scaling_partial_cast_kernel
    """,
    "transformer_engine::fused_attn": """
        cu_seqlens_padded_to_offsets cu_seqlens_to_actual_seqlens extract_seed_and_offset
        get_runtime_num_segments_kernel populate_rng_state_kernel
    """,
    "transformer_engine::fused_router": """
        convert_accum_to_output fused_moe_aux_loss_backward_kernel fused_moe_aux_loss_forward_kernel
        fused_moe_aux_loss_forward_kernel_graph_safe fused_score_for_moe_aux_loss_backward_kernel
        fused_score_for_moe_aux_loss_forward_kernel fused_score_for_moe_aux_loss_forward_simple_kernel
        fused_topk_backward_selected_indices_kernel fused_topk_forward_simple_kernel
        fused_topk_with_score_function_backward_kernel fused_topk_with_score_function_forward_kernel
        qb_histogram_accumulate_kernel
    """,
    "transformer_engine::kv_cache": """
        convert_bshd_to_thd_kernel convert_thd_to_bshd_kernel copy_to_kv_cache_kernel reindex_kv_cache_kernel
    """,
    "transformer_engine::multi_tensor_pad_last_dim": "multi_tensor_pad_last_dim_kernel",
    "transformer_engine::multi_tensor_transpose_to_bhsd": """
        transpose_to_bhsd_fallback_not_vec_aligned_kernel transpose_to_bhsd_fallback_vec_aligned_kernel
        transpose_to_bhsd_kernel
    """,
    "transformer_engine::mxfp8_scaling_recipe": """
        mxfp8_scaling_compute_partial_amax_kernel mxfp8_scaling_partial_cast_kernel
    """,
    "transformer_engine::normalization": "rmsnorm_fwd_general_kernel",
    "transformer_engine::nvfp4_recipe": """
        compute_nvfp4_per_tensor_scale_kernel nvfp4_2d_compute_partial_amax_kernel nvfp4_2d_partial_cast_kernel
        nvfp4_compute_global_scale_kernel nvfp4_compute_per_block_scale_kernel nvfp4_expand_scale_to_fp8_kernel
        nvfp4_fused_scale_kernel nvfp4_scale_transpose_kernel nvfp4_transpose_kernel
    """,
    "transformer_engine::quantize_transpose_nvfp4": "block_scaled_1d_cast_transpose_kernel",
    "transformer_engine::requantize": "fused_group_requantize_kernel",
    "transformer_engine::splits_to_offsets": "splits_to_offsets_2d_kernel",
    "transformer_engine::swizzle_kernel_1d": "swizzle_block_scaling_1d_to_mxfp8_scaling_factors_kernel",
    "transformer_engine::swizzle_kernel_2d": "swizzle_block_scaling_2d_to_mxfp8_scaling_factors_kernel",
    "turbomind": """
        AddBiasActivationKernel AppendTokenIdsKernel BanBadWordsKernel BatchPrefixSumKernel BiasResidualRMSNormKernel
        BlockscaleToGroupscale_Kernel ClearTokenMaskKernel CollectHiddenStates_Kernel Compact1D_Kernel
        ComputeBetaGKernel CountAndFixAnormaly CrossEntropyLossKernel FinalizeNvFp4GlobalScale_Kernel
        FindNvFp4GlobalScale_Kernel FixLogitsAnomaly InitializeRandomStates_Kernel L2NormalizeQKKernel
        MoeA2AMappingKernel MoeA2ASharedCombineKernel MoeDispatchScalesNonaligned MoeGateKernel_v8
        MoeGateNoAuxTCKernel_V2 MoeGatherKernel MoeReduceKernel MoeScanKernel_v2 MoeScanKernel_v2_classic
        MoeScanPrefixPhase1Kernel MoeScanPrefixPhase2Kernel MoeSoftmaxMaskTopKGroups ProcessKV_v2
        QuantizeGroupwise_Kernel RepetitionPenaltyKernel SigmoidGateMultiplyKernel addEmbeddingsVecKernel
        adjust_ue8m0_scale_for_half_kernel batchApplyMinLengthPenalty batchApplyTemperaturePenalty_v2
        buildMappedIdxBatchedKernel buildMappedIdxKernel buildWindowMappedIdxKernel compactOutputIds curand_normal
        dequant_symm_block dequant_symm_row dtype_cast_kernel embeddingLookupKernel extend_u16_u8
        fastPosEmbedIdxWeightKernel fastRotaryPosEmbKernel flattenKV_v2 fuse_scales_and_zeros_kernel
        fusedPosEmbedMergeKernel gatherOutput getFeatureOfLastToken indexedCopy interleave_output_dims_kernel
        length_criterion_v2 maskOutput mropeScatterKernel padLastTokenIds patchIm2ColKernel pixelShuffleKernel
        postRMSNormKernel preRMSNormKernel prepareQKVKernel quant_symm_block quant_symm_row reverseWindowKernel
        rms_norm_gated_kernel sampling stop_words_criterion_v2 topKSortStage1 topKSortStage2 topPMinPFilter
        topPSortInitialize topp_beam_topk_kernel transposeAxis01 updateOutput windowReorderKernel
    """,
    "turbomind::comm": """
        Allgather2D_NVLS_V2 Allgather2D_Simple_Pull Allgather_NVLS_V2 Allgather_Simple_Pull
        AllreduceResidualBiasRMSnormV_NVLS AllreduceResidualBiasRMSnormV_Simple_Pull
        AllreduceResidualBiasRMSnorm_NVLS AllreduceResidualBiasRMSnorm_Simple_Pull
        AllreduceResidualBiasRMSnorm_Simple_Push Allreduce_LL16_V2 Allreduce_NVLS_V2 Allreduce_Simple_Pull
        Allreduce_Simple_Push_v3 Barrier_V2 Broadcast_NVLS_V2 Broadcast_Simple_Pull Broadcast_Simple_V2
    """,
    "turbomind::core::kernel": "TransposeCopyKernel",
    "turbomind::gemm": """
        fill_strided_ptrs gemm_kernel_sm90 gemm_kernel_sm90_bf16 gemm_kernel_sm90_mixed
        gemm_universal_sm90_mxfp4_fp8 pack_sm90_fp8_e4m3_scales_kernel pack_sm90_fp8_e4m3_weight_kernel
        pack_sm90_mxfp4_fp8_folded_qparams_kernel pack_sm90_mxfp4_fp8_folded_weight_kernel
        pack_sm90_mxfp4_fp8_unfolded_qparams_kernel pack_sm90_mxfp4_fp8_unfolded_weight_kernel
        pack_sm90_qparams_kernel pack_sm90_u4_qparams_kernel pack_sm90_u4_weight_kernel
        prepare_moe_tma_descs_sm90_fp8 prepare_moe_tma_descs_sm90_mxfp4_fp8_folded prepare_tma_descs_sm90_bf16
        prepare_tma_descs_sm90_mixed
    """,
    "turbomind::kernel": "QkRMSNorm ResidualBiasLayerNorm",
    "turbomind::linear_attn::delta_rule": """
        ParallelChunkLocalCumsumAndPrepareDirectKernel ParallelChunkLocalCumsumKernel
        PrepareGroupedStateDescriptors Sm120FusedGdrFwdKernel Sm120FusedGdrHKernel Sm120GdrRecurrentKernel
        Sm120GdrTmaDescPrepareKernel Sm120KktSolveKernel Sm90FusedGdrFwdKernel Sm90FusedGdrHKernel
        Sm90GdrPrepareAndCumsumKernel Sm90GdrRecurrentKernel Sm90KktSolveKernel
    """,
    "turbomind::linear_attn::delta_rule::detail": "ChunkedGdrKernel RecurrentGdrKernel",
    "vllm": """
        FilteredTopKUnifiedKernel act_and_mul_kernel_with_param apply_repetition_penalties_kernel
        cvt_fp16_to_fp4 cvt_fp16_to_fp4_sf_major dynamic_per_token_scaled_fp8_quant_kernel_strided
        dynamic_scaled_int8_azp_quant_kernel dynamic_scaled_int8_quant_kernel mxfp4_cvt_fp16_to_fp4
        rms_norm_dynamic_per_token_quant_kernel rms_norm_static_fp8_quant_kernel scaled_fp8_quant_kernel
        scaled_fp8_quant_kernel_strided scaled_fp8_quant_kernel_strided_dynamic
        scaled_fp8_quant_kernel_strided_group_shape segmented_max_reduction_strided silu_mul_cvt_fp16_to_fp4
        silu_mul_fp8_quant_deep_gemm_kernel static_scaled_int8_azp_quant_kernel static_scaled_int8_quant_kernel
        swigluoai_and_mul_kernel topKPerRowDecode topKPerRowPrefill
    """,
    "vllm::awq": "gemm_forward_4bit_cuda_m16nXk32",
    "vllm::deepseek_v4_fused_ops": "fusedDeepseekV4QNormRopeKVRopeQuantInsertKernel",
    "vllm::gptq": """
        gemm_half_q_half_alt_4bit_kernel gemm_half_q_half_alt_8bit_kernel gemm_half_q_half_gptq_2bit_kernel
        gemm_half_q_half_gptq_3bit_kernel gemm_half_q_half_gptq_4bit_kernel gemm_half_q_half_gptq_8bit_kernel
        make_sequential_2bit_kernel make_sequential_3bit_kernel make_sequential_4bit_kernel make_sequential_8bit_kernel
        reconstruct_exllama_2bit_kernel reconstruct_exllama_3bit_kernel reconstruct_exllama_4bit_kernel
        reconstruct_exllama_8bit_kernel reconstruct_gptq_3bit_kernel reconstruct_gptq_kernel shuffle_2bit_kernel
        shuffle_3bit_kernel shuffle_4bit_kernel shuffle_8bit_kernel
    """,
    "vllm::moe": """
        count_and_sort_expert_tokens_kernel group_idx_and_topk_idx_kernel grouped_topk_fused_kernel
        grouped_topk_fused_small_expert_count_kernel lora_count_and_sort_expert_tokens_kernel moeSigmoid moeSoftmax
        moeTopK moe_align_block_size_kernel moe_align_block_size_small_batch_expert_kernel
        moe_lora_align_block_size_kernel moe_lora_align_block_size_small_batch_expert_kernel moe_sum_kernel topkGating
        topkGatingSoftmax topkGatingSoftplusSqrt topk_with_k2_kernel
    """,
    "vllm::moe::batched_moe_align_block_size": "batched_moe_align_block_size_kernel",
    "vllm::persistent": "persistent_topk_kernel",
}
"""The functions of each namespace, separated by spaces."""

_HOMES: Mapping[str, tuple[str, ...]] = {
    function: tuple(home for home, functions in FUNCTIONS.items() if function in functions.split())
    for functions in FUNCTIONS.values()
    for function in functions.split()
}
_QUALIFIED = re.compile(r"((?:\w{1,80}::){0,8})(\w{1,120})(?=[<(]|$)")
_VERSIONS = re.compile(r"(?<![^:])(?:CUB_\w{1,80}|THRUST_\w{1,80}|_V_\w{1,80}|_v\d{1,4})::")


def with_namespace(text: str) -> str:
    """Return a name with the whole namespace of its function, where that is known and the name has only the end of it.

    Args:
        text: The name without return type and anonymous namespaces.
    """
    qualified = _QUALIFIED.match(text)
    homes = _HOMES.get(qualified[2], ()) if qualified else ()
    if qualified is None or not homes:
        return text
    given = _VERSIONS.sub("", qualified[1])
    home = next((each for each in homes if f"::{each}::".endswith(f"::{given}")), None)
    return text if home is None else f"{home}::{text[qualified.end(1) :]}"
