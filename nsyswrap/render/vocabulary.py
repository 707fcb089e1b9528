"""The words of the report: parts of the ledger, causes of idleness, headings of columns, the glossary.

One home for them, so that page, terminal and Markdown call a thing by the same name.
"""

from types import MappingProxyType
from typing import NamedTuple


class LedgerPart(NamedTuple):
    """One row of the ledger.

    Attributes:
        column: Its column in the table ``devices``.
        key: Short name, used for its colour.
        label: What a reader sees.
        colour: Fill on a white page, at least 3:1 against it.
    """

    column: str
    key: str
    label: str
    colour: str


LEDGER_PARTS = (
    LedgerPart("compute_ns", "compute", "compute", "#0054A9"),
    LedgerPart("communication_exposed_ns", "communication", "exposed communication", "#873267"),
    LedgerPart("copy_exposed_ns", "copy", "exposed copy", "#604900"),
    LedgerPart("fill_exposed_ns", "fill", "exposed fill", "#929292"),
    LedgerPart("idle_ns", "idle", "idle", "#FF5F1B"),
)

CAUSES = MappingProxyType(
    {
        "blind": "the capture cannot show what ran",
        "queued": "launched, and not yet begun",
        "launch": "inside the launch call",
        "profiler": "the profiler itself was at work",
        "module_load": "code was loaded or compiled",
        "allocation": "memory was allocated, freed or registered",
        "blocking_copy": "the host stood in a copy that blocks it",
        "synchronization": "the host stood in a synchronize call",
        "input_wait": "the host waited for input data",
        "input_work": "the host prepared input data itself",
        "peer_wait": "another rank was late",
        "lock": "the host waited for the GIL or a lock",
        "descheduled": "the host thread was off the CPU",
        "host": "the host ran other code",
        "unknown": "none of these could be shown",
    }
)

WINDOW_SOURCES = MappingProxyType(
    {
        "steps": "the steady steps; warm-up is left out",
        "operations": "first to last GPU operation of the capture",
        "session": "the whole capture",
        "user": "given on the command line",
    }
)

COLUMNS = MappingProxyType(
    {
        "device_id": "GPU",
        "start_ns": "start",
        "end_ns": "end",
        "total_ns": "total",
        "mean_ns": "mean",
        "median_ns": "median",
        "min_ns": "min",
        "max_ns": "max",
        "stddev_ns": "std\u00a0dev",
        "host_ns": "host time",
        "gpu_ns": "GPU busy",
        "kernel_ns": "kernel time",
        "tensor_ns": "tensor cores",
        "unknown_ns": "cannot tell",
        "communication_exposed_ns": "exposed communication",
        "copy_exposed_ns": "exposed copy",
        "fill_exposed_ns": "exposed fill",
        "gap_count": "gaps",
        "kernel_count": "kernels",
        "source_memory": "from",
        "target_memory": "to",
        "warm_up": "warm-up",
        "op": "operation",
        "length_ns": "length",
        "range_ns": "range",
        "envelope_ns": "first to last operation",
        "busy_ns": "GPU busy",
        "operation_count": "operations",
        "sample_count": "samples",
        "idle_estimate_ns": "idle, estimated",
        "process_id": "process",
        "thread_id": "thread number",
        "cuda_call_ns": "CUDA calls",
        "cpu_exec_ns": "CPU exec",
        "base_ns": "as it is",
        "without_loader_ns": "without the loader",
        "of_loader": "the loader's",
    }
)

FACTS = MappingProxyType(
    {
        "window_ns": "window",
        "busy_share": "GPU busy",
        "idle_share": "GPU idle",
        "idle_ns": "idle time",
        "kernel_ns": "time in kernels",
        "tensor_ns": "in tensor-core kernels",
        "unknown_ns": "in kernels whose name does not tell",
        "simt_eligible_ns": "in matrix kernels that do not use tensor cores",
        "not_eligible_ns": "in kernels with no matrix work",
        "share_low": "tensor-core share, at least",
        "share_high": "tensor-core share, at most",
        "counter_share": "tensor pipes active by counter, at most",
        "counter_share_low": "tensor pipes active by counter, at least",
        "explained_share": "idle time whose cause is shown",
        "steady_steps": "steady steps",
        "median_ns": "median step",
        "p05_ns": "5th percentile",
        "p95_ns": "95th percentile",
        "warm_up_steps": "warm-up steps",
        "warm_up_ns": "warm-up",
        "kernel_share_with_phase": "kernel time with a phase",
        "kernel_share_joined_through_main_thread": "joined through the main thread",
        "just_in_time_share": "launched while the GPU was idle",
        "median_launch_latency_ns": "median launch latency",
        "median_operation_ns": "median operation",
        "median_launch_interval_ns": "median time between launches",
        "cuda_rows": "CUDA events",
        "nvtx_rows": "NVTX events",
        "steps": "steps broken down",
        "launching_threads": "launching threads",
        "wait_ns": "waiting in the operating system, all of them",
        "graph_launches": "launches of graphs",
        "kernels_in_graphs": "kernels inside graphs",
        "kernel_time_in_graphs_share": "kernel time inside graphs",
        "shown_by": "shown by",
        "mean_step_ns": "mean step",
        "loader_share": "the loader's share of a step",
        "loader_margin_share": "plus or minus",
        "blamed_share": "blamed on it in the first capture",
        "mean_step_without_loader_ns": "mean step without the loader",
        "steps_compared": "steps compared",
        "gpu_utilization_share": "GPU utilization (kernels only, first step to last)",
    }
)

CAPTIONS = MappingProxyType(
    {
        ("tensor_cores", "kernels"): "What each kernel's name says",
        ("tensor_cores", "phases"): "By phase",
        ("tensor_cores", "not_used"): "What could have used tensor cores, and why it did not",
        ("host_waits", "threads"): "Threads that launch work",
        ("host_waits", "waits"): "Their waits, by call and phase",
        ("graphs", "launches"): "Launches, by how much of them the capture shows",
        ("graphs", "kernels"): "Kernels inside graphs",
        ("breakdown", "mean"): "The mean step",
        ("breakdown", "devices"): "GPU utilization",
        ("breakdown", "steps"): "Every step",
        ("counterfactual", "causes"): "The mean step, by what it is spent on",
        ("ranges", "summary"): "On the host",
        ("ranges", "projection"): "On the GPU",
        ("ranges", "kernels"): "Kernels by range",
    }
)

WEIGHTS = ("total_ns", "idle_ns", "kernel_ns", "gpu_ns", "host_ns", "window_ns")
"""Columns that say how much of the time a row stands for, the first that a table has."""

GAINS = "Gains are upper bounds, and they do not add up: what one change frees, another cannot free again."
ADDS_UP = "Each row adds up to its window to the nanosecond; rounded shares may miss 100 by a tenth."
NO_GPU = "No GPU work was seen, so there is no ledger of GPU time."

GLOSSARY = (
    ("window", "The stretch of time a number is about. No share is printed without the window it is a share of."),
    ("share", "A part of the window, or of another total that is named beside it. Shares are taken from nanoseconds."),
    ("busy", "At least one kernel, copy or fill runs on the GPU. It does not say how well the GPU is used."),
    ("idle", "No kernel, copy or fill runs on the GPU. Busy and idle add up to the window."),
    ("gap", "One unbroken idle span of one GPU. A gap may have several causes; each of its nanoseconds has one."),
    ("starvation", "Idle time inside steps: the GPU had nothing to do while the program trained."),
    ("exposed", "Communication, copy or fill time that no kernel hides. Where they overlap, compute comes first."),
    ("step", "One iteration of the training loop."),
    ("warm-up", "The first steps, in which memory is allocated and code is loaded. A window of steps leaves them out."),
    ("phase", "The innermost named range open on the launching thread: batch, data, copy, forward, backward, ..."),
    (
        "tensor-core share",
        (
            "Time in tensor-core kernels, as a part of kernel time. The low end counts what is known; the high end "
            "adds kernels whose name does not tell; the truth is between."
        ),
    ),
    ("gain", "What a change can save at most, if the time it costs were gone and nothing else changed."),
    ("launch", "A host call that puts an operation on the GPU's queue."),
)


def column_label(name: str) -> str:
    """Return the heading of a column: ``idle_ns`` reads ``idle``."""
    if name in COLUMNS:
        return COLUMNS[name]
    for suffix in ("_ns", "_bytes", "_share", "_hz", "_count"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def fact_label(label: str) -> str:
    """Return the words for a fact's label."""
    return FACTS.get(label) or (column_label(label) if "_" in label else label)
