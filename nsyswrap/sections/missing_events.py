"""The events that a capture lacks, and how much time of a window they can change.

Each kind of missing event can change only some of the time in which no compute kernel was recorded::

    kind                               what it can change on each GPU of its process
    operation without a launch call    the gap that ends with it, and the idle time in which its call was lost
    main thread without calls          the idle time after its last call
    CUDA graph without operations      the gaps in which it may have run
    call without a record              the gaps in which its work may have run; all of the window without any record
    fewer CUDA events than counted     the longest intervals without a compute kernel, one for each missing event
    fewer NVTX events than counted     the phase of idle time, for each missing event as long as the longest phase
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units
from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, Window, gaps, intersect, merge, total, union
from nsyswrap.events.lost_events import COMPUTES, collected
from nsyswrap.events.operations import SOURCES, Operations, launch_rows
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

OLD_NSYS = "Capture again with an nsys at least as new as the CUDA driver; an older one loses events without saying so."
BEFORE_RECORDING = (
    "Nothing is lost: these operations were launched before recording began. Start recording earlier, or choose a "
    "window that begins later."
)
HIDDEN_GRAPHS = "Capture again with --cuda-graph-trace=node."
NO_RECORDS = (
    "Capture again without another profiler in the program (torch.profiler and DCGM use CUPTI, too), with an nsys no "
    "older than the driver; and let the program end by itself, for a killed one loses what it has not flushed."
)
# ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 information, 2 warning, 3 error.
COMPLAINTS = (WARNING, ERROR) = (2, 3)
# Messages of nsys about recording the work of the GPU; those on cuDNN and cuBLAS are about other traces.
ABOUT_CUDA = re.compile(r"\bCUDA\b|CUPTI|\bGPU\b|\bdriver\b")
_OTHER_TRACES = re.compile(r"cuDNN|cuBLAS")
# nsys cannot know whether it has all events of a program that goes on after the recorded steps.
_NOT_ALL = re.compile(r"Not all .{1,40} events might")
_STOPPED_BY_RANGE = "Stopping the profiling session using NVTX trigger"
_NOT_STARTED = re.compile(r"No CUDA events|CUDA profiling might")
_LOST = re.compile(
    r"Not all .{1,40} events|\b(?:lost|dropped)\b|cannot be collected|was not collected|No CUDA events|CUDA prof"
)
COUNT_DIFFERS = "Export afresh; if the numbers still differ, capture again for a shorter time."
EARLIEST, LATEST = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True)
class MissingEvents:
    """One kind of missing event.

    Attributes:
        advice: One sentence: what to do about it.
        spans: The time that it can change, by device, inside the window.
        unplaced_ns: The time that it can change at an unknown place, summed over devices.
    """

    evidence: tuple[str, ...]
    advice: str
    spans: Mapping[int, Spans] = field(default_factory=dict)
    unplaced_ns: int = 0

    @property
    def affected_ns(self) -> int:
        """Return how much time it can change, summed over devices."""
        return self.unplaced_ns + sum(map(total, self.spans.values()))


def find_missing(context: TraceContext, window: Window) -> list[MissingEvents]:
    """Return each kind of missing event, including those that change nothing in the window."""
    found = [*_different_counts(context, window), *_orphans(context, window), *_silent_threads(context, window)]
    return [*found, *_hidden_graphs(context, window), *_unrecorded_launches(context, window)]


def lacks_ranges(trace: Trace) -> bool:
    """Return whether NVTX was traced and the capture holds no range of the program; those of libraries do not count."""
    return "NvtxEvents" in trace.session.traces and bool(of_library(trace[tables.RANGES]).all())


def lost_ranges(trace: Trace) -> bool:
    """Return whether nsys counted more events of NVTX than the export holds: the program's ranges may be among them."""
    return collected(trace).get("NVTX", 0) > trace.event_counts.get("NVTX", 0)


def affected_ns(context: TraceContext, window: Window, missing: Iterable[MissingEvents]) -> int:
    """Return how much time of the window all missing events can change at most, summed over the GPUs in use.

    Time that several kinds can change counts once, and time in which a compute kernel was recorded never counts.
    """
    missing = tuple(missing)
    unplaced = sum(each.unplaced_ns for each in missing)
    devices = context.operations.used_in(window)
    if not devices:
        return min(unplaced, window.length_ns)
    placed = sum(total(union(NOTHING, *(each.spans.get(device, NOTHING) for each in missing))) for device in devices)
    return min(placed + unplaced, sum(total(_without_compute(context, device, window)) for device in devices))


def _without_compute(context: TraceContext, device: int, window: Window) -> Spans:
    compute = context.operations.exclusive(device, window)[0]
    return gaps(compute, window.start_ns, window.end_ns)


def _idle(context: TraceContext, window: Window) -> dict[int, Spans]:
    """Return the gaps of each GPU in use."""
    operations = context.operations
    used = operations.used_in(window)
    return {device: gaps(operations.busy(device), window.start_ns, window.end_ns) for device in used}


def _different_counts(context: TraceContext, window: Window) -> Iterator[MissingEvents]:
    """Yield the events that nsys counted and the export lacks, by family."""
    for family, counted in sorted(collected(context.trace).items()):
        count = counted - context.trace.event_counts.get(family, 0)
        if count > 0:
            changed = _longest_without_compute if family == "CUDA" else _longest_phases
            are_missing = f"{units.counted(count, f'{family} event')} {'is' if count == 1 else 'are'} missing"
            evidence = f"{are_missing}: nsys counted {units.count(counted)}"
            yield MissingEvents((evidence,), COUNT_DIFFERS, unplaced_ns=changed(context, window, count))


def _longest_without_compute(context: TraceContext, window: Window, count: int) -> int:
    """Return the total length of the ``count`` longest intervals without a compute kernel of each GPU, in ns."""
    found = 0
    for device in context.operations.used_in(window):
        spans = _without_compute(context, device, window)
        found += int(np.sort(spans.end - spans.start)[::-1][:count].sum())
    return found


def _longest_phases(context: TraceContext, window: Window, count: int) -> int:
    """Return how much idle time can be in phases whose ranges are missing, in ns.

    Each missing range may be as long as the longest recorded one. Without GPUs, the same time of the window counts,
    since the phases of the host are affected. Where no range is left, phases are inferred, and the report says so; then
    missing ranges change nothing that it says.
    """
    if len(context.phases.ranges) and not len(context.phases.marked):
        return 0
    idle = sum(map(total, _idle(context, window).values())) if context.operations.devices else window.length_ns
    ranges = context.phases.marked
    length = array(ranges, "end") - array(ranges, "start")
    return min(count * int(length.max()), idle) if len(length) else idle


def _orphans(context: TraceContext, window: Window) -> Iterator[MissingEvents]:
    """Yield the operations without a launch call: those launched before recording began, then all others."""
    operations = context.operations
    rows = np.flatnonzero(operations.orphaned)
    if not len(rows):
        return
    begins, ends = _lost_calls(context, rows)
    with_calls = tables.distinct(tables.process_of(coded(context.trace[tables.CALLS], "thread").ids))
    early = (begins == EARLIEST) & np.isin(operations.process[rows], with_calls)
    for chosen, when, advice in (
        (early, "before recording began", BEFORE_RECORDING),
        (~early, "by calls that were lost", OLD_NSYS),
    ):
        if not chosen.any():
            continue
        mine = rows[chosen]
        inside = (operations.start[mine] < window.end_ns) & (operations.end[mine] > window.start_ns)
        shown = (operations.start < window.end_ns) & (operations.end > window.start_ns) & ~operations.migration
        count, whole = units.count(int(inside.sum())), units.count(int(shown.sum()))
        evidence = f"{count} of {whole} GPU operations in the window were launched {when}"
        lost = {
            process: merge(begins[chosen][of_process], ends[chosen][of_process])
            for process in tables.distinct(operations.process[mine]).tolist()
            for of_process in [operations.process[mine] == process]
        }
        spans = _around(context, window, mine, lost)
        if inside.any() or any(map(total, spans.values())):
            yield MissingEvents((evidence,), advice, spans)


def _lost_calls(context: TraceContext, rows: Indices) -> tuple[Times, Times]:
    """Return the earliest and the latest time of the lost call of each operation without a launch call, in ns.

    Correlation ids of a process count up. So a lost call began after the recorded call with the next lower id and
    before the recorded call with the next higher id. Where no call has a higher id, it began before its operation. The
    first time is ``EARLIEST`` where no call with a lower id was recorded.
    """
    trace, operations = context.trace, context.operations
    calls = trace[tables.CALLS]
    thread, ids = coded(calls, "thread"), array(calls, "correlation_id")
    wanted = _correlation_ids(context, rows)
    begins, ends = np.full(len(rows), EARLIEST), operations.start[rows].copy()
    for process in tables.distinct(operations.process[rows]).tolist():
        recorded = np.flatnonzero(thread.among(tables.process_of(thread.ids) == process) & (ids > 0))
        recorded = recorded[np.argsort(ids[recorded], kind="stable")]
        mine = np.flatnonzero((operations.process[rows] == process) & (wanted > 0))
        if not (len(recorded) and len(mine)):
            continue
        after = np.searchsorted(ids[recorded], wanted[mine])
        starts = array(calls, "start")[recorded]
        begins[mine] = np.where(after > 0, starts[np.maximum(after - 1, 0)], EARLIEST)
        ends[mine] = np.where(after < len(starts), starts[np.minimum(after, len(starts) - 1)], ends[mine])
    return begins, ends


def _correlation_ids(context: TraceContext, rows: Indices) -> Times:
    """Return the correlation id of each operation; 0 for none."""
    operations = context.operations
    found = np.zeros(len(rows), np.int64)
    for table in np.unique(operations.table[rows]).tolist():
        mine = operations.table[rows] == table
        found[mine] = array(context.trace[SOURCES[table]], "correlation_id")[operations.row[rows[mine]]]
    return found


def _around(context: TraceContext, window: Window, orphans: Indices, lost: Mapping[int, Spans]) -> dict[int, Spans]:
    """Return the gaps that end with an orphan, and the idle time while calls were lost, by device."""
    operations = context.operations
    is_orphan = np.zeros(len(operations.start), bool)
    is_orphan[orphans] = True
    found = {}
    for device, idle in _idle(context, window).items():
        chosen = _ended_by(operations, device, idle, is_orphan)
        while_lost = [spans for process, spans in lost.items() if _uses(operations, process, device)]
        found[device] = union(Spans(idle.start[chosen], idle.end[chosen]), intersect(idle, union(NOTHING, *while_lost)))
    return found


def _ended_by(operations: Operations, device: int, idle: Spans, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which gaps of a device end with a chosen operation; the last gap counts as ended by the last operation."""
    rows = operations.on(device)
    rows = rows[(operations.end[rows] > operations.start[rows]) & ~operations.migration[rows]]
    if not len(rows):
        return np.zeros(len(idle.start), bool)
    at = np.searchsorted(operations.start[rows], idle.end, side="left")
    return chosen[rows[np.minimum(at, len(rows) - 1)]]


def _uses(operations: Operations, process: int, device: int) -> bool:
    return bool((operations.process[operations.on(device)] == process).any())


def _silent_threads(context: TraceContext, window: Window) -> Iterator[MissingEvents]:
    """Yield the main threads whose later calls were all lost.

    Where the ranges of the steps are missing as well, the window may contain more than the steps: then all of it can be
    wrong.
    """
    without_steps = window.source == "operations" and lacks_ranges(context.trace)
    for each in context.silences:
        process = int(tables.process_of(np.array([each.main]))[0])
        silence = Spans(np.array([EARLIEST if without_steps else each.last_call_ns]), np.array([LATEST]))
        spans = {
            device: intersect(idle, silence)
            for device, idle in _idle(context, window).items()
            if _uses(context.operations, process, device)
        }
        length = units.duration(each.last_launch_ns - each.last_call_ns)
        lost_steps = ("the ranges of its steps are missing, too: the window may hold more than the steps",)
        evidence = (
            f"the CUDA calls of main thread {tables.tid(each.main)} stop {length} before the last launch",
            f"its last call ends at {units.point(each.last_call_ns)}",
            f"the last launch of process {tables.pid(each.main)} is at {units.point(each.last_launch_ns)}",
            *(lost_steps if without_steps else ()),
        )
        yield MissingEvents(evidence, OLD_NSYS, spans)


def hidden_graphs(context: TraceContext) -> Indices:
    """Return the launches of CUDA graphs without a recorded operation, as rows of ``trace[CALLS]``."""
    rows = launch_rows(context.trace)
    found: Indices = rows[~np.isin(rows, context.operations.call)]
    return found


def _hidden_graphs(context: TraceContext, window: Window) -> Iterator[MissingEvents]:
    """Yield the launches of CUDA graphs without a recorded operation."""
    operations, calls = context.operations, context.trace[tables.CALLS]
    rows = hidden_graphs(context)
    if not len(rows):
        return
    process, start = tables.process_of(coded(calls, "thread")[rows]), array(calls, "start")[rows]
    spans = {}
    for device, idle in _idle(context, window).items():
        parts = [
            _may_hold(context, device, idle, np.sort(start[process == each]))
            for each in tables.distinct(process).tolist()
            if _uses(operations, each, device)
        ]
        spans[device] = union(NOTHING, *parts)
    inside = int(((start < window.end_ns) & (array(calls, "end")[rows] > window.start_ns)).sum())
    if inside or any(map(total, spans.values())):
        evidence = f"{units.counted(inside, 'launch')} of CUDA graphs in the window left no trace on the GPU"
        # Where kernels outside graphs have no record either, it is not the way in which graphs are traced.
        advice = NO_RECORDS if len(context.unrecorded_launches.kernels.rows) else HIDDEN_GRAPHS
        yield MissingEvents((evidence,), advice, spans)


def _unrecorded_launches(context: TraceContext, window: Window) -> Iterator[MissingEvents]:
    """Yield the calls that started work without a record of the GPU, process by process."""
    missing, calls = context.unrecorded_launches, context.trace[tables.CALLS]
    for process in tables.distinct(np.concatenate([each.process for each in missing.each])).tolist():
        rows = [each.of(process) for each in missing.each]
        start = array(calls, "start")[np.concatenate(rows)]
        without_any = process in missing.without_any
        spans = {
            device: _may_hold(context, device, idle, np.sort(start))
            for device, idle in _idle(context, window).items()
            if _uses(context.operations, process, device)
        }
        has = "has" if len(start) == 1 else "have"
        whose = f"{calls_in_words(*map(len, rows))} of process {tables.pid(process)} {has} no record of the GPU"
        first = f"{whose}: none of its work on the GPU was recorded" if without_any else whose
        evidence = (first, *_versions(context.trace), *complaints_of(context.trace, process))
        yield MissingEvents(evidence, NO_RECORDS, spans, window.length_ns if without_any else 0)


def calls_in_words(launches: int, copies: int, memsets: int) -> str:
    """Return numbers of calls in words: "480 launch calls and 2 copy calls"; empty for none."""
    counts = ((launches, "launch call"), (copies, "copy call"), (memsets, "memset call"))
    named = [units.counted(count, name) for count, name in counts if count]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def lost_processes(context: TraceContext) -> list[str]:
    """Return a note on processes whose launch calls are in the capture, and whose kernels are not; none for none."""
    operations, missing = context.operations, context.unrecorded_launches
    shown = tables.distinct(operations.process[np.isin(operations.table, COMPUTES)])
    lost = [each for each in tables.distinct(missing.kernels.process).tolist() if each not in shown]
    if not lost:
        return []
    numbers = ", ".join(str(tables.pid(process)) for process in lost)
    return [f"Missing are the GPU's records of the kernels of {units.counted(len(lost), 'process')}: {numbers}."]


def _versions(trace: Trace) -> Iterator[str]:
    """Yield a line on the driver and on nsys, whose CUPTI must not be older; nothing where one is unknown."""
    session = trace.session
    if session.driver_version and session.nsys_version:
        cuda = f" (CUDA {session.cuda_version})" if session.cuda_version else ""
        yield f"driver {session.driver_version}{cuda}, nsys {session.nsys_version}"


def complaints_of(trace: Trace, process: int) -> Iterator[str]:
    """Yield what nsys itself says about recording the CUDA events of a process: warnings and errors, each once."""
    messages = trace[tables.DIAGNOSTICS]
    mine = np.isin(array(messages, "severity"), COMPLAINTS) & np.isin(array(messages, "process"), (process, 0))
    for text in sorted({str(each) for each in messages["text"][mine]}):
        if ABOUT_CUDA.search(text):
            yield f"nsys: {text}"


def warnings_of(trace: Trace) -> Iterator[str]:
    """Yield what nsys itself says about this capture: its errors, and its warnings on events that it lost, each once.

    Warnings about a process without any CUDA event are left out where other processes have some: it does not use CUDA.
    So are those about all programs that go on after their recording.
    """
    messages = trace[tables.DIAGNOSTICS]
    goes_on = messages["text"].astype(str).str.startswith(_STOPPED_BY_RANGE).any()
    for severity in reversed(COMPLAINTS):
        texts = {str(each) for each in messages["text"][array(messages, "severity") == severity]}
        for text in sorted(texts):
            unfounded = (trace.event_counts.get("CUDA", 0) and _NOT_STARTED.search(text)) or (
                goes_on and _NOT_ALL.search(text)
            )
            if not _OTHER_TRACES.search(text) and (severity == ERROR or (_LOST.search(text) and not unfounded)):
                yield f"nsys {'reports' if severity == ERROR else 'warns'}: {text}"


def _may_hold(context: TraceContext, device: int, idle: Spans, launches: Times) -> Spans:
    """Return the parts of gaps in which a graph may have run: from its launch to the end of the gap.

    A graph that was launched before the last operation before the gap would have run before that operation.
    """
    operations = context.operations
    rows = operations.on(device)
    last = np.searchsorted(operations.start[rows], idle.start, side="left") - 1
    call = np.where(last >= 0, operations.call[rows[np.maximum(last, 0)]], -1)
    since = np.where(last >= 0, idle.start, EARLIEST)
    since[call >= 0] = array(context.trace[tables.CALLS], "start")[call[call >= 0]]
    launched = np.append(launches, LATEST)[np.searchsorted(launches, since, side="right")]
    start = np.clip(launched, idle.start, idle.end)
    return merge(start, idle.end)
