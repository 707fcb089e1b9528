"""Reads and writes that wait for a pipe, a socket or a terminal, and not for a file.

A capture has the name of a call alone. `profile` samples what threads read from and write to while they wait
(``capture/host_monitor``). The calls of a thread with one name, inside ranges of one name, do the same thing in each
step; what most samples of them show is what they wait for. Such calls get a name of their own, "read (pipe)".
"""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Spans, containing, innermost
from nsyswrap.events import api_calls
from nsyswrap.events.host_record import BlockedCalls, HostRecord
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

_NUMBER = re.compile(r"\d+")


def name_blocked_calls(trace: Trace, record: HostRecord) -> Trace:
    """Return the trace with names of their own for calls that wait for something other than a file."""
    if not any(set(each.on) & set(api_calls.NOT_FILES) for each in record.waits.values()):
        return trace
    frame = trace[tables.OS_CALLS]
    ids, strings = array(frame, "name_id").copy(), dict(trace.strings)
    known: dict[str, int] = {}
    for thread in coded(frame, "thread").ids.tolist():
        seen = record.waits.get((tables.pid(thread), tables.tid(thread)))
        if seen is None:
            continue
        for rows, on in _named_rows(trace, thread, seen):
            name = api_calls.named_after(trace.text(int(ids[rows[0]])), on)
            number = known.setdefault(name, max(strings, default=0) + 1)
            strings[number] = name
            ids[rows] = number
    if not known:
        return trace
    renamed = frame.assign(name_id=pd.Categorical(ids))
    return replace(trace, strings=strings, frames={**trace.frames, tables.OS_CALLS.name: renamed})


def _named_rows(trace: Trace, thread: int, seen: BlockedCalls) -> list[tuple[Indices, str]]:
    """Return rows of ``OS_CALLS`` of a thread that are on no file, those of one name and one range together."""
    frame = trace[tables.OS_CALLS]
    mine = np.flatnonzero(coded(frame, "thread").equal(thread))
    ids = coded(frame, "name_id")[mine]
    files = [
        each
        for each in tables.distinct(ids).tolist()
        if api_calls.os_call_kind(api_calls.base_name(trace.text(each))) == api_calls.FILE_IO
    ]
    mine = mine[np.isin(ids, files)]
    calls = Spans(array(frame, "start")[mine], array(frame, "end")[mine])
    # A number for each call: equal for one name inside ranges of one name, whatever their numbers are.
    ranges = trace[tables.RANGES]
    ranges_of_thread = ranges[array(ranges, "thread") == thread]
    texts = [_NUMBER.sub("", str(each)) for each in ranges_of_thread["text"]]
    code, _ = pd.factorize(np.array(texts, object))
    inside = innermost(array(ranges_of_thread, "start"), array(ranges_of_thread, "end"), code)
    place = containing(inside.spans, calls.start)
    phase = np.where(place >= 0, inside.code[place] if len(inside.code) else -1, -1)
    numbers, _ = pd.factorize(pd.MultiIndex.from_arrays([coded(frame, "name_id")[mine], phase]))
    group = numbers.astype(np.int64)
    at = containing(calls, seen.at)
    votes: dict[int, Counter[str]] = {}
    for row, on in zip(at.tolist(), seen.on, strict=True):
        if row >= 0:
            votes.setdefault(int(group[row]), Counter())[on] += 1
    renamed = []
    for number, counted in votes.items():
        on, count = counted.most_common(1)[0]
        if on in api_calls.NOT_FILES and 2 * count > counted.total():
            renamed.append((mine[group == number], on))
    return renamed
