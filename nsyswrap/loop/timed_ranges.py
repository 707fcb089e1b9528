"""The steps of a run without a profiler, from the ranges that its own processes timed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nsyswrap.loop.step_detection import Steps, find_steps
from nsyswrap.model import Capture, Session
from nsyswrap.trace import tables
from nsyswrap.trace.tables import THREAD_BITS, THREAD_MASK, Trace


def find_timed_steps(processes: Sequence[Mapping[str, Any]], pattern: str = "") -> Steps:
    """Return the steps of a run, found by the same rules as those of a capture.

    Args:
        processes: ``pid`` and ``ranges`` of each process; a range is a list of thread number, domain, text, start and
            end in ns.
        pattern: Regular expression of the ranges that are steps; empty for the usual spellings.

    Raises:
        UsageError: The pattern is no regular expression.
    """
    rows = [
        (start, end, (int(each["pid"]) << THREAD_BITS) | (thread & THREAD_MASK), text, domain)
        for each in processes
        for thread, domain, text, start, end in each["ranges"]
    ]
    timed = pd.DataFrame(rows, columns=["start", "end", "thread", "text", "domain"])
    timed = timed.assign(end_thread=timed["thread"], kind=0, open=False)
    ranges = timed.astype(dict(tables.RANGES.columns))[list(tables.RANGES.columns)]
    frames = {spec.name: spec.empty() for spec in tables.SPECS}
    frames[tables.RANGES.name] = ranges.sort_values("start", kind="stable", ignore_index=True)
    absent = frozenset(spec.name for spec in tables.SPECS if spec is not tables.RANGES)
    return find_steps(Trace(Capture("", 0), Session(), (), frames, {}, {}, {}, absent, {}), pattern)
