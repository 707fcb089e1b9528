"""The section on counters: means over the window, by phase and by step, and the note without samples."""

import numpy as np
import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, thread, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.sections import counters
from nsyswrap.trace.tables import Trace


def section(trace: Trace, start: int = 0, end: int = 100) -> Section:
    return run_section(counters, find_context(trace), window(start, end))


def training() -> ExportBuilder:
    """Return two phases of 50 ns, where the kernel of the first phase ends in the second.

    ::

        main      |-----forward-----|-----backward----|
        GPU                 ########### forward's
        SM Active 0         80        80              0
    """
    builder = ExportBuilder().range("forward", 0, 50).range("backward", 50, 100)
    builder.kernel(30, 70, launched=(5, 10))
    return builder.metric("SMs Active [Throughput %]", [(at, 80 if 30 <= at < 70 else 0) for at in range(0, 110, 10)])


def test_the_window_has_mean_and_maximum() -> None:
    table = section(trace_of(training())).tables["window"]
    (row,) = table.to_dict("records")
    assert row == {
        "name": "SMs Active",
        "device_id": 0,
        "mean_share": 0.32,
        "mean_at_least_share": pytest.approx(0.316),
        "max_share": 0.8,
    }


def test_intervals_cover_the_window_and_their_mean_is_its_mean() -> None:
    """The intervals leave no gaps. Their mean, weighted by length, is the mean of the window."""
    found = section(trace_of(training()), 3, 97).tables
    table = found["over_time"]
    assert (int(table["start_ns"].iloc[0]), int(table["end_ns"].iloc[-1]), len(table)) == (3, 97, 94)
    assert table["start_ns"].tolist()[1:] == table["end_ns"].tolist()[:-1]
    weighted = (table["sm_active_share"] * (table["end_ns"] - table["start_ns"])).sum() / 94
    assert weighted == pytest.approx(found["window"]["mean_share"][0])


def test_a_long_window_has_a_hundred_and_twenty_intervals() -> None:
    table = section(trace_of(training()), 0, 1_000).tables["over_time"]
    assert len(table) == 120
    assert table["sm_active_share"].isna().any(), "what was not sampled is not zero"


def test_a_window_that_cuts_samples_has_their_parts() -> None:
    """From 25 to 35, the counter is 0 in one half and 80 in the other."""
    assert section(trace_of(training()), 25, 35).tables["window"]["mean_share"].tolist() == [pytest.approx(0.4)]


def test_a_moment_belongs_to_the_phase_of_the_operation_that_runs() -> None:
    """The kernel belongs to forward to its end, even while the CPU is already in backward."""
    table = section(trace_of(training())).tables["phases"]
    assert table[["phase", "time_ns"]].to_numpy().tolist() == [["forward", 70], ["backward", 30]]
    assert table["sm_active_share"].tolist() == [pytest.approx(40 * 0.8 / 70), 0.0]


def test_without_an_operation_the_phase_is_that_of_the_main_thread() -> None:
    """A kernel of another thread has the main thread's phase. Without operation and phase there is none."""
    builder = ExportBuilder().range("data", 0, 40).kernel(60, 70, launched=(50, 55), thread=thread(9))
    table = section(trace_of(builder.metric("SM Active", [(0, 10), (50, 20), (100, 0)]))).tables["phases"]
    assert dict(zip(table["phase"], table["time_ns"], strict=True)) == {"none": 60, "data": 40}
    assert dict(zip(table["phase"], table["sm_active_share"], strict=True)) == {
        "none": pytest.approx((10 * 10 + 50 * 20) / 60 / 100),
        "data": pytest.approx(0.1),
    }


def test_each_step_has_its_mean() -> None:
    """The last step ends with the window, and a step outside it has no row."""
    builder = ExportBuilder().kernel(0, 100, launched=(0, 1))
    for number, (start, end) in enumerate([(0, 20), (20, 40), (40, 80), (120, 130)]):
        builder.range(f"step {number}", start, end)
    samples = [(0, 10), (20, 20), (40, 30), (60, 90), (80, 0)]
    table = section(trace_of(builder.metric("SM Active", samples)), 0, 60).tables["steps"]
    assert table[["name", "start_ns", "end_ns"]].to_numpy().tolist() == [
        ["step 0", 0, 20],
        ["step 1", 20, 40],
        ["step 2", 40, 60],
    ]
    assert table["sm_active_share"].tolist() == pytest.approx([0.1, 0.2, 0.3])


def test_a_step_that_was_not_sampled_has_no_mean() -> None:
    builder = ExportBuilder().kernel(0, 10).range("step 0", 0, 10).range("step 1", 50, 60)
    table = section(trace_of(builder.metric("SM Active", [(0, 10), (10, 20)]))).tables["steps"]
    assert table["sm_active_share"].tolist()[0] == pytest.approx(0.1)
    assert np.isnan(table["sm_active_share"].tolist()[1])


def test_each_gpu_has_its_own_rows() -> None:
    builder = ExportBuilder().kernel(0, 10).kernel(0, 10, device=1)
    builder.metric("SM Active", [(0, 10), (50, 10)]).metric("SM Active", [(0, 30), (50, 30)], device=1)
    table = section(trace_of(builder)).tables["window"]
    assert table[["device_id", "mean_share"]].to_numpy().tolist() == [[0, 0.1], [1, 0.3]]


def test_a_counter_that_was_not_sampled_is_absent() -> None:
    """NVLink is in no table, instead of being 0, and a note says why."""
    found = section(trace_of(training()))
    assert "nvlink" not in " ".join(str(column) for table in found.tables.values() for column in table).lower()
    assert any("NVLink was not sampled" in note for note in found.notes)


def test_nvlink_that_was_sampled_is_shown() -> None:
    trace = trace_of(training().metric("NVLink RX Requests User Data [Throughput %]", [(0, 4), (50, 4)], number=9))
    found = section(trace)
    assert found.tables["window"]["name"].tolist() == ["NVLink RX Requests User Data", "SMs Active"]
    assert not any("NVLink" in note for note in found.notes)


def test_without_samples_the_section_says_how_to_get_them() -> None:
    found = section(trace_of(ExportBuilder().kernel(0, 10)))
    assert (found.tables, found.facts, found.findings) == ({}, (), ())
    assert "--gpu-metrics" in found.notes[0]


def test_samples_outside_the_window_are_not_reported_as_missing() -> None:
    found = section(trace_of(ExportBuilder().kernel(0, 10).metric("SM Active", [(500, 3), (510, 4)])))
    assert found.tables == {}
    assert "inside the window" in found.notes[0]


def test_the_section_states_the_sampling_rate() -> None:
    facts = {fact.label: fact.value for fact in section(trace_of(training())).facts}
    assert facts == {"sampling_period_ns": 10, "samples_of_each_counter": 10}
