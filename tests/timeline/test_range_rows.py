"""Rows of nested ranges: a row for each level, without the ranges that are steps or phases."""

from collections.abc import Callable

import numpy as np
import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.timeline import range_rows
from nsyswrap.timeline.bins import Grid, cut
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array


def grid(end: int) -> Grid:
    """Return bins from 0 to a time."""
    whole = Window(0, end, "", "session")
    return cut((whole, whole), 8, np.arange(0), [], [])


def found(context: TraceContext, end: int) -> range_rows.RangeRows:
    threads = np.unique(array(context.trace[tables.RANGES], "thread")).tolist()
    return range_rows.range_rows(context, grid(end), threads)


def shown(context: TraceContext, end: int) -> list[list[tuple[str, int, int]]]:
    """Return text, start and end of the ranges of each row."""
    rows = found(context, end)
    return [
        [
            (rows.texts[number - 1], start, stop)
            for number, start, stop in zip(
                row.items.details["range"].tolist(), row.items.start.tolist(), row.items.end.tolist(), strict=True
            )
        ]
        for of_thread in rows.rows.values()
        for row in of_thread
    ]


def nested() -> ExportBuilder:
    """Return a phase with two layers in it, an operator in the first, and a range after it."""
    builder = ExportBuilder().kernel(0, 100, launched=(0, 1)).range("forward", 0, 60)
    builder = builder.range("block", 5, 40).range("aten::mm, op_id = 7, sizes = [[2, 2]]", 10, 20)
    return builder.range("aten::mm, op_id = 8", 20, 30).range("block", 40, 55)


def test_each_level_has_a_row_and_phases_have_none() -> None:
    """Operators have one name, whatever their numbers are."""
    assert shown(find_context(trace_of(nested())), 100) == [
        [("block", 5, 40), ("block", 40, 55)],
        [("aten::mm", 10, 20), ("aten::mm", 20, 30)],
    ]


def test_levels_and_ranges_beyond_the_limits_are_counted_or_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_rows, "MOST_LEVELS", 1)
    monkeypatch.setattr(range_rows, "MOST_RANGES", 1)
    rows = found(find_context(trace_of(nested())), 100)
    assert rows.left_out == ("Deeper levels of ranges are not shown: 1.",)
    ((row,),) = rows.rows.values()
    assert row.sums.sum() == 50
    assert not row.exact.all()


def test_no_range_of_a_real_capture_overlaps_another_one_of_its_row(real_trace: Callable[[str], Trace]) -> None:
    """Of 20,366 ranges, 300 are phases and 60 are steps."""
    context = find_context(real_trace("cnn_amp_autograd_ranges"))
    frame = context.trace[tables.RANGES]
    rows = [row for each in found(context, int(array(frame, "end").max()) + 1).rows.values() for row in each]
    assert len(rows) > 2
    for row in rows:
        assert np.all(row.items.start[1:] >= row.items.end[:-1])
    assert all("op_id" not in text for text in found(context, 1 << 40).texts)
