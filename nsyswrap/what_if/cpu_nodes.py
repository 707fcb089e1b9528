"""The CPU nodes of a simulation: what each launching thread does from one call that matters to the next.

::

    main       |launch|  |launch|..................waits for autograd's thread..................|launch|
    autograd                      ......|launch|   |launch|   |launch|
                                  handed over                        handed back

A node follows the node before it on the same thread, and the time between is the thread's own work. Where the thread
only waited while another launching thread worked, it follows a node of that other thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.gaps import ONLY_WAITED
from nsyswrap.attribution.idle_pieces import has_loader_processes
from nsyswrap.base.intervals import Indices, Spans, Times, Window, clip, covered, merge, overlay, subtract
from nsyswrap.events import api_calls
from nsyswrap.events.operations import SOURCES, Operations
from nsyswrap.events.thread_states import NAMES, ThreadStates
from nsyswrap.loop.phase_detection import DATA, Phases
from nsyswrap.ranks.mpi_collectives import find_mpi_collectives
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

LAUNCH, BLOCKING_LAUNCH, RETURN, WAIT, BATCH, MEET, MET, END = range(8)

# A wait in the data phase is a data loader wait where it takes this share of the time between two batches. A shorter
# one only picks up a batch that was ready. Ours.
BATCH_SHARE = 0.10
# Wake-ups shorter than this do not end a wait for a batch. Ours.
WAKE_UP_NS = 100_000
# Largest clock error: an operation may seem to end this much after the call that waited for it.
CLOCK_NS = 2_000
START = -1
FREEING = frozenset({"cudaFree", "cuMemFree", "cudaFreeHost", "cuMemFreeHost"})


@dataclass(frozen=True)
class HostNodes:
    """Moments of the host in order of time: arrays of equal length.

    Attributes:
        thread: Global id.
        begun: When the call or the wait for a batch began, in ns.
        moment: The return of the call, in ns; for BLOCKING_LAUNCH the begin of the call.
        kind: LAUNCH, BLOCKING_LAUNCH (begins), RETURN (of such a call), WAIT, BATCH, MEET (a collective of MPI begins),
            MET (it returns) or END.
        call: Row in ``trace[CALLS]``; -1 where there is no call.
        after: Index of the node that this node follows; ``START`` for the start of the sample.
    """

    thread: Times
    begun: Times
    moment: Times
    kind: npt.NDArray[np.int8]
    call: Indices
    after: Indices


@dataclass(frozen=True)
class HostSources:
    """The inputs of the host nodes.

    Attributes:
        trace: The tables of one export.
        operations: All that ran on the GPUs.
        phases: The phases of all threads.
        states: What the threads do inside the window.
        sample: The simulated part of the window.
        ends: When each process that is ahead of others ends its last step of the sample, in ns, by its global id.
    """

    trace: Trace
    operations: Operations
    phases: Phases
    states: ThreadStates
    sample: Window
    ends: Mapping[int, int] = field(default_factory=dict)

    def until(self, thread: Times) -> Times:
        """Return when the sample ends for the process of each thread, in ns."""
        each = [self.ends.get(one, self.sample.end_ns) for one in tables.process_of(thread).tolist()]
        return np.array(each, np.int64)


def find_host(sources: HostSources, launched: Indices) -> HostNodes:
    """Return the moments of the launching threads in a sample, in order of time."""
    calls = sources.trace[tables.CALLS]
    launching = np.unique(sources.operations.call[launched])
    threads = tables.distinct(coded(calls, "thread")[launching])
    parts = [
        *_launches(sources, launching, launched),
        _waits(sources, launching, threads),
        *_batches(sources, threads),
        *_meetings(sources, threads),
        *_ends(sources, threads),
    ]
    whole = pd.concat([part for part in parts if len(part)], ignore_index=True)
    if sources.ends:
        whole = whole[array(whole, "begun") <= sources.until(array(whole, "thread"))]
    whole = whole.sort_values(["moment", "begun", "thread", "kind"], kind="stable", ignore_index=True)
    thread, begun, moment = (array(whole, name) for name in ("thread", "begun", "moment"))
    kind, call = array(whole, "kind").astype(np.int8), array(whole, "call").astype(np.intp)
    return HostNodes(thread, begun, moment, kind, call, _followed(sources, thread, begun, moment))


def _part(thread: Times | int, begun: Times, moment: Times, kind: int, call: Indices | int = -1) -> pd.DataFrame:
    columns = {"thread": thread, "begun": begun, "moment": moment, "kind": kind, "call": call}
    return pd.DataFrame({name: np.full(len(begun), values, np.int64) for name, values in columns.items()})


def _launches(sources: HostSources, launching: Indices, launched: Indices) -> list[pd.DataFrame]:
    """Return the calls that launch; a call that also waits for its operation has two moments."""
    calls = sources.trace[tables.CALLS]
    waiting = np.isin(launching, _blocking(sources, launched))
    plain, both = launching[~waiting], launching[waiting]
    thread, start, end = coded(calls, "thread"), array(calls, "start"), array(calls, "end")
    return [
        _part(thread[plain], start[plain], end[plain], LAUNCH, plain),
        _part(thread[both], start[both], start[both], BLOCKING_LAUNCH, both),
        _part(thread[both], start[both], end[both], RETURN, both),
    ]


def _blocking(sources: HostSources, launched: Indices) -> Indices:
    """Return the calls that copied and did not return before the copy was done.

    A copy from pageable memory goes through a staging buffer. Its call returns when the last part is in the buffer, a
    little before the copy ends. Source: the CUDA Runtime API reference, API synchronization behavior.
    """
    operations, calls = sources.operations, sources.trace[tables.CALLS]
    copies = launched[operations.table[launched] == SOURCES.index(tables.COPIES)]
    call, frame = operations.call[copies], sources.trace[tables.COPIES]
    pageable = [kind for kind, label in sources.trace.memory_kinds.items() if label == "Pageable"]
    staged = np.isin(array(frame, "source_kind")[operations.row[copies]], pageable)
    returned = array(calls, "end")[call]
    done = (operations.end[copies] <= returned + CLOCK_NS) | (staged & (operations.start[copies] + CLOCK_NS < returned))
    found = np.unique(call[done])
    names = coded(calls, "name_id")[found]
    copying = [i for i in pd.unique(names) if api_calls.is_copy(sources.trace.text(int(i)))]
    # A call may make several copies. It returns when the last one is done.
    late = np.unique(call[~done])
    return found[np.isin(names, copying) & ~np.isin(found, late)]


def _waits(sources: HostSources, launching: Indices, threads: Times) -> pd.DataFrame:
    """Return the calls of the launching threads that wait for the GPU and launch nothing."""
    calls, sample = sources.trace[tables.CALLS], sources.sample
    start = array(calls, "start")
    first, last = np.searchsorted(start, [sample.start_ns, sample.end_ns])
    names, ids = pd.factorize(coded(calls, "name_id")[first:last])
    waiting = np.array([_waits_for_gpu(sources.trace.text(int(i))) for i in ids], bool)
    rows = first + np.flatnonzero(waiting[names]) if len(names) else np.empty(0, np.intp)
    thread = coded(calls, "thread")[rows]
    chosen = np.isin(thread, threads) & ~np.isin(rows, launching)
    rows = rows[chosen]
    return _part(thread[chosen], start[rows], array(calls, "end")[rows], WAIT, rows)


def _waits_for_gpu(name: str) -> bool:
    """Return whether a call waits for the GPU.

    Source: the CUDA Runtime API reference. It does not mention that cudaFree waits; captures show it.
    """
    base = api_calls.base_name(name)
    return api_calls.call_kind(base) in {api_calls.SYNCHRONIZATION, api_calls.BLOCKING_COPY} or base in FREEING


def _batches(sources: HostSources, threads: Times) -> list[pd.DataFrame]:
    """Return the long waits of main threads for a batch, in which the data loader sets the pace.

    A thread that is woken may have to wait for the interpreter's lock, too. Such waits alone are for no batch.
    """
    found = []
    for main in sources.phases.main_thread.values():
        data = sources.phases.own(main)
        mine = data.code == sources.phases.code(DATA)
        spans = clip(
            Spans(data.spans.start[mine], data.spans.end[mine]), sources.sample.start_ns, sources.sample.end_ns
        )
        if main not in threads or not len(spans.start):
            continue
        waits = subtract(sources.states.waits(main), _own_files(sources, main))
        awake = merge(waits.start - WAKE_UP_NS, waits.end)
        inside, _, start, end = overlay(spans, Spans(awake.start + WAKE_UP_NS, awake.end))
        # The row of the longest span of each group, the groups in order.
        order = np.lexsort((end - start, inside))
        last = np.append(inside[order][1:] != inside[order][:-1], True)[: len(order)]
        longest: Indices = order[last]
        waited = covered(subtract(waits, _for_interpreter(sources, main)), start[longest], end[longest])
        long = waited >= BATCH_SHARE * sources.sample.length_ns / len(spans.start)
        chosen = longest[long]
        found.append(_part(np.full(len(chosen), main), start[chosen], end[chosen], BATCH))
    return found


def _for_interpreter(sources: HostSources, main: int) -> Spans:
    """Return when a main thread waits for the lock of the Python interpreter."""
    spans, code = sources.states.of(main)
    names = np.array([name == api_calls.INTERPRETER_LOCK for name in (*sources.states.names, "")], bool)
    mine = names[np.minimum(code % NAMES, len(names) - 1)] & (spans.end - spans.start <= api_calls.INTERPRETER_LOCK_NS)
    return Spans(spans.start[mine], spans.end[mine])


def _own_files(sources: HostSources, main: int) -> Spans:
    """Return when a main thread waits for pages of memory, or reads or writes files that no loader could read."""
    states, process = sources.states.of(main), main & ~tables.THREAD_MASK
    kind = states.code // NAMES
    mine = kind == api_calls.PAGE_FAULT
    files = kind == api_calls.FILE_IO
    if files.any() and not has_loader_processes(sources.trace, sources.phases, process):
        mine |= files
    return Spans(states.spans.start[mine], states.spans.end[mine])


def _meetings(sources: HostSources, threads: Times) -> list[pd.DataFrame]:
    """Return when collectives of MPI begin and return on the launching threads; the time between is a wait."""
    found, sample = find_mpi_collectives(sources.trace), sources.sample
    mine = np.isin(found.thread, threads) & (found.start >= sample.start_ns) & (found.end <= sample.end_ns)
    thread, start, end = (each[mine] for each in (found.thread, found.start, found.end))
    return [_part(thread, start, start, MEET), _part(thread, end, end, MET)]


def _ends(sources: HostSources, threads: Times) -> list[pd.DataFrame]:
    """Return the end of the last step of each process, on its main thread or else on a launching thread.

    A sample that is not made of steps has no such moment: it ends with its last event.
    """
    if not sources.sample.is_of_steps:
        return []
    processes = tables.process_of(threads)
    mains = sources.phases.main_thread
    firsts = [int(threads[processes == each][0]) for each in tables.distinct(processes)]
    thread = np.array([mains.get(each & ~tables.THREAD_MASK, each) for each in firsts], np.int64)
    end = sources.until(thread)
    return [_part(thread, end, end, END)]


def _followed(sources: HostSources, thread: Times, begun: Times, moment: Times) -> Indices:
    """Return the moment that each moment follows, on its own thread or on the thread that it waited for."""
    found = np.full(len(thread), START, np.intp)
    process = tables.process_of(thread)
    for each in tables.distinct(thread):
        mine = np.flatnonzero(thread == each)
        found[mine[1:]] = mine[:-1]
        others = np.flatnonzero((process == process[mine[0]]) & (thread != each))
        if not len(others):
            continue
        since = np.append(sources.sample.start_ns, moment[mine[:-1]])
        latest = np.searchsorted(moment[others], begun[mine], side="right") - 1
        peer = others[np.maximum(latest, 0)]
        between = (latest >= 0) & (moment[peer] > since) & (peer < mine)
        first = others[np.minimum(np.searchsorted(moment[others], since, side="right"), len(others) - 1)]
        handed = between & _only_waited(sources, int(each), since, begun[mine], moment[peer] - moment[first])
        # Another thread started a thread that did not exist when the sample began.
        if between[0] and not handed[0]:
            handed[0] = sources.states.alive(int(each))[0] > sources.sample.start_ns
        found[mine[handed]] = peer[handed]
    return found


def _only_waited(sources: HostSources, thread: int, since: Times, until: Times, others: Times) -> npt.NDArray[np.bool_]:
    """Return in which intervals a thread only waited; without traced waits, the work of other threads decides."""
    traced = tables.OS_CALLS.name not in sources.trace.absent
    waited = covered(sources.states.waits(thread), since, until) if traced else others
    found: npt.NDArray[np.bool_] = waited > ONLY_WAITED * (until - since)
    return found
