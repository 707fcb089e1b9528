"""Where the launching threads wait: their time in waiting calls of the operating system, by call and phase."""

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import LabelledSpans, Spans, Window, clip, fill, overlay, total
from nsyswrap.base.rows import taken
from nsyswrap.events.thread_states import NAMES, ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import OwnWindows, find_own_windows
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Section
from nsyswrap.sections.spec import Kind, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks, coded

WHO = ("process_id", "thread_id", "thread")
SPLIT_COLUMNS = (*WHO, "launch_count", "wait_ns", "cuda_call_ns", "rest_ns", "unseen_ns")
WAIT_COLUMNS = (*WHO, "call", "phase", "total_ns", "count", "share")


def run(context: TraceContext, window: Window, states: ThreadStates) -> Section:
    """Return the time of each launching thread by state, and its waits.

    ``wait_ns`` is time in waiting calls of the operating system outside any CUDA call, ``cuda_call_ns`` time in CUDA
    calls, ``unseen_ns`` time before the thread's first event in the capture or after its last, ``rest_ns`` all other
    time, which is mostly work. The four add up to the part of the window that the steps of its process take.
    """
    names = context.trace[tables.THREADS]
    name_of = dict(zip(array(names, "thread").tolist(), names["name"].astype(str), strict=True))
    own, threads, waits = find_own_windows(context, window), [], []
    for thread, count in _launching(context, own).items():
        part = own.of(thread & ~tables.THREAD_MASK)
        who = {"process_id": tables.pid(thread), "thread_id": tables.tid(thread), "thread": name_of.get(thread, "")}
        waiting = total(clip(states.waits(thread), part.start_ns, part.end_ns))
        in_calls = total(clip(states.in_cuda(thread), part.start_ns, part.end_ns))
        first, last = states.alive(thread)
        unseen = part.length_ns - max(min(last, part.end_ns) - max(first, part.start_ns), 0)
        rest = part.length_ns - waiting - in_calls - unseen
        split = {"wait_ns": waiting, "cuda_call_ns": in_calls, "rest_ns": rest, "unseen_ns": unseen}
        threads.append({**who, "launch_count": count, **split})
        waits += [{**who, **row} for row in _waits(context, states, thread, part)]
    table = pd.DataFrame(waits, columns=list(WAIT_COLUMNS))
    order = ["total_ns", "process_id", "thread_id", "call", "phase"]
    table = table.sort_values(order, ascending=[False, True, True, True, True], ignore_index=True)
    by_thread = pd.DataFrame(threads, columns=list(SPLIT_COLUMNS)).sort_values(
        ["process_id", "thread_id"], ignore_index=True
    )
    return SECTION.made(
        window,
        facts=(
            Fact("launching_threads", len(by_thread), "count"),
            Fact("wait_ns", int(by_thread["wait_ns"].sum()), "ns"),
        ),
        tables={"threads": by_thread, "waits": table},
    )


def _launching(context: TraceContext, own: OwnWindows) -> dict[int, int]:
    """Return the threads whose calls in their part of the window launched operations, with the number of operations.

    Where no thread launched operations there, all launching threads are returned.
    """
    calls, call = context.trace[tables.CALLS], context.operations.call
    known = taken(call, call >= 0)
    start, end = taken(array(calls, "start"), known), taken(array(calls, "end"), known)
    low, high = own.by_process(calls[["thread"]].iloc[known])
    thread = coded(calls, "thread").only(known)
    found = {each: len(rows) for each, rows in thread.only((start < high) & (end > low)).by_id()}
    return found or dict.fromkeys(tables.distinct(thread.ids[tables.distinct(thread.codes)]).tolist(), 0)


def _waits(context: TraceContext, states: ThreadStates, thread: int, window: Window) -> list[dict[str, object]]:
    """Return the waits of a thread by call and phase; a wait during a change of phase counts in both phases."""
    doing = states.of(thread)
    nothing = LabelledSpans(
        Spans(np.array([window.start_ns]), np.array([window.end_ns])), np.array([NO_PHASE], np.int32)
    )
    phases = fill(context.phases.shown(thread), nothing)
    # Keys in order of names, then phases. The code of no phase is -1.
    width = len(context.phases.names) + 1
    time, count = np.zeros((2, len(states.names) * width), np.int64)
    # ``ThreadStates.waits`` defines the waits; the states give the name of the call of each.
    waits = clip(states.waits(thread), window.start_ns, window.end_ns)
    for some in blocks(len(doing.code)):
        its = Spans(doing.spans.start[some], doing.spans.end[some])
        _, state, start, end = overlay(clip(waits, int(its.start[0]), int(its.end[-1])), its)
        piece, phase, low, high = overlay(Spans(start, end), phases.spans)
        key = (
            (taken(doing.code[some], taken(state, piece)) % NAMES).astype(np.int64) * width
            + taken(phases.code, phase)
            + 1
        )
        np.add.at(time, key, high - low)
        state_of_piece = taken(state, piece)
        again = state_of_piece[1:] == state_of_piece[:-1]
        more = np.flatnonzero((np.append(again, False) | np.append(False, again))[: len(state_of_piece)])
        is_first = np.ones(len(state_of_piece), bool)
        is_first[more] = ~pd.DataFrame({"group": key[more], "state": state_of_piece[more]}).duplicated().to_numpy()
        count += np.bincount(taken(key, is_first), minlength=len(count))
    keys = np.flatnonzero(count)
    return [
        {
            "call": states.names[each // width],
            "phase": context.phases.name(each % width - 1),
            "total_ns": ns,
            "count": often,
            "share": ns / window.length_ns,
        }
        for each, ns, often in zip(keys.tolist(), time[keys].tolist(), count[keys].tolist(), strict=True)
    ]


SECTION = SectionSpec(
    key="host_waits",
    title="Where the launching threads wait",
    run=run,
    needs=(tables.CALLS, tables.KERNELS, tables.OS_CALLS),
    reads=(tables.LIBRARY_CALLS, tables.OS_CALLS, tables.OVERHEADS, tables.SCHEDULING, tables.THREADS),
    place=230,
    columns={
        "threads": " ".join(SPLIT_COLUMNS),
        "waits": " ".join(WAIT_COLUMNS),
    },
    kinds={Kind.TEXT: "call thread"},
    captions={"threads": "Launching threads", "waits": "Waits of launching threads, by call and phase"},
    headings={
        "cuda_call_ns": "CUDA calls",
        "launch_count": "launches",
        "rest_ns": "other, mostly work",
        "unseen_ns": "outside its events",
    },
    facts={"launching_threads": "launching threads", "wait_ns": "total time waiting in the operating system"},
)
