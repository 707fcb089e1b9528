"""Compute: the kernels that take the time, what limits each, and how near it comes to the GPU's peak."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Window, merge, total
from nsyswrap.base.row_sums import typed_table
from nsyswrap.base.rows import taken
from nsyswrap.hardware.kernel_names.classify import FIRST_WITH, Verdict
from nsyswrap.hardware.tensor_cores import has_tensor_cores
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Finding, Gpu, Section
from nsyswrap.operators.candidates import reasons
from nsyswrap.rules import compute
from nsyswrap.rules.program_kind import Wording
from nsyswrap.rules.work_names import operation_name
from nsyswrap.sections.compute import (
    attention_by_parts,
    autotuning,
    batch_norm,
    depthwise,
    double,
    functions_by_parts,
    limits,
    misaligned,
    older_kernel,
    recomputation,
    repeated_casts,
    small_batches,
    small_matrices,
    sorted_gradient,
    unfused,
)
from nsyswrap.sections.compute.kernel_findings import KernelWindow
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup, grouped_kernels
from nsyswrap.sections.compute.limits import KernelLimit, find_limits, is_matrix
from nsyswrap.sections.compute.operator_kernels import find_operators
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.severity import make_finding
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.what_if.saving import WhatIf, faster, predict
from nsyswrap.what_if.simulate import Simulation

NOTE = (
    "The rate of a kernel is known where its name and grid show its bytes, where the sizes of products were recorded, "
    "or where counters were sampled during single kernels. Names do not show the sizes of products, norms and "
    "reductions. Peaks are those of the highest clock."
)
# There is a finding where kernels take half of the window. Source: ours; below, what the GPU waits for matters more.
LEAST_SHARE = 0.50
LISTED, LISTED_KINDS = 5, 3
# Findings on kernels of one kind: those that need operators, and those that names and calls suffice for.
OF_OPERATORS = (
    *(misaligned, older_kernel, double, attention_by_parts, functions_by_parts, recomputation, repeated_casts),
    *(sorted_gradient, small_batches),
)
SPECIFIC = (autotuning, unfused, batch_norm, depthwise, small_matrices)
RATES = ("peak_share_low", "peak_share_high")
TYPES = {
    **dict.fromkeys(("name", "op", "limited_by", "unit"), str),
    **dict.fromkeys(RATES, np.float64),
    "known_from": str,
    "total_ns": np.int64,
    "count": np.int64,
}
ADVICE = {
    limits.MEMORY: "The memory limits most of them. Fewer and smaller tensors help, such as fused operators or half "
    "precision; faster arithmetic does not.",
    limits.MEMORY_OR_LATENCY: "The memory limits most of them, by its rate or its latency. Fewer and smaller tensors "
    "help, such as fused operators or half precision; faster arithmetic does not.",
    limits.CACHE: "The cache limits most of them. Fewer and smaller tensors help, such as fused operators or half "
    "precision.",
    limits.TENSOR: "Tensor cores limit most of them. What helps is less arithmetic, or a narrower type such as {type}.",
    limits.CUDA_CORES: "CUDA cores limit most of them. Let products use tensor cores, by {types}.",
    limits.FEW_BLOCKS: Wording(
        "Most of them have too few blocks to fill the GPU. Give each kernel more work: a larger batch, "
        "or batched operators.",
        "Most of them have too few blocks to fill the GPU. Give each kernel more work, or run several side by side.",
    ),
    limits.UNKNOWN: "This capture does not show what limits most of them. Capture again with --gpu-metrics; for single "
    "kernels use Nsight Compute.",
}
WITHOUT_TENSOR_CORES = "CUDA cores limit most of them, and this GPU has no tensor cores. What helps is less arithmetic."


def run(context: TraceContext, window: Window, simulation: Simulation) -> Section:
    """Return kernel time by name and limit, and findings on kernels that could take less time."""
    kernels = grouped_kernels(context, window)
    found = find_limits(context, kernels)
    rows = table(kernels, found)
    whole = int(kernels.total_ns.sum())
    by_limit = {each: kernels.time_of(kernels.which([limit.by == each for limit in found])) for each in limits.LIMITS}
    in_window = KernelWindow(simulation, kernels, context.steps.together(window))
    operators = find_operators(in_window)
    specific = [] if operators is None else [each.find_findings(operators) for each in OF_OPERATORS]
    specific += [each.find_findings(in_window) for each in SPECIFIC]
    return SECTION.made(
        window,
        facts=(
            Fact("kernel_ns", whole, "ns"),
            *(
                Fact(f"limited_by_{by.replace(' ', '_').lower()}_share", time / whole if whole else None, "share")
                for by, time in by_limit.items()
            ),
            Fact("main_kernels", main_kernels(kernels), "text"),
        ),
        tables={"kernels": rows},
        findings=(
            *(each for findings in specific for each in findings),
            *_overall(in_window, found, rows, by_limit),
        ),
        notes=(NOTE, *reasons(context.settings.alternatives)),
    )


def table(kernels: GroupedKernels, found: list[KernelLimit]) -> pd.DataFrame:
    """Return one row for each kernel name and limit, longest time first; rates are means weighted by time."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, (group, each) in enumerate(zip(kernels.groups, found, strict=True)):
        key = (group.kind.name, group.kind.op, each.by, each.unit, each.known_from)
        alike.setdefault(key, []).append(number)
    total, count = kernels.total_ns.tolist(), kernels.count.tolist()
    rows = []
    for (name, op, by, unit, known_from), numbers in alike.items():
        weights = [0 if np.isnan(found[each].peak_share_low) else total[each] for each in numbers]
        rates = (weighted_mean([getattr(found[each], rate) for each in numbers], weights) for rate in RATES)
        sums = (sum(total[each] for each in numbers), sum(count[each] for each in numbers))
        rows.append((name, op, by, unit if sum(weights) else "", *rates, known_from, *sums))
    rows.sort(key=lambda row: (-row[-2], row[:4], row[-3]))
    return typed_table(rows, TYPES)


def weighted_mean(rates: list[float], weights: list[int]) -> float:
    """Return the mean of the known rates; NaN where nothing has a weight."""
    known = [rate * weight for rate, weight in zip(rates, weights, strict=True) if not math.isnan(rate)]
    return math.fsum(known) / sum(weights) if sum(weights) else math.nan


def main_kernels(kernels: GroupedKernels) -> str:
    """Return the kinds of kernels that take most of the time, with their shares of it; empty where there are none."""
    total: Counter[str] = Counter()
    for group, time in zip(kernels.groups, kernels.total_ns.tolist(), strict=True):
        total[kind_of(group)] += time
    largest = sorted(total.items(), key=lambda each: (-each[1], each[0]))[:LISTED_KINDS]
    return ", ".join(f"{kind} {units.share(time / total.total())}" for kind, time in largest if time)


def kind_of(group: LaunchGroup) -> str:
    """Return the name for kernels of a group's kind."""
    if group.kind.op == "conv_depthwise":
        return operation_name("conv_depthwise")
    if is_matrix(group):
        return "tensor-core kernels" if group.kind.verdict is Verdict.TENSOR else "matrix kernels without tensor cores"
    return operation_name(group.kind.op)


def _overall(
    in_window: KernelWindow, found: list[KernelLimit], rows: pd.DataFrame, by_limit: dict[str, int]
) -> Iterator[Finding]:
    """Yield a note on the kernels that take the time, where kernels take most of the window."""
    context, kernels, window = in_window.context, in_window.kernels, in_window.window
    # Each has a part in the window. What lies before it is cut from its start.
    start, devices = (taken(each, kernels.rows) for each in (context.operations.start, context.operations.device_id))
    of_device = [devices == device for device in np.unique(devices)]
    busy = sum(total(merge(start[mine], start[mine] + kernels.inside[mine])) for mine in of_device)
    share = kernels.share_of(busy, window)
    if share < LEAST_SHARE:
        return
    lost = round(float(np.dot(1 - _peak_factors(found), kernels.total_ns.astype(np.float64))))
    yield make_finding(
        rule=compute.KERNELS,
        headline=f"Kernels run {units.share(share)} of the time. Kernel time: {main_kernels(kernels)}.",
        lost_ns=kernels.per_gpu(lost),
        saving=predict(in_window.simulation, partial(_at_peak, kernels, found)),
        advice=_advice(max(by_limit, key=lambda each: by_limit[each]), context.trace.gpus),
        evidence=(*_evidence(rows), *place_lines(context, kernels.rows, kernels.inside)),
        window=window,
        is_note=True,
    )


def _advice(limit: str, gpus: Sequence[Gpu]) -> str:
    """Return what to do about the limit of most kernels, as far as the GPUs can do it."""
    able = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
    if limit == limits.CUDA_CORES and not all(has_tensor_cores(gpu.name, gpu.compute_capability) for gpu in gpus):
        return WITHOUT_TENSOR_CORES
    has = {kind: all(each >= first for each in able) for kind, first in FIRST_WITH.items()}
    types = "TF32 or bfloat16" if has["tf32"] else "float16"
    return ADVICE[limit].format(type="FP8" if has["fp8"] else "INT8", types=types)


def _at_peak(kernels: GroupedKernels, found: list[KernelLimit], simulation: Simulation) -> WhatIf:
    """Return the change "kernels whose rate is known reach the peak of what limits them"."""
    factor = _peak_factors(found)[kernels.code]
    mine = np.isin(kernels.rows, simulation.operations) & (factor < 1)
    assumed = "kernels that the memory limits reach its peak rate"
    return faster(kernels.rows[mine], factor[mine], assumed, or_nothing=True)


def _peak_factors(found: list[KernelLimit]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the share of the time of each group that the memory's peak rate needs; 1 where it is not the limit."""
    return np.array([min(each.peak_share_low, 1.0) if each.by == limits.MEMORY else 1.0 for each in found], np.float64)


def _evidence(rows: pd.DataFrame) -> tuple[str, ...]:
    columns = (rows[name].head(LISTED).tolist() for name in ("total_ns", "count", "limited_by", "unit", *RATES, "name"))
    return tuple(
        f"{units.duration(time)} in {units.counted(count, 'launch')}, {_rate(by, unit, low, high)}: {name}"
        for time, count, by, unit, low, high, name in zip(*columns, strict=True)
    )


def _rate(by: str, unit: str, low: float, high: float) -> str:
    """Return in words what limits a kernel, and how near to the peak of a unit it comes."""
    limit = "limit unknown" if by == limits.UNKNOWN else f"limited by {by}"
    if not unit:
        return limit
    bounds = dict.fromkeys(units.share(each) for each in (low, high))
    shown = " to ".join(bounds)
    return f"{limit}, {shown} of the peak of {'the memory' if unit == limits.MEMORY else unit}"


SECTION = SectionSpec(
    key="compute",
    title="Compute",
    run=run,
    about=About.BOTH,
    needs=(tables.KERNELS,),
    of_operations=True,
    place=80,
    group=PageGroup.GPU,
    columns={"kernels": "name op limited_by unit peak_share_low peak_share_high known_from total_ns count"},
    kinds={Kind.TEXT: "known_from limited_by unit"},
    units={"peak_share_low": "share", "peak_share_high": "share"},
    captions={"kernels": "What limits each kernel"},
    headings={
        "peak_share_low": "of the peak, at least",
        "peak_share_high": "of the peak, at most",
        "known_from": "known from",
    },
    facts={
        "limited_by_memory_share": "limited by the memory's rate",
        "limited_by_memory_or_its_latency_share": "limited by the memory's rate or latency",
        "limited_by_cache_or_memory_share": "limited by the cache or the memory",
        "limited_by_tensor_cores_share": "limited by tensor cores",
        "limited_by_cuda_cores_share": "limited by CUDA cores",
        "limited_by_too_few_blocks_share": "limited by too few blocks",
        "limited_by_unknown_share": "limit unknown",
        "main_kernels": "most of it",
    },
)
