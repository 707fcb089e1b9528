"""Memory on the GPUs: the peak, and steps after warm-up that still allocate."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.root_causes import allocator_churn
from nsyswrap.base import units
from nsyswrap.base.intervals import Indices, Spans, Times, Window, clip, containing, merge, total
from nsyswrap.events import api_calls
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.rules.cuda_advice import ALLOCATE_ONCE, ALLOCATE_ONCE_BY_KIND
from nsyswrap.rules.memory import CHURN
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.severity import make_finding
from nsyswrap.sections.spec import Kind, PageGroup, SectionSpec
from nsyswrap.sections.step_memory import facts_of, find_step_memory, module_rows
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded
from nsyswrap.what_if.changes.allocation import allocation
from nsyswrap.what_if.saving import predict
from nsyswrap.what_if.simulate import Simulation

HOW = "Allocations were not recorded: capture again with --cuda-memory."
ADVICE = Wording(
    "Keep shapes stable (pad, bucket, drop_last=True) so that the caching allocator can reuse its blocks, keep "
    "torch.cuda.empty_cache() out of the step, and try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ALLOCATE_ONCE,
    **ALLOCATE_ONCE_BY_KIND,
)
NOTES = (
    "These numbers leave out the driver's context and code, and memory that was allocated before the capture.",
    "Variables of modules count as held memory, but not as allocations.",
)

# Source: ENUM_CUDA_DEV_MEM_EVENT_OPER of nsys's exports, 2023.4 and 2025.3.
RELEASE = 1
ON_DEVICE = frozenset({"Device", "Array", "Managed", "Device Static", "Managed Static"})
STATIC = frozenset({"Device Static", "Managed Static"})

# Tables whose events show that a process is alive.
ALIVE = (
    *(tables.KERNELS, tables.COPIES, tables.MEMSETS, tables.GRAPHS, tables.MEMORY),
    *(tables.CALLS, tables.OS_CALLS, tables.RANGES, tables.SCHEDULING),
)
FIRST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Allocations:
    """The allocations and releases on the devices, in order of time: arrays of equal length.

    Attributes:
        start: Time of each, in ns.
        process: Global id of the process.
        change: Allocated bytes; negative for released bytes.
        variable: Whether it is a variable of a module, which is loaded with the module's code.
        pooled: Whether it came from a memory pool, which takes almost no time.
    """

    start: Times
    process: Times
    device_id: "np.ndarray[tuple[int], np.dtype[np.int32]]"
    change: Times
    variable: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    pooled: "np.ndarray[tuple[int], np.dtype[np.bool_]]"


def find_allocations(context: TraceContext) -> Allocations:
    """Return the allocations and releases on the devices, without those of host memory."""
    frame, labels = context.trace[tables.MEMORY], context.trace.memory_kinds
    kind = array(frame, "memory_kind")
    rows = np.flatnonzero(np.isin(kind, [key for key, label in labels.items() if label in ON_DEVICE]))
    size = array(frame, "bytes")[rows]
    return Allocations(
        start=array(frame, "start")[rows],
        process=array(frame, "process")[rows],
        device_id=array(frame, "device_id")[rows],
        change=np.where(array(frame, "operation")[rows] == RELEASE, -size, size),
        variable=np.isin(kind[rows], [key for key, label in labels.items() if label in STATIC]),
        pooled=array(frame, "pool")[rows] != 0,
    )


def run(
    context: TraceContext, window: Window, attributions: tuple[Attribution, ...], simulation: Simulation
) -> Section:
    """Return the memory held on each GPU in the window, and a finding where measured steps allocate."""
    allocations = find_allocations(context)
    step = find_step_memory(context)
    of_step, by_module = ((), {}) if step is None else (tuple(facts_of(step)), {"modules": module_rows(step)})
    if not len(context.trace[tables.MEMORY]):
        return SECTION.made(window, facts=of_step, tables=by_module, notes=(HOW,))
    memory = {gpu.device_id: gpu.memory_bytes for gpu in context.trace.gpus}
    ends, own = _ends(context, np.unique(allocations.process)), find_own_windows(context, window)
    found = [
        _device(allocations, device, memory.get(device, 0), ends, own.on(device))
        for device in np.unique(allocations.device_id).tolist()
    ]
    devices = pd.DataFrame(found, columns=SECTION.columns["devices"].split())
    facts = (
        Fact("peak_bytes", int(devices["peak_bytes"].max()) if len(devices) else 0, "bytes"),
        Fact("allocations", int(devices["allocation_count"].sum()), "count"),
        Fact("releases", int(devices["release_count"].sum()), "count"),
        *of_step,
    )
    findings = tuple(_churn(simulation, attributions, allocations, window))
    return SECTION.made(window, facts, {"devices": devices} | by_module, findings, NOTES)


def _ends(context: TraceContext, processes: Times) -> dict[int, int]:
    """Return the end of each process that ended before the last event of the capture, in ns."""
    ends, latest = dict.fromkeys(processes.tolist(), FIRST), FIRST
    for spec in ALIVE:
        frame = context.trace[spec]
        # A range that was never closed seems to last to the end of the capture.
        when = array(frame, "end" if "end" in frame and spec is not tables.RANGES else "start")
        process = array(frame, "process") if "process" in frame else tables.process_of(array(frame, "thread"))
        latest = max(latest, int(when.max(initial=FIRST)))
        for each, end in ends.items():
            ends[each] = max(end, int(np.max(when, where=process == each, initial=FIRST)))
    return {each: end for each, end in ends.items() if end < latest}


def _held(allocations: Allocations, mine: Indices, ends: Mapping[int, int]) -> tuple[Times, Times]:
    """Return the memory that some allocations hold: times of changes, ascending, in ns, and the bytes after each.

    The bytes have one value more than the times: the first is from before the first change. Memory that a process
    releases without a recorded allocation was held before the capture. At the end of a process the driver releases
    all memory that it holds.
    """
    start, change, before = [allocations.start[mine]], [allocations.change[mine]], 0
    for process in np.unique(allocations.process[mine]).tolist():
        held = np.cumsum(allocations.change[mine[allocations.process[mine] == process]])
        there = max(0, -int(held.min()))
        before += there
        if process in ends:
            start.append(np.array([ends[process]]))
            change.append(np.array([-(there + int(held[-1]))]))
    when = np.concatenate(start)
    order = np.argsort(when, kind="stable")
    return when[order], before + np.append(0, np.cumsum(np.concatenate(change)[order]))


def _device(
    allocations: Allocations, device: int, memory_bytes: int, ends: Mapping[int, int], window: Window
) -> dict[str, float]:
    """Return the memory held on one GPU: the peak, and at the start and the end of the window."""
    mine = np.flatnonzero(allocations.device_id == device)
    when, held = _held(allocations, mine, ends)
    first, last = np.searchsorted(when, [window.start_ns, window.end_ns], side="left").tolist()
    peak = int(held[first : last + 1].max())
    start = allocations.start[mine]
    rows = mine[(start >= window.start_ns) & (start < window.end_ns)]
    inside = allocations.change[rows[~allocations.variable[rows]]]
    return {
        "device_id": device,
        "peak_bytes": peak,
        "peak_share": peak / memory_bytes if memory_bytes else float("nan"),
        "capture_peak_bytes": int(held.max()),
        "start_bytes": int(held[first]),
        "end_bytes": int(held[last]),
        "allocation_count": int((inside > 0).sum()),
        "allocated_bytes": int(inside[inside > 0].sum()),
        "release_count": int((inside < 0).sum()),
        "released_bytes": -int(inside[inside < 0].sum()),
    }


def _churn(
    simulation: Simulation, attributions: tuple[Attribution, ...], allocations: Allocations, window: Window
) -> Iterator[Finding]:
    """Yield a finding for each GPU on which more than a few of the measured steps allocate or free."""
    # A GPU without operations has no idle time.
    idle = {each.device_id: each.idle_of(CHURN.key) for each in attributions}
    own = find_own_windows(simulation.context, window)
    for device in np.unique(allocations.device_id).tolist():
        rows = np.flatnonzero((allocations.device_id == device) & ~allocations.variable & ~allocations.pooled)
        step, count = _steps_of(simulation.context, allocations, rows, window)
        touched = len(np.unique(step[step >= 0]))
        if touched > allocator_churn.CHURN_SHARE * count:
            rows = rows[step >= 0]
            yield make_finding(
                rule=CHURN,
                headline=f"{touched} of {count} measured steps allocate or free GPU memory; a step after warm-up "
                "should not.",
                lost_ns=idle.get(device, 0),
                saving=predict(simulation, allocation),
                advice=ADVICE,
                evidence=tuple(_evidence(simulation.context, allocations, rows, own.on(device))),
                device_id=device,
                window=own.on(device),
            )


def _steps_of(context: TraceContext, allocations: Allocations, rows: Indices, window: Window) -> tuple[Indices, int]:
    """Return the measured step of its own process that contains each row, or -1; and the number of these steps."""
    frame = context.steps.frame
    start, end, process = (array(frame, name) for name in ("start", "end", "process"))
    measured = ~array(frame, "warm_up") & (start < window.end_ns) & (end > window.start_ns)
    if window.is_of_steps:
        measured = context.steps.number >= 0
    found, count = np.full(len(rows), -1, np.intp), 0
    for each in np.unique(allocations.process[rows]):
        steps = np.flatnonzero(measured & (process == each))
        mine = allocations.process[rows] == each
        inside = containing(Spans(start[steps], end[steps]), allocations.start[rows][mine])
        found[mine] = np.where(inside >= 0, inside + count, -1)
        count += len(steps)
    return found, count


def _evidence(context: TraceContext, allocations: Allocations, rows: Indices, window: Window) -> Iterator[str]:
    """Yield how much some rows allocate and release, and how long the host is in such calls."""
    change, calls = allocations.change[rows], context.trace[tables.CALLS]
    for name, sizes in (("allocation", change[change > 0]), ("release", -change[change < 0])):
        yield f"{units.counted(len(sizes), name)}, {units.size(int(sizes.sum()))} in all"
    worst = rows[int(np.argmax(np.abs(change)))]
    yield f"the largest: {units.size(abs(int(allocations.change[worst])))} at {units.point(allocations.start[worst])}"

    def allocates(name: str) -> int:
        return int(api_calls.call_kind(api_calls.base_name(name)) == api_calls.ALLOCATION)

    thread = coded(calls, "thread")
    mine = tables.by_name(context.trace, tables.CALLS, allocates, np.int8) > 0
    mine &= thread.among(np.isin(tables.process_of(thread.ids), allocations.process[rows]))
    spans = merge(array(calls, "start")[mine], array(calls, "end")[mine])
    held = total(clip(spans, window.start_ns, window.end_ns))
    yield f"{units.duration(held)} of the host's time in calls that allocate or free"


SECTION = SectionSpec(
    key="device_memory",
    title="GPU memory",
    run=run,
    needs=(tables.KERNELS,),
    place=120,
    group=PageGroup.GPU,
    columns={
        "devices": (
            "device_id peak_bytes peak_share capture_peak_bytes start_bytes end_bytes allocation_count "
            "allocated_bytes release_count released_bytes"
        ),
        "modules": "module class_name count kept_bytes",
    },
    kinds={Kind.TEXT: "module class_name"},
    captions={"modules": "What modules keep for the backward pass"},
    headings={
        "capture_peak_bytes": "peak of the capture",
        "start_bytes": "at the start",
        "end_bytes": "at the end",
        "peak_share": "peak share",
        "allocation_count": "allocations",
        "release_count": "releases",
        "class_name": "class",
        "kept_bytes": "kept, with modules in it",
    },
    facts={
        "peak_bytes": "most memory held",
        "step_start_bytes": "tensors at the start of a step",
        "step_forward_bytes": "tensors at the start of the backward pass",
        "step_most_bytes": "most tensors at the bounds of modules",
        "larger_batch": "room for a batch",
    },
)
