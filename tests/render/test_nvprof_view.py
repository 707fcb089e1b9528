"""The view `nvprof`: two tables, each with shares of its own total, largest first, names in full."""

import re
from dataclasses import replace

import hand_made
import pandas as pd
import pytest
from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, ExportBuilder, trace_of
from hypothesis import given
from hypothesis import strategies as st
from real_captures import RealReport

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import find_context
from nsyswrap.model import Report, Section
from nsyswrap.render import nvprof_view
from nsyswrap.render.nvprof_view import NameRow
from nsyswrap.report import report_of
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

LONG = "void wide<" + "float, " * 100 + "int>(int)"
# The view has no other parts of a report.
SHOWN = ("kernels", "copies", "host_calls", "cuda_graphs")


def whole_report(trace: Trace) -> Report:
    """Return the sections of a trace that the view shows."""
    return report_of(find_context(trace), "all", keys=SHOWN)


@pytest.fixture(scope="module")
def small_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return two kernels, three copies in two directions from two kinds of memory, and one memset; 1 ms in total."""
    builder = (
        ExportBuilder()
        .gpu()
        .kernel(0, 600_000, "gemm", launched=(0, 10))
        .kernel(600_000, 800_000, LONG, launched=(10, 20))
        .copy(800_000, 850_000, HOST_TO_DEVICE, launched=(20, 30))
        .copy(850_000, 900_000, HOST_TO_DEVICE, launched=(30, 40), srcKind=PAGEABLE)
        .copy(900_000, 990_000, DEVICE_TO_HOST, launched=(40, 50))
        .fill(990_000, 1_000_000, launched=(50, 60))
    )
    return whole_report(load_export(builder.write(tmp_path_factory.mktemp("small") / "built.sqlite")))


def names(rows: tuple[NameRow, ...]) -> list[str]:
    """Return the names of a table, in order."""
    return [row.name for row in rows]


def test_gpu_activities_have_kernels_copies_and_memsets_in_order(small_report: Report) -> None:
    """The largest is first. Copies from pageable and from pinned memory share one row, as in nvprof."""
    assert nvprof_view.gpu_activities(small_report) == (
        NameRow("gemm", 1, 600_000, 600_000, 600_000),
        NameRow(LONG, 1, 200_000, 200_000, 200_000),
        NameRow("[CUDA memcpy HtoD]", 2, 100_000, 50_000, 50_000),
        NameRow("[CUDA memcpy DtoH]", 1, 90_000, 90_000, 90_000),
        NameRow("[CUDA memset]", 1, 10_000, 10_000, 10_000),
    )


def test_api_calls_are_by_name_without_the_version_cupti_appends() -> None:
    builder = ExportBuilder().kernel(0, 100, launched=(0, 10))
    builder.call("cudaMalloc_v3020", 20, 50).call("cudaMalloc_v3020", 50, 60)
    found = nvprof_view.api_calls(whole_report(trace_of(builder)))
    assert found == (NameRow("cudaMalloc", 2, 40, 10, 30), NameRow("cudaLaunchKernel", 1, 10, 10, 10))


def test_a_line_reads_as_nvprof_wrote_it(small_report: Report) -> None:
    lines = nvprof_view.render(small_report).splitlines()
    assert lines[1].split() == ["Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"]
    assert lines[2].split() == ["GPU", "activities:", "60.00%", "600.00us", "1", *["600.00us"] * 3, "gemm"]
    assert lines[4].split(maxsplit=6)[:6] == ["10.00%", "100.00us", "2", "50.000us", "50.000us", "50.000us"]


def test_it_says_which_names_make_up_ninety_per_cent(small_report: Report) -> None:
    """The first three names have 60, 20 and 10 %."""
    assert nvprof_view.leading(nvprof_view.gpu_activities(small_report)) == 3
    assert "GPU activities: the first 3 of 5 names make up 90.0 % of 1.00 ms\n" in nvprof_view.render(small_report)


def test_a_table_of_one_name_says_so() -> None:
    report = whole_report(trace_of(ExportBuilder().kernel(0, 100, launched=(0, 10))))
    assert "API calls: its only name makes up 100.0 % of 10 ns\n" in nvprof_view.render(report)


def test_a_note_says_that_graphs_traced_as_a_whole_are_missing(small_report: Report) -> None:
    """Their kernels would be in the table of a capture that traces nodes."""
    builder = ExportBuilder().kernel(0, 100, launched=(0, 10)).graph(200, 500, launched=(150, 160))
    text = nvprof_view.render(whole_report(trace_of(builder)))
    assert text.endswith("Note: 1 CUDA graph, 300 ns on the GPU, was traced as a whole and is not in these tables.\n")
    assert "Note" not in nvprof_view.render(small_report)


@pytest.mark.parametrize("width", [60, 100])
def test_no_line_is_wider_than_a_terminal(width: int, small_report: Report) -> None:
    lines = nvprof_view.render(small_report, width=width).splitlines()
    assert max(map(len, lines)) == width
    assert any(line.endswith("…") for line in lines)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("Host-to-Device", "[CUDA memcpy HtoD]"),
        ("Device-to-Host", "[CUDA memcpy DtoH]"),
        ("Device-to-Device", "[CUDA memcpy DtoD]"),
        ("Peer-to-Peer", "[CUDA memcpy PtoP]"),
        ("Host-to-Array", "[CUDA memcpy HtoA]"),
        ("Unified Host-to-Device", "[CUDA Unified Memory memcpy HtoD]"),
        ("Memset", "[CUDA memset]"),
        ("Unknown", "[CUDA memcpy Unknown]"),
        ("kind 17", "[CUDA memcpy kind 17]"),
        ("", "[CUDA memcpy ]"),
    ],
)
def test_copies_have_the_names_nvprof_gave_them(kind: str, shown: str) -> None:
    assert nvprof_view.activity(kind) == shown


def test_a_report_without_gpu_work_has_tables_that_say_none() -> None:
    lines = nvprof_view.render(hand_made.empty_report()).splitlines()
    assert [line.split() for line in lines[2:4]] == [["GPU", "activities:", "none"], ["API", "calls:", "none"]]


@given(times=st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_shares_of_a_table_add_up_to_all_of_it(times: list[int]) -> None:
    """Each share is rounded to two decimals, so their sum differs from 100 by at most 0.005 a row."""
    frame = pd.DataFrame({"name": [f"k{at:02}" for at in range(len(times))], "total_ns": times})
    frame = frame.assign(count=1, min_ns=times, max_ns=times)
    section = Section("host_calls", "", Window(0, 1, "", "user"), tables={"summary": frame})
    report = replace(hand_made.empty_report(), sections=(section,))
    shares = [float(found) for found in re.findall(r"(\d+\.\d\d)%", nvprof_view.render(report))]
    assert len(shares) == len(times)
    assert sum(shares) == pytest.approx(100 if sum(times) else 0, abs=0.005 * len(times) + 1e-6)


@given(times=st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_ninety_per_cent_takes_as_few_names_as_can_be(times: list[int]) -> None:
    rows = tuple(NameRow("", 1, time, time, time) for time in sorted(times, reverse=True))
    count = nvprof_view.leading(rows)
    whole, taken = sum(times), sum(row.total_ns for row in rows[:count])
    assert taken >= 0.9 * whole
    assert count == 1 or taken - rows[count - 1].total_ns < 0.9 * whole


def test_a_real_capture_agrees_with_its_sections(real_report: RealReport) -> None:
    """The tables hold every nanosecond and every call of the sections."""
    report = real_report("alexnet_data_parallel_2gpu", "all")
    activities, calls = nvprof_view.gpu_activities(report), nvprof_view.api_calls(report)
    sums = {
        key: report.section(key).tables["summary"][["total_ns", "count"]].sum()  # type: ignore[union-attr]
        for key in ("kernels", "copies", "host_calls")
    }
    for rows, keys in ((activities, ("kernels", "copies")), (calls, ("host_calls",))):
        assert sum(row.total_ns for row in rows) == sum(sums[key]["total_ns"] for key in keys)
        assert sum(row.calls for row in rows) == sum(sums[key]["count"] for key in keys)
    copied = {name for name in names(activities) if name.startswith("[CUDA")}
    assert copied == {*(f"[CUDA memcpy {way}]" for way in ("HtoD", "DtoD", "PtoP")), "[CUDA memset]"}
