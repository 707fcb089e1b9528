"""Memory copies and memsets: kinds of memory, rates, exposed time, and copies that block the host."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.copy_table import KEYS, UPLOAD, find_memsets, find_migrations, held_by, staged_of
from nsyswrap.base import units
from nsyswrap.base.intervals import Spans, Window, clip, covered, intersect, merge, total, union
from nsyswrap.base.row_sums import largest_first, text_column
from nsyswrap.base.rows import taken
from nsyswrap.events.duration_stats import statistics
from nsyswrap.events.operations import COMPUTE, COPY, UNIFIED
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows, running
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.rules.copies import EXPOSED, PAGEABLE
from nsyswrap.rules.memory import MIGRATIONS, TOO_LARGE
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.idle_findings import costliest_line
from nsyswrap.sections.places import place_lines
from nsyswrap.sections.severity import make_finding, ordered, worth_printing
from nsyswrap.sections.spec import About, Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, groups
from nsyswrap.what_if.changes.pinned_copies import pinned_copies
from nsyswrap.what_if.saving import Saving, WhatIf, faster, predict
from nsyswrap.what_if.simulate import Simulation

UNKNOWN = Saving(None, None, ("no saving is predicted: a kernel's time does not show how long it waits for pages",))


ADVICE = {
    UPLOAD: Wording(
        "Copy the next batch while this one trains: pinned memory, non_blocking=True and a stream of its own. "
        "Send less: integers or float16 that the GPU converts; keep on the GPU what is used again.",
        "Copy the next data while this is computed on: pinned memory, cudaMemcpyAsync and a stream of its own. Send "
        "less, and keep on the GPU what is used again.",
        jax="Put the next batch on the device (jax.device_put) while this step runs. Send less: integers or bfloat16; "
        "keep on the device what is used again.",
        openacc="Keep data on the GPU: a data region around the loop, and updates of what changes alone, with async.",
    ),
    "Device-to-Host": Wording(
        "Copy to the host less often (.item(), .cpu(), print(loss), checkpoints). Copy the rest into a "
        "pinned tensor with non_blocking=True, on a stream of its own.",
        "Copy to the host less often. Copy the rest into pinned memory with cudaMemcpyAsync, on a stream of its own.",
        jax="Read arrays of the device less often (float(), np.asarray, prints, checkpoints), and many together.",
        openacc="Copy to the host less often: update only what the host needs, with async, inside a data region.",
    ),
    "Device-to-Device": Wording(
        "Copy less inside the GPU: use views instead of .clone(), and write results directly to "
        "their target (out=, or slices of a tensor made once) instead of copying them.",
        "Copy less inside the GPU: exchange pointers of two buffers instead of their contents, and write results "
        "directly to their target.",
        jax="Copy less inside the GPU: donate arguments that are not used again (donate_argnums), so that XLA writes "
        "in place.",
    ),
    "Peer-to-Peer": Wording(
        "Send less from GPU to GPU: keep each tensor where it is used (DistributedDataParallel, with a "
        "process for each GPU, instead of DataParallel), and send the rest on a stream of its own while kernels run.",
        "Send less from GPU to GPU: keep data where it is used, and send the rest on a stream of its own while "
        "kernels run.",
    ),
}
PREFETCH = "Prefetch earlier: cudaMemPrefetchAsync on a stream of its own, while the kernels before still run."


def _migrations(
    context: TraceContext, attribution: Attribution, copies: pd.DataFrame, window: Window
) -> Finding | None:
    """Return the finding on page faults of managed memory; None where they take too little of the window.

    The time lost is that in which pages move or the GPU waits for pages, beside a kernel or not, and the idle time up
    to the next fault of the host.

    ::

        GPU    |###### kernel ######|..|copy|..|copy|
        pages    |copy||copy||copy|
        lost     |----------------| |---------------|
    """
    device, moved, faults = attribution.device_id, copies[copies["by_fault"]], context.trace[tables.GPU_PAGE_FAULTS]
    inside = (array(faults, "start") < window.end_ns) & (array(faults, "end") > window.start_ns)
    faults = faults[inside & (array(faults, "device_id") == device)]
    moving = clip(merge(array(moved, "start"), array(moved, "end")), window.start_ns, window.end_ns)
    waiting = clip(merge(array(faults, "start"), array(faults, "end")), window.start_ns, window.end_ns)
    busy, idle = union(moving, waiting), attribution.idle_of(MIGRATIONS.key)
    # In idle time that another rule explains, a GPU that waits for pages is not counted a second time.
    lost = idle + total(busy) - int(covered(busy, attribution.pieces.start, attribution.pieces.end).sum())
    if not worth_printing(lost, window):
        return None
    evicted = int((find_migrations(context).evicted[context.operations.on(device)]).sum())
    return make_finding(
        rule=MIGRATIONS,
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


def run(
    context: TraceContext,
    window: Window,
    copies: pd.DataFrame,
    attributions: tuple[Attribution, ...],
    simulation: Simulation,
) -> Section:
    """Return copies by direction and kind of memory, and memsets, with bytes, rate, exposed time and blocked calls."""
    operations = context.operations
    exposed, busy = 0, 0
    for device in operations.devices:
        own, mine = find_own_windows(context, window).on(device), operations.on(device)
        exposed += total(operations.exclusive(device, own)[COPY])
        mine = mine[taken(operations.kind, mine) == COPY]
        busy += total(clip(merge(taken(operations.start, mine), taken(operations.end, mine)), own.start_ns, own.end_ns))
    rows, _ = running(context, operations.from_table(tables.COPIES), window)
    return SECTION.made(
        window,
        facts=(
            Fact("copied_bytes", int(copies["bytes"].sum()), "bytes"),
            Fact("copy_ns", busy, "ns"),
            Fact("exposed_share", exposed / busy if busy else None, "share"),
            Fact("blocking_count", int(copies["blocking"].sum()), "count"),
        ),
        tables={"summary": _summary(copies, find_memsets(context, window))},
        findings=ordered(_findings(simulation, attributions, copies.assign(operation=rows))),
        notes=("The table adds up the time of copies that run at the same time; the facts count it once.",),
    )


def _findings(
    simulation: Simulation, attributions: tuple[Attribution, ...], copies: pd.DataFrame
) -> Iterator[Finding | None]:
    """Yield the findings on the copies of each device: copies of pageable memory, and other exposed copies."""
    # A fix of the program is one for all devices, so it is simulated once.
    pinned, beside = (cache(partial(predict, simulation, change)) for change in (pinned_copies, beside_kernels))
    for each in attributions:
        of_device = copies[copies["device_id"] == each.device_id]
        staged = of_device[staged_of(of_device)]
        yield _pageable(simulation.context, each, staged, pinned)
        yield _exposed(simulation.context, each.device_id, of_device, each.window, beside)
        yield _migrations(simulation.context, each, of_device, each.window)


def _pageable(
    context: TraceContext, attribution: Attribution, staged: pd.DataFrame, saving: Callable[[], Saving]
) -> Finding | None:
    """Return the finding on copies of pageable memory: their calls block the host until the driver staged the data.

    The time lost is the idle time that is attributed to these copies, and their exposed time in the ledger.

    ::

        call   |----------------|
        GPU    kernel|.. |##copy##|....|kernel
        lost         idle  exposed  idle
    """
    device, window = attribution.device_id, attribution.window
    idle, exposed = attribution.idle_of(PAGEABLE.key), _exposed_time(context, device, staged, window)
    lost = idle + exposed
    if not worth_printing(lost, window):
        return None
    call, held = held_by(context, staged, window)
    share, waits, copying = units.share(lost / window.length_ns), units.duration(idle), units.duration(exposed)
    return make_finding(
        rule=PAGEABLE,
        headline=PAGEABLE.headline.format(share=share),
        lost_ns=lost,
        saving=saving(),
        evidence=(
            f"the GPU is idle for {waits} because of them, and copies for {copying} with no kernel running",
            f"they block the host for {units.duration(total(held))}, in {units.counted(len(call), 'call')}",
            *costliest_line(context, attribution, PAGEABLE.key),
            *_by_kind(staged),
        ),
        device_id=device,
        window=window,
    )


def _exposed(
    context: TraceContext, device: int, copies: pd.DataFrame, window: Window, saving: Callable[[], Saving]
) -> Finding | None:
    """Return the finding on exposed copies, except those of pageable memory and those that page faults started."""
    others = staged_of(copies) | copies["by_fault"]
    whole = total(context.operations.exclusive(device, window)[COPY])
    lost = whole - _exposed_time(context, device, copies[others], window)
    if not worth_printing(lost, window):
        return None
    mine = copies[(copies["exposed"] > 0) & ~others]
    exposed = mine.groupby("kind")["exposed"].sum()
    longest = max(exposed.index, key=lambda kind: (int(exposed[kind]), kind), default=UPLOAD)
    advice = PREFETCH if str(longest).startswith(UNIFIED) else ADVICE.get(str(longest), ADVICE[UPLOAD])
    return make_finding(
        rule=EXPOSED,
        lost_ns=lost,
        saving=saving(),
        advice=advice,
        evidence=(*_by_kind(mine), *place_lines(context, array(mine, "operation"), array(mine, "exposed"))),
        device_id=device,
        window=window,
    )


def _exposed_time(context: TraceContext, device: int, copies: pd.DataFrame, window: Window) -> int:
    """Return how long the copies are exposed, in ns; time in which several of them run counts once."""
    ran = merge(array(copies, "start"), array(copies, "end"))
    return total(intersect(context.operations.exclusive(device, window)[COPY], ran))


def _by_kind(copies: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each direction and pair of memories, longest time first."""
    lines = []
    for (kind, source, target), mine in copies.groupby(["kind", "source_memory", "target_memory"]):
        duration, size = int(mine["duration"].sum()), int(mine["bytes"].sum())
        whole = int((mine["end"] - mine["start"]).sum())
        rate = f", {units.size(size * 1e9 / whole)} a second" if whole else ""
        line = (
            f"{units.duration(duration)} in {units.counted(len(mine), f'{kind} copy')}, "
            f"{source} to {target}, {units.size(size)}{rate}, "
            f"{units.duration(int(mine['exposed'].sum()))} of it exposed"
        )
        lines.append((-duration, line))
    return tuple(line for _, line in sorted(lines))


def _summary(copies: pd.DataFrame, memsets: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each direction and pair of memories, largest first; shares are of copies and memsets."""
    moved = pd.concat([each for each in (copies, memsets) if len(each)] or [copies], ignore_index=True)
    codes, first = groups([array(moved, name) for name in KEYS])
    table = statistics(codes, array(moved, "duration"), len(first))

    def summed(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        total = np.zeros(len(first), np.int64)
        np.add.at(total, codes, values)
        return total

    whole, size = summed(array(moved, "end") - array(moved, "start")), summed(array(moved, "bytes"))
    sums = {
        "count": table.pop("count"),
        "total_ns": table.pop("total_ns"),
        "bytes": size,
        # The bytes of a copy cannot be clipped to the window, so the rate is that of whole copies.
        "per_second_bytes": np.divide(size * 1e9, whole, out=np.full(len(whole), np.nan), where=whole > 0),
        "exposed_ns": summed(array(moved, "exposed")),
        "blocking_count": summed(array(moved, "blocking")),
    }
    order = largest_first(sums["total_ns"], array(moved, "kind")[first].tolist())
    texts = {name: text_column(array(moved, name)[first[order]].tolist()) for name in KEYS}
    return pd.DataFrame({**texts, **{name: values[order] for name, values in {**sums, **table}.items()}})


def beside_kernels(simulation: Simulation) -> WhatIf:
    """Return the change "overlap copies with kernels": copies delay no kernel."""
    ran = simulation.operations
    rows = ran[simulation.context.operations.kind[ran] == COPY]
    return faster(rows, 0.0, "all copies overlap with kernels")


SECTION = SectionSpec(
    key="copies",
    title="Memory copies and memsets",
    run=run,
    about=About.BOTH,
    of_operations=True,
    place=100,
    group=PageGroup.GPU,
    columns={
        "summary": (
            "kind source_memory target_memory count total_ns bytes per_second_bytes exposed_ns blocking_count "
            "mean_ns median_ns min_ns max_ns stddev_ns share"
        )
    },
    kinds={Kind.TEXT: "source_memory target_memory", Kind.NUMBER: "per_second_bytes"},
    headings={"source_memory": "from", "target_memory": "to"},
    facts={"copy_ns": "time of copies", "blocking_count": "blocking copies"},
)
