"""The programs of workloads/ranks that tools/judge_ranks.py profiles: what is planted, and what a report must say."""

from typing import NamedTuple

# Without peer-to-peer and shared memory, the ranks of one host talk through the network's loopback device.
SOCKETS = (("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1"), ("NCCL_IB_DISABLE", "1"), ("NCCL_SOCKET_IFNAME", "lo"))
NO_PEERS = (("NCCL_P2P_DISABLE", "1"),)
ONE_CHANNEL = (("NCCL_P2P_DISABLE", "1"), ("NCCL_MAX_NCHANNELS", "1"))


# The last rank of a job of any number of ranks.
LAST = -1


class Case(NamedTuple):
    """One run.

    Attributes:
        rank: The rank that has it, ``LAST`` for the last one of the job; None for none.
        rule: What keeps that rank: the rule that has most of the waits for it. Without a rank, the rules of the first
            finding; none where any finding will do that names no rank.
        fixed: The runs without the fault, which this one is compared with.
        program: The program, without .py.
        beside: Whether another program uses the last GPU.
        committed: How many steps of its capture are committed, of each rank.
        may_be_named: A rank that another finding than the first may call late, since the fault lies in its work.
    """

    fault: str
    planted: str
    rank: int | None = None
    rule: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    program: str = "one_late_rank"
    beside: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    committed: int = 0
    may_be_named: int | None = None
    in_one_process: bool = False


FIXED = ("balanced", "balanced_again", "balanced_later")
HOST = ("idle/cpu",)
# It reads each number as soon as it is computed: the host waits, then the GPU waits for the next small kernel.
ON_HOST_0 = ("idle/cpu", "synchronization/in_step", "launches/launch_bound")
DATA_PARALLEL, DEEP = "data_parallel", ("deep",)
SHARDED, TENSOR, PIPELINE = "sharded", "tensor_parallel", "pipeline"
LINKS = ("communication/slow_links",)

CASES = {
    "balanced": Case("none", "nothing", committed=9),
    "balanced_again": Case("none", "nothing"),
    "balanced_later": Case("none", "nothing"),
    "loader": Case("loader", "the loader of the last rank is slow", LAST, ("idle/data_wait",), FIXED, committed=9),
    "loading_in_process": Case(
        "loading_in_process", "the last rank prepares its data itself", LAST, ("idle/data_work",), FIXED
    ),
    "uneven_input": Case(
        "uneven_input",
        "the last rank has sequences of twice the length",
        LAST,
        ("ranks/uneven_input",),
        FIXED,
        committed=9,
    ),
    "host_in_backward": Case(
        "host_in_backward", "the last rank works on the host inside backward", LAST, HOST, FIXED, committed=9
    ),
    "host_in_forward": Case("host_in_forward", "the last rank works on the host inside forward", LAST, HOST, FIXED),
    "slower_gpu": Case(
        *("none", "another program uses the GPU of the last rank", LAST, ("ranks/slower_gpu",), FIXED),
        beside=True,
        committed=9,
    ),
    "checkpoints": Case(
        "checkpoints", "rank 0 writes a checkpoint each fourth step", 0, ("idle/file_io",), FIXED, committed=9
    ),
    "logging": Case("logging", "rank 0 logs the norm of each weight", 0, ON_HOST_0, FIXED),
    "one_channel": Case("none", "no peer-to-peer, one channel", variables=ONE_CHANNEL),
    "statistics": Case("statistics", "rank 0 logs statistics of each weight", 0, ON_HOST_0, FIXED),
    "sockets": Case("none", "NCCL may use sockets only", None, LINKS, FIXED, variables=SOCKETS, committed=4),
    "no_peers": Case("none", "no peer-to-peer between the GPUs", None, LINKS, FIXED, variables=NO_PEERS),
    "host_on_all": Case("host_on_all", "the hosts of all ranks work inside forward", None, HOST, FIXED, committed=6),
    "uneven_in_turn": Case(
        *("uneven_in_turn", "another rank has longer sequences in each step", None, ("ranks/in_turn",)),
        ("even_in_turn",),
        committed=12,
    ),
    "even_in_turn": Case("even_in_turn", "nothing"),
    "microbatches": Case("none", "nothing", program=DATA_PARALLEL),
    "each_microbatch": Case(
        *("each_microbatch", "gradients are summed over ranks in each microbatch", None),
        *(("communication/each_microbatch",), ("microbatches",)),
        program=DATA_PARALLEL,
    ),
    "one_bucket": Case(
        *("one_bucket", "all gradients are one bucket", None, ("communication/large_buckets",), ("microbatches",)),
        program=DATA_PARALLEL,
    ),
    "deep": Case("deep", "nothing", program=DATA_PARALLEL),
    "small_buckets": Case(
        *("small_buckets", "each parameter is a bucket", None, ("communication/small_buckets",), DEEP),
        program=DATA_PARALLEL,
    ),
    "unused_parameters": Case(
        *("unused_parameters", "it looks for unused parameters", None, ("communication/unused_parameters",), DEEP),
        program=DATA_PARALLEL,
    ),
    "buffers": Case(
        *("buffers", "each forward pass broadcasts the buffers", None, ("communication/buffers",), DEEP),
        program=DATA_PARALLEL,
    ),
    "one_process": Case(
        *("one_process", "one process has all GPUs", None, ("communication/data_parallel",), DEEP),
        program=DATA_PARALLEL,
        in_one_process=True,
    ),
    "sharded": Case("none", "nothing", program=SHARDED),
    "sharded_in_turn": Case(
        *("gathers_in_turn", "weights are gathered only when they are needed", None, ("communication/late_gathers",)),
        ("sharded",),
        program=SHARDED,
        committed=5,
    ),
    "sharded_late": Case(
        "host_in_forward", "the last rank works on the host inside forward", LAST, HOST, ("sharded",), program=SHARDED
    ),
    "tensor_parallel": Case("none", "nothing", program=TENSOR, committed=9),
    "tensor_parallel_late": Case(
        "host_in_forward",
        "the last rank works on the host inside forward",
        LAST,
        HOST,
        ("tensor_parallel",),
        program=TENSOR,
    ),
    "pipeline": Case("none", "nothing", program=PIPELINE),
    "pipeline_bubbles": Case(
        *("few_microbatches", "as many microbatches as stages", None, ("ranks/pipeline",), ("pipeline",)),
        program=PIPELINE,
        committed=8,
    ),
    "pipeline_uneven": Case(
        *("uneven_stages", "the last stage has more blocks than the others", None, ("ranks/pipeline",), ("pipeline",)),
        program=PIPELINE,
        committed=5,
        may_be_named=LAST,
    ),
}
"""The runs by name."""
