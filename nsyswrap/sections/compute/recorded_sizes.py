"""How near products of matrices come to the GPU's peak, where the sizes of operators were recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, Spans
from nsyswrap.events.xray_record import ITEM_BYTES
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.hardware.kernel_work import SIZES_MARK, ProductWork, product_work
from nsyswrap.hardware.peak_rates import peak_operations
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.range_nesting import RangeNesting
from nsyswrap.operators.join import find_launchers
from nsyswrap.sections.compute.kernel_groups import GroupedKernels, LaunchGroup
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

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
