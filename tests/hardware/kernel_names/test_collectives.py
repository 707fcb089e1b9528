"""Which kernels are communication, with their kind and library: real names, and names that only look like it."""

from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.hardware.kernel_names.classify import Verdict, classify
from nsyswrap.hardware.kernel_names.collectives import is_collective, kind_of

# Real names, each with its kind. Sources: NVIDIA/nccl src/device, ROCm/rccl, microsoft/msccl.
NCCL = (
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "AllReduce"),
    ("ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)", "AllReduce"),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "AllGather"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ReduceScatter"),
    ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "Broadcast"),
    ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "Reduce"),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "SendRecv"),
    ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "Generic"),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "AllReduce"),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "SendRecv"),
    ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "AllReduce"),
    ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", "AllReduce"),
    ("ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs4K)", "AllGather"),
    ("_Z39ncclKernel_AllReduce_RING_LL_Sum_float12ncclWorkElem", "AllReduce"),
    ("mscclKernel_Sum_half_LL(ncclDevComm*, mscclAlgo*, mscclWork*)", "mscclKernel_Sum_half_LL"),
)
# vLLM, SGLang, FlashInfer, TensorRT-LLM, LMDeploy: csrc/custom_all_reduce.cuh, sgl-kernel, include/flashinfer/comm,
# cpp/tensorrt_llm/kernels/communicationKernels, src/turbomind/comm.
ENGINES = (
    (
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)",
        "AllReduce",
    ),
    ("void vllm::cross_device_reduce_2stage<half, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)", "AllReduce"),
    ("void cross_device_reduce_1stage<__half, 4>(RankData*, RankSignals, Signal*, __half*, int, int)", "AllReduce"),
    ("void vllm::cross_device_all_gather<2>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)", "AllGather"),
    ("void vllm::cross_device_reduce_scatter<__half, 2>(vllm::RankData*, vllm::RankSignals)", "ReduceScatter"),
    ("void vllm::mnnvl_lamport_all_gather<__half, 4>(vllm::RankData*, __half const*, __half*)", "AllGather"),
    (
        "void vllm::tensorrt_llm::minimax_reduce_rms_kernel_lamport<__half, 16>(vllm::tensorrt_llm::MiniMaxParams)",
        "AllReduce",
    ),
    (
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<half>, half>(half const*)",
        "AllReduce",
    ),
    ("void aphrodite::cross_device_reduce_1stage<__nv_bfloat16, 8>(aphrodite::RankData*)", "AllReduce"),
    ("void sglang::cross_device_reduce_1stage<__half, 2>(sglang::RankData*, sglang::RankSignals)", "AllReduce"),
    ("void sglang::allreduce_LL_1node<__half>(mscclpp::MemoryChannelDeviceHandle*, __half*, __half*)", "AllReduce"),
    (
        (
            "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>((anonymous "
            "namespace)::AllReduceParams, device::distributed::PushController)"
        ),
        "AllReduce",
    ),
    (
        (
            "void (anonymous namespace)::parallel_qknorm_across_head<(anonymous namespace)::KernelTrait<half, 8u, "
            "6144l, 1024l, true> >((anonymous namespace)::ParallelQKNormParams, device::distributed::PushController)"
        ),
        "AllReduce",
    ),
    (
        (
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::"
            "trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>(int)"
        ),
        "AllReduce",
    ),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<1, half, 8, false>()",
        "AllReduce",
    ),
    ("void allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1, __nv_bfloat16, 8>(int)", "AllReduce"),
    ("void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16>(int)", "AllReduce"),
    ("void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, __nv_bfloat16>(int)", "AllReduce"),
    ("void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<8, 512, __nv_bfloat16>(int)", "AllReduce"),
    (
        "void flashinfer::trtllm_moe_allreduce_fusion::moefinalize_allreduce_fusion_kernel_oneshot_lamport<8>(int)",
        "AllReduce",
    ),
    ("void flashinfer::trtllm_alltoall::moeAllToAllKernel<false>(int)", "AllToAll"),
    ("void flashinfer::trtllm_allreduce::lamport_style_one_shot_all_reduce_norm_kernel<half, true>(int)", "AllReduce"),
    ("void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8, true>(AllReduceParams)", "AllReduce"),
    ("void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8, false, true>(AllReduceParams)", "AllReduce"),
    (
        "void tensorrt_llm::kernels::reduce_fusion::one_shot_all_reduce_norm_kernel<half, 8>(AllReduceParams)",
        "AllReduce",
    ),
    ("void tensorrt_llm::kernels::lowPrecisionTwoShotAllReduceKernel<8, half>(LowPrecisionParams)", "AllReduce"),
    (
        (
            "void tensorrt_llm::_v1::kernels::ar_fusion::moe::moereduce_allreduce_fusion_kernel_oneshot_lamport<"
            "__nv_bfloat16, 8, true, true, false, true>(MoeReductionAllReduceFusionParams)"
        ),
        "AllReduce",
    ),
    ("void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<BlockPolicy, 8>(MoeA2APointers)", "Dispatch"),
    ("void tensorrt_llm::kernels::moe_comm::moeA2ACombineKernel<__nv_bfloat16, BlockPolicy, 8>(int)", "Combine"),
    ("void tensorrt_llm::kernels::helixAllToAllKernel<true>(tensorrt_llm::kernels::HelixAllToAllParams)", "AllToAll"),
    ("turbomind::comm::Barrier_V2(turbomind::comm::SystemSemaphoreInfo*, int)", "Barrier"),
    ("void turbomind::comm::Allreduce_NVLS_V2<__half, 8, std::integral_constant<bool, false> >(__half*)", "AllReduce"),
    ("void turbomind::comm::AllreduceResidualBiasRMSnorm_Simple_Pull<__half, 8, 1024, 1, true>(__half*)", "AllReduce"),
    ("void turbomind::comm::Allgather_Simple_Pull<uint2>(turbomind::Array<uint2*, 8>)", "AllGather"),
)
# DeepEP, NVSHMEM, MSCCL++, userbuffers, PyTorch's symmetric memory, UCC, UCX, Gloo, XLA.
LIBRARIES = (
    ("void deep_ep::intranode::dispatch<(int)2, (int)768, (int)8192>(int4 *, float *, float *, i", "Dispatch"),
    ("void deep_ep::intranode::combine<__nv_bfloat16, (int)2, (int)768, (int)4096>(T1 *, float *", "Combine"),
    ("void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int const*, int*, int)", "Notify"),
    ("void deep_ep::intranode::cached_notify_combine<8>(void**, int*, int, int, int, int**, int)", "Notify"),
    ("void deep_ep::intranode::barrier<8>(int**, int)", "Barrier"),
    ("void deep_ep::internode_ll::combine<true, 3, 10, 7168, 9>(void*, void*)", "Combine"),
    ("void deep_ep::internode_ll::dispatch<true, false, 3, 10, 7168>(void*, float*)", "Dispatch"),
    ("void deep_ep::internode_ll::clean_low_latency_buffer<256>(int*, int, int*, int)", "Barrier"),
    ("void deep_ep::internode::dispatch<false, 4, false, 11, 7>(int4*, float*)", "Dispatch"),
    ("void internode_ll::dispatch<true, false, 3, 10, 7168>(void*, float*)", "Dispatch"),
    ("void deep_ep::elastic::hybrid_dispatch_impl<8, 256>(void*)", "Dispatch"),
    ("void hybrid_ep::combine_kernel<8, 4>(hybrid_ep::combine_kernel_param_t)", "Combine"),
    ("void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)", "Barrier"),
    ("void rdxn_on_stream_kernel<float, (rdxn_ops)3>(int, float*, float const*, unsigned long)", "AllReduce"),
    ("void nvshmemi_reduce_kernel<int, (rdxn_ops)4>(int, int*, int const*, unsigned long)", "AllReduce"),
    ("void alltoall_on_stream_kernel<int>(int, int*, int const*, unsigned long)", "AllToAll"),
    ("nvshmem_device_producer_all_gather_2d_put_block_kernel", "AllGather"),
    ("void mscclpp::executionKernel<__half, mscclpp::LL16Packet>(int, __half*, __half*)", "executionKernel"),
    ("void allreduce7<(Op)0, __half>(__half*, __half*, __half*, mscclpp::MemoryChannelDeviceHandle*)", "AllReduce"),
    ("void allgather6<false>(void*, mscclpp::MemoryChannelDeviceHandle*, unsigned long)", "AllGather"),
    ("void broadcast6<false>(void*, void*, void*, mscclpp::MemoryChannelDeviceHandle*)", "Broadcast"),
    ("kuserbuffers_pushsendrecv(int*, int*, int4*, int4*, int, int, int)", "SendRecv"),
    ("void userbuffers_fp16_sum_inplace_gpu_mc_rs_oop<16>(int, int, int, int, int, int)", "ReduceScatter"),
    ("void userbuffers_fp16_sum_inplace_gpu_rw_ag<16>(int, int, int, int, int, int)", "AllGather"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "AllReduce"),
    ("void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<float, 16>(float*, float*)", "AllReduce"),
    ("void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, -1>(c10::BFloat16**)", "AllReduce"),
    ("void <unnamed>::two_shot_all_reduce_kernel_inplace<c10::BFloat16, (int)16, (int)-1>(T1 **)", "AllReduce"),
    ("void (anonymous namespace)::multimem_all_gather_kernel<16>(char*, char*, unsigned long)", "AllGather"),
    ("c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)", "Barrier"),
    ("c10d::symmetric_memory::wait_signal_kernel(unsigned int**, int, int, int, int, unsigned long)", "Barrier"),
    ("exchangeSplitAndOffset(long*, int, int)", "Notify"),
    ("allToAllV(void*, void*, long*, unsigned long, int, int)", "AllToAll"),
    ("void reduce_scatter_kernel_vec32<(ucc_reduction_op_t)0>(ucc_tl_cuda_task_t*)", "ReduceScatter"),
    ("void UCC_REDUCE_CUDA_DEFAULT_SUM<float, false>(ucc_eee_task_reduce_t, unsigned short)", "Reduce"),
    ("void executor_kernel<false>(ucc_ec_cuda_executor_t*, int)", "executor_kernel"),
    ("ucp_perf_cuda_put_bw_kernel", "SendRecv"),
    ("gloo::_Kernel_float_cudaSum(float*, float const*, int)", "_Kernel_float_cudaSum"),
    ("void stream_executor::gpu::AllReduceKernelImpl<float>(float*)", "AllReduce"),
    ("void RMSNormLSA<float>(ncclWindow_t, unsigned long, float*, int, float, ncclDevComm)", "RMSNormLSA"),
    ("void ubx_kernel_allreduce_2shot_mc<16>(int, int, int)", "AllReduce"),
)
# Triton and others: meta-pytorch/kraken, ByteDance-Seed/Triton-distributed, bytedance/flux.
TRITON = (
    ("one_shot_all_reduce_kernel", "AllReduce"),
    ("one_shot_all_reduce_bias_rms_norm_kernel", "AllReduce"),
    ("two_shot_all_reduce_bias_kernel", "AllReduce"),
    ("allreduce_one_shot_tma_push_intra_node_kernel", "AllReduce"),
    ("allreduce_double_tree_intra_node_kernel", "AllReduce"),
    ("reduce_scatter_ring_push_1d_intra_node_kernel", "ReduceScatter"),
    ("allgather_kernel", "AllGather"),
    ("all_to_all_kernel", "AllToAll"),
    ("kernel_dispatch_token_intra_node", "Dispatch"),
    ("kernel_combine_token_intra_node", "Combine"),
    ("barrier_all_intra_node_atomic_cas_block", "Barrier"),
    ("consumer_all_reduce_kernel", "AllReduce"),
    ("kernel_pre_attn_qkv_pack_a2a", "AllToAll"),
    ("CudaIpcBarrierAllKernel(int**, int, int)", "Barrier"),
    ("acme_allreduce_kernel", "AllReduce"),
)
POSITIVES = (*NCCL, *ENGINES, *LIBRARIES, *TRITON)

NEGATIVES = (
    # Reductions within a GPU.
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float>>>",
    "reduce_kernel",
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float, int, cub::Sum>::Policy600>(float*)",
    "void cub::DeviceReduceSingleTileKernel<cub::Policy, float*, float*, int, cub::Sum>(float*, float*)",
    "void block_all_reduce_sum_f32_f32_kernel<256>(float*, float*, int)",
    "void block_all_reduce_sum_f16x8_pack_f32_kernel<32>(__half*, float*, int)",
    "warp_all_reduce_kernel(float*)",
    "void warpAllReduceSum<float>(float*)",
    "void mlx::core::cu::all_reduce<float, float, mlx::core::cu::Sum, 4>(float const*, float*)",
    "void at::native::sum_and_scatter<float, long>(long const*, float*, long, long const*)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, void at::native::_cuda_scatter_gather>(int)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long)",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half, true, true, false>(float)",
    "segment_reduce_forward_kernel",
    "scatter_reduce_kernel",
    "void cutlass::Kernel<cutlass::reduction::kernel::ReduceSplitK<cutlass::MatrixShape<4, 128>, float>>(int)",
    "void all_pairs_distance_kernel<float>(float*)",
    "void gather_all_rows<float>(float*)",
    "wall_reduce_kernel",
    "ballgatherer_kernel",
    # Compilers name kernels after the operations around them.
    "triton_poi_fused_all_reduce_add_0",
    "triton_poi_fused_all_gather_into_tensor_wait_tensor_3",
    "triton_red_fused__to_copy_add_all_reduce_mean_mul_pow_rsqrt_1",
    "triton_per_fused_all_reduce_native_layer_norm_2",
    "triton_poi_fused_nccl_scale_4",
    "triton_poi_fused_reduce_scatter_tensor_7",
    "triton_tem_fused_all_gather_mm_0",
    "triton_poi_fused__c10d_functional_all_to_all_single_5",
    "triton_for_fused_all_reduce_1",
    "loop_all_reduce_fusion",
    "fused_nccl_like_bias_kernel",
    # What prepares an exchange on one GPU.
    "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*, int*, int*, bool*)",
    "get_dispatch_layout",
    "deep_ep::internode_ll::query_mask_buffer<256>(int*, int, int*)",
    "void deep_ep::elastic::combine_reduce_epilogue_impl<8>(void*)",
    "void deep_ep::elastic::dispatch_copy_epilogue_impl<8>(void*)",
    "kernel_compute_dispatch_layout",
    "kernel_skipped_token_local_dispatch_intra_node",
    "void tensorrt_llm::kernels::moe_comm::moeA2APrepareDispatchKernel(int*, int*, int)",
    "void tensorrt_llm::kernels::moe_comm::moeA2APrepareCombineKernel<BlockPolicy>(char*, int)",
    "void tensorrt_llm::kernels::moe_comm::moeA2ASanitizeExpertIdsKernel(int*, int const*, int)",
    "void flashinfer::trtllm_alltoall::computeSendRecvIndicesKernel<false>(int)",
    "void flashinfer::trtllm_alltoall::moeLocalGatherDevice<8>(int)",
    "void flashinfer::trtllm_allreduce::lamport_initialize_kernel<half>(half*, unsigned long)",
    "void flashinfer::trtllm_allreduce::rms_norm_kernel<half, true>(flashinfer::AllReduceParams<half>)",
    "void tensorrt_llm::kernels::lowPrecisionPreprocessKernel<half, 8>(char*, unsigned long, int)",
    "void nccl_ep::ht::sparse_to_dense_prob_kernel<int>(int const*, float const*, float*, int, int, int)",
    "void nccl_ep::ht::compute_layout_info_kernel<int>(int const*, int, int, int)",
    "turbomind::MoeA2AMappingKernel(int*, int*, int*, int const*, int const*, int const*)",
    "void c10d::checkForNaN<float>(float*, unsigned long)",
    "void horovod::common::BatchedScaledMemcpyCudaKernel<float>(BatchedD2DParams)",
    "void split_with_sizes_copy_out_contiguous_no_cast_kernel<at::native::Desc>(char**)",
    "void at::native::chunk_cat_cuda_kernel<float, c10::BFloat16>(float**, c10::BFloat16*)",
    # Products that also communicate: the product sets the time.
    "gemm_one_shot_all_reduce_kernel",
    "gemm_reduce_scatter_kernel",
    "kernel_fused_gemm_allreduce",
    "matmul_allreduce_kernel",
    "mega_kernel_dispatch_token_moe_grouped_gemm",
    "moe_gather_rs_grouped_gemm_kernel",
    "kernel_consumer_flash_attn_forward",
    "threadblock_swizzle_allgather_gemm_kernel",
    "void deep_gemm::sm100_fp8_fp4_mega_moe_impl<7168u, 2048u, 256u, 8u>(void*)",
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>, "
        "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4>>, "
        "tensorrt_llm::kernels::AllReduceParams>>(int)"
    ),
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
    # Words of collectives with another meaning.
    "void vllm::moe::topkGating<8, 64>(float const*)",
    "void vllm::merge_attn_states_kernel<float, 128>(float*)",
    "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4>>(Flash_fwd_params)",
    "FlashAttnFwdCombine",
    "merge_states_kernel",
    "dispatch_table_kernel",
    "combine_channels_kernel",
    "broadcast_kernel",
    "barrier_option_monte_carlo",
    "send_photons_kernel",
    "void mxnet::op::broadcast_kernel<float>(float*)",
    "void at::native::index_put_kernel<float>(float*)",
    "barrier_on_this_grid",
    "synchronize_phases_kernel",
    "nccl_like",
    "Kernel2",
    "",
)


def test_kernels_of_collectives_are_communication() -> None:
    """The name tells the kind as well."""
    found = {name: (is_collective(name), kind_of(name)) for name, _ in POSITIVES}
    assert found == {name: (True, kind) for name, kind in POSITIVES}


def test_kernels_that_only_mention_a_collective_are_compute() -> None:
    assert {name: classify(name).rule for name in NEGATIVES if is_collective(name)} == {}


def test_the_tables_are_large_enough() -> None:
    """Both have sixty names or more, each once."""
    names = [name for name, _ in POSITIVES]
    assert len(set(names)) == len(names) >= 60
    assert len(set(NEGATIVES)) == len(NEGATIVES) >= 60


def test_communication_is_what_the_rules_call_communication() -> None:
    """One home of the rule: the operation of the classification, and never a product."""
    names = [*(name for name, _ in POSITIVES), *NEGATIVES]
    found = {name: classify(name) for name in names}
    assert [name for name in names if is_collective(name) != (found[name].op == "comm")] == []
    verdicts = {each.verdict for each in found.values() if each.op == "comm"}
    assert verdicts <= {Verdict.NOT_ELIGIBLE, Verdict.UNKNOWN}


@given(st.text(max_size=60))
def test_any_text_is_a_collective_or_not(name: str) -> None:
    assert is_collective(name) == (classify(name).op == "comm")
