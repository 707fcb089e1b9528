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


class Word(NamedTuple):
    """A word of the glossary and what it means."""

    word: str
    meaning: str


LEDGER_PARTS = (
    LedgerPart("compute_ns", "compute", "compute", "#0054A9"),
    LedgerPart("communication_exposed_ns", "communication", "exposed communication", "#873267"),
    LedgerPart("copy_exposed_ns", "copy", "exposed copy", "#604900"),
    LedgerPart("memset_exposed_ns", "memset", "exposed memset", "#929292"),
    LedgerPart("idle_ns", "idle", "idle", "#FF5F1B"),
)


def fill(part: LedgerPart) -> str:
    """Return a part's fill; idle is always hatched, so that it is known without colour."""
    return "url(#idle)" if part.key == "idle" else part.colour


CAUSES = MappingProxyType(
    {
        "not_traced": "the capture cannot show what ran",
        "queued": "launched, and not yet begun",
        "launch": "inside the launch call",
        "profiler": "the profiler itself was at work",
        "module_load": "code was loaded or compiled",
        "allocation": "memory was allocated, freed or registered",
        "blocking_copy": "the host stood in a copy that blocks it",
        "synchronization": "the host stood in a synchronize call",
        "data_wait": "the host waited for input data",
        "data_work": "the host prepared input data itself",
        "peer_wait": "another rank was late",
        "lock": "the host waited for the GIL or a lock",
        "off_cpu": "the host thread was off the CPU",
        "cpu": "the host ran other code",
        "unknown": "none of these could be shown",
    }
)

WINDOW_SOURCES = MappingProxyType(
    {
        "steps": "the measured steps; warm-up is left out",
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
        "memset_exposed_ns": "exposed memset",
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
        "sm_active_share": "SM active",
        "tensor_active_share": "tensor active",
        "dram_read_bandwidth_share": "DRAM read bandwidth",
        "dram_write_bandwidth_share": "DRAM write bandwidth",
        "pcie_rx_throughput_share": "PCIe RX throughput",
        "pcie_tx_throughput_share": "PCIe TX throughput",
        "gpu_utilization_share": "GPU utilization",
        "sm_efficiency_estimate": "SM efficiency, estimated",
        "achieved_estimate": "achieved, estimated",
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
        "measured_steps": "measured steps",
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
        "launching_threads": "launching threads",
        "wait_ns": "waiting in the operating system, all of them",
        "graph_launches": "launches of graphs",
        "kernels_in_graphs": "kernels inside graphs",
        "kernel_time_in_graphs_share": "kernel time inside graphs",
        "shown_by": "shown by",
        "outlier_count": "outliers",
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
        ("cuda_graphs", "launches"): "Launches, by how much of them the capture shows",
        ("cuda_graphs", "kernels"): "Kernels inside graphs",
        ("step_breakdown", "mean"): "The mean step",
        ("step_breakdown", "devices"): "GPU utilization",
        ("step_breakdown", "steps"): "Every step",
        ("counterfactual", "causes"): "The mean step, by what it is spent on",
        ("ranges", "summary"): "On the host",
        ("ranges", "projection"): "On the GPU",
        ("ranges", "kernels"): "Kernels by range",
    }
)

WEIGHTS = ("total_ns", "idle_ns", "kernel_ns", "gpu_ns", "host_ns", "window_ns")
"""Columns that say how much of the time a row stands for, the first that a table has."""

GAINS = (
    "Gains come from replaying the run with the change made; they do not add up: what one change frees, another cannot "
    "free again."
)
ADDS_UP = "Each row adds up to its window to the nanosecond; rounded shares may miss 100 by a tenth."
NO_GPU = "No GPU work was seen, so there is no ledger of GPU time."

GLOSSARY = (
    (
        "What is recorded",
        (
            Word("capture", "What nsys recorded of one run: a .nsys-rep file."),
            Word("export", "The same as a SQLite database: a .sqlite file."),
            Word("trace", "The tables of an export, in memory, with known columns and units."),
            Word("operation", "What runs on the GPU: a kernel, a copy or a memset."),
            Word("kernel, copy, memset", "A function that the GPU computes; memory moved; memory set to a value."),
            Word("launch", "The call on the host that puts an operation on the GPU's queue."),
            Word("wait", "A call on the host that lasts until an operation is done."),
            Word("range", "A named stretch of time that the program marks for profilers (NVTX)."),
            Word("counter", "A property of the GPU that is sampled while it runs."),
        ),
    ),
    (
        "When",
        (
            Word("step", "One turn of the training loop, from one batch to the next."),
            Word("phase", "A range that names a part of a step: batch, data, copy, forward, backward, optimizer."),
            Word("warm-up", "The first steps, which load libraries and choose algorithms; left out of the window."),
            Word("window", "The stretch of time a number is about. No share is printed without its window."),
            Word("outlier", "A step that lasts longer than the others by Tukey's fence and by a tenth."),
        ),
    ),
    (
        "What the GPU does with its time",
        (
            Word(
                "busy, idle", "Covered, or not covered, by any operation. Busy does not say how well the GPU is used."
            ),
            Word("gap", "One stretch of idle time that nothing interrupts. It may have several causes."),
            Word("starvation", "Idle time inside steps: the GPU had nothing to do while the program trained."),
            Word("cause", "Why the GPU was idle. Each nanosecond of a gap has exactly one, and it may be unknown."),
            Word("exposed", "Of copies and communication: time that no kernel hides. Compute comes first."),
            Word("ledger", "All the time of a window, divided into rows that add up to it."),
            Word("share", "A ratio from 0 to 1, printed as a percentage with the window it is about."),
            Word(
                "tensor-core share",
                "Time in tensor-core kernels, of kernel time. The low end counts what is known; the high end adds "
                "kernels whose name does not tell.",
            ),
            Word("occupancy", "Warps that an SM holds at a time, of the most it could hold."),
        ),
    ),
    (
        "What is said about it",
        (
            Word("fact", "A number with its unit."),
            Word("finding", "Advice, with what the problem costs, what mending it may gain, and the evidence."),
            Word(
                "replay",
                "The window run again on a model of what waits for what; a change is made in it to find its gain.",
            ),
            Word(
                "gain",
                "How much shorter the window gets when it is replayed with the change made, at least and at most.",
            ),
            Word("rule", "A pattern over kernel names, and what it says of kernels that match."),
            Word(
                "verdict",
                "What a rule says: on tensor cores, not though it could be, not and it could not, or unknown. "
                "Of a report: what limits the run.",
            ),
            Word("section", "One analysis: its facts, tables and findings."),
            Word("report", "All sections of one capture."),
            Word("base, new", "The two reports of a comparison: what was before, what is now."),
            Word("margin", "The smallest change of step time that is called faster or slower."),
            Word("drift", "By how much the second half of a capture's steps differs from its first."),
            Word("workload", "An example program in workloads/ that shows one lesson."),
        ),
    ),
)
"""The words of docs/glossary.md, in its groups."""

_WORD_OF = MappingProxyType(
    {
        "GPU busy": "busy, idle", "GPU idle": "busy, idle", "busy": "busy, idle", "idle": "busy, idle",
        "compute": "kernel, copy, memset", "kernels": "kernel, copy, memset", "kernel time": "kernel, copy, memset",
        "exposed communication": "exposed", "exposed copy": "exposed", "exposed memset": "exposed",
        "median step": "step", "Steps": "step", "Phases": "phase", "phases": "phase", "Ledger": "ledger",
        "Tensor cores": "tensor-core share", "tensor cores": "tensor-core share", "Findings": "finding",
        "GPU counters": "counter", "Launches": "launch", "gaps": "gap", "Longest gaps": "gap",
        "Idle by cause": "cause", "Verdict": "verdict", "operations": "operation", "NVTX ranges": "range",
        "outliers": "outlier",
        "Occupancy": "occupancy", "theoretical occupancy": "occupancy", "Kernels": "kernel, copy, memset",
        "share of window": "share", "Where the GPU’s time went": "ledger",  # noqa: RUF001 - as it is printed
    }
)  # fmt: skip


def word_anchor(label: str) -> str:
    """Return the anchor of the word of the glossary that explains a label; empty where none does."""
    word = _WORD_OF.get(label, label)
    return _ANCHORS.get(word, "")


def _anchor(word: str) -> str:
    return "word-" + word.split(",", maxsplit=1)[0].replace(" ", "-")


_ANCHORS = MappingProxyType({each.word: _anchor(each.word) for _, words in GLOSSARY for each in words})


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
