"""The columns of each table in report.json, and what each column holds.

A column of one name holds the same kind of values in every table. Tables and columns that are not here are those of
another version of this program: they are read as they are.
"""

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    """What a column holds; the value says it in words."""

    TEXT = "texts"
    WHOLE = "whole numbers"
    NUMBER = "numbers"
    FLAG = "true or false"


_STATISTICS = "count total_ns mean_ns median_ns min_ns max_ns stddev_ns share"
_PARTS = "compute_ns communication_wait_ns communication_transfer_ns copy_exposed_ns memset_exposed_ns idle_ns"
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "capture_check": {"diagnostics": "text count"},
    "communication": {
        "collectives": (
            "communicator kind bytes count wait_ns transfer_ns exposed_wait_ns exposed_transfer_ns bus_bandwidth"
        ),
        "kernels": "device_id name count total_ns exposed_ns",
        "waits": "waiting_rank late_rank rule phase wait_ns",
    },
    "compute": {"kernels": "name op limited_by unit peak_share_low peak_share_high known_from total_ns count"},
    "copies": {
        "summary": (
            "kind source_memory target_memory count total_ns bytes per_second_bytes exposed_ns blocking_count mean_ns"
            " median_ns min_ns max_ns stddev_ns share"
        )
    },
    "counters": {
        "over_time": "device_id start_ns end_ns",
        "phases": "phase device_id time_ns",
        "steps": "name device_id start_ns end_ns",
        "window": "name device_id mean_share mean_at_least_share max_share",
    },
    "cuda_graphs": {"kernels": f"name {_STATISTICS}", "launches": "shown count host_ns operation_count gpu_ns"},
    "device_memory": {
        "devices": (
            "device_id peak_bytes peak_share capture_peak_bytes start_bytes end_bytes allocation_count allocated_bytes"
            " release_count released_bytes"
        )
    },
    "host_calls": {"summary": f"name {_STATISTICS}"},
    "host_waits": {
        "threads": "process_id thread_id thread launch_count wait_ns cuda_call_ns rest_ns unseen_ns",
        "waits": "process_id thread_id thread call phase total_ns count share",
    },
    "idle": {
        "attribution": "device_id cause rule phase idle_ns gap_count",
        "gaps": "device_id start_ns end_ns cause rule phase evidence",
        "patterns": "device_id rule phase count median_ns idle_ns per_step",
    },
    "kernels": {"summary": f"name {_STATISTICS}"},
    "launches": {
        "phases": "phase count just_in_time_share median_launch_interval_ns median_operation_ns",
        "summary": f"name kind {_STATISTICS}",
    },
    "ledger": {"devices": f"device_id window_ns {_PARTS}", "over_time": "device_id start_ns end_ns busy_ns busy_share"},
    "machine": {
        "gpus": ("device_id gpu slowed_share why median_mhz max_mhz mean_watt limit_watt max_celsius process_count"),
        "host": "process_id thread_id rule what total_ns count share",
    },
    "occupancy": {
        "kernels": ("name theoretical_occupancy achieved_estimate sm_efficiency_estimate limiter count total_ns")
    },
    "os_calls": {"summary": f"name {_STATISTICS}"},
    "phases": {"phases": "phase count host_ns gpu_ns idle_ns kernel_count inferred"},
    "profiler_cost": {"calls": "kind count alone_ns low_ns usual_ns high_ns total_ns"},
    "python_lines": {
        "lines": "device_id cause rule phase function file line innermost sample_count share idle_estimate_ns",
        "stacks": "device_id rule stack sample_count idle_estimate_ns",
    },
    "ranges": {
        "kernels": f"range name {_STATISTICS}",
        "modules": "module count total_ns self_ns",
        "operators": "operator name count total_ns",
        "projection": (
            "name count range_ns envelope_ns busy_ns operation_count envelope_any_thread_ns busy_any_thread_ns"
            " operation_count_any_thread"
        ),
        "summary": f"name {_STATISTICS}",
    },
    "ranks": {
        "collectives": "step collective rank start_ns arrival_ns end_ns kind is_last",
        "matrix": "waiting_first waiting_last late_first late_last wait_ns mean_wait_ns",
        "ranks": (
            "rank device_id late length_ns compute_ns copies_ns wait_ns transfer_ns idle_ns waited_for_ns rule phase"
            " waits_for_rank"
        ),
        "segments": (
            "step rank start_ns end_ns what phase compute_ns copies_ns transfer_ns wait_ns idle_ns rule waits_for_rank"
        ),
        "steps": (
            "step which start_ns end_ns length_ns wait_ns step_count rank_count collective_count all_collectives"
        ),
    },
    "step_breakdown": {
        "devices": "device_id window_ns kernel_ns gpu_utilization_share",
        "mean": "process_id role mean_ns share",
        "steps": (
            "process_id name start_ns end_ns step_ns kernel_ns memcpy_ns memset_ns communication_ns runtime_ns"
            " dataloader_ns cpu_exec_ns other_ns"
        ),
    },
    "steps": {
        "outliers": (
            "name start_ns end_ns length_ns excess_ns device_id part part_grown_ns cause cause_grown_ns phase"
            " phase_grown_ns"
        ),
        "steps": "process name start_ns end_ns warm_up",
    },
    "tensor_cores": {
        "kernels": "name verdict precision library op total_ns count",
        "not_used": "name reason phase total_ns count",
        "phases": "phase kernel_ns tensor_ns unknown_ns",
    },
    "whole_capture": {
        "gpus": (
            "device_id interval window_ns compute_ns communication_ns copy_exposed_ns memset_exposed_ns idle_ns"
            " operation_count"
        )
    },
}
# Columns that some reports have.
_MORE: Mapping[tuple[str, str], str] = {("ledger", "devices"): "rank", ("steps", "steps"): f"number device_id {_PARTS}"}
_TEXTS = frozenset({
    *("call", "cause", "evidence", "file", "function", "gpu", "innermost", "interval", "kind", "known_from", "library"),
    *("limited_by", "limiter", "module", "name", "op", "operator", "part", "phase", "precision", "range", "reason"),
    *("role", "rule", "shown", "source_memory", "stack", "step", "target_memory", "text", "thread", "unit", "verdict"),
    *("what", "which", "why"),
})  # fmt: skip
_FLAGS = frozenset({"inferred", "is_last", "late", "warm_up"})
_NUMBERS = frozenset({
    *("achieved_estimate", "bus_bandwidth", "limit_watt", "max_celsius", "max_mhz", "mean_ns", "mean_watt"),
    *("median_launch_interval_ns", "median_mhz", "median_ns", "median_operation_ns", "per_second_bytes", "per_step"),
    *("share", "sm_efficiency_estimate", "stddev_ns", "theoretical_occupancy"),
})  # fmt: skip
# What a report may not know, besides numbers that were not measured.
_MAY_BE_MISSING = frozenset({"rank"})


def columns_of(section: str, table: str) -> dict[str, Kind]:
    """Return the columns that a table of a report has, in order; none for a table of another version."""
    return {name: kind_of(name) for name in _COLUMNS.get(section, {}).get(table, "").split()}


def known_tables(section: str = "") -> tuple[str, ...]:
    """Return the names of the tables of a section; without one, the keys of the sections that have tables."""
    return tuple(_COLUMNS.get(section, {}) if section else _COLUMNS)


def known_columns(section: str, table: str) -> dict[str, Kind]:
    """Return the columns that a table may have: those of ``columns_of`` and those that some reports have."""
    more = _MORE.get((section, table), "").split()
    return {**columns_of(section, table), **{name: kind_of(name) for name in more}}


def kind_of(column: str) -> Kind:
    """Return what a column of this name holds, in a table of this version."""
    if column in _TEXTS:
        return Kind.TEXT
    if column in _FLAGS:
        return Kind.FLAG
    if column in _NUMBERS or column.endswith(("_share", "_share_low", "_share_high")):
        return Kind.NUMBER
    return Kind.WHOLE


def is_required(column: str) -> bool:
    """Return whether a column of texts, flags or whole numbers has a value in each row."""
    return column in _REQUIRED - _MAY_BE_MISSING


_REQUIRED = frozenset(name for tables in _COLUMNS.values() for names in tables.values() for name in names.split())
