"""Rows of the timeline about the host: steps, phases, the calls of launching threads, and their lines of Python."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.attribution.sampled_lines import spelled
from nsyswrap.base.intervals import LabelledSpans, Spans, Times, Window, fill, innermost, times
from nsyswrap.events import api_calls
from nsyswrap.events.thread_states import NAMES, NO_NAME, ThreadStates
from nsyswrap.loop.context import TraceContext, states_of
from nsyswrap.model import Numbers, TimelineItems, TimelineRow
from nsyswrap.timeline.bins import Grid
from nsyswrap.timeline.range_rows import range_rows
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

MOST_CALLS = 80_000
MOST_SAMPLES = 20_000
MOST_STEPS = 5_000
MOST_RANGES = 20_000
MOST_THREADS = 4
# Launching threads beyond these first ones have rows that the page folds. Ours: 64 of them fill several screens.
MOST_FOLDED = 60
# A sample lasts until the next one, but at most this many times the median distance of samples.
LASTS = 2

# Names of the kinds of calls in ``api_calls``, by number; "launch" is any other CUDA call of a running thread.
THREAD_CLASSES = (
    *("profiler", "module_load", "allocation", "blocking_copy", "synchronization", "peer_wait"),
    *("lock", "wait", "thread_wait", "off_cpu"),
    *("garbage_collection", "file_io", "checkpoint", "tokenizer", "page_fault", "untraced_wait", "launch"),
)
LAUNCH = api_calls.RUNNING


def step_rows(context: TraceContext, grid: Grid) -> list[TimelineRow]:
    """Return one row for the steps of each process; the text ``step`` holds their names."""
    frame = context.steps.frame
    rows = []
    processes = frame["process"].unique().tolist()
    for process in processes[:MOST_THREADS]:
        mine = np.flatnonzero(array(frame, "process") == process)
        start, end = array(frame, "start")[mine], array(frame, "end")[mine]
        code = array(frame, "warm_up")[mine].astype(np.int32)
        exact, chosen = grid.choose(start, end, MOST_STEPS)
        items = TimelineItems(start[chosen], end[chosen], code[chosen], {"step": mine[chosen]})
        labels = innermost(start, end, code)
        pid = tables.pid(process)
        label = f"steps of {pid}" if len(processes) > 1 else "steps"
        rows.append(
            TimelineRow("steps", label, -1, pid, 0, ("measured", "warm_up"), grid.sums(labels, 2), exact, items)
        )
    return rows


def phase_rows(context: TraceContext, grid: Grid) -> list[TimelineRow]:
    """Return one row for the phases of the main thread of each process."""
    phases = context.phases
    several = len(phases.main_thread) > 1
    rows = []
    for process, thread in list(phases.main_thread.items())[:MOST_THREADS]:
        labels = phases.own(thread)
        inside = grid.inside(*labels.spans)
        start, end, code = labels.spans.start[inside], labels.spans.end[inside], labels.code[inside]
        exact, chosen = grid.choose(start, end, MOST_RANGES)
        items = TimelineItems(start[chosen], end[chosen], code[chosen])
        pid, tid = tables.pid(process), tables.tid(thread)
        label = f"phases of {pid}" if several else "phases"
        sums = grid.sums(labels, len(phases.names))
        rows.append(TimelineRow("phases", label, -1, pid, tid, phases.names, sums, exact, items))
    return rows


class HostRows(NamedTuple):
    """Rows of threads, their global ids, the texts that details refer to, and notes on what is left out."""

    rows: tuple[TimelineRow, ...]
    threads: Times
    texts: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...]


def host_rows(context: TraceContext, grid: Grid, window: Window) -> HostRows:
    """Return rows of the calls of the launching threads, and of their lines of Python where these were sampled.

    Args:
        context: The trace, its events and its loop.
        grid: Bins of the timeline.
        window: Window of the report; threads that launch most operations in it come first.
    """
    threads = _launching_threads(context, window)
    shown = threads[: MOST_THREADS + MOST_FOLDED]
    ranges = range_rows(context, grid, shown[:MOST_THREADS])
    states = states_of(context, grid.extent, shown)
    rows: list[TimelineRow] = []
    for thread in shown[:MOST_THREADS]:
        rows.append(_thread_row(context, states, grid, thread, MOST_CALLS // min(len(shown), MOST_THREADS)))
        rows.extend(ranges.rows.get(thread, []))
        rows.extend(_python_rows(context, grid, thread))
    rows.extend(_folded_rows(context, states, grid, shown[MOST_THREADS:]))
    left = len(threads) - len(shown)
    left_out = ranges.left_out
    left_out += (f"{left} more threads that launch operations are not shown.",) if left else ()
    lines = tuple(spelled(frame) for frame in context.lines.own) if len(context.trace[tables.SAMPLES]) else ()
    steps = tuple(context.steps.frame["name"].astype(str)[: MOST_STEPS * MOST_THREADS])
    texts = {"host_call": states.names, "line": lines, "step": steps, "range": ranges.texts}
    return HostRows(tuple(rows), times(shown), texts, left_out)


def _folded_rows(context: TraceContext, states: ThreadStates, grid: Grid, threads: Sequence[int]) -> list[TimelineRow]:
    """Return the rows of threads that launch little; what the least busy ones leave of the limit is for the others."""
    count = np.zeros(len(threads), np.int64)
    for spec in (tables.CALLS, tables.OS_CALLS):
        of_thread = coded(context.trace[spec], "thread")
        count += np.array([np.count_nonzero(of_thread.equal(thread)) for thread in threads], np.int64)
    rows: dict[int, TimelineRow] = {}
    left = MOST_CALLS
    for at in np.argsort(count, kind="stable").tolist():
        rows[at] = _thread_row(context, states, grid, threads[at], left // (len(threads) - len(rows)))
        left -= len(rows[at].items.start)
    return [rows[at] for at in range(len(threads))]


def _launching_threads(context: TraceContext, window: Window) -> list[int]:
    """Return the threads that launch operations and the main threads with phases, in order of launched operations."""
    operations = context.operations
    known = operations.call >= 0
    inside = (operations.start < window.end_ns) & (operations.end > window.start_ns)
    thread = coded(context.trace[tables.CALLS], "thread")[operations.call[known]]
    codes, threads = pd.factorize(thread)
    # One launch inside the window outweighs any number of launches outside it.
    weight = np.bincount(codes, weights=inside[known] * len(codes) + 1, minlength=len(threads))
    count = dict(zip(threads.tolist(), weight.tolist(), strict=True))
    mine = {int(process) for process in pd.unique(context.operations.process)}
    count |= {main: count.get(main, 0) for process, main in context.phases.main_thread.items() if process in mine}
    return sorted(count, key=lambda thread: (-count[thread], thread))


def _thread_row(context: TraceContext, states: ThreadStates, grid: Grid, thread: int, most: int) -> TimelineRow:
    """Return the open call of a thread over time; calls that explain a wait take precedence over other CUDA calls."""
    frame = context.trace[tables.CALLS]
    rows = np.flatnonzero(coded(frame, "thread").equal(thread))
    codes = states.names_of(tables.CALLS, rows) + np.int32(LAUNCH * NAMES)
    other_calls = innermost(array(frame, "start")[rows], array(frame, "end")[rows], codes)
    labels = fill(states.of(thread), other_calls)
    inside = grid.inside(*labels.spans)
    start, end, code = labels.spans.start[inside], labels.spans.end[inside], labels.code[inside]
    kind, name = code // NAMES, code % NAMES
    exact, chosen = grid.choose(start, end, most)
    details: dict[str, Numbers] = {"host_call": np.where(name == NO_NAME, 0, name + 1)[chosen]}
    items = TimelineItems(start[chosen], end[chosen], kind[chosen], details)
    sums = grid.sums(LabelledSpans(Spans(start, end), kind), len(THREAD_CLASSES))
    pid, tid = tables.pid(thread), tables.tid(thread)
    return TimelineRow("thread", _label(context, thread), -1, pid, tid, THREAD_CLASSES, sums, exact, items)


def _label(context: TraceContext, thread: int) -> str:
    frame = context.trace[tables.THREADS]
    names = frame["name"][array(frame, "thread") == thread].astype(str).tolist()
    name = next((name for name in names if name), "")
    return f"thread {tables.tid(thread)} {name}".rstrip()


def _python_rows(context: TraceContext, grid: Grid, thread: int) -> list[TimelineRow]:
    """Return the sampled lines of a thread; each lasts until the next sample, unless that one is late."""
    frame = context.trace[tables.SAMPLES]
    mine = np.flatnonzero(array(frame, "thread") == thread)
    if not len(mine):
        return []
    start, stack = array(frame, "start")[mine], array(frame, "stack")[mine]
    usual = int(np.median(np.diff(start))) if len(start) > 1 else 0
    end = np.minimum(np.append(start[1:], start[-1] + usual), start + LASTS * usual)
    inside = grid.inside(start, end)
    start, end, stack = start[inside], end[inside], stack[inside]
    code = np.zeros(len(start), np.int32)
    exact, chosen = grid.choose(start, end, MOST_SAMPLES)
    items = TimelineItems(start[chosen], end[chosen], code[chosen], {"line": stack[chosen] + 1})
    sums = grid.sums(LabelledSpans(Spans(start, end), code), 1)
    pid, tid = tables.pid(thread), tables.tid(thread)
    return [TimelineRow("python", f"Python of {tid}", -1, pid, tid, ("sampled",), sums, exact, items)]
