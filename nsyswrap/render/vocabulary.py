"""The words of the report: names of ledger parts, rules, causes and columns. The glossary explains the terms.

Page, terminal and Markdown take their words from here, so each thing has one name everywhere. The names of rules and
causes come from ``nsyswrap.rules``, which lower layers use, too.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from nsyswrap.rules import cause_name, rule_name
from nsyswrap.units import ColumnUnit
from nsyswrap.work_names import LEDGER_NAMES

__all__ = ["cause_name", "rule_name"]


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


LEDGER_PARTS = (
    LedgerPart("compute_ns", "compute", LEDGER_NAMES["compute_ns"], "#0054A9"),
    LedgerPart("communication_wait_ns", "rank_wait", LEDGER_NAMES["communication_wait_ns"], "#B5638F"),
    LedgerPart("communication_transfer_ns", "communication", LEDGER_NAMES["communication_transfer_ns"], "#873267"),
    LedgerPart("copy_exposed_ns", "copy", LEDGER_NAMES["copy_exposed_ns"], "#604900"),
    LedgerPart("memset_exposed_ns", "memset", LEDGER_NAMES["memset_exposed_ns"], "#808080"),
    LedgerPart("idle_ns", "idle", LEDGER_NAMES["idle_ns"], "#55616F"),
)


def fill(part: LedgerPart) -> str:
    """Return the fill of a part; idle is hatched, so that it differs from other parts without colour."""
    return "url(#idle)" if part.key == "idle" else part.colour


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
        **{column: name for column, name in LEDGER_NAMES.items() if column != "idle_ns"},
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
        "gap_count": "gaps",
        "rule": "why",
        "per_step": "gaps a step",
        "idle_of_window_share": "of the window",
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
        "process_id": "process",
        "thread_id": "thread number",
        "cuda_call_ns": "CUDA calls",
        "cpu_exec_ns": "CPU outside CUDA calls",
        "sm_active_share": "SM active",
        "tensor_active_share": "tensor active",
        "dram_read_bandwidth_share": "DRAM read bandwidth",
        "dram_write_bandwidth_share": "DRAM write bandwidth",
        "pcie_rx_throughput_share": "PCIe RX throughput",
        "pcie_tx_throughput_share": "PCIe TX throughput",
        "gpu_utilization_share": "GPU utilization",
        "sm_efficiency_estimate": "SM efficiency, estimated",
        "achieved_estimate": "achieved occupancy, estimated",
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
        "just_in_time_share": "launched while the GPU was idle",
        "median_launch_interval_ns": "median time between launches",
        "envelope_any_thread_ns": "first to last operation, of any thread",
        "busy_any_thread_ns": "GPU busy, of any thread",
        "operation_count_any_thread": "operations of any thread",
        "launch_count": "launches",
        "rest_ns": "other, mostly work",
        "unseen_ns": "outside its events",
        "bus_bandwidth": "on each link, a second",
        "capture_peak_bytes": "peak of the capture",
        "start_bytes": "at the start",
        "end_bytes": "at the end",
        "peak_share": "peak, of the GPU's memory",
        "allocation_count": "allocations",
        "release_count": "releases",
        "mean_at_least_share": "mean, at least",
        "part_grown_ns": "part longer by",
        "cause_grown_ns": "cause longer by",
        "phase_grown_ns": "phase longer by",
        "excess_ns": "longer by",
        "memcpy_ns": "copies",
        "memset_ns": "memsets",
        "dataloader_ns": "data loader",
        "runtime_ns": "CUDA calls",
        "idle_estimate_ns": "idle, estimated",
    }
)

UNITS: Mapping[str, ColumnUnit] = MappingProxyType(
    {
        "theoretical_occupancy": "share", "achieved_estimate": "share", "sm_efficiency_estimate": "share",
        "peak_share_low": "share", "peak_share_high": "share", "operation_count_any_thread": "count",
        "bus_bandwidth": "bytes",
    }
)  # fmt: skip
"""Units of columns whose names do not end in them."""

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
        "attributed_share": "attributed to it in the capture",
        "mean_step_without_loader_ns": "mean step without the data loader",
        "steps_compared": "steps compared",
        "gpu_utilization_share": "GPU utilization (kernels only, first step to last)",
        "achieved_estimate_share": "achieved occupancy, estimated",
        "sm_efficiency_estimate_share": "SM efficiency, estimated",
        "unfilled_share": "kernel time with too few blocks for the GPU",
        "tail_share": "places empty in last waves",
        "outlier_excess_ns": "time of outliers beyond the median",
        "spread_share": "spread (5th to 95th percentile)",
        "copy_ns": "time of copies",
        "blocking_count": "blocking copies",
        "affected_ns": "time affected",
        "affected_share": "share affected",
        "peak_bytes": "most memory held",
        "late_ranks": "ranks that are late",
        "waiting_share": "waiting for other ranks",
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
        ("ranges", "summary"): "On the CPU",
        ("ranges", "projection"): "On the GPU",
        ("ranges", "kernels"): "Kernels by range",
        ("whole_capture", "gpus"): "Where the GPU's time went, over all of the capture",
    }
)

WEIGHTS = ("total_ns", "idle_ns", "kernel_ns", "gpu_ns", "host_ns", "window_ns")
"""Columns that measure how much time a row stands for; the first one that a table has is used."""

SAVINGS = "Largest predicted saving first. Savings do not add up: time that one fix saves, another cannot save again."
SAVINGS_BRIEFLY = "Largest predicted saving first; savings do not add up. A finding opens with its evidence."
ADDS_UP = "Each row adds up to its window to the nanosecond; rounded shares may differ from 100 % by a tenth."
NO_GPU = "No GPU work was recorded, so there is no breakdown of GPU time."


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
