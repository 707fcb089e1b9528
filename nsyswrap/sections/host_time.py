"""The time of each thread of the training loop in what keeps it from launching, whether a GPU was idle or not."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.loader_processes import has_loader_processes
from nsyswrap.attribution.root_causes import checkpoint, cpu_quota, file_reads, tokenizer
from nsyswrap.attribution.root_causes.cpu_quota import is_stop
from nsyswrap.events import api_calls
from nsyswrap.events.host_marks import find_marks
from nsyswrap.events.thread_states import NAMES, ThreadStates
from nsyswrap.intervals import Spans, Window, containing, overlay
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import DATA
from nsyswrap.tables import array

COLUMNS = ("process_id", "thread_id", "rule", "what", "total_ns", "count", "share")
RULE_OF = {
    api_calls.OFF_CPU: "idle/off_cpu",
    api_calls.GARBAGE_COLLECTION: "idle/garbage_collection",
    api_calls.FILE_IO: "idle/file_io",
    api_calls.CHECKPOINT: checkpoint.RULE,
    api_calls.TOKENIZER: tokenizer.RULE,
}
"""The rule that each state of a thread belongs to."""

_WHO = ["process_id", "thread_id"]


def find_host_time(context: TraceContext, states: ThreadStates, window: Window) -> pd.DataFrame:
    """Return the time of each thread by rule and call or mark, the longest first.

    ``what`` is the call, or the mark with the line that called; ``count`` is the number of intervals.
    """
    parts = [_of_thread(context, states, thread, window) for thread in sorted(states.activity)]
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*_WHO, "rule", "what", "ns"])
    found = whole.groupby([*_WHO, "rule", "what"], sort=True)["ns"].agg(total_ns="sum", count="size").reset_index()
    found["share"] = found["total_ns"] / window.length_ns
    order = ["total_ns", *_WHO, "rule", "what"]
    found = found[list(COLUMNS)].sort_values(order, ascending=[False, True, True, True, True], ignore_index=True)
    return found.astype({"process_id": "int64", "thread_id": "int64", "total_ns": "int64", "count": "int64"})


def _of_thread(context: TraceContext, states: ThreadStates, thread: int, window: Window) -> pd.DataFrame:
    """Return each interval of a thread in one of the states of ``RULE_OF``, with its rule and its call or mark."""
    doing = states.of(thread)
    _, at, start, end = overlay(Spans(np.array([window.start_ns]), np.array([window.end_ns])), doing.spans)
    chosen = np.isin(doing.code[at] // NAMES, list(RULE_OF))
    code, spans = doing.code[at][chosen], Spans(start[chosen], end[chosen])
    kind, name = code // NAMES, code % NAMES
    rules = np.array([RULE_OF[each] for each in kind.tolist()], object)
    what = np.array([states.names[each] if each < len(states.names) else "" for each in name.tolist()], object)
    is_file = kind == api_calls.FILE_IO
    in_data = context.phases.at(np.full(len(kind), thread, np.int64), spans.start) == context.phases.code(DATA)
    loading = has_loader_processes(context.trace, context.phases, thread & ~tables.THREAD_MASK)
    rules[is_file & in_data] = "idle/data_wait" if loading else file_reads.RULE
    rules[is_file & _name_marks(context, thread, spans, what)] = checkpoint.RULE
    waits = np.flatnonzero(kind == api_calls.OFF_CPU)
    stops = is_stop(context.settings.host, spans.start[waits], (spans.end - spans.start)[waits])
    rules[waits[stops]] = cpu_quota.RULE
    columns = {"process_id": tables.pid(thread), "thread_id": tables.tid(thread), "rule": rules, "what": what}
    return pd.DataFrame(columns | {"ns": spans.end - spans.start})


def _name_marks(
    context: TraceContext, thread: int, spans: Spans, what: npt.NDArray[np.object_]
) -> npt.NDArray[np.bool_]:
    """Return which intervals are inside marked checkpoints of a thread, and write the text of the mark of each."""
    marks = find_marks(context.trace)
    mine = marks[(marks["thread"] == thread) & (marks["kind"] == api_calls.CHECKPOINT)]
    at = containing(Spans(array(mine, "start"), array(mine, "end")), spans.start)
    what[at >= 0] = mine["text"].to_numpy()[at[at >= 0]]
    found: npt.NDArray[np.bool_] = at >= 0
    return found
