"""The timeline of a trace: its sums add up at every level of detail, and exact bins have all their items."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from export_builder import ExportBuilder, trace_of
from hypothesis import given, reject
from hypothesis import strategies as st
from random_traces import Sketch, context_of, random_trace, same_examples, several, sketches
from real_captures import RealContext, RealReport, of_captures

import nsyswrap.report
from nsyswrap.base.errors import UsageError
from nsyswrap.base.intervals import merge, total
from nsyswrap.model import Report, TimelineData, TimelineRow
from nsyswrap.render import render
from nsyswrap.render.gaps import longest
from nsyswrap.report import build_report
from nsyswrap.sections import idle as idle_section
from nsyswrap.sections import ledger as ledger_section
from nsyswrap.sections.ledger import ROWS
from nsyswrap.timeline import bins as timeline_bins
from nsyswrap.timeline import gpu_rows, host_rows
from nsyswrap.timeline.gpu_rows import BUSY_CLASSES, GPU_CLASSES, OUTSIDE
from nsyswrap.trace.tables import Trace

bins = st.sampled_from((1, 3, 8, 1 << 13))
BUSY = BUSY_CLASSES
CAPTURES = ("alexnet_data_parallel_2gpu", "cnn_amp", "cuda_graph_graph_trace", "mnist_counters_python")


def timeline_of(report: Report) -> tuple[Report, TimelineData]:
    assert report.timeline is not None
    return report, report.timeline


def drawn(trace: Trace, window: str = "all") -> tuple[Report, TimelineData]:
    return timeline_of(build_report(trace, window, with_timeline=True))


def rows_of(data: TimelineData, kind: str) -> list[TimelineRow]:
    return [row for row in data.rows if row.kind == kind]


def ledger(report: Report, device: int) -> dict[str, int]:
    """Return the time of each class of a GPU's window, as the ledger and the attribution of idle time have it."""
    section, idle = report.section("ledger"), report.section("idle")
    assert section is not None
    assert idle is not None
    devices = section.tables["devices"]
    (row,) = devices[devices["device_id"] == device].to_dict("records")
    names = ROWS[:-1]
    found = {kind: int(row[name]) for kind, name in zip(BUSY, names, strict=True)}
    attribution = idle.tables["attribution"]
    mine = attribution[attribution["device_id"] == device]
    return found | {str(rule): int(ns) for rule, ns in mine.groupby("rule")["idle_ns"].sum().items()}


def sums_between(data: TimelineData, row: TimelineRow, start: int, end: int) -> dict[str, int]:
    """Return what each class takes between two edges."""
    first, last = np.searchsorted(data.edges, [start, end])
    assert data.edges[first] == start
    assert data.edges[last] == end
    taken = row.sums[:, first:last].sum(axis=1)
    return {name: int(ns) for name, ns in zip(row.classes, taken, strict=True) if ns}


def coarsely_drawn(trace: Trace, count: int, window: str = "all") -> tuple[Report, TimelineData]:
    """Return report and timeline with ``count`` equal bins; by default a short trace has a bin for each ns.

    The report has the sections that the timeline is compared with, since others take most of the time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline_bins, "BINS", count)
        patch.setattr(nsyswrap.report, "SECTIONS", (ledger_section.SECTION, idle_section.SECTION))
        return drawn(trace, window)


@lru_cache(maxsize=64)
def sketched(sketch: Sketch, count: int) -> tuple[Report, TimelineData]:
    """Return report and timeline of a sketch with ``count`` bins; laws of the same sketch share them."""
    return coarsely_drawn(random_trace(sketch), count)


def squeezed(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Limit the items of a row to ``most``, as the timeline does for a capture with millions of events."""
    monkeypatch.setattr(gpu_rows, "MOST_PIECES", most)
    monkeypatch.setattr(gpu_rows, "MOST_OPERATIONS", most)
    monkeypatch.setattr(host_rows, "MOST_CALLS", most)


@several
@same_examples
@given(sketches, bins)
def test_busy_time_is_the_same_at_every_level(sketch: Sketch, count: int) -> None:
    """The busy time of the bins, added up in groups of any size, is the union of the operations."""
    _, data = sketched(sketch, count)
    operations = context_of(sketch).operations
    for row in rows_of(data, "gpu"):
        mine = operations.on(row.device_id)
        for level in (1, 2, 7, 50):
            coarse = np.add.reduceat(row.sums[: len(BUSY)].sum(axis=0), np.arange(0, row.sums.shape[1], level))
            assert coarse.sum() == total(merge(operations.start[mine], operations.end[mine]))


@several
@same_examples
@given(sketches, bins)
def test_every_bin_of_a_gpu_is_full(sketch: Sketch, count: int) -> None:
    """The classes of each bin of a GPU add up to its length, since a GPU is busy or idle.

    Idle time of a GPU that is unused in the window has no rule, so no class counts it.
    """
    report, data = sketched(sketch, count)
    used = context_of(sketch).operations.used_in(report.window)
    inside = (data.edges[:-1] >= report.window.start_ns) & (data.edges[1:] <= report.window.end_ns)
    for row in rows_of(data, "gpu"):
        whole = row.sums if row.device_id in used else row.sums[:, ~inside]
        length = np.diff(data.edges)
        assert (whole.sum(axis=0) == (length if row.device_id in used else length[~inside])).all()
        assert row.device_id in used or not row.sums[len(BUSY) :, inside].any()


@several
@same_examples
@given(sketches, bins)
def test_the_window_of_the_timeline_is_the_ledger(sketch: Sketch, count: int) -> None:
    try:
        report, data = coarsely_drawn(random_trace(sketch), count, "0.000000005:0.000000055")
    except UsageError:  # nothing was recorded there
        reject()
    used = context_of(sketch).operations.used_in(report.window)
    for row in (row for row in rows_of(data, "gpu") if row.device_id in used):
        found = sums_between(data, row, report.window.start_ns, report.window.end_ns)
        assert found == {name: ns for name, ns in ledger(report, row.device_id).items() if ns}


@several
@same_examples
@given(sketches, bins)
def test_no_class_takes_more_of_a_bin_than_there_is(sketch: Sketch, count: int) -> None:
    _, data = sketched(sketch, count)
    for row in data.rows:
        assert (row.sums.sum(axis=0) <= np.diff(data.edges)).all()


@several
@given(sketches, bins, st.integers(1, 6))
def test_an_exact_bin_has_all_its_items(sketch: Sketch, count: int, most: int) -> None:
    """The items in an exact bin add up to its sums, even where other bins show no items."""
    with pytest.MonkeyPatch.context() as patch:
        squeezed(patch, most)
        _, data = coarsely_drawn(random_trace(sketch), count)
    for row in (row for row in data.rows if row.kind in {"gpu", "thread"}):
        for at in np.flatnonzero(row.exact):
            low, high = data.edges[at], data.edges[at + 1]
            taken = np.zeros(len(row.classes), np.int64)
            length = np.minimum(row.items.end, high) - np.maximum(row.items.start, low)
            np.add.at(taken, row.items.code.astype(np.intp), np.maximum(length, 0))
            assert taken.tolist() == row.sums[:, at].tolist()


@of_captures(CAPTURES)
def test_a_real_capture_is_exact_everywhere(name: str, real_context: RealContext, real_report: RealReport) -> None:
    """These captures are small enough to show every operation."""
    _, data = timeline_of(real_report(name, "all", with_timeline=True))
    assert data.is_exact
    assert sum(len(row.items.start) for row in rows_of(data, "stream")) == len(real_context(name).operations.start)


@of_captures(CAPTURES)
def test_steps_begin_and_end_at_edges(name: str, real_context: RealContext, real_report: RealReport) -> None:
    """The ledger of a step is therefore exact even where its operations are not shown."""
    _, data = timeline_of(real_report(name, "all", with_timeline=True))
    steps = real_context(name).steps.frame
    assert np.isin(steps["start"], data.edges).all()
    assert np.isin(steps["end"], data.edges).all()


def test_a_large_capture_is_exact_around_its_longest_gaps(
    real_trace: Callable[[str], Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    squeezed(monkeypatch, 2_000)
    _, data = drawn(real_trace("cnn_amp"), "")
    assert not data.is_exact
    (row,) = rows_of(data, "gpu")
    assert len(row.items.start) <= 2_000
    first = data.gaps[0]
    inside = (data.edges[:-1] >= first.start_ns) & (data.edges[1:] <= first.end_ns)
    assert inside.any()
    assert row.exact[inside].all()


def test_gaps_are_listed_longest_first(real_report: RealReport) -> None:
    report, data = timeline_of(real_report("alexnet_data_parallel_2gpu", with_timeline=True))
    lengths = [gap.end_ns - gap.start_ns for gap in data.gaps]
    assert lengths == sorted(lengths, reverse=True)
    assert {gap.device_id for gap in data.gaps} == {0, 1}
    # A number in the address leads to the same gap as a row of the page's table.
    table = report.rows("idle", "gaps")
    assert table is not None
    listed, _, _ = longest(table, 10)
    assert [tuple(gap) for gap in data.gaps[:10]] == [(gap.device_id, gap.start_ns, gap.end_ns) for gap in listed]
    assert all(report.window.start_ns <= gap.start_ns < gap.end_ns <= report.window.end_ns for gap in data.gaps)


def two_streams() -> ExportBuilder:
    """A kernel and a copy on two streams, each launched by a call; idle before, between and after.

    ::

        stream 7     |kernel|                     10 to 20
        stream 9                  |copy|          30 to 35
        calls      |-|        |--|                5 to 7, 22 to 28
    """
    builder = ExportBuilder().kernel(10, 20, "ampere_sgemm", launched=(5, 7), stream=7, correlation=1)
    return builder.copy(30, 35, launched=(22, 28), stream=9, correlation=2)


def test_an_operation_shows_its_launch() -> None:
    _, data = drawn(trace_of(two_streams()), "0:0.00000004")
    kernel, copy = (row.items.details for row in rows_of(data, "stream"))
    assert (kernel["latency"][0], kernel["call_ns"][0]) == (5, 2)
    assert data.texts["call"][int(copy["call"][0]) - 1] == "cudaMemcpyAsync"
    assert data.kernels[int(kernel["name"][0])].name == "ampere_sgemm"
    assert data.kernels[int(copy["name"][0])].name.startswith("copy, Host-to-Device")


def test_idle_time_outside_the_window_has_no_cause() -> None:
    """The window is 12 to 32: idle time after 35 is outside it, and the copy still runs at 32."""
    _, data = drawn(trace_of(two_streams()), "0.000000012:0.000000032")
    (row,) = rows_of(data, "gpu")
    assert (int(data.edges[0]), int(data.edges[-1])) == (10, 35)
    assert OUTSIDE not in {GPU_CLASSES[int(code)] for code in row.items.code}
    later = trace_of(two_streams().kernel(50, 60, "late", stream=7, launched=(40, 41), correlation=3))
    (row,) = rows_of(drawn(later, "0.000000012:0.000000032")[1], "gpu")
    beyond = row.items.code == GPU_CLASSES.index(OUTSIDE)
    assert (row.items.start[beyond].tolist(), row.items.end[beyond].tolist()) == ([35], [50])


def test_a_report_has_a_timeline_only_on_request(real_report: RealReport) -> None:
    plain = real_report("mnist_counters_python")
    drawn_report = real_report("mnist_counters_python", with_timeline=True)
    assert plain.timeline is None
    assert [f.name for f in dataclasses.fields(plain) if getattr(plain, f.name) is None] == ["timeline"]
    assert [one.headline for one in drawn_report.findings] == [one.headline for one in plain.findings]


def test_counters_are_means_of_their_bins(real_context: RealContext, real_report: RealReport) -> None:
    context = real_context("mnist_counters_python")
    _, data = timeline_of(real_report("mnist_counters_python", "all", with_timeline=True))
    rows = rows_of(data, "counter")
    assert [row.label for row in rows] == [samples.name for samples in context.counter_samples]
    for row in rows:
        assert row.sums.min() >= gpu_rows.NOT_SAMPLED
        assert row.sums.max() <= 100 * 100
    active = next(row for row in rows if row.label == "SMs Active")
    assert active.sums.max() > 0


def test_python_lines_are_named(real_report: RealReport) -> None:
    _, data = timeline_of(real_report("mnist_counters_python", "all", with_timeline=True))
    (row,) = rows_of(data, "python")
    assert len(row.items.start) > 10
    lines = {data.texts["line"][int(at) - 1] for at in row.items.details["line"]}
    assert all(":" in line and " in " in line for line in lines)


def test_times_since_1970_have_no_timeline() -> None:
    """Its nanoseconds do not fit into the numbers of a page, as times since 1970. The rest of the report is there."""
    since_1970 = 1_700_000_000 * 10**9
    builder = ExportBuilder().gpu().kernel(since_1970 + 5, since_1970 + 9, launched=(since_1970, since_1970 + 2))
    report = build_report(trace_of(builder), "all", with_timeline=True)
    assert report.timeline is None
    assert report.section("ledger") is not None


def test_a_call_that_began_long_before_does_no_harm() -> None:
    builder = two_streams().call("cudaStreamSynchronize", -(1 << 51), 1 << 51)
    report, data = drawn(trace_of(builder), "0:0.00000004")
    (row,) = rows_of(data, "thread")
    assert row.items.start.min() == -(1 << 51)
    assert 'id="timeline-data"' in render("html", report)
