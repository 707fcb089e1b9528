"""Where the time of each GPU went: a ledger whose rows add up to the window exactly."""

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Spans, Times, Window, covered, total, union
from nsyswrap.events.operations import Operations
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import PARTS, Fact, Section
from nsyswrap.ranks.collectives import NO_COLLECTIVES, Collectives
from nsyswrap.ranks.many import OtherRanks
from nsyswrap.sections.spec import SectionSpec

ROWS = tuple(PARTS.split())

# Number of equal intervals of the curve over time. Source: nsys's own report of utilization over time.
INTERVALS = 30

ALL_TRANSFER = (
    "Exposed communication is not split into waiting and transfer, since the capture shows no other rank of these "
    "collectives: all of it counts as transfer."
)


def ledger_rows(
    operations: Operations, device_id: int, window: Window, collectives: Collectives = NO_COLLECTIVES
) -> dict[str, int]:
    """Return the ledger of one device: ns of each of ``ROWS``, which add up to the window's length.

    Where operations overlap, a nanosecond belongs to the first of compute, communication, copy, memset. Communication
    is a wait until the last rank of the collective has arrived, then transfer; all of it is transfer where the other
    ranks are not known. Time without any operation is idle.
    """
    spans = collectives.exclusive(operations, device_id, window)
    found = dict(zip(ROWS[:-1], map(total, spans), strict=True))
    return {**found, "idle_ns": window.length_ns - sum(found.values())}


def ledger_of_spans(exclusive: list[Spans], start: Times, end: Times) -> dict[str, Times]:
    """Return the ledgers of many intervals: each of ``ROWS`` in ns, shape (n,), which add up to their lengths."""
    found = {row: covered(spans, start, end) for row, spans in zip(ROWS[:-1], exclusive, strict=True)}
    return {**found, "idle_ns": end - start - sum(found.values(), np.zeros(len(start), np.int64))}


def run(
    context: TraceContext, window: Window, collectives: Collectives, of_all_ranks: Collectives, others: OtherRanks
) -> Section:
    """Return the ledger of each device in its own part of the window, and how busy it was over time.

    Of ranks that are not shown in detail there is the ledger only.
    """
    operations = context.operations
    rows, over_time = [], []
    used = operations.used_in(window)
    for device in used:
        own = find_own_windows(context, window).on(device)
        ledger = ledger_rows(operations, device, own, collectives)
        rows.append({"device_id": device, "window_ns": own.length_ns, **ledger})
        over_time.append(_over_time(operations, device, window))
    rows += [{"device_id": each, "window_ns": sum(its.values()), **its} for each, its in others.ledgers.items()]
    devices = pd.DataFrame(rows).sort_values("device_id", ignore_index=True)
    if of_all_ranks.ranks.known:
        numbers = {rank.device_id: rank.number for rank in of_all_ranks.ranks.each}
        rank = pd.Series([numbers.get(each) for each in devices["device_id"].tolist()], dtype="Int64")
        devices.insert(1, "rank", rank)
    notes = [
        f"GPU {device} is left out: it ran operations only outside the window."
        for device in operations.devices
        if device not in used
    ]
    if devices["communication_transfer_ns"].any() and not collectives.matched.any():
        notes.insert(0, ALL_TRANSFER)
    if others.detailed:
        why = [f"rank {number}: {reason}" for number, reason in others.detailed.items()]
        every = f"{len(others.ledgers) + len(others.detailed):,} ranks"
        notes.append(
            f"The ledger, idle time by cause, the collectives and the waits are of all {every}. All else is of "
            f"{len(why)} of them ({'; '.join(why)})."
        )
    idle = int(devices["idle_ns"].sum())
    whole = int(devices["window_ns"].sum())
    return SECTION.made(
        window,
        facts=(
            Fact("window_ns", window.length_ns, "ns"),
            Fact("busy_share", (whole - idle) / whole, "share"),
            Fact("idle_share", idle / whole, "share"),
        ),
        tables={"devices": devices, "over_time": pd.concat(over_time, ignore_index=True)},
        notes=tuple(notes),
    )


def _over_time(operations: Operations, device: int, window: Window) -> pd.DataFrame:
    """Return the busy share of equal intervals of the window."""
    # Edges are rounded relative to the start of the window, so that a shifted window has the same intervals.
    edges = window.start_ns + np.unique(np.linspace(0, window.length_ns, INTERVALS + 1).round().astype(np.int64))
    start, end = edges[:-1], edges[1:]
    busy = covered(union(*operations.exclusive(device, window)), start, end)
    share = busy / (end - start)
    return pd.DataFrame({"device_id": device, "start_ns": start, "end_ns": end, "busy_ns": busy, "busy_share": share})


SECTION = SectionSpec(
    key="ledger",
    title="Where the GPU's time went",
    run=run,
    reads=(),
    of_operations=True,
    place=10,
    on_page_only=False,
    columns={"devices": f"device_id window_ns {PARTS}", "over_time": "device_id start_ns end_ns busy_ns busy_share"},
    some_columns={"devices": "rank"},
    facts={"window_ns": "window", "busy_share": "GPU busy", "idle_share": "GPU idle"},
)
