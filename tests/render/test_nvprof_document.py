"""The view `nvprof`: two tables, each with shares of its own total, largest first, names in full."""

import hand_made
import pandas as pd
import pytest
from export_builder import DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, ExportBuilder, trace_of
from hypothesis import given
from hypothesis import strategies as st
from real_captures import RealReport

from nsyswrap.loop.context import find_context
from nsyswrap.model import Report
from nsyswrap.render import documents, nvprof_document
from nsyswrap.report import report_of
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

LONG = "void wide<" + "float, " * 100 + "int>(int)"
# The view has no other parts of a report.
SHOWN = ("kernels", "copies", "host_calls", "cuda_graphs")


def whole_report(trace: Trace) -> Report:
    """Return the sections of a trace that the view shows."""
    return report_of(find_context(trace), "all", keys=SHOWN)


def text_of(report: Report, width: int = 100_000) -> str:
    return documents.render("nvprof", "text", report, width=width)


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


def rows(table: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(table.itertuples(index=False, name=None))


def test_gpu_activities_have_kernels_copies_and_memsets_in_order(small_report: Report) -> None:
    """The largest is first. Copies from pageable and from pinned memory share one row, as in nvprof."""
    assert rows(nvprof_document.gpu_activities(small_report)) == [
        ("gemm", 1, 600_000, 600_000, 600_000),
        (LONG, 1, 200_000, 200_000, 200_000),
        ("[CUDA memcpy HtoD]", 2, 100_000, 50_000, 50_000),
        ("[CUDA memcpy DtoH]", 1, 90_000, 90_000, 90_000),
        ("[CUDA memset]", 1, 10_000, 10_000, 10_000),
    ]


def test_api_calls_are_by_name_without_the_version_cupti_appends() -> None:
    builder = ExportBuilder().kernel(0, 100, launched=(0, 10))
    builder.call("cudaMalloc_v3020", 20, 50).call("cudaMalloc_v3020", 50, 60)
    found = nvprof_document.api_calls(whole_report(trace_of(builder)))
    assert rows(found) == [("cudaMalloc", 2, 40, 10, 30), ("cudaLaunchKernel", 1, 10, 10, 10)]


def test_a_line_has_share_time_calls_average_ends_and_name(small_report: Report) -> None:
    lines = [line.split() for line in text_of(small_report).splitlines()]
    assert ["time", "time", "calls", "avg", "min", "max", "name"] in lines
    assert ["60.0", "%", "600", "µs", "1", *["600", "µs"] * 3, "gemm"] in lines
    assert ["10.0", "%", "100", "µs", "2", *["50.0", "µs"] * 3, "[CUDA", "memcpy", "HtoD]"] in lines


def test_the_window_is_said(small_report: Report) -> None:
    assert f"window  {small_report.window.label}\n" in text_of(small_report)


def test_it_says_which_names_make_up_ninety_per_cent(small_report: Report) -> None:
    """The first three names have 60, 20 and 10 %."""
    assert "GPU activities: the first 3 of 5 names make up 90.0 % of 1.00 ms." in text_of(small_report)
    report = whole_report(trace_of(ExportBuilder().kernel(0, 100, launched=(0, 10))))
    assert "API calls: the only name makes up 100.0 % of 10 ns." in text_of(report)


def test_a_note_says_that_graphs_traced_as_a_whole_are_missing(small_report: Report) -> None:
    """Their kernels would be in the table of a capture that traces nodes."""
    builder = ExportBuilder().kernel(0, 100, launched=(0, 10)).graph(200, 500, launched=(150, 160))
    text = text_of(whole_report(trace_of(builder)))
    assert "1 CUDA graph, 300 ns on the GPU, was traced as a whole and is not in these tables." in text
    assert "traced as a whole" not in text_of(small_report)


def test_names_are_whole_in_a_file_and_cut_on_a_terminal(small_report: Report) -> None:
    assert LONG in text_of(small_report)
    assert max(map(len, text_of(small_report, 80).splitlines())) <= 80


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("Host-to-Device", "[CUDA memcpy HtoD]"),
        ("Peer-to-Peer", "[CUDA memcpy PtoP]"),
        ("Host-to-Array", "[CUDA memcpy HtoA]"),
        ("Unified Host-to-Device", "[CUDA Unified Memory memcpy HtoD]"),
        ("Memset", "[CUDA memset]"),
        ("Unknown", "[CUDA memcpy Unknown]"),
        ("", "[CUDA memcpy ]"),
    ],
)
def test_copies_have_the_names_nvprof_gave_them(kind: str, shown: str) -> None:
    assert nvprof_document.activity(kind) == shown


def test_a_report_without_gpu_work_says_none() -> None:
    assert "GPU activities: none. API calls: none." in text_of(hand_made.empty_report())


@given(times=st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_ninety_per_cent_takes_as_few_names_as_can_be(times: list[int]) -> None:
    ordered = sorted(times, reverse=True)
    count = nvprof_document.leading(ordered)
    taken = sum(ordered[:count])
    assert taken >= 0.9 * sum(times)
    assert count == 1 or taken - ordered[count - 1] < 0.9 * sum(times)


def test_a_real_capture_agrees_with_its_sections(real_report: RealReport) -> None:
    """The tables hold every nanosecond and every call of the sections."""
    report = real_report("alexnet_data_parallel_2gpu", "all")
    activities, calls = nvprof_document.gpu_activities(report), nvprof_document.api_calls(report)
    for table, keys in ((activities, ("kernels", "copies")), (calls, ("host_calls",))):
        for column in ("total_ns", "count"):
            sums = [report.section(key).tables["summary"][column].sum() for key in keys]  # type: ignore[union-attr]
            assert table[column].sum() == sum(sums)
    copied = {name for name in activities["name"] if name.startswith("[CUDA")}
    assert copied == {*(f"[CUDA memcpy {way}]" for way in ("HtoD", "DtoD", "PtoP")), "[CUDA memset]"}
