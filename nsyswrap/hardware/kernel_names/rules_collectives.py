"""Rules for the kernels of collectives: NCCL's, and those of inference engines and of communication libraries.

A kernel is communication if it reads or writes the memory of other ranks' GPUs or waits for them: it cannot end before
the last rank has arrived. So these are communication:

- collectives and messages, dispatch and combine of experts, and barriers of ranks;
- an all-reduce fused with what follows it, such as a bias, a norm or a quantisation: it waits for all ranks as well;
- the reductions and copies that a communication library makes for a collective, such as UCC's and Gloo's.

These are compute:

- a product of matrices fused with a collective (GEMM with reduce-scatter, all-gather with matmul, a whole layer of
  experts): its time is that of the product, which overlaps the exchange;
- kernels that prepare an exchange on one GPU, such as counts, layouts, indices and initialisation of buffers;
- reductions within a GPU, a block or a warp, and kernels that a compiler names after a collective beside them, such as
  ``triton_poi_fused_all_reduce_add_0``.
"""

import re

from nsyswrap.hardware.kernel_names.rule import NEUTRAL_WORDS, OPERATION_WORDS, KernelRule, Verdict

PROFILES = "public profiles on GitHub"

# What a kernel exchanges, as a word of its own or as a part of a name in CamelCase.
_TERMS = (
    r"(?:(?<![A-Za-z])all|(?<=[a-z0-9])All|(?<![A-Za-z])All)_?(?:[rR]educe|[gG]atherv?|(?:[tT]o|2)_?[aA]llv?)"
    r"|(?:(?<![A-Za-z])reduce|(?<=[a-z0-9])Reduce|(?<![A-Za-z])Reduce)_?[sS]catter"
    r"|(?<![A-Za-z])a2av?(?![a-z])"
)
# How it does it. Only kernels between GPUs have these words.
_WAYS = (
    r"one_?shot|two_?shot|1shot|2shot|multimem|nvls|NVLS|lamport|symm_?mem|intra_node|inter_node|ipc|nvlink|mnnvl|push"
    r"|pull|put|ring|tree|double_tree|simple|packet|ll|LL|LL16|mc|uc|rsag|persistent|tma|consumer|producer|sync|opt"
    r"|custom|peer|rank|device|single|node|rma|wait|poll|low_latency|into_tensor|inplace|scalar\d{0,2}|vec\d{0,2}|v\d|st"
)
# A product of matrices beside the exchange, and work that only prepares one.
_NO_PRODUCT = (
    r"(?![^<(]{0,400}?(?:[gG]emm|GEMM|[mM]at_?[mM]ul|(?<![a-z])mm(?![a-z])|flash_attn|[aA]ttention|fwd_batch_decode"
    r"|(?<![a-z])mla_|mega_?moe|mega_kernel))"
)
_NO_HELPER = (
    r"(?![^<(]{0,400}?(?:[iI]nitiali[sz]e|[lL]ayout|[mM]apping|[pP]re_?process|[pP]ost_?process|[pP]repare|[sS]anitize"
    r"|_epilogue|[iI]ndices|_index_|build_|calc_|compute|local_(?:combine|dispatch)|[lL]ocalGather|mask_buffer|skipped_"
    r"|(?:[bB]lock|[wW]arp|[wW]ave|[tT]hread|cta|CTA|[gG]rid|[lL]ane|[tT]ile|subgroup)_?[aA]ll|all_?reduce_(?:in_)?(?:block|warp|thread|lane)))(?!mlx::|cute?::|thrust::)"
)
_OF_LIBRARY = (
    r"vllm|sglang|sgl_kernel|flashinfer|tensorrt_llm|trtllm\w{0,20}|turbomind|quickreduce|c10d|mscclpp|nccl_ep|deep_ep"
    r"|transformer_engine|stream_executor|xla|tensorflow|onnxruntime|bytedance|flux|at|torch|horovod|paddle|phi|aphrodite"
    r"|fastertransformer|kittens|pplx|uccl|mori|hybrid_ep"
)

# Functions of communication libraries, and of inference engines, in any namespace: engines copy them from one another.
_FUNCTIONS = (
    # vLLM's custom all-reduce and its copies in SGLang, FlashInfer and others.
    r"cross_device_(?:reduce(?:_[12]stage|_scatter)?|all_?gather)"
    # PyTorch's symmetric memory. Its barriers and signals have the namespace c10d::symmetric_memory.
    r"|multimem_(?:one_shot_|two_shot_)?(?:all_|reduce)|exchangeSplitAndOffset|allToAllV(?![a-z])"
    # Dispatch and combine of experts: DeepEP and what is made from it, TensorRT-LLM, Triton-distributed.
    r"|notify_dispatch|cached_notify|clean_low_latency_buffer|cleanLowLatencyBufferKernel|moeA2A(?:Dispatch|Combine)Kernel"
    r"|moeAllToAllKernel|fusedMoeCommKernel|allToAllMetadataDevice"
    r"|(?:kernel_)?(?:dispatch|combine)_(?:token_)?(?:intra|inter)_?node"
    # Transformer Engine's userbuffers, and NVIDIA's communication library made from them.
    r"|k?userbuffers_|ubx_kernel_"
    # NVSHMEM's kernels for calls from the host.
    r"|nvshmem|(?:barrier|sync|alltoall|broadcast|fcollect|rdxn|reducescatter)_on_stream_kernel"
    # UCC, UCX and Gloo.
    r"|UCC_REDUCE_CUDA_|(?:ucc|ucp|uct)_\w{1,60}kernel|_Kernel_\w{1,20}_cuda(?:Sum|Product|Min|Max)(?=\()"
    # Kernels that poll the data of other ranks (Lamport's flags), and barriers of all ranks.
    r"|\w{0,80}_lamport(?![a-z])|rmsNormLamport|\w{0,60}(?<![a-z])barrier_all(?![a-z])|\w{0,60}BarrierAll|MultiGpuBarrier"
    r"|p2p_(?:put|copy|wait|set)_"
)
# Types of parameters that lead to the memory of other ranks.
_PEER_TYPES = (
    r"(?:RankSignals|ncclDevComm|ncclWindow_(?:t|vidmem)|mscclpp(?:::|\d\d)\w{0,40}(?:Channel|DeviceHandle|ExecutionPlan)"
    r"|nvshmemi?_team_t|ucc_ec_cuda_executor_t|(?:Push|Pull)Controller"
    r"|SystemSemaphoreInfo)(?![a-z])"
)


# Any namespaces, and the rest of a function's name.
_IN = r"(?:\w{1,80}::){0,8}"
_REST = r"\w{0,120}(?:[<(]|$)"


def _exchange(*patterns: str) -> re.Pattern[str]:
    """Return a pattern of names that begin with one of some patterns and are neither products nor helpers."""
    return re.compile(rf"^(?=(?:{'|'.join(patterns)})){_NO_PRODUCT}{_NO_HELPER}")


COLLECTIVES: tuple[KernelRule, ...] = (
    KernelRule(
        key="nccl",
        pattern=re.compile(r"^(?:nccl(?=[A-Z])|mscclKernel|msccl_kernel|rccl)"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="nccl",
        op="comm",
        source=PROFILES + "; NVIDIA/nccl src/device/symmetric/generate.py; ROCm/rccl src/device/msccl_kernel.cu",
    ),
    KernelRule(
        key="collective_function",
        pattern=_exchange(
            rf"{_IN}(?:{_FUNCTIONS}){_REST}",
            r"(?:mscclpp|turbomind::comm|(?:c10d::)?(?:symmetric_memory|intra_node_comm))::",
            r"(?:\w{1,40}::){0,3}(?:deep_ep|nccl_ep|hybrid_ep|pplx|uccl|mori|internode(?:_ll)?|intranode)::(?:\w{1,40}::){0,4}"
            r"(?:hybrid_|cached_|low_latency_)?"
            r"(?:dispatch|combine|barrier|notify|clean|pp_send|pp_recv|engram_fetch|device_sync)",
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@collective",
        op="comm",
        source=(
            PROFILES + "; deepseek-ai/DeepEP csrc/kernels; pytorch/pytorch torch/csrc/distributed/c10d/symm_mem; "
            "NVIDIA/nvshmem src; NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels; "
            "NVIDIA/TransformerEngine userbuffers.cu; ByteDance-Seed/Triton-distributed; openucx/ucc"
        ),
    ),
    KernelRule(
        key="collective_parameter",
        pattern=_exchange(rf"(?!cut(?:lass|e))[^\n]{{0,400}}?(?<![A-Za-z]){_PEER_TYPES}"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@collective",
        op="comm",
        source="sgl-project/sglang python/sglang/jit_kernel; NVIDIA/nccl docs/examples; openucx/ucc ec/cuda/kernel",
    ),
    KernelRule(
        key="collective_of_library",
        pattern=_exchange(rf"(?:\w{{1,80}}::){{0,4}}?(?:{_OF_LIBRARY})::{_IN}\w{{0,80}}?(?:{_TERMS}){_REST}"),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@collective",
        op="comm",
        source=PROFILES + "; flashinfer-ai/flashinfer include/flashinfer/comm; openxla/xla",
    ),
    KernelRule(
        key="named_collective",
        pattern=_exchange(
            rf"(?=\w{{0,120}}?(?:{_TERMS}))_{{0,2}}"
            rf"(?:(?:{_TERMS}|(?:{_WAYS}|{OPERATION_WORDS}|{NEUTRAL_WORDS})(?![a-z]))_{{0,2}}){{1,14}}(?:[<(]|$)"
        ),
        verdict=Verdict.NOT_ELIGIBLE,
        library="@collective",
        op="comm",
        source="meta-pytorch/kraken; pytorch/pytorch CUDASymmetricMemoryOps.cu; ByteDance-Seed/Triton-distributed",
    ),
    KernelRule(
        key="collective_word",
        pattern=_exchange(rf"(?!triton_|\w{{0,200}}_fusion(?:_\d{{1,6}})?$){_IN}\w{{0,120}}?(?:{_TERMS}){_REST}"),
        verdict=Verdict.UNKNOWN,
        library="@collective",
        op="comm",
        source="the name says that it exchanges data, and not whether it computes a product",
    ),
)
