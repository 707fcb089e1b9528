"""Frames of events: every event once, names as text, phases and calls as in the analyses."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from export_builder import ExportBuilder, thread, trace_of
from real_captures import of_captures

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import find_context
from nsyswrap.timeline.event_frames import COLUMNS, SOURCES, event_frames, text_column, touching
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace


def frames_of(trace: Trace) -> dict[str, pd.DataFrame]:
    """Return the frames of a trace without a report."""
    return event_frames(find_context(trace), None)


def test_an_operation_has_its_name_phase_and_call() -> None:
    """An operation without a recorded launch has no phase and no call."""
    builder = (
        ExportBuilder().gpu().range("forward", 0, 50).kernel(100, 200, "ampere_sgemm_128x64_nn", launched=(10, 20))
    )
    found = frames_of(trace_of(builder.copy(300, 400).fill(500, 600, stream=13)))
    kernel = found["kernels"].iloc[0]
    assert (kernel["name"], kernel["verdict"], kernel["phase"]) == (
        "ampere_sgemm_128x64_nn",
        "simt_eligible",
        "forward",
    )
    assert found["calls"]["start_ns"].iloc[kernel["call"]] == 10
    copy, fill = found["copies"].iloc[0], found["memsets"].iloc[0]
    assert (copy["call"], copy["phase"], copy["bytes"]) == (-1, "none", 1024)
    assert str(copy["name"]).startswith("copy, Host-to-Device")
    assert (fill["stream"], fill["start_ns"], fill["end_ns"]) == (13, 500, 600)


def test_without_anything_each_frame_has_its_columns() -> None:
    found = frames_of(trace_of(ExportBuilder().range("lonely", 0, 10)))
    assert {key: list(frame.columns) for key, frame in found.items()} == {
        key: list(columns) for key, columns in COLUMNS.items()
    }
    assert {key for key, frame in found.items() if len(frame)} == {"ranges"}
    for key in SOURCES:
        assert found[key]["start_ns"].dtype == np.int64


def test_marks_of_the_tracer_are_no_calls() -> None:
    """The tracer writes them with thread 0."""
    builder = ExportBuilder().os_call("read", 0, 10).os_call("mark", 5, 5, thread=thread(0))
    found = frames_of(trace_of(builder))["os_calls"]
    assert list(found["name"]) == ["read"]
    assert (found["tid"] > 0).all()


def test_names_that_are_spelled_alike_are_one_category() -> None:
    column = text_column(np.array([0, 1, 2, 1]), ["same", "other", "same"])
    assert list(column) == ["same", "other", "same", "other"]
    assert sorted(column.cat.categories) == ["other", "same"]
    assert list(text_column(np.array([], np.int64), [])) == []


@of_captures(["alexnet_data_parallel_2gpu", "mnist_counters_python", "cuda_graph_graph_trace"])
def test_frames_of_real_captures_hold_every_event(name: str, real_trace: Callable[[str], Trace]) -> None:
    trace = real_trace(name)
    found = frames_of(trace)
    for spec in (*SOURCES.values(), tables.CALLS, tables.RANGES, tables.COUNTERS):
        assert len(found[spec.name]) == len(trace[spec])
        assert found[spec.name]["start_ns"].sum() == trace[spec]["start"].sum()
    kernels = found["kernels"]
    summed = trace[tables.KERNELS].groupby("name_id").size()
    by_name: dict[str, int] = {}
    for name_id, count in summed.items():
        text = trace.text(int(str(name_id)))
        by_name[text] = by_name.get(text, 0) + int(count)
    assert kernels["name"].value_counts().to_dict() == by_name
    assert not kernels.isna().any(axis=None)


@pytest.mark.parametrize("name", ["cnn_amp", "cuda_graph_graph_trace", "ranges_nsys2022"])
def test_a_window_keeps_the_events_that_overlap_it_and_their_calls(
    name: str, real_trace: Callable[[str], Trace]
) -> None:
    """Each operation inside the window has the same call as without a window, by start and name."""
    whole = frames_of(real_trace(name))
    start = int(whole["ranges"]["start_ns"].median())
    window = Window(start, start + 20_000_000, "a part", "user")
    part = touching(whole, window)
    for key in ("kernels", "copies", "memsets", "ranges", "os_calls"):
        frame = whole[key]
        inside = frame[(frame["start_ns"] < window.end_ns) & (frame["end_ns"] > window.start_ns)]
        assert list(part[key]["start_ns"]) == list(inside["start_ns"])
        if key in SOURCES:
            before = whole["calls"]["start_ns"].reindex(inside["call"]).to_numpy()
            after = part["calls"]["start_ns"].reindex(part[key]["call"]).to_numpy()
            np.testing.assert_array_equal(before, after)
    assert len(part["calls"]) <= len(whole["calls"])
