"""The finding on managed memory whose pages move when somebody touches them: page faults of the host and of the GPU."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.page_migrations import find_migrations
from nsyswrap.base import units
from nsyswrap.base.intervals import Spans, Window, clip, covered, merge, total, union
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Finding
from nsyswrap.rules.memory import MIGRATIONS, TOO_LARGE
from nsyswrap.sections.severity import make_finding, worth_printing
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.saving import Saving
from nsyswrap.what_if.simulate import Simulation

UNKNOWN = Saving(None, None, ("no saving is predicted: a kernel's time does not show how long it waits for pages",))


def find_finding(
    simulation: Simulation, attribution: Attribution, copies: pd.DataFrame, window: Window
) -> Finding | None:
    """Return the finding on page faults of managed memory; None where they take too little of the window.

    The time lost is that in which pages move or the GPU waits for pages, beside a kernel or not, and the idle time up
    to the next fault of the host.

    ::

        GPU    |###### kernel ######|..|copy|..|copy|
        pages    |copy||copy||copy|
        lost     |----------------| |---------------|
    """
    context, device = simulation.context, attribution.device_id
    moved, faults = copies[copies["by_fault"]], _gpu_faults(context, device, window)
    moving = clip(merge(array(moved, "start"), array(moved, "end")), window.start_ns, window.end_ns)
    waiting = clip(merge(array(faults, "start"), array(faults, "end")), window.start_ns, window.end_ns)
    busy, idle = union(moving, waiting), attribution.idle_of(MIGRATIONS.key)
    # In idle time that another rule explains, a GPU that waits for pages is not counted a second time.
    lost = idle + total(busy) - int(covered(busy, *_idle(attribution)).sum())
    if not worth_printing(lost, window):
        return None
    evicted = int((find_migrations(context).evicted[context.operations.on(device)]).sum())
    return make_finding(
        rule=MIGRATIONS.key,
        headline=MIGRATIONS.headline.format(share=units.share(lost / window.length_ns)),
        lost_ns=lost,
        saving=UNKNOWN,
        advice=(TOO_LARGE if 2 * evicted > len(moved) else MIGRATIONS).advice,
        evidence=(
            *_directions(moved),
            *(f"{units.count(evicted)} of them evict pages" for _ in range(evicted > 0)),
            *_faults(context, faults, window),
            f"the GPU is idle for {units.duration(idle)} until the host touches the next page",
            *_kernels(context, device, busy, window),
        ),
        device_id=device,
        window=window,
    )


def _idle(attribution: Attribution) -> Spans:
    return Spans(attribution.pieces.start, attribution.pieces.end)


def _gpu_faults(context: TraceContext, device: int, window: Window) -> pd.DataFrame:
    """Return the groups of page faults that a GPU waited for in the window."""
    faults = context.trace[tables.GPU_PAGE_FAULTS]
    inside = (array(faults, "start") < window.end_ns) & (array(faults, "end") > window.start_ns)
    found: pd.DataFrame = faults[inside & (array(faults, "device_id") == device)]
    return found


def _directions(moved: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each direction in which pages moved, longest time first."""
    rows = []
    for kind, mine in moved.groupby("kind"):
        ns, size = int(mine["duration"].sum()), int(mine["bytes"].sum())
        rows.append(
            (ns, f"{units.duration(ns)} in {units.counted(len(mine), f'{kind} migration')}, {units.size(size)}")
        )
    yield from (line for _, line in sorted(rows, reverse=True))


def _faults(context: TraceContext, faults: pd.DataFrame, window: Window) -> Iterator[str]:
    """Yield a line on the page faults of the GPU and of the CPU, where these were recorded."""
    of_gpu = round(float(np.maximum(array(faults, "count"), 0).sum(dtype=np.float64)))
    start = array(context.trace[tables.CPU_PAGE_FAULTS], "start")
    of_cpu = int(((start >= window.start_ns) & (start < window.end_ns)).sum())
    if of_gpu or of_cpu:
        yield f"{units.counted(of_gpu, 'page fault')} of the GPU, {units.count(of_cpu)} of the CPU"


def _kernels(context: TraceContext, device: int, busy: Spans, window: Window) -> Iterator[str]:
    """Yield a line on the kernels that run while pages move."""
    operations = context.operations
    rows = operations.on(device)
    rows = rows[taken(operations.kind, rows) == COMPUTE]
    start, end = (
        np.clip(taken(each, rows), window.start_ns, window.end_ns) for each in (operations.start, operations.end)
    )
    beside = covered(busy, start, end) > 0
    if beside.any():
        ns = total(merge(start[beside], end[beside]))
        count, run = int(beside.sum()), "runs" if beside.sum() == 1 else "run"
        spent = f"{units.counted(count, 'kernel')}, {units.duration(ns)},"
        yield f"{spent} {run} while pages move: this time holds waits for pages"
