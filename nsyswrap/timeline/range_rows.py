"""Rows of the timeline for NVTX ranges inside one another: one row for each level of nesting on a thread."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, LabelledSpans, Spans, times
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.injected_ranges import plain_names
from nsyswrap.loop.range_nesting import levels_of
from nsyswrap.model import TimelineItems, TimelineRow
from nsyswrap.timeline.bins import Grid
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

# Levels of a thread that have rows, and ranges of all rows together that are shown one by one. Ours: deeper levels
# are narrower than a letter, and a range takes some four bytes of the page.
MOST_LEVELS = 8
MOST_RANGES = 40_000
CLASSES = ("range",)


class RangeRows(NamedTuple):
    """Rows of ranges by thread, the texts that their details refer to, and notes on what is left out."""

    rows: dict[int, list[TimelineRow]]
    texts: tuple[str, ...]
    left_out: tuple[str, ...]


def range_rows(context: TraceContext, grid: Grid, threads: Sequence[int]) -> RangeRows:
    """Return the rows of ranges that are neither steps nor phases, for some threads."""
    frame = context.trace[tables.RANGES]
    start, end, thread = (array(frame, name) for name in ("start", "end", "thread"))
    # The ranges that end on their own thread and have no row as a step or a phase.
    free: npt.NDArray[np.bool_] = array(frame, "end_thread") == 0
    free[context.phases.marked.index.to_numpy()] = False
    steps = context.steps.frame
    keys = set(zip(array(steps, "start").tolist(), array(steps, "end").tolist(), strict=True))
    near = np.flatnonzero(free & np.isin(array(frame, "start"), array(steps, "start")))
    ends = array(frame, "end")
    for row in near.tolist():
        free[row] &= (int(array(frame, "start")[row]), int(ends[row])) not in keys
    levels: dict[int, list[Indices]] = {}
    for one in threads:
        mine = np.flatnonzero(free & (thread == one))
        if len(mine):
            levels[one] = [mine[level] for level in levels_of(start[mine], end[mine])]
    most = MOST_RANGES // max(sum(min(len(each), MOST_LEVELS) for each in levels.values()), 1)
    words = plain_names(frame)
    texts: dict[str, int] = {}
    rows_by_thread = {
        one: [
            _row(frame, grid, rows, (one, number), most, words, texts)
            for number, rows in enumerate(each[:MOST_LEVELS], 1)
        ]
        for one, each in levels.items()
    }
    deeper = sum(max(len(each) - MOST_LEVELS, 0) for each in levels.values())
    left_out = (f"Deeper levels of ranges are not shown: {deeper}.",) if deeper else ()
    return RangeRows(rows_by_thread, tuple(texts), left_out)


def _row(  # noqa: PLR0913, PLR0917 - one argument a thing that a row is made of
    frame: pd.DataFrame,
    grid: Grid,
    rows: Indices,
    place: tuple[int, int],
    most: int,
    words: Sequence[str],
    texts: dict[str, int],
) -> TimelineRow:
    """Return the ranges of one level of a thread; texts that are shown get numbers, from 1 on."""
    rows = rows[grid.inside(array(frame, "start")[rows], array(frame, "end")[rows])]
    start, end = array(frame, "start")[rows], array(frame, "end")[rows]
    code = np.zeros(len(rows), np.int32)
    exact, chosen = grid.choose(start, end, most)
    category = frame["text"].cat.codes.to_numpy()[rows[chosen]]
    number = times([texts.setdefault(words[one], len(texts)) + 1 for one in category.tolist()])
    thread, level = place
    return TimelineRow(
        *("range", f"ranges, level {level}", -1, tables.pid(thread), tables.tid(thread), CLASSES),
        sums=grid.sums(LabelledSpans(Spans(start, end), code), 1),
        exact=exact,
        items=TimelineItems(start[chosen], end[chosen], code[chosen], {"range": number}),
    )
