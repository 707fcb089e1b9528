"""The step-time breakdown of PyTorch's TensorBoard profiler, whose parts always add up to the length of the step.

Each nanosecond of a step belongs to the role with the highest priority, in the process of the step::

    kernel    ....####......####......     priority
    runtime   .##..##..##............      |
    cpu       ....#########...####...      v
    step      .RRKKKKCRRCC..KKKKCC...      . is other

Source of priority and roles: ``overall_parser.py`` of torch_tb_profiler. One difference: there, a role that covers all
steps makes the roles after it count in full.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import (
    LabelledSpans,
    Spans,
    Times,
    Window,
    clip,
    containing,
    covered,
    fill,
    gaps,
    layered,
    merge,
    overlay,
    subtract,
    total,
    union,
)
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMMUNICATION, COMPUTE, COPY, MEMSET
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import BATCH, DATA, LIBRARY_DOMAINS
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import About, Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks, coded

ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
"""The roles by priority; the remaining time is ``other``."""

_ON_DEVICE = (COMPUTE, COPY, MEMSET, COMMUNICATION)
WHOLE_WINDOW = "whole window"


@dataclass(frozen=True, slots=True)
class Slots:
    """The intervals of one process to break down, which are its steps inside the window; arrays of equal length.

    Attributes:
        process: Global id of the process.
        start: ns since capture start, ascending.
        end: ns since capture start.
    """

    process: int
    name: npt.NDArray[np.object_]
    start: Times
    end: Times


def run(context: TraceContext, window: Window) -> Section:
    """Return the time of each step by role, the mean step of each process, and the kernel time of each GPU."""
    slots = find_slots(context, window)
    per_step = [_broken_down(context, each) for each in slots]
    steps = pd.concat(per_step, ignore_index=True)
    low, high = min(int(each.start[0]) for each in slots), max(int(each.end.max()) for each in slots)
    span = replace(window, start_ns=low, end_ns=high)
    devices = _devices(context, span)
    spent = int(devices["kernel_ns"].sum())
    notes = []
    if slots[0].name[0] == WHOLE_WINDOW:
        notes.append("No step lies inside the window, so the whole window counts as one step.")
    if len(context.trace[tables.GRAPHS]):
        notes.append("CUDA graphs were traced as a whole: all their time counts as kernels.")
    return SECTION.made(
        window,
        facts=(
            Fact("steps", len(steps), "count"),
            Fact("mean_step_ns", float(steps["step_ns"].mean()), "ns"),
            Fact("gpu_utilization_share", spent / (span.length_ns * len(devices)), "share"),
        ),
        tables={"mean": _mean(per_step), "devices": devices, "steps": steps},
        notes=tuple(notes),
    )


def find_slots(context: TraceContext, window: Window) -> list[Slots]:
    """Return the steps inside the window, by process; where there are none, the window for each process.

    Processes that launched nothing are left out: their steps have no GPU time.
    """
    launching = [int(process) for process in sorted(pd.unique(context.operations.process))]
    inside = context.steps.measured if window.is_of_steps else context.steps.whole_inside(window)
    found = []
    for process, mine in inside.groupby("process"):
        real = mine[mine["end"] > mine["start"]]
        if int(str(process)) in launching and len(real):
            name = real["name"].to_numpy(dtype=object)
            found.append(Slots(int(str(process)), name, array(real, "start"), array(real, "end")))
    start, end = np.array([window.start_ns]), np.array([window.end_ns])
    return found or [Slots(process, np.array([WHOLE_WINDOW], object), start, end) for process in launching]


def _device_spans(context: TraceContext, slots: Slots) -> tuple[list[Spans], Spans]:
    """Return the kernel, copy, memset and communication time of the process, and the time of them all.

    Each kind is without the kinds before it.
    """
    operations = context.operations
    if [each.processes.tolist() for each in operations.by_device.values()] == [[slots.process]]:
        (only,) = operations.by_device.values()
        if not len(only.exclusive[COMMUNICATION].start):
            # Both are known: without communication, the other kinds are in the same order there.
            return [only.exclusive[each] for each in _ON_DEVICE], only.busy
    rows = _between(operations.start, operations.end, slots)
    mine = operations.process[rows] == slots.process
    start, end, kind = operations.start[rows], operations.end[rows], operations.kind[rows]
    found: list[Spans] = []
    for each in _ON_DEVICE:
        chosen = mine & (kind == each)
        spans = merge(taken(start, chosen), taken(end, chosen))
        for before in found:
            spans = subtract(spans, before)
        found.append(spans)
    return found, union(*found)


def _between(start: Times, end: Times, slots: Slots) -> slice:
    """Return a slice of the rows, which are sorted by start, that contains all rows that touch the slots."""
    low = int(slots.start[0])
    reach = np.maximum.accumulate(end[: int(np.searchsorted(start, low, side="right"))])
    first = int(np.searchsorted(reach, low, side="right"))
    return slice(first, int(np.searchsorted(start, int(slots.end.max()))))


def _program(context: TraceContext, slots: Slots) -> Spans:
    """Return the time in which a range of the program is open inside a slot, on any thread.

    These ranges do not count: ranges of libraries, steps, ranges around a step, and the phase "batch".
    """
    ranges = context.trace[tables.RANGES]
    if not len(ranges):
        return merge([], [])
    of_libraries = np.array([bool(LIBRARY_DOMAINS.match(str(name))) for name in ranges["domain"].cat.categories])
    mine = ~of_libraries[ranges["domain"].cat.codes.to_numpy()]
    mine &= tables.process_of(array(ranges, "thread")) == slots.process
    of_phases = context.phases.marked
    mine[of_phases.index[of_phases["phase"] == context.phases.code(BATCH)]] = False
    start, end = array(ranges, "start")[mine], array(ranges, "end")[mine]
    spans = Spans(slots.start, slots.end)
    within = containing(spans, start)
    inside = (within >= 0) & (end <= slots.end[np.maximum(within, 0)])
    return merge(start[inside], end[inside])


def _broken_down(context: TraceContext, slots: Slots) -> pd.DataFrame:
    """Return one row for each slot: its length and the time of each role; the roles add up to the length."""
    on_device, busy = _device_spans(context, slots)
    columns: dict[str, object] = {
        "process_id": tables.pid(slots.process),
        "name": slots.name,
        "start_ns": slots.start,
        "end_ns": slots.end,
        "step_ns": slots.end - slots.start,
    }
    for role, spans in zip(ROLES, on_device, strict=False):
        columns[f"{role}_ns"] = covered(spans, slots.start, slots.end)
    free = gaps(busy, int(slots.start[0]), int(slots.end.max()))
    return pd.DataFrame(columns | _on_host(context, slots, free))


def _on_host(context: TraceContext, slots: Slots, free: Spans) -> dict[str, Times]:
    """Return the time of the host's roles in each slot while the device is idle: runtime, data loader, program, other.

    ::

        idle       |------|   |-----------|     cut where the label changes; in each piece,
        label    data ddddddd program ppppppp   time inside calls is runtime, other time has the label
    """
    # When the main thread is in the data phase, nested ranges included.
    ranges, main = context.phases.ranges, context.phases.main_thread.get(slots.process, -1)
    data = ranges[(ranges["thread"] == main) & (ranges["phase"] == context.phases.code(DATA))]
    in_data = merge(data["start"], data["end"])
    host = layered([(0, in_data), (1, _program(context, slots))])
    low, high = int(slots.start[0]), int(slots.end.max())
    whole = fill(host, LabelledSpans(Spans(np.array([low]), np.array([high])), np.array([2], np.int32)))
    slot, label, start, end = overlay(Spans(slots.start, slots.end), whole.spans)
    # When a CUDA call of the process is open on any thread.
    table, count = context.trace[tables.CALLS], len(slots.start)
    begins, ends = array(table, "start"), array(table, "end")
    rows = _between(begins, ends, slots)
    mine = tables.process_of(coded(table, "thread")[rows]) == slots.process
    calls = merge(begins[rows], ends[rows]) if mine.all() else merge(taken(begins[rows], mine), taken(ends[rows], mine))
    rest, called = np.zeros(3 * count), np.zeros(count)
    for block in blocks(len(free.start)):
        some = Spans(free.start[block], free.end[block])
        cell, _, begun, ended = overlay(Spans(start, end), some)
        inside = covered(clip(calls, int(some.start[0]), int(some.end[-1])), begun, ended)
        rest += np.bincount(
            taken(slot * 3 + taken(whole.code, label), cell), ended - begun - inside, minlength=3 * count
        )
        called += np.bincount(taken(slot, cell), inside, minlength=count)
    labelled, runtime = rest.astype(np.int64).reshape(count, 3), called.astype(np.int64)
    return {
        "runtime_ns": runtime,
        "dataloader_ns": labelled[:, 0],
        "cpu_exec_ns": labelled[:, 1],
        "other_ns": labelled[:, 2],
    }


def _mean(per_step: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the mean time of each role per step, for each process; the means add up to the mean step."""
    parts = []
    for steps in per_step:
        mean = [float(steps[f"{role}_ns"].mean()) for role in ROLES]
        step = float(steps["step_ns"].mean())
        rows = {"process_id": steps["process_id"].iloc[0], "role": ROLES, "mean_ns": mean}
        parts.append(pd.DataFrame(rows).assign(share=[each / step for each in mean]))
    return pd.concat(parts, ignore_index=True)


def _devices(context: TraceContext, span: Window) -> pd.DataFrame:
    """Return the time of compute and communication kernels on each GPU from the first slot to the last.

    Source: "GPU Utilization" of torch_tb_profiler; copies and memsets do not count.
    """
    rows = []
    for device in context.operations.used_in(span):
        compute, communication, *_ = context.operations.exclusive(device, span)
        kernel = total(compute) + total(communication)
        share = kernel / span.length_ns
        row = {"device_id": device, "window_ns": span.length_ns, "kernel_ns": kernel, "gpu_utilization_share": share}
        rows.append(row)
    return pd.DataFrame(rows)


SECTION = SectionSpec(
    key="step_breakdown",
    title="Step-time breakdown",
    run=run,
    about=About.PROGRAM,
    needs=(tables.KERNELS,),
    reads=(),
    place=160,
    columns={
        "devices": "device_id window_ns kernel_ns gpu_utilization_share",
        "mean": "process_id role mean_ns share",
        "steps": (
            "process_id name start_ns end_ns step_ns kernel_ns memcpy_ns memset_ns communication_ns "
            "runtime_ns dataloader_ns cpu_exec_ns other_ns"
        ),
    },
    kinds={Kind.TEXT: "role"},
    captions={"mean": "The mean step", "devices": "GPU utilization", "steps": "Each step"},
    headings={
        "cpu_exec_ns": "CPU outside CUDA calls",
        "gpu_utilization_share": "GPU utilization",
        "memcpy_ns": "copies",
        "memset_ns": "memsets",
        "dataloader_ns": "data loader",
        "runtime_ns": "CUDA calls",
    },
    facts={"mean_step_ns": "mean step", "gpu_utilization_share": "GPU utilization (kernels only, first step to last)"},
)
