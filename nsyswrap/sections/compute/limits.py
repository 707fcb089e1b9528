"""What limits each group of kernels, and how near it comes to the GPU's peak.

The rate that is compared with the peak of the memory is the bytes that name and grid show, divided by the mean time of
a launch. Where the counters of the memory were sampled during single kernels, they are compared instead. Bytes are
those that the threads of a kernel read and write. Tensors that fit into the L2 cache may come from there, so they can
exceed the memory's peak.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Spans
from nsyswrap.events.gpu_counters import PER_CENT, CounterSamples
from nsyswrap.events.xray_record import ITEM_BYTES
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.hardware.kernel_work import SIZES_MARK, ProductWork, product_work
from nsyswrap.hardware.peak_rates import peak_operations
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.operators.join import find_launchers
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup
from nsyswrap.sections.occupancy import FEW_BLOCKS as SMALL_GRID
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

MEMORY, CACHE, MEMORY_OR_LATENCY = "memory", "cache or memory", "memory or its latency"
TENSOR, CUDA_CORES, FEW_BLOCKS, UNKNOWN = "tensor cores", "CUDA cores", "too few blocks", "unknown"
LIMITS = (MEMORY, CACHE, MEMORY_OR_LATENCY, TENSOR, CUDA_CORES, FEW_BLOCKS, UNKNOWN)
BY_NAME, BY_SIZES, BY_COUNTERS, NOT_KNOWN = "name and grid", "recorded sizes", "counters", ""
# A unit limits a kernel from this share of its peak on; where no unit reaches it, waiting for results does. Source: the
# rules of Nsight Compute's section "GPU Speed Of Light Throughput".
BUSY_SHARE = 0.60
# A group of kernels needs at least this many samples of a counter. Source: ours; samples are whole per cent.
LEAST_SAMPLES = 5
_TENSOR_COUNTER, _READ_COUNTER, _WRITE_COUNTER = "tensor_active", "dram_read_bandwidth", "dram_write_bandwidth"
Amounts = npt.NDArray[np.float64]

# Bytes of an operand, and the name of its peak rate, by precision.
_OPERANDS = {"fp16": (2, "half"), "bf16": (2, "half"), "tf32": (4, "tf32"), "fp32": (4, "fp32")}


@dataclass(frozen=True, slots=True)
class ProductRates:
    """The rates of the products in a group of kernels, as shares of the GPU's peaks.

    Attributes:
        operations_share: Of the peak of tensor cores or CUDA cores.
        bytes_share: Of the memory's peak, with each matrix moved once; 0 where the memory's peak is not known.
    """

    operations_share: float
    bytes_share: float


def find_rates(context: TraceContext, kernels: GroupedKernels) -> Mapping[int, ProductRates]:
    """Return the rates of each group of matrix kernels all of whose products have recorded sizes.

    The X-ray step has them, else the ranges of operators may.
    """
    chosen = kernels.which([_peaks(each) is not None for each in kernels.groups])
    mine = np.flatnonzero(chosen[kernels.code])
    operations, elements = (_of_xray if context.xray is not None else _of_ranges)(context, kernels.rows[mine])
    known = ~np.isnan(operations)
    complete = np.bincount(kernels.code[mine[~known]], minlength=len(chosen)) == 0
    mine, operations, elements = mine[known], operations[known], elements[known]
    size, code, length = len(chosen), kernels.code[mine], _length(context, kernels.rows[mine])
    time, done, moved = (np.bincount(code, each, size) for each in (length, operations, elements))
    return {
        each: _rates(kernels.groups[each], float(done[each] / time[each]), float(moved[each] / time[each]))
        for each in np.flatnonzero(complete & (time > 0)).tolist()
    }


def _of_xray(context: TraceContext, rows: Indices) -> tuple[Amounts, Amounts]:
    """Return operations and elements of the products that launched some operations; NaN where they are not known."""
    found = find_launchers(context)
    works = [each.work if each.work is not None and each.work.is_product else None for each in found.calls]
    sizes = [None if each is None else ITEM_BYTES.get(each.dtype) for each in works]
    done = [each.operations if each and size else np.nan for each, size in zip(works, sizes, strict=True)]
    moved = [(each.bytes or 0) / size if each and size else np.nan for each, size in zip(works, sizes, strict=True)]
    part = np.where(found.exact[rows], found.part[rows], np.nan)
    operations, elements = (np.append(each, np.nan)[found.call[rows]] * part for each in (done, moved))
    return operations, elements


def _of_ranges(context: TraceContext, rows: Indices) -> tuple[Amounts, Amounts]:
    """Return the same from the ranges around the launches."""
    operations, elements = np.full((2, len(rows)), np.nan)
    texts = context.trace[tables.RANGES]["text"].cat
    if not any(SIZES_MARK in str(text) for text in texts.categories):
        return operations, elements
    works = [product_work(str(text)) for text in texts.categories]
    is_product, code = np.array([each is not None for each in works], np.bool_), texts.codes.to_numpy()
    # The innermost range with a product's sizes around each launch.
    calls, call = context.trace[tables.CALLS], context.operations.call[rows]
    ranges, launched = np.full(len(rows), -1, np.intp), np.flatnonzero(call >= 0)
    start, end, call = array(calls, "start"), array(calls, "end"), call[launched]
    for which, row in RangeNesting(context.trace[tables.RANGES]).enclosing(
        coded(calls, "thread").only(call), lambda some: Spans(start[call[some]], end[call[some]])
    ):
        inner = is_product[code[row]]
        ranges[launched[which[inner]]] = row[inner]
    known = np.flatnonzero(ranges >= 0)
    _, number = np.unique(ranges[known], return_inverse=True)
    length = _length(context, rows[known])
    # One operator may launch several matrix kernels: its work is divided by their time.
    part = length / np.bincount(number, length)[number] if len(known) else length
    its = [works[each] or ProductWork(0, 0) for each in code[ranges[known]].tolist()]
    operations[known] = np.array([each.operations for each in its], np.float64) * part
    elements[known] = np.array([each.elements for each in its], np.float64) * part
    return operations, elements


def _peaks(group: LaunchGroup) -> tuple[int, float] | None:
    """Return the bytes of an operand and the peak of what computes the group's products; None where not known."""
    operand = _OPERANDS.get(group.kind.precision)
    if operand is None or group.kind.op not in {"gemm", "gemv"}:
        return None
    on_tensor = group.kind.verdict is Verdict.TENSOR
    peak = peak_operations(group.gpu, operand[1] if on_tensor else "fp32")
    return None if peak is None else (operand[0], peak)


def _rates(group: LaunchGroup, operations_per_ns: float, elements_per_ns: float) -> ProductRates:
    size, peak = _peaks(group) or (0, np.inf)
    memory = group.gpu.memory_bytes_per_second
    moved = elements_per_ns * size * 1e9 / memory if memory else 0.0
    return ProductRates(operations_per_ns * 1e9 / peak, moved)


def _length(context: TraceContext, rows: Indices) -> npt.NDArray[np.float64]:
    operations = context.operations
    found: npt.NDArray[np.float64] = np.maximum(operations.end[rows] - operations.start[rows], 1).astype(np.float64)
    return found


@dataclass(frozen=True, slots=True)
class KernelLimit:
    """What limits a group of kernels.

    Attributes:
        by: One of ``LIMITS``.
        peak_share_low: The rate as a share of the unit's peak, at least; NaN where it is not known.
        peak_share_high: At most.
        known_from: ``BY_NAME``, ``BY_SIZES``, ``BY_COUNTERS`` or ``NOT_KNOWN``.
        unit: The unit whose peak that is: ``MEMORY``, ``TENSOR`` or ``CUDA_CORES``.
    """

    by: str
    peak_share_low: float
    peak_share_high: float
    known_from: str
    unit: str = MEMORY


NO_SHARE = float("nan")


def find_limits(context: TraceContext, kernels: GroupedKernels) -> list[KernelLimit]:
    """Return what limits each group of kernels."""
    known = {
        number: _of_product(kernels.groups[number], rates, float(kernels.mean_ns[number]))
        for number, rates in find_rates(context, kernels).items()
    }
    found: dict[int, KernelLimit] = {}
    by_device: dict[int, dict[str, CounterSamples]] = {}
    for samples in context.counter_samples:
        by_device.setdefault(samples.device_id, {})[samples.key] = samples
    for device, named in by_device.items():
        if {_READ_COUNTER, _WRITE_COUNTER} <= named.keys():
            found |= _of_device(context, kernels, device, named)
    for number, limit in found.items():
        # There is no counter of CUDA cores, and none of the cache: the unit that is nearer to its peak counts.
        if number not in known or limit.peak_share_high >= known[number].peak_share_high:
            known[number] = limit
    return [
        known.get(number) or _limit(group, float(kernels.mean_ns[number]))
        for number, group in enumerate(kernels.groups)
    ]


def memory_share(group: LaunchGroup, mean_ns: float) -> tuple[float, float] | None:
    """Return the rate of a group's bytes as a share of the memory's peak, at least and at most; None if not known."""
    peak, work = group.gpu.memory_bytes_per_second, group.work
    if not peak or work is None or work.bytes_low is None or work.bytes_high is None or mean_ns <= 0:
        return None
    in_time = peak * mean_ns / 1e9
    return work.bytes_low / in_time, work.bytes_high / in_time


def _limit(group: LaunchGroup, mean_ns: float) -> KernelLimit:
    few = _has_few_blocks(group)
    share = memory_share(group, mean_ns)
    if share is None:
        return KernelLimit(FEW_BLOCKS if few else UNKNOWN, NO_SHARE, NO_SHARE, BY_NAME if few else NOT_KNOWN)
    by = FEW_BLOCKS if few else UNKNOWN
    low, high = share
    fits = group.work is not None and (group.work.bytes_high or 0) <= group.gpu.cache_bytes
    if not fits:
        # A rate above the memory's peak means that the kernel reads a tensor twice.
        high = max(low, min(high, 1.0))
    if low >= BUSY_SHARE:
        by = CACHE if fits else MEMORY
    elif high >= BUSY_SHARE and not few:
        by = CACHE if fits else MEMORY_OR_LATENCY
    return KernelLimit(by, low, high, BY_NAME)


def _has_few_blocks(group: LaunchGroup) -> bool:
    return 0 < group.blocks < SMALL_GRID * group.gpu.sm_count


def _of_product(group: LaunchGroup, rates: ProductRates, mean_ns: float) -> KernelLimit:
    """Return what limits a group of matrix kernels whose sizes are recorded."""
    unit = TENSOR if group.kind.verdict is Verdict.TENSOR else CUDA_CORES
    share = max(rates.operations_share, rates.bytes_share)
    unit = unit if rates.operations_share >= rates.bytes_share else MEMORY
    by = unit if share >= BUSY_SHARE else FEW_BLOCKS if _has_few_blocks(group) else UNKNOWN
    moved = rates.bytes_share * mean_ns * group.gpu.memory_bytes_per_second / 1e9
    by = CACHE if by == MEMORY and moved <= group.gpu.cache_bytes else by
    return KernelLimit(by, share, share, BY_SIZES, unit)


def _of_device(
    context: TraceContext, kernels: GroupedKernels, device: int, named: dict[str, CounterSamples]
) -> dict[int, KernelLimit]:
    memory = _means(context, kernels, device, [named[_READ_COUNTER], named[_WRITE_COUNTER]])
    tensor = _means(context, kernels, device, [named[_TENSOR_COUNTER]]) if _TENSOR_COUNTER in named else {}
    found = {}
    for number, (low, high) in memory.items():
        tensor_low, tensor_high = tensor.get(number, (0.0, 0.0))
        if tensor_high > high:
            by = TENSOR if tensor_low >= BUSY_SHARE else UNKNOWN
            found[number] = KernelLimit(by, tensor_low, tensor_high, BY_COUNTERS, TENSOR)
        else:
            found[number] = KernelLimit(MEMORY if low >= BUSY_SHARE else UNKNOWN, low, high, BY_COUNTERS)
    return found


def _means(
    context: TraceContext, kernels: GroupedKernels, device: int, counters: list[CounterSamples]
) -> dict[int, tuple[float, float]]:
    """Return the sum of several counters during the kernels of each group, as the bounds of its mean over the samples.

    Only samples that lie inside a single kernel count. The bounds differ because samples are rounded up to whole per
    cent.
    """
    first = counters[0]
    inside, group = _samples_inside(context, kernels, device, first)
    if not all(np.array_equal(each.start, first.start) for each in counters):
        return {}
    value = np.sum([each.value[inside] for each in counters], axis=0)
    below = np.sum([np.maximum(each.value[inside] - 1, 0) for each in counters], axis=0)
    size = len(kernels.groups)
    count = np.bincount(group, minlength=size)
    enough = np.flatnonzero(count >= LEAST_SAMPLES)
    high, low = (np.bincount(group, each, size)[enough] / count[enough] / PER_CENT for each in (value, below))
    shares = zip(enough.tolist(), low.tolist(), high.tolist(), strict=True)
    return {number: (at_least, at_most) for number, at_least, at_most in shares}


def _samples_inside(
    context: TraceContext, kernels: GroupedKernels, device: int, samples: CounterSamples
) -> tuple[Indices, npt.NDArray[np.intp]]:
    """Return the samples that lie inside one kernel of a GPU with nothing beside it, and the group of that kernel."""
    operations = context.operations
    mine = operations.on(device)
    start, end = operations.start[mine], operations.end[mine]
    nothing = np.empty(0, np.intp)
    if not len(start) or not len(samples.start):
        return nothing, nothing
    of_row = np.full(len(operations.start), -1, np.intp)
    of_row[kernels.rows] = kernels.code
    at = np.searchsorted(start, samples.start, side="right") - 1
    known = np.maximum(at, 0)
    ended_before = np.append(0, np.maximum.accumulate(end)[:-1])[known]
    begun_after = np.append(start[1:], np.iinfo(np.int64).max)[known]
    alone = (ended_before <= samples.start) & (begun_after >= samples.end)
    inside = np.flatnonzero((at >= 0) & (end[known] >= samples.end) & alone & (of_row[mine[known]] >= 0))
    return inside, of_row[mine[known[inside]]]


def is_matrix(group: LaunchGroup) -> bool:
    """Return whether a group's kernel multiplies matrices."""
    return group.kind.verdict in {Verdict.TENSOR, Verdict.SIMT_ELIGIBLE}
