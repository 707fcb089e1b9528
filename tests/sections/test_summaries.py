"""Summaries by name on made traces: which rows share a name, how rows are clipped, and the names of copies."""

from collections.abc import Callable

import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, thread, trace_of

from nsyswrap.events.duration_stats import COLUMNS
from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.sections import host_calls, kernels, os_calls
from nsyswrap.trace.tables import Trace


def rows_of(trace: Trace, analysis: Callable[..., Section], *columns: str, end: int = 100) -> list[list[object]]:
    """Return columns of the summary of an interval from 0."""
    table = analysis(find_context(trace), window(0, end)).tables["summary"]
    found: list[list[object]] = table[list(columns)].to_numpy().tolist()
    return found


def test_kernels_are_summed_by_name_largest_first() -> None:
    """Time of kernels that overlap is added up."""
    builder = ExportBuilder().kernel(0, 10, "relu").kernel(0, 50, "gemm").kernel(20, 40, "gemm", stream=8)
    assert rows_of(
        trace_of(builder), kernels.SECTION.run, "name", "count", "total_ns", "min_ns", "max_ns", "share"
    ) == [
        ["gemm", 2, 70, 20, 50, 70 / 80],
        ["relu", 1, 10, 10, 10, 10 / 80],
    ]


def test_a_summary_has_the_columns_of_the_contract() -> None:
    table = kernels.SECTION.run(find_context(trace_of(ExportBuilder().kernel(0, 10))), window(0, 10)).tables["summary"]
    assert list(table.columns) == ["name", *COLUMNS]


def test_one_value_has_no_spread_and_two_have_that_of_a_sample() -> None:
    builder = ExportBuilder().kernel(0, 10, "a").kernel(10, 20, "b").kernel(20, 34, "b")
    assert rows_of(trace_of(builder), kernels.SECTION.run, "name", "mean_ns", "median_ns", "stddev_ns") == [
        ["b", 12.0, 12.0, pytest.approx(8**0.5)],
        ["a", 10.0, 10.0, 0.0],
    ]


def test_time_outside_the_window_is_not_counted() -> None:
    """Events that overlap the window are clipped to it; others are left out."""
    builder = ExportBuilder().kernel(-20, 10, "a").kernel(90, 120, "a").kernel(100, 110, "b").kernel(-20, 0, "c")
    assert rows_of(trace_of(builder), kernels.SECTION.run, "name", "count", "total_ns") == [["a", 2, 20]]


def test_versions_of_a_cuda_call_are_one_call() -> None:
    """Calls of all threads are added up, without the interface version that CUPTI appends to names."""
    builder = ExportBuilder().call("cudaLaunchKernelExC_v11060", 0, 10).call("cudaLaunchKernelExC", 10, 15)
    builder.call("cudaLaunchKernelExC_v11060", 0, 7, thread=thread(4712)).call("cuMemcpyDtoH_v2", 20, 21)
    assert rows_of(trace_of(builder), host_calls.SECTION.run, "name", "count", "total_ns") == [
        ["cudaLaunchKernelExC", 3, 22],
        ["cuMemcpyDtoH", 1, 1],
    ]


def test_calls_into_the_operating_system_are_summed_over_threads() -> None:
    """Their names are unchanged, even with an ending like that of a version."""
    builder = ExportBuilder().os_call("poll", 0, 100).os_call("poll", 0, 50, thread=thread(4712))
    builder.os_call("my_v2", 0, 1)
    assert rows_of(trace_of(builder), os_calls.SECTION.run, "name", "total_ns") == [["poll", 150], ["my_v2", 1]]


def test_the_tracer_s_own_marks_are_no_calls() -> None:
    """The tracer's start and end are rows of thread 0 without length."""
    builder = ExportBuilder().os_call("poll", 0, 100).os_call("[Unknown]", 5, 5, thread=0, eventClass=31)
    assert rows_of(trace_of(builder), os_calls.SECTION.run, "name", "count") == [["poll", 1]]
