"""Names of the operations of the timeline and of the calls that launched them, and the class that sets their colour."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.operations import COMMUNICATION, COPY, MEMSET, SOURCES
from nsyswrap.hardware.kernel_names.classify import Verdict
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import KernelName, Numbers
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, Trace, array, coded

# The classes of operations: the verdict of a kernel, or the kind of any other operation.
STREAM_CLASSES = (*(str(verdict) for verdict in Verdict), "communication", "copy", "memset")
_BY_KIND = {kind: len(Verdict) + at for at, kind in enumerate((COMMUNICATION, COPY, MEMSET))}
# The kernels in a graph traced as a whole are unknown.
GRAPH = KernelName("CUDA graph, traced as a whole", str(Verdict.UNKNOWN))


@dataclass(frozen=True, slots=True)
class OperationNames:
    """Names of all operations of a context, and of the calls that launched them.

    Attributes:
        codes: Index into ``names`` of each operation.
        classes: Index into ``STREAM_CLASSES`` of each operation.
        call_codes: One plus the index into ``call_names`` of each operation; 0 where the call is unknown.
    """

    names: tuple[KernelName, ...]
    codes: npt.NDArray[np.int32]
    classes: npt.NDArray[np.int8]
    call_names: tuple[str, ...]
    call_codes: npt.NDArray[np.int32]

    @staticmethod
    def of_table(context: TraceContext, rows: Indices, column: str) -> Numbers:
        """Return a column of the tables that operations come from; 0 where a table has no such column."""
        operations = context.operations
        values_of_rows = np.zeros(len(rows), np.int64)
        for table, spec in enumerate(SOURCES):
            if column in spec.columns:
                mine = operations.table[rows] == table
                values = (
                    coded(context.trace[spec], column) if column in spec.coded else array(context.trace[spec], column)
                )
                values_of_rows[mine] = values[operations.row[rows[mine]]]
        return values_of_rows


def operation_names(context: TraceContext) -> OperationNames:
    """Return the names of the operations of a context and of their launch calls."""
    operations = context.operations
    names: list[KernelName] = []
    codes = np.zeros(len(operations.start), np.int32)
    for spec in SOURCES:
        rows = operations.from_table(spec)
        if len(rows):
            own, own_names = _named(context, spec, rows)
            codes[rows] = own + len(names)
            names.extend(own_names)
    verdicts = {str(verdict): at for at, verdict in enumerate(Verdict)}
    of_name = np.array([verdicts.get(name.verdict, 0) for name in names], np.int8)
    classes = of_name[codes]
    for kind, number in _BY_KIND.items():
        classes[operations.kind == kind] = number
    return OperationNames(tuple(names), codes, classes, *_launch_calls(context))


def _launch_calls(context: TraceContext) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return the distinct names of launch calls, and for each operation its name, counted from 1; 0 for unknown."""
    call = context.operations.call
    known = call >= 0
    by_id, ids = pd.factorize(coded(context.trace[tables.CALLS], "name_id")[call[known]])
    texts = np.array([base_name(context.trace.text(int(each))) for each in ids], dtype=object)
    # Several versions of a call have one name.
    merged, names = pd.factorize(texts)
    codes = np.zeros(len(call), np.int32)
    codes[known] = merged[by_id] + 1
    return tuple(str(name) for name in names), codes


def _named(context: TraceContext, spec: TableSpec, rows: Indices) -> tuple[npt.NDArray[Any], list[KernelName]]:
    """Return the code of the name of each operation of one table, and the names."""
    frame, origin = context.trace[spec], context.operations.row[rows]
    if spec is tables.GRAPHS:
        return np.zeros(len(rows), np.int64), [GRAPH]
    if spec is tables.KERNELS:
        kernels = context.kernel_names
        names = [KernelName(each.name, str(each.verdict), each.precision, each.library) for each in kernels.kinds]
        return kernels.code[rows], names
    kinds = ("copy_kind", "source_kind", "target_kind") if spec is tables.COPIES else ("memory_kind",)
    columns = [array(frame, kind)[origin] for kind in kinds]
    codes, keys = pd.factorize(pd.MultiIndex.from_arrays(columns))
    spelled = _copy_name if spec is tables.COPIES else _memset_name
    return codes, [KernelName(spelled(context.trace, *(int(part) for part in key))) for key in keys]


def _copy_name(trace: Trace, kind: int, source: int, target: int) -> str:
    label = trace.copy_kinds.get(kind, f"kind {kind}")
    ends = [trace.memory_kinds.get(each, "") for each in (source, target)]
    return f"copy, {label}" + (f", {ends[0]} to {ends[1]}" if all(ends) else "")


def _memset_name(trace: Trace, kind: int, *_: int) -> str:
    label = trace.memory_kinds.get(kind, "")
    return f"memset of {label} memory" if label else "memset"
