"""Real captures: sums that must agree, reference numbers from other methods, and defects that must be found.

The reference numbers were derived with SQL and plain Python from the rows of each export, independently of this code.
They were checked against nsys's own reports, if these have them.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from analysis_fixtures import run_section, whole_session
from real_captures import (
    CAPTURE_NAMES,
    NO_GPU,
    OLD,
    RealContext,
    RealReport,
    RealTrace,
    every_capture,
    every_gpu_capture,
    of_captures,
)

from nsyswrap.base.intervals import Window, gaps, merge, overlap, total
from nsyswrap.events.operations import COMMUNICATION, COMPUTE
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.model import Report, Severity
from nsyswrap.report import ALL, build_report, choose_window
from nsyswrap.sections import ranges
from nsyswrap.sections.capture_check import outweighs
from nsyswrap.sections.ledger import ledger_rows
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

CNN, BERT, TWO_GPUS = "cnn_amp", "bench_source", "alexnet_data_parallel_2gpu"
OPERATOR_RANGES = "cnn_amp_autograd_ranges"
NODES, GRAPHS = "cuda_graph_node_trace", "cuda_graph_graph_trace"

every_window = pytest.mark.parametrize("wanted", ["", ALL])


def context_of(trace: Trace) -> TraceContext:
    """Return a context without settings."""
    return find_context(trace)


@every_gpu_capture
@every_window
def test_gaps_and_operations_tile_the_window(
    name: str, wanted: str, real_context: RealContext, real_report: RealReport
) -> None:
    """The pieces of gaps and the busy spans of each device together cover every nanosecond once."""
    context = real_context(name)
    window = choose_window(context, wanted)
    section = real_report(name, wanted).section("idle")
    assert section
    pieces = section.tables["gaps"]
    for device in context.operations.devices:
        mine = pieces[pieces["device_id"] == device]
        own = find_own_windows(context, window).on(device)
        holes = gaps(context.operations.busy(device), own.start_ns, own.end_ns)
        joined = merge(array(mine, "start_ns"), array(mine, "end_ns"))
        assert np.array_equal(joined.start, holes.start)
        assert np.array_equal(joined.end, holes.end)
        assert total(joined) == int((mine["end_ns"] - mine["start_ns"]).sum())


@every_capture
def test_every_section_is_about_the_window_of_the_report(name: str, real_report: RealReport) -> None:
    report = real_report(name)
    assert {section.window for section in report.sections} == {report.window}


def test_without_a_gpu_the_host_is_reported(real_report: RealReport) -> None:
    """The report has steps, phases and calls. It has no ledger and no idle time, and gives the reason."""
    report = real_report(NO_GPU)
    keys = {section.key for section in report.sections}
    assert {"ledger", "idle", "tensor_cores", "launches"} & keys == set()
    assert {"steps", "phases", "ranges", "os_calls", "capture_check"} <= keys
    assert "Neither a CUDA call nor a GPU operation was recorded" in report.notes[0]
    assert report.verdict.startswith(report.findings[0].headline)
    assert not [each for each in report.findings if each.rule == "capture/incomplete"]


class Busy(NamedTuple):
    """Spans of one process on one device, from first start to last end, that exceed a threshold, as (number, ns)."""

    operations: int
    span_ns: int
    busy_ns: int
    summed_ns: int
    over_10_us: tuple[int, int]
    over_1_ms: tuple[int, int]
    longest: tuple[int, int]


BUSY = {
    (OLD, 0): Busy(
        1817, 4306990175, 14332783, 14332783, (1430, 4291290323), (76, 4224529420), (3630870879, 3723623932)
    ),
    (CNN, 0): Busy(
        4709, 4447455665, 23504261, 23557125, (3378, 4418803993), (36, 4244288346), (3396727342, 4138590623)
    ),
    (OPERATOR_RANGES, 0): Busy(
        4709, 3358461769, 23248334, 23290766, (3614, 3330887396), (31, 3132661456), (2698788146, 2702816042)
    ),
    (BERT, 0): Busy(
        24889, 1448916243, 975181842, 975181842, (1820, 429719193), (32, 361018650), (72545022, 11377696421)
    ),
    (TWO_GPUS, 0): Busy(
        2722, 1446107076, 109137946, 109141465, (1033, 1333906623), (139, 1237393922), (367501683, 6307433532)
    ),
    (TWO_GPUS, 1): Busy(
        2344, 888008113, 61922721, 61925953, (823, 823083029), (141, 770362389), (73061952, 6858352094)
    ),
}


@pytest.mark.parametrize("key", BUSY, ids=lambda key: f"{key[0]}-{key[1]}")
def test_busy_time_and_gaps_of_a_device_are_the_reference_numbers(
    key: tuple[str, int], real_context: RealContext
) -> None:
    name, device = key
    operations = real_context(name).operations
    mine, busy = operations.on(device), operations.busy(device)
    start, end = int(busy.start[0]), int(busy.end[-1])
    holes = gaps(busy, start, end)
    length = holes.end - holes.start
    longest = int(np.argmax(length))
    found = Busy(
        operations=len(mine),
        span_ns=end - start,
        busy_ns=total(busy),
        summed_ns=int((operations.end[mine] - operations.start[mine]).sum()),
        over_10_us=(int((length > 10_000).sum()), int(length[length > 10_000].sum())),
        over_1_ms=(int((length > 1_000_000).sum()), int(length[length > 1_000_000].sum())),
        longest=(int(length[longest]), int(holes.start[longest])),
    )
    assert found == BUSY[key]


# Device -> collective kernels, their union, the union of compute, the overlap of both.
COLLECTIVES = {0: (176, 23508753, 42520164, 0), 1: (176, 29158264, 32183858, 0)}


@pytest.mark.parametrize("device", COLLECTIVES)
def test_communication_on_two_gpus_is_the_reference_numbers(device: int, real_context: RealContext) -> None:
    """No kernel overlaps with communication, so all of it is exposed."""
    context = real_context(TWO_GPUS)
    operations = context.operations
    mine = operations.device_id == device
    spans = {
        kind: merge(
            operations.start[mine & (operations.kind == kind)], operations.end[mine & (operations.kind == kind)]
        )
        for kind in (COMPUTE, COMMUNICATION)
    }
    count = int((mine & (operations.kind == COMMUNICATION)).sum())
    both = overlap(spans[COMPUTE], spans[COMMUNICATION])
    assert (count, total(spans[COMMUNICATION]), total(spans[COMPUTE]), both) == COLLECTIVES[device]
    exposed = ledger_rows(operations, device, choose_window(context, ALL))["communication_transfer_ns"]
    assert exposed == COLLECTIVES[device][1]


# Range -> ranges, their time on the host, then operations, envelope and union, on one thread and on any.
PROJECTIONS = {
    (CNN, "copy"): (60, 8263908, 120, 3472631, 414110, 120, 3472631, 414110),
    (CNN, "forward"): (60, 678174086, 1562, 643176084, 5008948, 1562, 643176084, 5008948),
    (CNN, "backward"): (60, 248077097, 60, 42944, 42944, 2582, 217601848, 11185094),
    (CNN, "optimizer"): (60, 103664992, 436, 86143597, 6493166, 436, 86143597, 6493166),
    (BERT, "Backward pass"): (10, 346142907, 10, 7712, 7712, 6460, 698189323, 584463806),
    (BERT, "Optimizer"): (10, 727906053, 16318, 149248696, 37445752, 16318, 149248696, 37445752),
}
OWN = ("operation_count", "envelope_ns", "busy_ns")
ANY = ("operation_count_any_thread", "envelope_any_thread_ns", "busy_any_thread_ns")


@pytest.mark.parametrize("key", PROJECTIONS, ids=" ".join)
def test_what_ranges_launched_is_the_reference_numbers(key: tuple[str, str], real_trace: RealTrace) -> None:
    """Backward launches nearly all operations from autograd's own thread."""
    trace = real_trace(key[0])
    table = run_section(ranges, context_of(trace), whole_session(trace)).tables["projection"].set_index("name")
    assert tuple(table.loc[key[1], ["count", "range_ns", *OWN, *ANY]]) == PROJECTIONS[key]


# Share of operations launched on an idle device, then medians in us: launch latency, operation, from launch to launch.
LAUNCHES = {CNN: (0.75, 8.1, 2.5, 23.4), BERT: (0.07, 6.7, 1.6, 12.7)}


@pytest.mark.parametrize("name", LAUNCHES)
def test_launches_in_the_measured_window_are_the_reference_numbers(name: str, real_report: RealReport) -> None:
    """One run is launch-bound, and the other is limited by its kernels, although these are shorter."""
    section = real_report(name).section("launches")
    assert section
    labels = ("median_launch_latency_ns", "median_operation_ns", "median_launch_interval_ns")
    share, *medians = (section.fact(label) for label in ("just_in_time_share", *labels))
    assert share
    assert share.value == pytest.approx(LAUNCHES[name][0], abs=0.01)
    assert [float(fact.value or 0) / 1e3 for fact in medians if fact] == pytest.approx(LAUNCHES[name][1:], abs=0.06)


def test_an_incomplete_capture_is_found_out(real_report: RealReport) -> None:
    """An old nsys lost the main thread's calls and ranges without a message; nearly all of the window can be wrong."""
    report = real_report(OLD)
    finding = next(each for each in report.findings if each.rule == "capture/incomplete")
    assert (finding.severity, finding.lost_ns) == (Severity.PROBLEM, 4_292_657_392)
    assert "stop 542 ms before the last launch" in finding.evidence[0]
    best = next(each for each in report.findings if not each.rule.startswith("capture/"))
    assert outweighs(report.section("capture_check"), best.lost_ns)
    assert "the capture is incomplete" in report.verdict.lower()


@of_captures(name for name in CAPTURE_NAMES if name not in {OLD, NO_GPU})
@every_window
def test_a_complete_capture_is_not_called_incomplete(name: str, wanted: str, real_report: RealReport) -> None:
    report = real_report(name, wanted)
    assert not [each for each in report.findings if each.rule.startswith("capture/")]
    assert "Cannot tell" not in report.verdict


def idle_by_cause(report: Report) -> dict[str, int]:
    section = report.section("idle")
    assert section
    return {str(k): int(v) for k, v in section.tables["attribution"].groupby("cause")["idle_ns"].sum().items()}


def test_a_graph_traced_as_a_whole_is_compute(real_trace: RealTrace) -> None:
    """There are 50 graphs; a note says that the kernels inside them are not shown."""
    trace = real_trace(GRAPHS)
    operations = context_of(trace).operations
    graphs = operations.from_table(tables.GRAPHS)
    assert len(graphs) == 50
    assert set(operations.kind[graphs]) == {COMPUTE}
    report = build_report(trace)
    assert "not_traced" not in idle_by_cause(report)
    section = report.section("tensor_cores")
    assert section
    assert any("--cuda-graph-trace=node" in note for note in section.notes)


def test_a_graph_traced_by_node_is_kernels_of_its_launch(real_trace: RealTrace) -> None:
    """There are 1200 kernels, each joined to the call that launched its graph."""
    trace = real_trace(NODES)
    operations = context_of(trace).operations
    nodes = array(trace[tables.KERNELS], "graph_node_id") > 0
    assert int(nodes.sum()) == 1200
    rows = operations.from_table(tables.KERNELS)
    call = operations.call[rows[nodes[operations.row[rows]]]]
    names = {trace.text(int(each)) for each in array(trace[tables.CALLS], "name_id")[call]}
    assert {name.partition("_v")[0] for name in names} == {"cudaGraphLaunch"}
    assert len(np.unique(call)) == 50
    assert "not_traced" not in idle_by_cause(build_report(trace))


@pytest.mark.parametrize("name", [NODES, GRAPHS])
def test_a_graph_that_was_traced_neither_way_is_not_traced(name: str, real_trace: RealTrace) -> None:
    """The rows of the graph are removed, as if nsys could not trace it; the bound of the capture check covers them."""
    trace = real_trace(name)
    kernels, graphs = trace[tables.KERNELS], trace[tables.GRAPHS]
    bare = kernels[kernels["graph_node_id"] == 0].reset_index(drop=True)
    frames = {**trace.frames, tables.KERNELS.name: bare, tables.GRAPHS.name: graphs.iloc[:0]}
    window = choose_window(context_of(trace))
    report = build_report(replace(trace, frames=frames), f"{window.start_ns / 1e9:.9f}:{window.end_ns / 1e9:.9f}")
    hidden = graph_time(trace, window)
    assert idle_by_cause(report)["not_traced"] >= hidden > 0
    assert outweighs(report.section("capture_check"), hidden - 1)


def graph_time(trace: Trace, window: Window) -> int:
    operations = context_of(trace).operations
    is_graph = np.zeros(len(operations.start), bool)
    is_graph[operations.from_table(tables.GRAPHS)] = True
    rows = operations.from_table(tables.KERNELS)
    is_graph[rows] = array(trace[tables.KERNELS], "graph_node_id")[operations.row[rows]] > 0
    inside = is_graph & (operations.start < window.end_ns) & (operations.end > window.start_ns)
    return total(merge(operations.start[inside], operations.end[inside]))
