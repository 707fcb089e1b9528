"""How near products of matrices come to the GPU's peak, where the sizes of operators were recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Spans
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.hardware.operator_sizes import SIZES_MARK, ProductWork, product_work
from nsyswrap.hardware.peak_rates import peak_operations
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

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
    """Return the rates of each group of matrix kernels all of whose products have recorded sizes."""
    chosen = kernels.which([_peaks(each) is not None for each in kernels.groups])
    texts = context.trace[tables.RANGES]["text"].cat.categories
    if not chosen.any() or not any(SIZES_MARK in str(text) for text in texts):
        return {}
    mine = np.flatnonzero(chosen[kernels.code])
    ranges = _ranges_of(context, kernels.rows[mine])
    known = ranges >= 0
    complete = np.bincount(kernels.code[mine[~known]], minlength=len(chosen)) == 0
    mine, ranges = mine[known], ranges[known]
    _, number = np.unique(ranges, return_inverse=True)
    length = _length(context, kernels.rows[mine])
    # One operator may launch several matrix kernels: its work is divided by their time.
    part = length / np.bincount(number, length)[number]
    works = _works(context, ranges)
    operations = np.array([each.operations for each in works], np.float64) * part
    elements = np.array([each.elements for each in works], np.float64) * part
    size, code = len(chosen), kernels.code[mine]
    time, done, moved = (np.bincount(code, each, size) for each in (length, operations, elements))
    return {
        each: _rates(kernels.groups[each], float(done[each] / time[each]), float(moved[each] / time[each]))
        for each in np.flatnonzero(complete & (time > 0)).tolist()
    }


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


def _ranges_of(context: TraceContext, rows: Indices) -> Indices:
    """Return the row of the innermost range with a product's sizes around the launch of each operation, or -1."""
    calls, call = context.trace[tables.CALLS], context.operations.call[rows]
    found = np.full(len(rows), -1, np.intp)
    launched = np.flatnonzero(call >= 0)
    start, end, call = array(calls, "start"), array(calls, "end"), call[launched]
    texts = context.trace[tables.RANGES]["text"].cat
    is_product = np.array([product_work(str(text)) is not None for text in texts.categories], np.bool_)
    codes = texts.codes.to_numpy()
    nesting = RangeNesting(context.trace[tables.RANGES])
    for which, row in nesting.enclosing(
        coded(calls, "thread").only(call), lambda some: Spans(start[call[some]], end[call[some]])
    ):
        inner = is_product[codes[row]]
        found[launched[which[inner]]] = row[inner]
    return found


def _works(context: TraceContext, ranges: Indices) -> list[ProductWork]:
    texts = context.trace[tables.RANGES]["text"].cat
    codes = texts.codes.to_numpy()[ranges]
    found = {code: product_work(str(texts.categories[code])) for code in np.unique(codes).tolist()}
    return [found[code] or ProductWork(0, 0) for code in codes.tolist()]


def _length(context: TraceContext, rows: Indices) -> npt.NDArray[np.float64]:
    operations = context.operations
    found: npt.NDArray[np.float64] = np.maximum(operations.end[rows] - operations.start[rows], 1).astype(np.float64)
    return found
