"""The time that each thread of the training loop cannot launch, by reason, whether a GPU was idle or not."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.idle_pieces import has_loader_processes
from nsyswrap.attribution.root_causes.cpu_quota import is_stop
from nsyswrap.base.intervals import NOTHING, LabelledSpans, Spans, Window, containing, label_at, overlay
from nsyswrap.base.row_sums import typed_table
from nsyswrap.base.rows import taken
from nsyswrap.events import api_calls
from nsyswrap.events.host_record import find_marks
from nsyswrap.events.thread_states import NAME_BITS, NAMES, ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.loop.phase_detection import DATA, NO_PHASE
from nsyswrap.rules import host, idle
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks

TYPES = {
    **dict.fromkeys(("process_id", "thread_id"), np.int64),
    **dict.fromkeys(("rule", "what"), str),
    **dict.fromkeys(("total_ns", "count"), np.int64),
    "share": np.float64,
}
RULE_OF = {
    api_calls.OFF_CPU: idle.OFF_CPU.key,
    api_calls.PEER_RANK_WAIT: idle.PEER_WAIT.key,
    api_calls.GARBAGE_COLLECTION: idle.GARBAGE_COLLECTION.key,
    api_calls.FILE_IO: idle.FILE_IO.key,
    api_calls.CHECKPOINT: host.CHECKPOINT.key,
    api_calls.TOKENIZER: host.TOKENIZER.key,
    api_calls.OTHER_WAIT: host.OUTSIDE_WAIT.key,
    api_calls.PAGE_FAULT: host.PAGE_FAULTS.key,
}
"""The rule that each state of a thread belongs to."""

# A thread that waits in marked work, as a tokenizer does for its threads, is in the hands of that work.
_WAITS_IN_MARKS = (api_calls.FILE_IO, api_calls.LOCK_WAIT, api_calls.PEER_THREAD_WAIT)
_Key = tuple[int, int, str, str]
_RULES = (*RULE_OF.values(), idle.DATA_WAIT.key, host.FILE_READS.key, host.CPU_QUOTA.key)
# Code of the rule of each state, -1 for states without one.
_RULE_CODES = np.full(max(RULE_OF) + 1, -1, np.int64)
_RULE_CODES[list(RULE_OF)] = np.arange(len(RULE_OF))


def find_host_time(context: TraceContext, states: ThreadStates, window: Window) -> pd.DataFrame:
    """Return the time of each thread in the steps of its process, by rule and call or mark, the longest first.

    ``what`` is the call, or the mark with the line that called; ``count`` is the number of intervals.
    """
    sums: dict[_Key, tuple[int, int]] = {}
    own, length_of = find_own_windows(context, window), dict[tuple[int, int], int]()
    marks = find_marks(context.trace)
    marked = set(array(marks, "thread").tolist())
    loading = {
        process: has_loader_processes(context.trace, context.phases, process)
        for process in {thread & ~tables.THREAD_MASK for thread in states.activity}
    }
    for thread in sorted(states.activity):
        process, doing = thread & ~tables.THREAD_MASK, states.of(thread)
        its_marks = _marks(marks, thread) if thread in marked else _NO_MARKS
        part_of_window = own.of(process)
        length_of[tables.pid(thread), tables.tid(thread)] = part_of_window.length_ns
        summed = partial(_of_states, context, thread, its_marks, states.names, is_loading=loading[process])
        # Some states at a time, because the intermediate arrays need much memory.
        for some in blocks(len(doing.code)):
            part = LabelledSpans(Spans(doing.spans.start[some], doing.spans.end[some]), doing.code[some])
            for key, ns, intervals in summed(part, part_of_window):
                total_ns, count = sums.get(key, (0, 0))
                sums[key] = (total_ns + ns, count + intervals)
    ordered = sorted(sums.items(), key=lambda each: (-each[1][0], each[0]))
    rows = [(*key, *of_key, of_key[0] / length_of[key[:2]]) for key, of_key in ordered]
    return typed_table(rows, TYPES)


def _of_states(  # noqa: PLR0913, PLR0917 - the thread, and what it does
    context: TraceContext,
    thread: int,
    marks: "_Marks",
    names: Sequence[str],
    doing: LabelledSpans,
    window: Window,
    *,
    is_loading: bool,
) -> list[tuple[_Key, int, int]]:
    """Return the time of some states of a thread, and their number, by rule and call or mark.

    What counts are the states of ``RULE_OF``, and waits in marked work. ``is_loading`` says whether the process gets
    its batches from loader processes.
    """
    _, at, start, end = overlay(Spans(np.array([window.start_ns]), np.array([window.end_ns])), doing.spans)
    mark = containing(marks.spans, start)
    code = doing.code[at]
    kind = code >> NAME_BITS
    waits_inside = (mark >= 0) & np.isin(kind, _WAITS_IN_MARKS)
    chosen = np.isin(kind, list(RULE_OF)) | waits_inside
    code, spans = taken(code, chosen), Spans(taken(start, chosen), taken(end, chosen))
    kind, mark, waits_inside = taken(kind, chosen), taken(mark, chosen), taken(waits_inside, chosen)
    rule, what = _RULE_CODES[kind], np.minimum(code % NAMES, len(names)).astype(np.int64)
    is_file = kind == api_calls.FILE_IO
    in_data = label_at(context.phases.shown(thread), spans.start, NO_PHASE) == context.phases.code(DATA)
    rule[is_file & in_data] = _RULES.index(idle.DATA_WAIT.key if is_loading else host.FILE_READS.key)
    if is_loading:
        rule[(kind == api_calls.OTHER_WAIT) & in_data] = _RULES.index(idle.DATA_WAIT.key)
    what[mark >= 0] = len(names) + 1 + mark[mark >= 0]
    rule[waits_inside] = marks.rule[mark[waits_inside]]
    waits = np.flatnonzero(kind == api_calls.OFF_CPU)
    stops = is_stop(context.settings.host, spans.start[waits], (spans.end - spans.start)[waits])
    rule[waits[stops]] = _RULES.index(host.CPU_QUOTA.key)
    return _summed(thread, rule, what, spans, [*names, "", *marks.texts])


def _summed(
    thread: int, rule: npt.NDArray[np.int64], what: npt.NDArray[np.int64], spans: Spans, names: list[str]
) -> list[tuple[_Key, int, int]]:
    """Return the summed time of the intervals of a thread, and their number, by rule and name."""
    key = rule * len(names) + what
    keys = tables.distinct(key)
    place = np.searchsorted(keys, key)
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, place, spans.end - spans.start)
    count = np.bincount(place, minlength=len(keys))
    who = (tables.pid(thread), tables.tid(thread))
    texts = [(_RULES[key // len(names)], names[key % len(names)]) for key in keys.tolist()]
    return [((*who, *both), *sums) for both, *sums in zip(texts, total.tolist(), count.tolist(), strict=True)]


class _Marks(NamedTuple):
    """When checkpoints and tokenizers are marked on a thread, the code of the rule of each, and its text."""

    spans: Spans
    rule: npt.NDArray[np.int64]
    texts: list[str]


_NO_MARKS = _Marks(NOTHING, np.empty(0, np.int64), [])


def _marks(marks: pd.DataFrame, thread: int) -> _Marks:
    """Return the marks of checkpoints and tokenizers of a thread; none lies in another of its kind."""
    mine = marks[(marks["thread"] == thread) & marks["kind"].isin([api_calls.CHECKPOINT, api_calls.TOKENIZER])]
    rules = _RULE_CODES[array(mine, "kind")]
    return _Marks(Spans(array(mine, "start"), array(mine, "end")), rules, mine["text"].astype(str).tolist())
