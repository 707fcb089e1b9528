"""Names of what a GPU does: rows of the ledger, operations, and uses of tensor cores, the same in every output."""

from collections.abc import Mapping
from types import MappingProxyType

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


def operation_name(op: str) -> str:
    """Return the name of the kernels of an operation, such as "matrix products" for ``gemm``."""
    return OPERATION_NAMES.get(op) or op.replace("_", " ")
