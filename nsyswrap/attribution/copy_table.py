"""The copies and memsets of a window, one row each: size, direction, duration, and whether they block the host."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Spans, Window, clip, covered, merge
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import taken
from nsyswrap.events.api_calls import blocks_host, is_pageable
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, array

# Why a page moved. Source: CUpti_ActivityUnifiedMemoryMigrationCause in cupti_activity.h.
PREFETCHED, EVICTED = 1, 4


KEYS = ["kind", "source_memory", "target_memory"]
UPLOAD, DOWNLOAD = "Host-to-Device", "Device-to-Host"
# The driver moves pageable memory through a pinned buffer in pieces of this size. Source: CUDA Runtime API reference,
# "API synchronization behavior": transfers of more than 64 KB are staged first.
LARGE_BYTES = 1 << 16


class Migrations(NamedTuple):
    """The copies of managed memory that no call launched, as masks over the operations.

    Attributes:
        by_faults: Those that an access started, by a page fault, speculation or access counters. Exports without a
            cause have page faults.
        evicted: Those that made room on the GPU for other pages.
    """

    by_faults: npt.NDArray[np.bool_]
    evicted: npt.NDArray[np.bool_]


@memo
def find_migrations(context: TraceContext) -> Migrations:
    """Return which operations are migrations of managed memory that the program did not ask for."""
    operations, copies = context.operations, context.trace[tables.COPIES]
    cause = np.full(len(operations.start), PREFETCHED, np.int32)
    rows = operations.from_table(tables.COPIES)
    cause[rows] = array(copies, "migration_cause")[operations.row[rows]]
    unasked = operations.migration & (cause != PREFETCHED)
    return Migrations(unasked, unasked & (cause == EVICTED))


def find_copies(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the copies that touch a window, each the part of its GPU, one row each, in order of start.

    Returns:
        device_id, bytes, start and end (ns, not clipped), duration and exposed (ns, clipped to the window), call (row
        in ``trace[CALLS]``, -1 if unknown), kind, source_memory and target_memory (texts), pageable, blocking, and
        by_fault (a migration of managed memory that an access started). A copy is blocking where its call does not
        return before the copy is done, see ``api_calls.blocks_host``.
    """
    columns, trace = _moved(context, tables.COPIES, window), context.trace
    row, call = columns.pop("row"), columns["call"]
    columns |= {"pageable": is_pageable(trace, row), "blocking": blocks_host(trace, row, call)}
    labels = (trace.copy_kinds, trace.memory_kinds, trace.memory_kinds)
    for key, column, names in zip(KEYS, ("copy_kind", "source_kind", "target_kind"), labels, strict=True):
        columns[key] = _labels(names, columns.pop(column))
    return pd.DataFrame(columns)


def find_memsets(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the memsets that touch a window as copies without a source; none is blocking."""
    columns = _moved(context, tables.MEMSETS, window)
    target = _labels(context.trace.memory_kinds, columns.pop("memory_kind"))
    texts = {"kind": _repeated("Memset", len(target)), "source_memory": _repeated("", len(target))}
    return pd.DataFrame({**columns, **texts, "target_memory": target, "blocking": np.zeros(len(target), bool)})


def _repeated(text: str, count: int) -> npt.NDArray[np.object_]:
    return np.full(count, text, np.object_)


def _moved(context: TraceContext, spec: TableSpec, window: Window) -> dict[str, npt.NDArray[Any]]:
    """Return the copies or the memsets that touch a window as columns, with the sizes and kinds of their table."""
    operations, frame = context.operations, context.trace[spec]
    rows, duration = running(context, operations.from_table(spec), window)
    about = [name for name in spec.columns if name == "bytes" or name.endswith("_kind")]
    # How long each operation is exposed, in ns: the time that the ledger counts for its kind.
    exposed = np.zeros(len(rows), np.int64)
    for device in np.unique(taken(operations.device_id, rows)):
        mine = np.flatnonzero(taken(operations.device_id, rows) == device)
        own = find_own_windows(context, window).on(int(device))
        spans = operations.exclusive(int(device), own)[int(operations.kind[rows[0]])]
        exposed[mine] = covered(spans, operations.start[rows[mine]], operations.end[rows[mine]])
    return {
        "device_id": taken(operations.device_id, rows),
        "start": taken(operations.start, rows),
        "end": taken(operations.end, rows),
        "duration": duration,
        "exposed": exposed,
        "call": taken(operations.call, rows),
        "row": taken(operations.row, rows),
        "by_fault": taken(find_migrations(context).by_faults, rows),
        **{name: array(frame, name)[taken(operations.row, rows)] for name in about},
    }


def _labels(labels: Mapping[int, str], kinds: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
    """Return the label of each kind: empty where the kind is unknown, a number where the export has no label."""
    codes, unique = pd.factorize(kinds)
    texts = [labels.get(int(kind), "" if kind < 0 else f"kind {kind}") for kind in unique]
    return np.array(texts, dtype=object)[codes]


def held_by(context: TraceContext, copies: pd.DataFrame, window: Window) -> tuple[Indices, Spans]:
    """Return the calls that made the copies, and the intervals in which one of them was open."""
    calls = context.trace[tables.CALLS]
    # One call may make several copies; it counts once.
    call = np.unique(array(copies, "call"))
    held = merge(array(calls, "start")[call], array(calls, "end")[call])
    return call, clip(held, window.start_ns, window.end_ns)


def staging(context: TraceContext, copies: pd.DataFrame, device: int, window: Window) -> Spans:
    """Return when the host is blocked because the driver stages pageable memory for a copy to or from a device."""
    of_device = copies[copies["device_id"] == device]
    return held_by(context, of_device[staged_of(of_device)], window)[1]


def staged_of(copies: pd.DataFrame) -> "pd.Series[bool]":
    """Return which copies block the host while the driver stages pageable memory.

    Small copies to the host read values: there the host waits for the GPU's work, not for the copy.
    """
    large = (copies["kind"] == DOWNLOAD) & (copies["bytes"] >= LARGE_BYTES)
    return copies["pageable"] & copies["blocking"] & ((copies["kind"] == UPLOAD) | large)
