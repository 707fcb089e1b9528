"""The phases of the program: host time, GPU time and idle GPU time of each."""

from collections.abc import Iterable
from itertools import product

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Window, clip, covered, gaps, merge, total, union
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.loop import injected_ranges
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks, coded

COLUMNS = ("phase", "count", "host_ns", "gpu_ns", "idle_ns", "kernel_count", "inferred")
NOT_ALL_RECORDED = "Records of the GPU are missing: GPU busy, idle and kernels are what was recorded."
NO_PHASES = "No range marks a phase, and none could be inferred from what the threads launch in each step."


def run(context: TraceContext, window: Window) -> Section:
    """Return each phase's ranges, host time, GPU time launched in it, and idle GPU time while it is open.

    Host time is the time in which the phase is the innermost one of a main thread, summed over processes: nested phases
    do not count twice. Phases that ranges mark and phases that are inferred have rows of their own.
    """
    operations, phases = context.operations, context.phases
    of_operation = context.phase_of_operations
    own = find_own_windows(context, window)
    low, high = own.by_device(operations.device_id)
    touching = (operations.start < high) & (operations.end > low)
    launching = set(tables.distinct(operations.process).tolist())
    used_codes = set(tables.distinct(of_operation).tolist())
    free = [
        (_users(context, device), gaps(operations.busy(device), own.on(device).start_ns, own.on(device).end_ns))
        for device in operations.used_in(window)
    ]
    everyone = {*launching, *phases.main_thread}
    rows = []
    for code, inferred in product(range(NO_PHASE, len(phases.names)), (False, True)):
        processes = _processes(context, code, everyone, inferred=inferred)
        count = _count(context, code, window, inferred=inferred)
        if not count and (code not in used_codes or not launching.intersection(processes)):
            continue
        mine = touching & (of_operation == code)
        if not launching <= set(processes):
            mine &= np.isin(operations.process, processes)
        if count or mine.any():
            used = [(users & set(processes), spans) for users, spans in free]
            kernels = int((mine & (operations.table == 0)).sum())
            host = _host_ns(context, code, window, processes)
            idle = _idle_inside(context, code, window, used)
            gpu_ns = 0
            for device in operations.devices:
                part, some = own.on(device), mine & (operations.device_id == device)
                busy = merge(taken(operations.start, some), taken(operations.end, some))
                gpu_ns += total(clip(busy, part.start_ns, part.end_ns))
            rows.append((phases.name(code), count, host, gpu_ns, idle, kernels, inferred))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    notes = injected_ranges.notes(context.trace[tables.RANGES], phases.marked.index.to_numpy(np.intp))
    if len(context.unrecorded_launches.kernels.rows):
        notes = (*notes, NOT_ALL_RECORDED)
    facts = _coverage(context, of_operation, touching)
    return SECTION.made(window, facts, {"phases": frame}, notes=(*notes, *_inferred_notes(context)))


def _host_ns(context: TraceContext, code: int, window: Window, processes: Iterable[int]) -> int:
    """Return the time in which the phase is the innermost one of a main thread, summed over processes, in ns."""
    mains, own = context.phases.main_thread, find_own_windows(context, window)
    return sum(total(_host_spans(context, code, own.of(each), [each])) for each in processes if each in mains)


def _processes(context: TraceContext, code: int, everyone: set[int], *, inferred: bool) -> list[int]:
    """Return the processes whose phase is inferred, or those where it is not; without a phase, none is inferred."""
    ranges = context.phases.ranges
    mine = array(ranges, "inferred") & (array(ranges, "phase") == code)
    found = set(array(ranges, "process")[mine].tolist())
    return sorted(found if inferred else everyone - found)


def _inferred_notes(context: TraceContext) -> tuple[str, ...]:
    """Return a note on the phases that are inferred; a note that there is none if the capture has no phases."""
    ranges = context.phases.ranges
    if not len(ranges):
        return (NO_PHASES,)
    names = [context.phases.name(code) for code in np.unique(ranges.loc[ranges["inferred"], "phase"]).tolist()]
    return (f"Inferred from what the threads launch in each step, not marked by ranges: {', '.join(names)}.",) * bool(
        names
    )


def _count(context: TraceContext, code: int, window: Window, *, inferred: bool) -> int:
    ranges = context.phases.ranges
    mine = (array(ranges, "phase") == code) & (array(ranges, "inferred") == inferred)
    low, high = find_own_windows(context, window).by_process(ranges)
    touching = (array(ranges, "start") < high) & (array(ranges, "end") > low)
    return int((mine & touching).sum())


def _host_spans(context: TraceContext, code: int, window: Window, processes: Iterable[int]) -> Spans:
    """Return when the phase is the innermost one on the main thread of any of the processes."""
    if code == NO_PHASE:
        return NOTHING
    parts = [NOTHING]
    for process in processes:
        shown = context.phases.own(context.phases.main_thread[process])
        mine = shown.code == code
        parts.append(clip(Spans(shown.spans.start[mine], shown.spans.end[mine]), window.start_ns, window.end_ns))
    return union(*parts)


def _users(context: TraceContext, device: int) -> set[int]:
    """Return the processes that have phases and ran operations on a device."""
    operations = context.operations
    found = {int(each) for each in tables.distinct(operations.process[operations.on(device)])}
    return found & context.phases.main_thread.keys()


def _idle_inside(context: TraceContext, code: int, window: Window, free: Iterable[tuple[set[int], Spans]]) -> int:
    """Return idle GPU time while the phase is open in a process that uses the GPU, summed over devices.

    Without a phase, it is the idle time while none is open.
    """
    idle = 0
    for processes, spans in free:
        wanted = range(len(context.phases.names)) if code == NO_PHASE else (code,)
        host = union(NOTHING, *(_host_spans(context, each, window, processes) for each in wanted))
        inside = int(covered(spans, host.start, host.end).sum())
        idle += total(spans) - inside if code == NO_PHASE else inside
    return idle


def _coverage(
    context: TraceContext,
    of_operation: np.ndarray[tuple[int], np.dtype[np.int32]],
    touching: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[Fact, ...]:
    """Return the share of kernel time with a phase, and the share whose phase is that of the main thread."""
    operations = context.operations
    kernels = np.flatnonzero(touching & (operations.table == 0) & (operations.kind != COMMUNICATION))
    whole, with_phase, joined = 0, 0, 0
    for block in blocks(len(kernels)):
        rows = kernels[block]
        duration = taken(operations.end, rows) - taken(operations.start, rows)
        known = taken(of_operation, rows) != NO_PHASE
        whole += int(duration.sum())
        with_phase += int(taken(duration, known).sum())
        joined += int(taken(duration, known & ~_in_own_phase(context, taken(operations.call, rows))).sum())
    if not whole:
        return ()
    return (
        Fact("kernel_share_with_phase", with_phase / whole, "share"),
        Fact("kernel_share_joined_through_main_thread", joined / whole, "share"),
    )


def _in_own_phase(context: TraceContext, call: Indices) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which calls were made while a phase of their own thread was open; -1 is no call."""
    calls = context.trace[tables.CALLS]
    found, known = np.zeros(len(call), bool), np.flatnonzero(call >= 0)
    call = taken(call, known)
    when = taken(array(calls, "start"), call)
    for each, mine in coded(calls, "thread").only(call).by_id():
        begun = taken(when, mine)
        found[known[mine]] = covered(context.phases.own(each).spans, begun, begun + 1) > 0
    return found


SECTION = SectionSpec(
    key="phases",
    title="Phases",
    run=run,
    reads=(),
    place=150,
    on_page_only=False,
    columns={"phases": "phase count host_ns gpu_ns idle_ns kernel_count inferred"},
    kinds={Kind.FLAG: "inferred"},
    headings={"kernel_count": "kernels", "inferred": "inferred"},
    facts={
        "kernel_share_with_phase": "kernel time with a phase",
        "kernel_share_joined_through_main_thread": "joined through the main thread",
    },
)
