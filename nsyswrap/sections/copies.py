"""Memory copies and memsets: what moved between which kinds of memory, how fast, and whether host or GPU waited for it."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.api_calls import blocks_host, is_pageable
from nsyswrap.events.duration_stats import summarize
from nsyswrap.events.operations import COPY
from nsyswrap.intervals import Indices, Times, Window, clip, covered, merge, total
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Section
from nsyswrap.sections.copies_findings import findings
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import TableSpec, array

KEYS = ["kind", "source_memory", "target_memory"]


def run(context: TraceContext, window: Window) -> Section:
    """Return copies by direction and kind of memory, and memsets, with bytes, rate, exposed time and blocked calls."""
    operations = context.operations
    copies = find_copies(context, window)
    exposed, busy = 0, 0
    for device in operations.devices:
        exposed += total(operations.exclusive(device, window)[COPY])
        mine = operations.on(device)
        mine = mine[operations.kind[mine] == COPY]
        busy += total(clip(merge(operations.start[mine], operations.end[mine]), window.start_ns, window.end_ns))
    return Section(
        key="copies",
        title="Memory copies and memsets",
        window=window,
        facts=(
            Fact("copied_bytes", int(copies["bytes"].sum()), "bytes"),
            Fact("copy_ns", busy, "ns"),
            Fact("exposed_share", exposed / busy if busy else None, "share"),
            Fact("blocking_count", int(copies["blocking"].sum()), "count"),
        ),
        tables={"summary": _summary(copies, _memsets(context, window))},
        findings=findings(context, copies, window),
        notes=("Time of copies side by side is added up in the table, and counted once in the facts.",),
    )


def find_copies(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the copies that touch a window, one row each, in order of start.

    Returns:
        device_id, bytes, start and end (ns, not clipped), duration and exposed (ns, clipped to the window), call (row
        in ``trace[CALLS]``, -1 if unknown), kind, source_memory and target_memory (texts), pageable and blocking.
        A copy is blocking where its call holds the host, see ``copy_calls``.
    """
    frame, trace = _moved(context, tables.COPIES, window), context.trace
    row, call = frame.pop("row").to_numpy(np.intp), array(frame, "call")
    frame["pageable"], frame["blocking"] = is_pageable(trace, row), blocks_host(trace, row, call)
    labels = (trace.copy_kinds, trace.memory_kinds, trace.memory_kinds)
    for key, column, names in zip(KEYS, ("copy_kind", "source_kind", "target_kind"), labels, strict=True):
        frame[key] = _labels(names, frame.pop(column).to_numpy())
    return frame


def _memsets(context: TraceContext, window: Window) -> pd.DataFrame:
    """Return the memsets that touch a window as copies from nowhere, which no call waits for."""
    frame = _moved(context, tables.MEMSETS, window)
    target = _labels(context.trace.memory_kinds, frame.pop("memory_kind").to_numpy())
    return frame.assign(kind="Memset", source_memory="", target_memory=target, blocking=False)


def _moved(context: TraceContext, spec: TableSpec, window: Window) -> pd.DataFrame:
    """Return the copies or the memsets that touch a window with the columns of their table that say what they are."""
    operations, frame = context.operations, context.trace[spec]
    rows = operations.from_table(spec)
    rows = rows[(operations.start[rows] < window.end_ns) & (operations.end[rows] > window.start_ns)]
    start, end = operations.start[rows], operations.end[rows]
    about = [name for name in spec.columns if name == "bytes" or name.endswith("_kind")]
    return pd.DataFrame(
        {
            "device_id": operations.device_id[rows],
            "start": start,
            "end": end,
            "duration": np.minimum(end, window.end_ns) - np.maximum(start, window.start_ns),
            "exposed": _exposed(context, rows, window),
            "call": operations.call[rows],
            "row": operations.row[rows],
            **{name: array(frame, name)[operations.row[rows]] for name in about},
        }
    )


def _exposed(context: TraceContext, rows: Indices, window: Window) -> Times:
    """Return for how many ns of the window each operation is what the ledger says the GPU does."""
    operations = context.operations
    found = np.zeros(len(rows), np.int64)
    for device in np.unique(operations.device_id[rows]):
        mine = np.flatnonzero(operations.device_id[rows] == device)
        spans = operations.exclusive(int(device), window)[int(operations.kind[rows[0]])]
        found[mine] = covered(spans, operations.start[rows[mine]], operations.end[rows[mine]])
    return found


def _labels(labels: Mapping[int, str], kinds: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
    """Return the label of each kind; nothing for an unknown one, a number for one the export has no label for."""
    codes, unique = pd.factorize(kinds)
    texts = [labels.get(int(kind), "" if kind < 0 else f"kind {kind}") for kind in unique]
    return np.array(texts, dtype=object)[codes]


def _summary(copies: pd.DataFrame, memsets: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each direction and pair of memories, dearest first; shares are of copies and memsets together."""
    moved = pd.concat([each for each in (copies, memsets) if len(each)] or [copies], ignore_index=True)
    groups = moved.groupby(KEYS, sort=False)
    codes = groups.ngroup().to_numpy().astype(np.intp)
    first = moved[KEYS].drop_duplicates()
    table = summarize(codes, moved["duration"].to_numpy(np.int64), len(first))
    for place, name in enumerate(KEYS):
        table.insert(place, name, first[name].to_numpy())
    whole = (moved["end"] - moved["start"]).groupby(codes).sum().to_numpy(float)
    size = groups["bytes"].sum().to_numpy(np.int64)
    # Bytes of a copy that the window cuts cannot be cut with it, so the rate is that of whole copies.
    rate = np.divide(size * 1e9, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    table.insert(5, "bytes", size)
    table.insert(6, "per_second_bytes", rate)
    table.insert(7, "exposed_ns", groups["exposed"].sum().to_numpy(np.int64))
    table.insert(8, "blocking_count", groups["blocking"].sum().to_numpy(np.int64))
    return table.sort_values(["total_ns", "kind"], ascending=[False, True], ignore_index=True)


SECTION = SectionSpec("copies", "Memory copies and memsets", (), run, of_operations=True, of_gains=True)
