"""Threads that work for a main thread on demand, such as those of a tokenizer or of a data-frame library.

::

    main     |data: |asks|........waits........|  |forward ...
    helper   ..asleep....|####### works #######|..asleep........
    loader   ##### works #############| the next batch ########

A loader in the background works before the main thread needs the batch, and sets its own pace. A helper sleeps until
the main thread asks, so what the main thread waits for is its own work in another thread: it would begin sooner if the
main thread asked sooner.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Spans, Times, containing, covered, merge, total
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import chosen
from nsyswrap.events import api_calls
from nsyswrap.loop.phase_detection import DATA, NO_PHASE, Phases
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

# Waits in the data phase shorter than this do not tell what the main thread waits for. Ours: as for a batch.
SHORT_NS = 100_000
# A helper works during more than this share of the wait for it. Ours.
MOST = 0.5
# How a thread waits for another one.
FOR_THREADS = (api_calls.LOCK_WAIT, api_calls.PEER_THREAD_WAIT)
# Threads of nsys, of CUPTI, and of the CUDA driver.
NOT_OF_PROGRAM = ("[NSys", "CUPTI", "cuda")


class _Calls(NamedTuple):
    """Waits of all threads in the operating system: columns of equal length."""

    thread: Times
    start: Times
    end: Times
    kind: npt.NDArray[np.int8]
    timed: npt.NDArray[np.bool_]


@memo
def has_loader(trace: Trace, process: int) -> bool:
    """Return whether the process has threads that pin or fetch batches, or child processes that load them."""
    threads = trace[tables.THREADS]
    names = threads["name"].astype(str)
    fetching = names.isin(["pt_data_pin", "pt_data_prefetch"]).to_numpy()
    own = tables.process_of(array(threads, "thread")) == process
    return bool((fetching & own).any() or (names == "pt_data_worker").any())


def find_helped(trace: Trace, phases: Phases) -> Mapping[int, Spans]:
    """Return when each main thread waits in the data phase for threads that it woke; only threads that do."""
    helped = {}
    for process, main in phases.main_thread.items():
        if phases.code(DATA) == NO_PHASE or has_loader(trace, process):
            continue
        own = phases.own(main)
        data = Spans(*chosen(own.code == phases.code(DATA), *own.spans))
        if not len(data.start):
            continue
        calls = trace[tables.OS_CALLS]
        rows = np.flatnonzero(coded(calls, "thread").equal(main))
        inside = containing(data, array(calls, "start")[rows])
        rows, inside = chosen(inside >= 0, rows, inside)
        waits = _waits(trace, rows)
        begun, start, end = chosen(np.isin(waits.kind, FOR_THREADS), data.start[inside], waits.start, waits.end)
        if len(start) and _is_helped(trace, main, chosen(end - start >= SHORT_NS, begun, start, end)):
            helped[main] = merge(start, end)
    return helped


def _waits(trace: Trace, rows: npt.NDArray[np.intp]) -> _Calls:
    """Return some rows of the calls of the operating system, with their kinds; -1 for a call that does not wait."""
    calls = trace[tables.OS_CALLS]
    kinds = tables.numbers_by_name(trace, tables.OS_CALLS, _kind, np.int8)
    timed = tables.rows_named(trace, tables.OS_CALLS, lambda name: "timed" in name or "clock" in name)
    kind, thread = kinds[coded(calls, "name_id").codes[rows]], coded(calls, "thread")[rows]
    return _Calls(thread, array(calls, "start")[rows], array(calls, "end")[rows], kind, timed[rows])


def _kind(name: str) -> int:
    kind = api_calls.os_call_kind(name)
    return -1 if kind is None or kind == api_calls.FILE_IO else kind


def _is_helped(trace: Trace, main: int, waits: tuple[Times, ...]) -> bool:
    """Return whether a main thread waits mostly for threads that slept when its data phase began.

    Of its waits, the first array is when the data phase began, the others when the wait began and ended.
    """
    begun, start, end = waits
    thread = coded(trace[tables.OS_CALLS], "thread")
    of_process = tables.process_of(thread.ids) == tables.process_of(np.array([main]))[0]
    threads = trace[tables.THREADS]
    names = threads["name"].astype(str)
    of_tools = np.array(array(threads, "thread")[names.str.startswith(NOT_OF_PROGRAM).to_numpy()], np.int64)
    others = of_process & (thread.ids != main) & ~np.isin(thread.ids, of_tools)
    calls = _waits(trace, np.flatnonzero(thread.among(others)))
    lasted = calls.end - calls.start
    # A thread that waits for the interpreter's lock is not asleep.
    asleep = (calls.kind >= 0) & (lasted > np.where(calls.timed, api_calls.INTERPRETER_LOCK_NS, 0))
    was_awake, works = np.zeros(len(start), bool), np.zeros(len(start), bool)
    for each in tables.distinct(calls.thread[asleep]):
        rows = asleep & (calls.thread == each)
        sleeps = merge(calls.start[rows], calls.end[rows])
        exists = (begun > sleeps.start[0]) & (end < sleeps.end[-1])
        slept = containing(sleeps, begun) >= 0
        was_awake |= exists & ~slept
        works |= exists & slept & (end - start - covered(sleeps, start, end) > MOST * (end - start))
    helped = works & ~was_awake
    return total(Spans(start[helped], end[helped])) > MOST * total(Spans(start, end))
