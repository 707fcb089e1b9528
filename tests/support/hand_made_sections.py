"""Sections made by hand for the report of ``hand_made``: one of each kind, with consistent numbers."""

import numpy as np
import pandas as pd

from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window
from nsyswrap.model import Fact, Plan, PlannedChange, Section
from nsyswrap.operators.peak import ACCOUNTS
from nsyswrap.sections import machine, operators, prediction, profiler_cost, program, ranks

MS = 1_000_000
STEPS, STEP_NS = 18, 111 * MS
PLAN = Plan(
    STEP_NS,
    changes=(PlannedChange("idle/data_wait", between(78 * MS, STEP_NS)),),
    notes=("After that, compute sets the pace.",),
)


def more_sections(window: Window, kernels: tuple[str, ...]) -> tuple[Section, ...]:
    """Return the sections on Python lines, counters, steps, launches, ranks, memory, graphs, ranges and waits.

    Args:
        window: The window of all of them; it holds 18 steps.
        kernels: Names of kernels, at least three.
    """
    return (
        _python_lines(window),
        _counters(window),
        _breakdown(window),
        _operators(window, kernels),
        _compute(window, kernels),
        _occupancy(window, kernels),
        _launches(window),
        _communication(window),
        ranks.SECTION.made(window, notes=(ranks.ONE_RANK,)),
        _memory(window),
        _graphs(window, kernels),
        _ranges(window, kernels),
        _host_waits(window),
        _machine(window),
        _prediction(window),
        _profiler_cost(window),
        _program(window),
    )


def _python_lines(window: Window) -> Section:
    lines = pd.DataFrame(
        {
            "rule": ["idle/data_wait", "optimizer/many_kernels"],
            "phase": ["data", "optimizer"],
            "file": ["train.py", "adam.py"],
            "line": [41, 210],
            "function": ["main", "step"],
            "sample_count": [590, 49],
            "idle_estimate_ns": [590 * MS, 49 * MS],
        }
    )
    facts = (Fact("samples_in_window", 1_990, "count"), Fact("samples_in_idle_time", 639, "count"))
    return Section("python_lines", "Python lines while the GPU was idle", window, facts, {"lines": lines})


def _counters(window: Window) -> Section:
    edges = np.linspace(window.start_ns, window.end_ns, 31).astype(np.int64)
    active = 0.4 + 0.2 * np.cos(np.arange(30) / 3)
    over_time = pd.DataFrame(
        {"device_id": 0, "start_ns": edges[:-1], "end_ns": edges[1:], "sm_active_share": active,
         "tensor_active_share": active / 8}
    )  # fmt: skip
    means = pd.DataFrame(
        {"name": ["SMs Active", "Tensor Active"], "device_id": 0, "mean_share": [active.mean(), active.mean() / 8]}
    )
    facts = (Fact("sampling_period_ns", 100_000, "ns"), Fact("samples_of_each_counter", 20_000, "count"))
    return Section("counters", "GPU counters", window, facts, {"window": means, "over_time": over_time})


def _breakdown(window: Window) -> Section:
    roles = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
    times = np.array([58, 3, 0, 5, 6, 33, 4, 2]) * MS
    mean = pd.DataFrame({"process_id": 4_711, "role": roles, "mean_ns": times, "share": times / times.sum()})
    devices = pd.DataFrame(
        {"device_id": [0], "window_ns": [window.length_ns], "kernel_ns": [1_160 * MS], "gpu_utilization_share": [0.58]}
    )
    start = window.start_ns + np.arange(STEPS) * STEP_NS
    each = {f"{role}_ns": np.full(STEPS, time) for role, time in zip(roles, times.tolist(), strict=True)}
    names = [f"step {number}" for number in range(3, STEPS + 3)]
    steps = pd.DataFrame(
        {"process_id": 4_711, "name": names, "start_ns": start, "end_ns": start + STEP_NS, "step_ns": STEP_NS, **each}
    )
    facts = (
        Fact("steps", STEPS, "count"),
        Fact("mean_step_ns", float(STEP_NS), "ns"),
        Fact("gpu_utilization_share", 0.58, "share"),
    )
    tables = {"mean": mean, "devices": devices, "steps": steps}
    return Section("step_breakdown", "Step-time breakdown", window, facts, tables)


def _operators(window: Window, kernels: tuple[str, ...]) -> Section:
    peak = pd.DataFrame(
        {
            "device_id": [0, 0, 0],
            "rank": pd.array([pd.NA] * 3, "Int64"),
            "account": [*ACCOUNTS[:1], *ACCOUNTS[8:9], "idle: data loader wait"],
            "rule": ["", "", "idle/data_wait"],
            "ns": [19 * MS, 34 * MS, 58 * MS],
            "share": [19 / 111, 34 / 111, 58 / 111],
        }
    )
    modules = pd.DataFrame(
        {
            "module": ["layers", "layers.0", operators.NOT_JOINED],
            "class_name": ["torch.nn.ModuleList", "app.Block", ""],
            "count": [1_080, 1_080, 12_345],
            "total_ns": [695 * MS, 695 * MS, 266 * MS],
            "forward_ns": [238 * MS, 238 * MS, 266 * MS],
            "backward_ns": [457 * MS, 457 * MS, 0],
            "recomputed_ns": [0, 0, 0],
            "self_ns": [0, 695 * MS, 266 * MS],
            "operations": [9e13, 9e13, float("nan")],
            "peak_share": [0.71, 0.71, float("nan")],
            "bound": ["tensor cores", "tensor cores", ""],
        }
    )
    names = ["aten::mm", "aten::relu", operators.NOT_JOINED]
    count, total = [864, 216, 12_345], [476 * MS, 219 * MS, 266 * MS]
    calls = pd.DataFrame(
        {
            "device_id": [0, 0, 0],
            "operator": names,
            "shapes": ["[512, 512], [512, 512]", "[512, 512]", ""],
            "dtypes": ["bfloat16", "bfloat16", ""],
            "module": ["layers.0", "layers.0", ""],
            "line": ["model.py:31", "model.py:32", ""],
            "phase": ["backward", "forward", "optimizer"],
            "owner": ["layers.0", "layers.0", operators.NOT_JOINED],
            "count": count,
            "total_ns": total,
            "operations": [9e13, 2e9, float("nan")],
            "bytes": [4e9, 8e9, float("nan")],
            "peak_share": [0.71, 0.86, float("nan")],
            "bound": ["tensor cores", "memory", ""],
        }
    )
    launched = pd.DataFrame({"operator": names, "name": kernels[:3], "count": count, "total_ns": total})
    facts = (
        *(Fact(f"{each}_share", 0.72, "share") for each in ("joined", "exact", "line", "module")),
        Fact("mfu_share", 0.17, "share"),
        Fact("hfu_share", 0.17, "share"),
        Fact("step_operations", 5e12, "flop"),
    )
    tables = {"peak": peak, "modules": modules, "operators": calls, "kernels": launched}
    return operators.SECTION.made(window, facts, tables)


def _compute(window: Window, kernels: tuple[str, ...]) -> Section:
    table = pd.DataFrame(
        {
            "name": kernels[:3],
            "op": ["gemm", "elementwise", "norm"],
            "limited_by": ["tensor cores", "memory", "unknown"],
            "unit": ["tensor cores", "memory", ""],
            "peak_share_low": [0.71, 0.86, float("nan")],
            "peak_share_high": [0.72, 0.93, float("nan")],
            "known_from": ["counters", "name and grid", ""],
            "total_ns": [476 * MS, 219 * MS, 266 * MS],
            "count": [864, 216, 12_345],
        }
    )
    facts = (
        Fact("kernel_ns", 961 * MS, "ns"),
        Fact("limited_by_memory_share", 0.23, "share"),
        Fact("limited_by_tensor_cores_share", 0.5, "share"),
        Fact("limited_by_unknown_share", 0.27, "share"),
        Fact("main_kernels", "tensor-core kernels 49.5 %, norms 27.7 %, elementwise operators 22.8 %", "text"),
    )
    return Section("compute", "Compute", window, facts, {"kernels": table})


def _occupancy(window: Window, kernels: tuple[str, ...]) -> Section:
    table = pd.DataFrame(
        {
            "name": kernels[:3],
            "theoretical_occupancy": [0.375, 0.5, 1.0],
            "achieved_estimate": [0.31, 0.5, 0.93],
            "sm_efficiency_estimate": [0.97, 0.4, 0.99],
            "limiter": ["registers", "shared memory", "warps"],
            "count": [864, 216, 12_345],
            "total_ns": [476 * MS, 219 * MS, 266 * MS],
        }
    )
    facts = (
        Fact("theoretical_occupancy_share", 0.58, "share"),
        Fact("achieved_estimate_share", 0.52, "share"),
        Fact("sm_efficiency_estimate_share", 0.48, "share"),
    )
    return Section("occupancy", "Occupancy", window, facts, {"kernels": table})


def _launches(window: Window) -> Section:
    summary = pd.DataFrame(
        {
            "name": ["cudaLaunchKernel", "cudaLaunchKernel"],
            "kind": ["latency", "queue"],
            "count": [5_000, 8_825],
            "total_ns": [35 * MS, 610 * MS],
            "mean_ns": [7_000.0, 69_121.8],
            "share": [0.054, 0.946],
        }
    )
    phases = pd.DataFrame({"phase": ["forward", "backward"], "count": [4_000, 7_200], "just_in_time_share": [0.1, 0.5]})
    facts = (
        Fact("launches", 13_825, "count"),
        Fact("just_in_time_share", 0.36, "share"),
        Fact("median_launch_latency_ns", 6_900.0, "ns"),
    )
    return Section("launches", "Launches", window, facts, {"summary": summary, "phases": phases})


def _memory(window: Window) -> Section:
    devices = pd.DataFrame({"device_id": [0], "peak_bytes": [12 << 30], "allocation_count": [90], "release_count": [4]})
    facts = (Fact("peak_bytes", 12 << 30, "bytes"), Fact("allocations", 90, "count"), Fact("releases", 4, "count"))
    return Section("device_memory", "GPU memory", window, facts, {"devices": devices})


def _communication(window: Window) -> Section:
    kernels = pd.DataFrame(
        {
            "device_id": [0],
            "name": ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"],
            "count": [36],
            "total_ns": [60 * MS],
            "exposed_ns": [0],
        }
    )
    facts = (Fact("communication_ns", 60 * MS, "ns"), Fact("exposed_ns", 0, "ns"))
    return Section("communication", "Communication between GPUs", window, facts, {"kernels": kernels})


def _graphs(window: Window, kernels: tuple[str, ...]) -> Section:
    launches = pd.DataFrame(
        {"shown": ["kernels"], "count": [18], "host_ns": [2 * MS], "operation_count": [720], "gpu_ns": [40 * MS]}
    )
    inside = pd.DataFrame({"name": [kernels[1]], "count": [720], "total_ns": [40 * MS]})
    facts = (Fact("graph_launches", 18, "count"), Fact("kernels_in_graphs", 720, "count"))
    return Section("cuda_graphs", "CUDA graphs", window, facts, {"launches": launches, "kernels": inside})


def _ranges(window: Window, kernels: tuple[str, ...]) -> Section:
    summary = pd.DataFrame(
        {"name": ["forward", "backward"], "count": 18, "total_ns": [420 * MS, 700 * MS], "share": [0.375, 0.625]}
    )
    projection = pd.DataFrame(
        {"name": ["forward"], "count": [18], "range_ns": [420 * MS], "busy_ns": [400 * MS], "operation_count": [4_000]}
    )
    inside = pd.DataFrame({"range": ["forward"], "name": [kernels[0]], "count": [432], "total_ns": [238 * MS]})
    tables = {"summary": summary, "projection": projection, "kernels": inside}
    return Section("ranges", "NVTX ranges", window, tables=tables)


def _host_waits(window: Window) -> Section:
    threads = pd.DataFrame(
        {"process_id": [4_711], "thread_id": [4_711], "thread": ["python"], "launch_count": [13_825],
         "wait_ns": [640 * MS]}
    )  # fmt: skip
    waits = pd.DataFrame(
        {"thread": ["python"], "call": ["pthread_cond_wait"], "phase": ["data"], "total_ns": [601 * MS], "count": [18],
         "share": [0.3]}
    )  # fmt: skip
    facts = (Fact("launching_threads", 1, "count"), Fact("wait_ns", 640 * MS, "ns"))
    return Section("host_waits", "Waits of launching threads", window, facts, {"threads": threads, "waits": waits})


def _machine(window: Window) -> Section:
    host = pd.DataFrame(
        {"process_id": [4_711], "thread_id": [4_711], "rule": ["idle/garbage_collection"],
         "what": ["garbage collection at train.py:41"], "total_ns": [31 * MS], "count": [3], "share": [0.015]}
    )  # fmt: skip
    gpus = pd.DataFrame(
        {"device_id": [0], "gpu": ["GPU 0, NVIDIA H200"], "slowed_share": [0.02], "why": ["the power limit"],
         "median_mhz": [1_935], "max_mhz": [1_980], "mean_watt": [512], "limit_watt": [700], "max_celsius": [61],
         "process_count": [1]}
    )  # fmt: skip
    facts = (Fact("allowed_cores", 16, "count"), Fact("without_core_ns", 4 * MS, "ns"))
    return Section(machine.SECTION.key, machine.SECTION.title, window, facts, {"host": host, "gpus": gpus})


def _prediction(window: Window) -> Section:
    spec = prediction.SECTION
    facts = (Fact("predicts", "yes", "text"), Fact("measured_step_ns", STEP_NS, "ns"))
    return Section(spec.key, spec.title, window, facts)


def _profiler_cost(window: Window) -> Section:
    calls = pd.DataFrame(
        {"kind": ["launches", "NVTX ranges"], "count": [12_000, 216], "alone_ns": [2_400, 30],
         "low_ns": [3_000, 270], "usual_ns": [5_200, 500], "high_ns": [7_900, 880],
         "total_ns": [62_400_000, 108_000]}
    )  # fmt: skip
    facts = (
        Fact("profiler_idle_ns", 41 * MS, "ns"),
        Fact("without_profiler_ns", round(0.97 * STEP_NS), "ns"),
        Fact("without_profiler_share", 0.97, "share"),
    )
    spec = profiler_cost.SECTION
    return Section(spec.key, spec.title, window, facts, {"calls": calls})


def _program(window: Window) -> Section:
    accounts = {"compute": 56 * MS, "exposed communication": 5 * MS, "idle: data loader wait": 46_670_000}
    rules = ["", "", "idle/data_wait"]
    step = pd.DataFrame(
        {"device_id": 0, "rank": pd.NA, "account": [*accounts], "rule": rules, "ns": [*accounts.values()]}
    )
    length = round(0.97 * STEP_NS)
    facts = (
        Fact("step_alone_ns", length, "ns"),
        Fact("step_alone_low_ns", length - MS, "ns"),
        Fact("step_alone_high_ns", length + MS, "ns"),
        Fact("steps_timed_alone", 20, "count"),
    )
    spec = program.SECTION
    return Section(
        spec.key, spec.title, window, facts, {"step": step.astype({"rank": "Int64"})}, notes=(program.SIMULATED,)
    )
