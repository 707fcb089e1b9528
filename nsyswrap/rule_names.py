"""Names of rules, causes of idle time, uses of tensor cores and operations: one phrase each, the same in every output.

Each nanosecond of idle time belongs to one rule: that of its root cause, or ``idle/<cause>`` where it has none.
"""

from collections.abc import Mapping
from types import MappingProxyType

CAUSE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "not_traced": "not traced",
        "queued": "queued work",
        "launch": "CUDA launch calls",
        "profiler": "profiler overhead",
        "module_load": "loading or compiling code",
        "allocation": "memory allocation",
        "blocking_copy": "blocking copies",
        "synchronization": "synchronization",
        "data_wait": "data loader wait",
        "data_work": "data loading in the training process",
        "peer_wait": "waiting for other ranks",
        "lock": "waiting for a lock",
        "off_cpu": "off the CPU",
        "garbage_collection": "garbage collection",
        "file_io": "file reads and writes",
        "cpu": "CPU outside CUDA calls",
        "unknown": "unknown cause",
    }
)
"""Name of each cause, by its key."""

RULE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{f"idle/{cause}": name for cause, name in CAUSE_NAMES.items()},
        "capture/overhead": "recording of NVTX ranges",
        "modules/in_window": "kernels compiled or loaded in steps",
        "memory/churn": "repeated memory allocation",
        "memory/migrations": "page faults of managed memory",
        "data/worker_start": "data loader worker start",
        "host/checkpoint": "checkpoints",
        "host/cpu_quota": "CPU quota used up",
        "host/tokenizer": "tokenizing in the step",
        "host/outside_wait": "waits for others in the step",
        "host/untraced_wait": "waits off the CPU",
        "host/file_reads": "file reads in the training process",
        "host/page_faults": "waits for pages of memory",
        "gpu/slowed": "GPU clock lowered",
        "copies/pageable": "copies from pageable memory",
        "synchronization/in_step": "synchronization inside steps",
        "optimizer/many_kernels": "many small optimizer kernels",
        "launches/launch_bound": "launch-bound kernels",
        "steps/uneven": "slow steps",
        "gpu/between_operations": "time between GPU operations",
        "capture/impossible_rows": "impossible rows in the capture",
        "capture/incomplete": "incomplete capture",
        "capture/no_ranges": "no NVTX ranges",
        "communication/exposed": "exposed communication",
        "communication/slow_links": "slow links between GPUs",
        "graphs/hidden": "CUDA graphs without a trace",
        "graphs/whole": "CUDA graphs traced as a whole",
        "compute/batch_norm": "batch norms with one block a channel",
        "compute/depthwise": "depthwise convolutions",
        "compute/kernels": "what limits the kernels",
        "compute/small_matrices": "many products of small matrices",
        "compute/unfused": "elementwise kernels in chains",
        "ranks/late": "late rank",
        "ranks/pace": "a slower pace of launches",
        "ranks/pipeline": "pipeline bubble",
        "ranks/slower_gpu": "slower GPU than that of other ranks",
        "ranks/uneven_input": "more to compute than other ranks",
        "ranks/unknown": "late for an unknown cause",
        "copies/exposed": "exposed copies",
        "occupancy/low": "low occupancy",
        "occupancy/small_grid": "grids smaller than the GPU",
        "tensor_cores/counter_disagrees": "tensor-core counter against kernel names",
        "tensor_cores/layout": "memory layout conversions",
        "tensor_cores/not_used": "matrix work without tensor cores",
    }
)
"""Name of each rule, by its key."""

TENSOR_USES: Mapping[str, str] = MappingProxyType(
    {
        "tensor": "on tensor cores",
        "unknown": "not clear from the name",
        "simt_eligible": "matrix work without tensor cores",
        "not_eligible": "no matrix work",
    }
)
"""What the name of a kernel says about tensor cores, by key of the verdict."""

TENSOR_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "depthwise": "depthwise, bound by memory",
        "matrix_vector": "matrix-vector, bound by memory",
        "outside_autocast": "outside autocast",
        "tf32_off": "TF32 disabled",
        "no_tf32": "GPU without TF32",
        "type_unsupported": "type not supported",
        "fp64": "FP64 on ordinary cores",
        "shape_or_layout": "shape or layout unsuitable",
        "cannot_tell": "type not in the name",
    }
)
"""Why matrix work does not use tensor cores, by key of the reason."""

LEDGER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "compute_ns": "compute",
        "communication_wait_ns": "waiting for other ranks",
        "communication_transfer_ns": "exposed communication",
        "copy_exposed_ns": "exposed copies",
        "memset_exposed_ns": "exposed memsets",
        "idle_ns": "idle",
    }
)
"""Name of each row of the ledger, by its column."""

OPERATION_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "attention_aux": "work around attention",
        "comm": "communication",
        "conv": "convolutions",
        "conv_aux": "work around convolutions",
        "conv_depthwise": "depthwise convolutions",
        "elementwise": "elementwise operators",
        "fft": "Fourier transforms",
        "gemm": "matrix products",
        "gemm_aux": "work around matrix products",
        "gemv": "products with vectors",
        "index": "indexing",
        "layout": "changes of layout",
        "loss": "losses",
        "norm": "norms",
        "optimizer": "the optimizer",
        "other": "other kernels",
        "quant": "quantization",
        "random": "random numbers",
        "reduction": "reductions",
        "resize": "resizing",
        "rnn": "recurrent layers",
        "scan": "scans",
        "solver": "linear solvers",
        "sort": "sorting",
        "sparse": "sparse products",
        "splitk_reduce": "sums of split products",
        "": "unnamed kernels",
    }
)
"""Name of the kernels of an operation, by its key; other operations are named by their key."""

# Hosts of equal ranks differ in their pace, and a late rank has its own transfers. A stage of a pipeline waits for the
# stage before it by design.
LATE_WITHOUT_CAUSE = frozenset({"ranks/pace", "ranks/unknown", "ranks/pipeline"})
"""Rules of late ranks that name no cause."""


def rule_name(rule: str) -> str:
    """Return the name of a rule; the words of its key where it has no name."""
    known = RULE_NAMES.get(rule)
    return known if known is not None else rule.replace("/", ": ", 1).replace("_", " ")


def cause_name(cause: str) -> str:
    """Return the name of a cause; the words of its key where it has no name."""
    return CAUSE_NAMES.get(cause) or cause.replace("_", " ")


def operation_name(op: str) -> str:
    """Return the name of the kernels of an operation, such as "matrix products" for ``gemm``."""
    return OPERATION_NAMES.get(op) or op.replace("_", " ")
