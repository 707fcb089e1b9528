"""Rows that an interval needs: those in it, and those outside of it that they refer to."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from export_builder import MAIN, ExportBuilder

from nsyswrap.trace import row_choice
from nsyswrap.trace.connection import opened
from nsyswrap.trace.load import sources_of
from nsyswrap.trace.row_choice import LaunchIds, RowChoice, index_of

Chosen = Callable[[ExportBuilder, int, int], dict[str, list[int]]]


@pytest.fixture(params=[1, 3, 1_000])
def chosen(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """Return a function that gives the starts of the rows of each table, read in parts of so many rows."""
    monkeypatch.setattr(row_choice, "PART_ROWS", request.param)

    def starts(builder: ExportBuilder, start: int, end: int) -> dict[str, list[int]]:
        with opened(builder.write(tmp_path / "x.sqlite")) as export:
            indexes = {each.spec.name: index_of(export, each, lambda _rows: None) for each in sources_of(export)}
            found = RowChoice(indexes, start, end, lambda _rows: None).read()
        return {name: sorted(columns["start"].tolist()) for name, columns in found.items() if "start" in columns}

    return starts


def test_rows_that_touch_the_interval_are_read(chosen: Chosen) -> None:
    """Those that begin before it and go on in it count, and those that end with its first nanosecond.

    ::

        |--|  |--[--|  |--|  |--]--|  |--|
    """
    builder = ExportBuilder()
    for at in range(0, 100, 10):
        builder.os_call("poll", at, at + 8)
    assert chosen(builder, 25, 55)["os_calls"] == [20, 30, 40, 50]


def test_the_call_of_an_operation_and_the_operation_of_a_call_are_read(chosen: Chosen) -> None:
    """The first kernel runs in the interval and was launched long before; the last one is launched in it.

    ::

        launches   1 2     [  3  ]
        kernels            [1    ]    2     3
    """
    builder = ExportBuilder().kernel(120, 125, launched=(10, 11)).kernel(300, 310, launched=(20, 21))
    builder.kernel(400, 410, launched=(130, 131))
    found = chosen(builder, 100, 150)
    assert found["calls"] == [10, 130]
    assert found["kernels"] == [120, 400]


def test_the_state_of_each_thread_before_the_interval_is_read(chosen: Chosen) -> None:
    builder = ExportBuilder().kernel(0, 5, launched=(0, 1))
    for at in (10, 20, 30):
        builder.scheduled(at, running=at != 20)
    builder.scheduled(5, running=True, thread=MAIN + 1).scheduled(120, running=False).scheduled(200, running=True)
    assert chosen(builder, 100, 150)["scheduling"] == [5, 30, 120]


def test_all_events_of_memory_are_read(chosen: Chosen) -> None:
    builder = ExportBuilder().kernel(0, 5, launched=(0, 1)).memory(5, 100).memory(110, 100).memory(900, 100)
    assert chosen(builder, 100, 150)["memory"] == [5, 110, 900]


def test_a_range_without_an_end_is_read(chosen: Chosen) -> None:
    builder = ExportBuilder().range("step 1", 10, 20).range("step 2", 30, None).range("step 3", 400, 410)
    assert chosen(builder, 100, 150)["ranges"] == [30]


def test_ids_belong_to_their_process() -> None:
    ids = LaunchIds.of(np.array([5, 5, 9]), np.array([1, 2, 3]))
    assert ids.holds(np.array([5, 9, 9, 7, 5]), np.array([2, 2, 3, 3, 0])).tolist() == [True, False, True, False, False]
    assert ids.bounds == (1, 3)
    nothing = LaunchIds.of(np.array([5]), np.array([0]))
    assert not nothing.holds(np.array([5]), np.array([0])).any()
    low, high = nothing.bounds
    assert low > high
