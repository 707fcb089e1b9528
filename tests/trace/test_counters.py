"""Samples of GPU counters are read into a table with their GPU. Unknown counters and wrong values are left out."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.base.errors import ExportError
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace


def samples(trace: Trace) -> list[tuple[int, int, str, int]]:
    """Return start, GPU, counter and value of each sample."""
    frame = trace.frames["counters"]
    names = [trace.counter_names[code] for code in frame["counter"]]
    return list(zip(frame["start"].tolist(), frame["device_id"].tolist(), names, frame["value"].tolist(), strict=True))


def test_a_sample_has_its_time_gpu_name_and_value() -> None:
    trace = trace_of(ExportBuilder().metric("Tensor Active [Throughput %]", [(100, 7), (200, 9)], device=3))
    assert samples(trace) == [(100, 3, "Tensor Active", 7), (200, 3, "Tensor Active", 9)]


@pytest.mark.parametrize(
    "name",
    [
        "SM Active [Throughput %]",
        "SMs Active [Throughput %]",
        "SM Active",
        "Tensor Active / FP16 Active [Throughput %]",
        "DRAM Read Bandwidth [Throughput %]",
        "VRAM Write Bandwidth [Throughput %]",
        "PCIe RX Throughput [Throughput %]",
        "NVLink TX Requests User Data [Throughput %]",
    ],
)
def test_a_counter_that_is_shown_is_read(name: str) -> None:
    """A counter is recognised by the start of its name, with or without the unit that newer versions write."""
    trace = trace_of(ExportBuilder().metric(name, [(1, 2)]))
    assert trace.counter_names == (name.partition(" [")[0],)
    assert len(trace.frames["counters"]) == 1


@pytest.mark.parametrize(
    "name",
    ["GPC Clock Frequency [MHz]", "SM Issue [Throughput %]", "Compute Warps in Flight [Avg]", "SM Active [Avg]", "SMs"],
)
def test_a_counter_that_is_not_shown_is_not_read(name: str) -> None:
    trace = trace_of(ExportBuilder().metric(name, [(1, 2)]).metric("SMs Active [Throughput %]", [(1, 5)], number=1))
    assert samples(trace) == [(1, 0, "SMs Active", 5)]


def test_one_metric_number_may_mean_two_counters_on_two_kinds_of_gpu() -> None:
    builder = ExportBuilder().metric("SM Active [Throughput %]", [(1, 5)], device=0, number=4)
    builder.metric("Clock [MHz]", [(1, 1980)], device=1, number=4).metric(
        "Tensor Active [Throughput %]", [(1, 6)], device=1, number=5
    )
    assert samples(trace_of(builder)) == [(1, 0, "SM Active", 5), (1, 1, "Tensor Active", 6)]


def test_values_that_are_no_percentage_are_left_out_and_counted() -> None:
    """The clock is no percentage at all, so it is neither read nor counted."""
    builder = ExportBuilder().metric("SM Active", [(1, -1), (2, 100), (3, 10**12)])
    trace = trace_of(builder.metric("GPC Clock Frequency [MHz]", [(1, 10**9)], number=1))
    assert trace.frames["counters"]["value"].tolist() == [100]
    assert trace.dropped == {"counters without a percentage": 2}


def test_an_export_without_counters_says_so() -> None:
    trace = trace_of(ExportBuilder().kernel(1, 2))
    assert "counters" in trace.absent
    assert trace.counter_names == ()


def test_a_value_that_is_not_a_number_is_an_error_that_names_the_column(tmp_path: Path) -> None:
    path = ExportBuilder().metric("SM Active", [(1, 2), (2, 3)]).write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update GPU_METRICS set value = 'much'")
    with pytest.raises(ExportError, match="column value of GPU_METRICS"):
        load_export(path)
