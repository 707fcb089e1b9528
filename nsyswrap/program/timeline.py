"""The calibrated trace: the recorded sample with every event at the time at which it happens in the program alone.

In the simulation, the moments of the launching threads move. Between two moments, a thread works, and then it may wait.
The times of its calls and ranges are divided as before within each of the two::

    recorded    |moment|----work-----|..wait..|moment|
    program     |moment|--work--|....wait.....|moment|

Each operation of a GPU has a time of its own in the simulation. Other threads of a process move with its main thread,
and processes that launch nothing, such as those of a data loader, with the first process that does.

Only the sample is left, and what belongs to steps that another process began before it or ends after it: that keeps
its distance to the sample. The order of the events of a thread and of a stream stays as it was. What the profiler did
by itself is taken out.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.events.host_record import BlockedCalls, HostRecord, Samples
from nsyswrap.events.operations import SOURCES
from nsyswrap.hardware.profiler_cost import ProfilerCost
from nsyswrap.hardware.steps_alone import NO_STEPS_ALONE
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.loop.own_windows import OwnWindows
from nsyswrap.loop.step_detection import Shared, Steps
from nsyswrap.program.calibration import Calibration
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec, Trace, array, coded
from nsyswrap.what_if.dependency_graph import FREE

_OPERATIONS = frozenset(SOURCES)
_BY_CALL = frozenset({tables.EVENT_RECORDS.name, tables.EVENT_WAITS.name})
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MovedTimes:
    """Recorded times of a thread and the times in the program, both ascending, in ns since capture start.

    Attributes:
        recorded: Moments as recorded.
        moved: The same moments in the program.
    """

    recorded: Times
    moved: npt.NDArray[np.float64]

    def of(self, times: Times) -> Times:
        """Return recorded times as times in the program; before and after the moments they keep their distance."""
        found = np.interp(times, self.recorded, self.moved)
        found += np.minimum(times - self.recorded[0], 0) + np.maximum(times - self.recorded[-1], 0)
        moved: Times = np.rint(found).astype(np.int64)
        return moved


def calibrated_context(context: TraceContext, calibration: Calibration) -> tuple[TraceContext, Collectives]:
    """Return the context of the program as it runs alone, for the steps of the simulated sample, and its collectives.

    Ranks may be some steps apart, so the first collective of one in the sample need not be the first of another.
    """
    threads, steps = _Threads(calibration), _steps_of(context.steps, calibration.simulation.sample)
    kept = _kept(calibration.simulation.sample, steps, context.steps)
    trace, kernels = _moved_trace(context, calibration, threads, kept)
    settings = replace(
        context.settings,
        profiler_cost=ProfilerCost(),  # of nothing: no call is recorded
        steps_alone=NO_STEPS_ALONE,
        host=_moved_record(context.settings.host, threads),
    )
    # What follows from the order of all steps cannot be inferred from a few of them.
    phases = context.phases.ranges
    inferred = _with_middle_in(phases[phases["inferred"]], kept.whole)
    known = _numbered(replace(context.steps, frame=_moved(steps, threads), read=None))
    found = replace(find_context(trace, settings, known, _moved(inferred, threads)), xray=context.xray)
    return found, calibration.simulation.collectives.in_part(found.operations, kernels)


def _moved(spans: pd.DataFrame, threads: "_Threads") -> pd.DataFrame:
    """Return steps or phases with their times in the program."""
    thread = array(spans, "thread")
    start, end = (threads.moved(thread, array(spans, name)) for name in ("start", "end"))
    return spans.assign(start=start, end=end)


def _steps_of(steps: Steps, sample: Window) -> pd.DataFrame:
    """Return the steps that all processes have in the sample; else those that have their middle in it."""
    same = steps.in_all(sample)
    return same.reset_index(drop=True) if len(same) else _with_middle_in(steps.frame, sample)


def _numbered(steps: Steps) -> Steps:
    """Return steps that begin with the same one in each process; one process may be ahead of another."""
    if "number" not in steps.frame:
        return steps
    start, end = int(array(steps.frame, "start").min()), int(array(steps.frame, "end").max())
    frame, count = steps.frame.drop(columns="number"), steps.frame["number"].nunique()
    return replace(steps, frame=frame, of_job=Shared(start, end, count))


def _with_middle_in(spans: pd.DataFrame, part: Window) -> pd.DataFrame:
    """Return the steps or phases that have their middle in a part of the recording."""
    middle = (array(spans, "start") + array(spans, "end")) / 2
    inside: pd.DataFrame = spans[(middle >= part.start_ns) & (middle <= part.end_ns)]
    return inside.reset_index(drop=True)


def _kept(sample: Window, steps: pd.DataFrame, every: Steps) -> OwnWindows:
    """Return the part of the recording from which the events are taken: the sample, and the whole of its steps.

    A process that is ahead of the others has no events after its last step: they lack their part in these.
    """
    start, end = array(steps, "start").min(initial=sample.start_ns), array(steps, "end").max(initial=sample.end_ns)
    whole = replace(sample, start_ns=int(start), end_ns=int(end))
    return OwnWindows(whole, {one: replace(whole, end_ns=end) for one, end in every.ends_ahead(sample).items()}, {})


class _Threads:
    """The moved times of all threads.

    Args:
        calibration: The run without the profiler.
    """

    def __init__(self, calibration: Calibration) -> None:
        simulation = calibration.simulation
        self.each = {thread: _moved_times(calibration, thread) for thread in simulation.threads}
        mains = simulation.context.phases.main_thread
        self.processes: dict[int, int] = {}
        for thread in simulation.threads:
            process = thread & ~tables.THREAD_MASK
            main = mains.get(process, thread)
            self.processes.setdefault(process, main if main in self.each else thread)
        self.first = next(iter(self.processes.values()))

    def of(self, thread: int) -> MovedTimes:
        """Return the moved times of a thread, by its global id or that of its process."""
        if thread in self.each:
            return self.each[thread]
        process = thread & ~tables.THREAD_MASK
        return self.each[self.processes.get(process, self.first)]

    def moved(self, thread: Times, times: Times) -> Times:
        """Return times of threads as times in the program."""
        found = times.copy()
        for each in tables.distinct(thread).tolist():
            mine = thread == each
            found[mine] = self.of(each).of(times[mine])
        return found


def _moved_times(calibration: Calibration, thread: int) -> MovedTimes:
    """Return the moved times of a launching thread."""
    simulation, happened = calibration.simulation, calibration.happened
    graph, sample = simulation.graph, simulation.sample
    nodes = np.flatnonzero(graph.thread == thread)
    begun, own = happened[graph.after[nodes]], calibration.own[nodes]
    worked = np.minimum(begun + own, happened[nodes])
    mine = tables.process_of(graph.thread) == thread & ~tables.THREAD_MASK
    end = np.flatnonzero(mine & (graph.moment == graph.moment[mine].max()))
    recorded = np.concatenate([
        *([sample.start_ns], graph.work_start[nodes], graph.work_end[nodes], graph.moment[nodes]),
        graph.moment[end],
    ])  # fmt: skip
    moved = np.concatenate([[0], begun, worked, happened[nodes], happened[end]])
    order = np.lexsort((moved, recorded))
    return MovedTimes(recorded[order], sample.start_ns + np.maximum.accumulate(moved[order]).astype(np.float64))


def _moved_operations(calibration: Calibration, threads: _Threads, kept: OwnWindows) -> tuple[Indices, Times, Times]:
    """Return the operations of the program as rows of the context's operations, with their start and end in ns.

    Those that the sample does not launch keep their distance to it, and so do those that no call launches.
    """
    simulation, happened = calibration.simulation, calibration.happened
    graph, sample, operations = simulation.graph, simulation.sample, simulation.context.operations
    nodes = np.flatnonzero(graph.operation >= 0)
    length = calibration.length[nodes]
    end = happened[nodes]
    # One that follows another in its stream can at most fill the time since the end of that one.
    holder = graph.held_by[nodes]
    follows = (graph.held[nodes] > FREE) & (graph.held[nodes] >= graph.length[nodes]) & (graph.operation[holder] >= 0)
    length = np.where(follows, np.minimum(length, np.maximum(end - happened[holder], 0)), length)
    # A collective that waits for other ranks has two nodes: it begins with the first, and ends with the second.
    frame = pd.DataFrame({"row": graph.operation[nodes], "start": end - length, "end": end})
    whole = frame.groupby("row", sort=True).agg(start=("start", "min"), end=("end", "max"))
    known, launched = operations.call >= 0, operations.start.copy()
    launched[known] = array(simulation.context.trace[tables.CALLS], "start")[operations.call[known]]
    until = np.broadcast_to(kept.by_process(pd.DataFrame({"process": operations.process}))[1], launched.shape)
    touching = (operations.start < kept.whole.end_ns) & (operations.end > kept.whole.start_ns) & (launched < until)
    others = np.setdiff1d(np.flatnonzero(touching), whole.index)
    whole = whole[launched[whole.index] < until[whole.index]]
    rows = whole.index.to_numpy(np.intp)
    start, end = array(whole, "start") + sample.start_ns, array(whole, "end") + sample.start_ns
    launched = launched[others]
    shift = threads.moved(operations.process[others], launched) - launched
    shift[launched < sample.start_ns] = 0
    return (
        np.concatenate([rows, others]),
        np.concatenate([start, operations.start[others] + shift]),
        np.concatenate([end, operations.end[others] + shift]),
    )


def _moved_trace(
    context: TraceContext, calibration: Calibration, threads: _Threads, kept: OwnWindows
) -> tuple[Trace, Indices]:
    """Return the tables of a part of the recording with their times in the program.

    The second value is the row in the context's operations of each row of the table of kernels.
    """
    trace, operations = context.trace, context.operations
    rows, start, end = _moved_operations(calibration, threads, kept)
    called = operations.call[rows]
    called = np.unique(called[called >= 0])
    frames: dict[str, pd.DataFrame] = {}
    for number, spec in enumerate(SOURCES):
        mine = operations.table[rows] == number
        frames[spec.name] = _sorted(trace[spec], operations.row[rows[mine]], start[mine], end[mine])
    for spec in tables.SPECS:
        if spec in _OPERATIONS:
            continue
        frame = trace[spec]
        if spec is tables.OVERHEADS:
            frames[spec.name] = spec.empty()
        elif "start" not in spec.columns:
            frames[spec.name] = frame
        else:
            frames[spec.name] = _moved_frame(spec, frame, _inside(spec, frame, kept, called), threads)
    correlated = frames[tables.CALLS.name]["correlation_id"]
    for name in _BY_CALL:
        frames[name] = frames[name][frames[name]["correlation_id"].isin(correlated)].reset_index(drop=True)
    kernels = np.flatnonzero(operations.table[rows] == SOURCES.index(tables.KERNELS))
    order = np.argsort(start[kernels], kind="stable")
    return replace(trace, frames=frames, excerpt=None), rows[kernels[order]]


def _inside(spec: TableSpec, frame: pd.DataFrame, kept: OwnWindows, called: Indices) -> Indices:
    """Return the rows of a table that touch a part of the recording; of the calls also some others."""
    begun = array(frame, "start")
    ended = array(frame, "end") if "end" in spec.columns else begun
    owned = "process" in spec.columns or "thread" in spec.columns
    until = kept.by_process(frame)[1] if owned else kept.whole.end_ns
    found = np.flatnonzero((begun < until) & (ended >= kept.whole.start_ns))
    return np.union1d(found, called) if spec is tables.CALLS else found


def _moved_frame(spec: TableSpec, frame: pd.DataFrame, rows: Indices, threads: _Threads) -> pd.DataFrame:
    """Return some rows of a table with their times in the program."""
    if "thread" in spec.columns:
        owner = coded(frame, "thread")[rows]
    elif "process" in spec.columns:
        owner = array(frame, "process")[rows]
    else:
        owner = np.full(len(rows), threads.first)
    start = threads.moved(owner, array(frame, "start")[rows])
    if "end" not in spec.columns:
        return _sorted(frame, rows, start)
    other = array(frame, "end_thread")[rows] if "end_thread" in spec.columns else np.zeros(len(rows), np.int64)
    end = threads.moved(np.where(other != 0, other, owner), array(frame, "end")[rows])
    return _sorted(frame, rows, start, np.maximum(end, start))


def _sorted(frame: pd.DataFrame, rows: Indices, start: Times, end: Times | None = None) -> pd.DataFrame:
    """Return some rows of a table with other times, by start."""
    order = np.argsort(start, kind="stable")
    found = frame.iloc[rows[order]].reset_index(drop=True).assign(start=start[order])
    return found if end is None else found.assign(end=end[order])


def _moved_record(record: HostRecord, threads: _Threads) -> HostRecord:
    """Return what was sampled of the host with the times of the samples in the program."""
    moved = threads.of(threads.first)

    def of(samples: Samples) -> Samples:
        return replace(samples, at=moved.of(samples.at))

    def calls(blocked: BlockedCalls) -> BlockedCalls:
        return replace(blocked, at=moved.of(blocked.at))

    return replace(
        record,
        times=moved.of(record.times),
        throttled=of(record.throttled),
        threads={each: of(samples) for each, samples in record.threads.items()},
        waits={each: calls(blocked) for each, blocked in record.waits.items()},
        processes={each: of(samples) for each, samples in record.processes.items()},
        gpus=tuple(replace(each, samples=of(each.samples)) for each in record.gpus),
    )
