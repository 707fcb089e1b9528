"""CUDA graphs: launches by the detail of their trace, kernels inside, and two real captures of one program."""

from typing import Any

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from real_captures import RealContext

from nsyswrap.events.api_calls import base_name
from nsyswrap.events.operations import launch_rows
from nsyswrap.loop.context import find_context
from nsyswrap.model import Section, Severity
from nsyswrap.report import build_report, choose_window
from nsyswrap.sections import cuda_graphs
from nsyswrap.trace.tables import Trace


def section_of(trace: Trace, start: int = 0, end: int = 1000) -> Section:
    return run_section(cuda_graphs, find_context(trace), window(start, end))


def launches(section: Section) -> list[dict[str, Any]]:
    return [{str(name): each for name, each in row.items()} for row in section.tables["launches"].to_dict("records")]


def value(section: Section, label: str) -> Any:  # noqa: ANN401 - a fact holds numbers and texts
    fact = section.fact(label)
    assert fact is not None
    return fact.value


def node_trace() -> ExportBuilder:
    """Return a launch of a graph of two kernels and a copy, and a kernel outside the graph.

    ::

        host   LLLL            l
        GPU         aaaa bb cc   dddd
    """
    builder = ExportBuilder().gpu().call("cudaGraphLaunch_v10000", 0, 100, correlation=900)
    builder.kernel(150, 350, "a", graph_node=11, correlation=900).kernel(400, 450, "b", graph_node=12, correlation=900)
    return builder.copy(450, 500, correlation=900).kernel(600, 850, "d", launched=(580, 590))


def test_operations_of_a_graph_are_found_by_node_and_by_call() -> None:
    """Kernels have the id of their node. Copies have none, so they are joined by the call that launched them."""
    assert launches(section_of(trace_of(node_trace()))) == [
        {"shown": "nodes", "count": 1, "host_ns": 100, "operation_count": 3, "gpu_ns": 300}
    ]


def test_kernels_inside_graphs_are_listed_and_no_others() -> None:
    section = section_of(trace_of(node_trace()))
    table = section.tables["kernels"]
    assert table[["name", "count", "total_ns"]].to_numpy().tolist() == [["a", 1, 200], ["b", 1, 50]]
    assert (value(section, "graph_launches"), value(section, "kernels_in_graphs")) == (1, 2)


def test_a_graph_traced_as_a_whole_is_said_to_hide_its_kernels() -> None:
    trace = trace_of(ExportBuilder().graph(200, 500, launched=(0, 50)).kernel(600, 700, launched=(510, 520)))
    section = section_of(trace)
    assert launches(section) == [{"shown": "whole", "count": 1, "host_ns": 50, "operation_count": 1, "gpu_ns": 300}]
    assert value(section, "kernel_time_in_graphs_share") == 0.75
    assert len(section.tables["kernels"]) == 0
    (finding,) = section.findings
    assert (finding.rule, finding.severity) == ("graphs/whole", Severity.NOTE)
    assert finding.headline.startswith("1 CUDA graph was traced as a whole")
    assert "--cuda-graph-trace=node" in finding.advice
    assert finding.evidence == ("300 ns of GPU time inside",)


def test_a_launch_without_a_trace_on_the_gpu_is_hidden() -> None:
    trace = trace_of(ExportBuilder().call("cuGraphLaunch", 0, 50).kernel(600, 700, launched=(510, 520)))
    section = section_of(trace)
    assert launches(section) == [{"shown": "hidden", "count": 1, "host_ns": 50, "operation_count": 0, "gpu_ns": 0}]
    (finding,) = section.findings
    assert (finding.rule, finding.severity) == ("graphs/hidden", Severity.WARNING)
    assert finding.evidence == ("50 ns in the calls that launched them",)


def test_a_graph_is_not_hidden_where_all_records_are_missing() -> None:
    """Another trace of graphs would not help: the kernel outside the graph has no record, either."""
    built = ExportBuilder().call("cuGraphLaunch", 0, 50, correlation=1).call("cudaLaunchKernel", 60, 70, correlation=2)
    section = section_of(trace_of(built.copy(600, 700, launched=(510, 520))))
    assert value(section, "shown_by") == "hidden"
    assert section.findings == ()


def test_a_capture_may_show_graphs_in_every_way() -> None:
    builder = node_trace().graph(500, 560, launched=(100, 110)).call("cudaGraphLaunch", 110, 120)
    section = section_of(trace_of(builder))
    assert [(row["shown"], row["count"]) for row in launches(section)] == [("nodes", 1), ("whole", 1), ("hidden", 1)]
    assert value(section, "shown_by") == "nodes and whole and hidden"
    assert [finding.rule for finding in section.findings] == ["graphs/whole", "graphs/hidden"]


def test_a_graph_launched_before_the_window_counts_on_the_gpu_alone() -> None:
    section = section_of(trace_of(node_trace()), 300, 1000)
    assert launches(section) == [{"shown": "nodes", "count": 0, "host_ns": 0, "operation_count": 3, "gpu_ns": 150}]


def test_gpu_time_is_a_union_on_each_gpu_and_a_sum_over_gpus() -> None:
    builder = ExportBuilder().call("cudaGraphLaunch", 0, 10, correlation=900)
    for device, start, end in ((0, 100, 200), (0, 150, 250), (1, 100, 200)):
        builder.kernel(start, end, "a", graph_node=11, correlation=900, device=device)
    assert launches(section_of(trace_of(builder)))[0]["gpu_ns"] == 250


def test_without_graphs_the_section_says_so() -> None:
    section = section_of(trace_of(ExportBuilder().kernel(0, 10, launched=(0, 5))))
    assert value(section, "graph_launches") == 0
    assert section.notes == (cuda_graphs.NO_GRAPH,)
    assert section.tables == {}


@pytest.mark.parametrize(
    "name", ["cudaGraphLaunch_v10000", "cudaGraphLaunch_ptsz_v10000", "cuGraphLaunch", "cuGraphLaunch_ptsz"]
)
def test_a_launch_with_a_default_stream_of_each_thread_is_found(name: str) -> None:
    """The time of a graph that was not traced does not count as idle time, either."""
    built = ExportBuilder().kernel(0, 10, launched=(0, 5)).call(name, 20, 40).call("cudaDeviceSynchronize", 50, 900)
    trace = trace_of(built.kernel(950, 960, launched=(920, 930)))
    assert len(launch_rows(trace)) == 1
    assert "idle/not_traced" in {finding.rule for finding in build_report(trace, "all").findings}


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("cudaMalloc_v3020", "cudaMalloc"),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD"),
        ("cuGraphLaunch_ptsz", "cuGraphLaunch"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cuInit", "cuInit"),
    ],
)
def test_the_base_name_of_a_call_has_no_version_and_no_default_stream(name: str, base: str) -> None:
    assert base_name(name) == base


def test_other_calls_on_graphs_are_no_launches() -> None:
    builder = ExportBuilder().kernel(0, 10, launched=(0, 5)).call("cudaGraphInstantiate_v12000", 10, 20)
    assert len(launch_rows(trace_of(builder))) == 0


def test_a_real_node_trace_holds_every_kernel(real_context: RealContext) -> None:
    """There are 50 launches of 24 kernels: a product and an activation for each of 12 layers."""
    context = real_context("cuda_graph_node_trace")
    section = run_section(cuda_graphs, context, choose_window(context, "all"))
    (row,) = launches(section)
    assert (row["shown"], row["count"], row["operation_count"]) == ("nodes", 50, 1200)
    assert section.tables["kernels"]["count"].tolist() == [600, 600]
    assert section.findings == ()
