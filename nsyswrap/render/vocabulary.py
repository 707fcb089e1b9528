"""The words of the report: names of ledger parts, rules, causes and columns, and the glossary.

Page, terminal and Markdown take their words from here, so each thing has one name everywhere. The names of rules and
causes come from ``nsyswrap.rule_names``, which lower layers use, too.
"""

from types import MappingProxyType
from typing import NamedTuple

from nsyswrap.rule_names import CAUSE_NAMES, RULE_NAMES, cause_name, rule_name

__all__ = ["CAUSE_NAMES", "RULE_NAMES", "cause_name", "rule_name"]


class LedgerPart(NamedTuple):
    """One row of the ledger.

    Attributes:
        column: Its column in the table ``devices``.
        key: Short name, which selects its colour in the style sheet.
        label: Text on the page.
        colour: Fill on a white page; its contrast with white is at least 3:1.
    """

    column: str
    key: str
    label: str
    colour: str


class Term(NamedTuple):
    """A term of the glossary and its meaning."""

    term: str
    meaning: str


LEDGER_PARTS = (
    LedgerPart("compute_ns", "compute", "compute", "#0054A9"),
    LedgerPart("communication_wait_ns", "rank_wait", "waiting for other ranks", "#B5638F"),
    LedgerPart("communication_transfer_ns", "communication", "exposed communication", "#873267"),
    LedgerPart("copy_exposed_ns", "copy", "exposed copy", "#604900"),
    LedgerPart("memset_exposed_ns", "memset", "exposed memset", "#929292"),
    LedgerPart("idle_ns", "idle", "idle", "#FF5F1B"),
)


def fill(part: LedgerPart) -> str:
    """Return the fill of a part; idle is hatched, so that it differs from other parts without colour."""
    return "url(#idle)" if part.key == "idle" else part.colour


CAUSES = MappingProxyType(
    {
        "not_traced": "The capture does not show what ran.",
        "queued": "The next operation was launched and had not begun.",
        "launch": "A CUDA launch call was open.",
        "profiler": "nsys recorded a call, by the measured cost, or did work of its own.",
        "module_load": "Code was loaded or compiled.",
        "allocation": "Memory was allocated, freed or registered.",
        "blocking_copy": "The CPU was blocked in a copy call.",
        "synchronization": "The CPU was blocked in a synchronize call.",
        "data_wait": "The CPU waited for the data loader.",
        "data_work": "The training process loaded or prepared data.",
        "peer_wait": "Another rank was late.",
        "lock": "The CPU waited for the GIL or another lock.",
        "off_cpu": "The thread was off the CPU or waited for a core.",
        "garbage_collection": "Python collected garbage.",
        "file_io": "Files were read or written outside of data loading.",
        "cpu": "The CPU ran code outside CUDA calls.",
        "unknown": "The capture does not show the cause.",
    }
)
"""What each cause of idle time means: what the launching thread did during the gap."""

WINDOW_SOURCES = MappingProxyType(
    {
        "steps": "the measured steps; warm-up is left out",
        "pattern": "steps found by the repeating pattern of the GPU work",
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
        "host_ns": "CPU time",
        "gpu_ns": "GPU busy",
        "kernel_ns": "kernel time",
        "tensor_ns": "tensor cores",
        "unknown_ns": "unknown",
        "communication_wait_ns": "waiting for other ranks",
        "communication_transfer_ns": "exposed communication",
        "copy_exposed_ns": "exposed copy",
        "memset_exposed_ns": "exposed memset",
        "gap_count": "gaps",
        "rule": "why",
        "per_step": "gaps a step",
        "kernel_count": "kernels",
        "source_memory": "from",
        "target_memory": "to",
        "warm_up": "warm-up",
        "inferred": "inferred",
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
        "peak_share_low": "of the peak, at least",
        "peak_share_high": "of the peak, at most",
        "known_from": "known from",
        "base_ns": "as it is",
        "without_loader_ns": "without the data loader",
        "of_loader": "part of the data loader",
        "what": "call or mark",
        "gpu": "on the machine",
        "slowed_share": "clock lowered",
        "median_mhz": "median clock, MHz",
        "max_mhz": "highest clock, MHz",
        "mean_watt": "mean power, W",
        "limit_watt": "power limit, W",
        "max_celsius": "highest temperature, °C",
        "process_count": "most processes at once",
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
        "unknown_ns": "in kernels whose name does not show it",
        "simt_eligible_ns": "in matrix kernels that do not use tensor cores",
        "not_eligible_ns": "in kernels without matrix work",
        "share_low": "tensor-core share, at least",
        "share_high": "tensor-core share, at most",
        "counter_share": "tensor pipes active by counter, at most",
        "counter_share_low": "tensor pipes active by counter, at least",
        "limited_by_memory_share": "limited by the memory's rate",
        "limited_by_memory_or_its_latency_share": "limited by the memory's rate or latency",
        "limited_by_cache_or_memory_share": "limited by the cache or the memory",
        "limited_by_tensor_cores_share": "limited by tensor cores",
        "limited_by_cuda_cores_share": "limited by CUDA cores",
        "limited_by_too_few_blocks_share": "limited by too few blocks",
        "limited_by_unknown_share": "limit unknown",
        "main_kernels": "most of it",
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
        "allowed_cores": "cores of the program",
        "machine_cores": "cores of the machine",
        "cpu_time_ns": "CPU time of its threads",
        "without_core_ns": "its threads ready without a core",
        "quota_cores": "CPU quota in cores",
        "throttled_ns": "stopped for the quota",
        "major_page_faults": "page faults that read from disk",
        "disk_read_bytes": "read from disk",
        "disk_written_bytes": "written to disk",
        "numa_nodes": "NUMA nodes of the program",
        "cpu_clock_limit": "CPU clock limit",
        "sampling_share": "sampling of the host, share of one core",
        "median_launch_latency_ns": "median launch latency",
        "median_operation_ns": "median operation",
        "median_launch_interval_ns": "median time between launches",
        "cuda_rows": "CUDA events",
        "nvtx_rows": "NVTX events",
        "launching_threads": "launching threads",
        "wait_ns": "total time waiting in the operating system",
        "graph_launches": "launches of graphs",
        "kernels_in_graphs": "kernels inside graphs",
        "kernel_time_in_graphs_share": "kernel time inside graphs",
        "shown_by": "traced as",
        "outlier_count": "outliers",
        "mean_step_ns": "mean step",
        "loader_share": "data loader, share of a step",
        "loader_margin_share": "95 % interval, plus or minus",
        "attributed_share": "attributed to it in the first capture",
        "mean_step_without_loader_ns": "mean step without the data loader",
        "steps_compared": "steps compared",
        "gpu_utilization_share": "GPU utilization (kernels only, first step to last)",
        "without_profiler_ns": "without the profiler, simulated",
        "baseline_difference_share": "simulated against measured",
    }
)

CAPTIONS = MappingProxyType(
    {
        ("tensor_cores", "kernels"): "Tensor-core use by kernel name",
        ("tensor_cores", "phases"): "By phase",
        ("compute", "kernels"): "What limits each kernel",
        ("tensor_cores", "not_used"): "Matrix work without tensor cores, and the reason",
        ("machine", "host"): "What kept the threads of the training loop from launching",
        ("machine", "gpus"): "GPU clocks",
        ("host_waits", "threads"): "Launching threads",
        ("host_waits", "waits"): "Waits of launching threads, by call and phase",
        ("cuda_graphs", "launches"): "Graph launches, by how they were traced",
        ("cuda_graphs", "kernels"): "Kernels inside graphs",
        ("step_breakdown", "mean"): "The mean step",
        ("step_breakdown", "devices"): "GPU utilization",
        ("step_breakdown", "steps"): "Each step",
        ("counterfactual", "parts"): "Where the time of the mean step goes",
        ("ranges", "summary"): "On the CPU",
        ("ranges", "projection"): "On the GPU",
        ("ranges", "kernels"): "Kernels by range",
    }
)

WEIGHTS = ("total_ns", "idle_ns", "kernel_ns", "gpu_ns", "host_ns", "window_ns")
"""Columns that measure how much time a row stands for; the first one that a table has is used."""

SAVINGS = (
    "Largest predicted saving first. A saving is the time by which the window gets shorter when the problem is fixed. "
    "Savings do not add up: time that one fix saves, another cannot save again."
)
ADDS_UP = "Each row adds up to its window to the nanosecond; rounded shares may differ from 100 % by a tenth."
NO_GPU = "The capture holds no GPU work, so there is no breakdown of GPU time."

GLOSSARY = (
    (
        "What is recorded",
        (
            Term("capture", "What nsys recorded of one run: a .nsys-rep file."),
            Term("export", "The same data as a SQLite database: a .sqlite file."),
            Term("trace", "The tables of an export, in memory, with known columns and units."),
            Term("operation", "Anything that runs on the GPU: a kernel, a copy or a memset."),
            Term(
                "kernel, copy, memset",
                "A function that runs on the GPU; a transfer of memory; memory that is set to a value.",
            ),
            Term("launch", "The CUDA call that puts an operation on a queue of the GPU."),
            Term("wait", "A CUDA call that returns only when an operation is done."),
            Term("range", "A named interval of time that the program marks for profilers (NVTX)."),
            Term("counter", "A property of the GPU that is sampled while it runs."),
        ),
    ),
    (
        "Time",
        (
            Term("step", "One iteration of the training loop, from one batch to the next."),
            Term(
                "phase",
                "A range that names a part of a step: batch, data, copy, forward, backward, optimizer. Where the "
                "program marks none, phases are inferred from what its threads launch.",
            ),
            Term(
                "pattern",
                "The operations that the GPU's work repeats. Where no range names a step, each repetition is one.",
            ),
            Term("warm-up", "The first steps, which load libraries and choose algorithms. The window leaves them out."),
            Term("measured steps", "The steps after the warm-up."),
            Term("window", "The interval that the numbers are about. Each share is printed with its window."),
            Term(
                "outlier",
                "A step that takes at least a tenth longer than the median and lies beyond Tukey's fence.",
            ),
        ),
    ),
    (
        "What the GPU does with its time",
        (
            Term(
                "busy, idle",
                "Time in which at least one operation runs, and time in which none does. A busy GPU may still be used "
                "badly.",
            ),
            Term("gap", "An interval of idle time without interruption. It may have several causes."),
            Term("starvation", "Idle time inside steps: the GPU had nothing to do while the program trained."),
            Term(
                "cause",
                "What the launching thread did while the GPU was idle. Each nanosecond of a gap has exactly one cause.",
            ),
            Term(
                "root cause",
                "The problem that idle time is attributed to. Each nanosecond of a gap belongs to exactly one finding.",
            ),
            Term("exposed", "Time of copies and communication during which no kernel runs."),
            Term("ledger", "The time of a window, divided into parts that add up to it. The page shows it as bars."),
            Term("share", "A ratio from 0 to 1. It is printed in per cent, with the window it refers to."),
            Term(
                "tensor-core share",
                "Time in tensor-core kernels as a share of kernel time. The low end counts known kernels only; the "
                "high end adds kernels whose name does not show it.",
            ),
            Term("occupancy", "Warps on a multiprocessor as a share of the most that it can hold."),
        ),
    ),
    (
        "Results",
        (
            Term("fact", "A number with its unit."),
            Term("finding", "A problem with its time lost, its predicted saving, what to try, and the evidence."),
            Term("time lost", "Time in the window that the problem takes."),
            Term(
                "predicted saving",
                "How much shorter the window gets when the problem is fixed: a lower and an upper bound.",
            ),
            Term(
                "simulation",
                "The window run again on a model of what waits for what, with a change made in it.",
            ),
            Term("rule", "A check that makes a finding. Also a pattern over kernel names that assigns a verdict."),
            Term(
                "verdict",
                "Of a report: what limits the run. Of a kernel: whether it uses tensor cores, could use them, cannot "
                "use them, or is unknown.",
            ),
            Term(
                "plan",
                "The changes in the order that helps most, with the time of a step after each, simulated with those "
                "before it.",
            ),
            Term("section", "One analysis: its facts, tables and findings."),
            Term("report", "All sections of one capture."),
            Term("base, new", "The two sides of a comparison: before and after."),
            Term("margin", "The smallest change of step time that is called faster or slower."),
            Term("drift", "The difference between the first and the second half of a capture's steps."),
            Term("workload", "An example program in workloads/ that shows one problem."),
        ),
    ),
)
"""The terms of docs/glossary.md, in its groups."""

_TERM_OF = MappingProxyType(
    {
        "GPU busy": "busy, idle", "GPU idle": "busy, idle", "busy": "busy, idle", "idle": "busy, idle",
        "compute": "kernel, copy, memset", "kernels": "kernel, copy, memset", "kernel time": "kernel, copy, memset",
        "exposed communication": "exposed", "exposed copy": "exposed", "exposed memset": "exposed",
        "median step": "step", "Steps": "step", "Phases": "phase", "phases": "phase", "Breakdown": "ledger",
        "Tensor cores": "tensor-core share", "tensor cores": "tensor-core share", "Findings": "finding",
        "GPU counters": "counter", "Launches": "launch", "gaps": "gap", "Longest gaps": "gap",
        "Why the GPU was idle": "root cause", "why": "root cause", "Idle by cause": "cause",
        "Verdict": "verdict", "Plan": "plan", "operations": "operation", "NVTX ranges": "range",
        "outliers": "outlier",
        "Occupancy": "occupancy", "theoretical occupancy": "occupancy", "Kernels": "kernel, copy, memset",
        "share of window": "share", "GPU time breakdown": "ledger",
        "waiting for other ranks": "exposed",
    }
)  # fmt: skip


def term_anchor(label: str) -> str:
    """Return the anchor of the glossary term that explains a label; empty where none does."""
    return _ANCHORS.get(_TERM_OF.get(label, label), "")


def _anchor(term: str) -> str:
    return "term-" + term.split(",", maxsplit=1)[0].replace(" ", "-")


_ANCHORS = MappingProxyType({each.term: _anchor(each.term) for _, terms in GLOSSARY for each in terms})


def column_label(name: str) -> str:
    """Return the heading of a column: ``idle_ns`` reads ``idle``."""
    if name in COLUMNS:
        return COLUMNS[name]
    for suffix in ("_ns", "_bytes", "_share", "_hz", "_count"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def fact_label(label: str) -> str:
    """Return the text for a fact's label."""
    return FACTS.get(label) or (column_label(label) if "_" in label else label)
