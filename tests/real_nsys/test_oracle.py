"""Our tables equal nsys's own reports on every real capture, to the nanosecond.

Known differences, apart from numbers: nsys merges processes, and it lists spellings separately that we merge (versions
of a call, kinds of memory). Newer nsys writes a colon before a range of the default domain. Averages are rounded to a
tenth, so they may differ by half a tenth.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from analysis_fixtures import whole_session
from nsys_reports import Rows, reports_of
from real_captures import CAPTURE_NAMES, RealContext
from section_runs import run_sections

from nsyswrap.base.intervals import Spans, gaps, merge, total
from nsyswrap.capture.locate import Nsys
from nsyswrap.events.api_calls import base_name
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.sections import copies, host_calls, kernels, os_calls, ranges
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

RealTrace = Callable[[str], Trace]
NsysReports = Callable[[str], dict[str, Rows]]

ROUNDED = 0.1001
# Other events that nsys counts as busy; no capture has any.
OVERHEADS = {
    "CUDA profiling data flush overhead",
    "CUDA profiling stop overhead",
    "CUDA profiling overhead",
}
CHUNKS = 30

# What has steps, counters, several GPUs, and graphs; `make check` compares all captures.
OF_EACH_KIND = ("cnn_amp", "mnist_counters_python", "ddp_2gpu_slow_links", "cuda_graph_graph_trace")
every_capture = pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in OF_EACH_KIND else pytest.mark.thorough) for each in CAPTURE_NAMES],
)


@pytest.fixture(scope="module")
def nsys_reports(nsys: Nsys, captures: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> NsysReports:
    """Return nsys's own reports of a capture, by name; each runs once."""

    @cache
    def reports(name: str) -> dict[str, Rows]:
        return reports_of(nsys.path, captures(name), tmp_path_factory.mktemp(name))

    return reports


def whole(context: TraceContext, spec: SectionSpec) -> dict[str, pd.DataFrame]:
    """Return the tables of a section for the whole session."""
    (section,) = run_sections([spec], context, whole_session(context.trace))
    return dict(section.tables)


def plain(name: str) -> str:
    """Return the name of a range as older versions of nsys print it."""
    return name.removeprefix(":")


def compared(found: pd.DataFrame, expected: Rows, key: str, total_key: str, count_key: str) -> None:
    """Compare a summary by name with that of nsys: exactly, except averages, medians and deviations, to a tenth."""
    rows = {str(row["name"]): row for row in found.to_dict("records")}
    wanted = {row[key]: row for row in expected}
    assert rows.keys() == wanted.keys()
    for name, row in rows.items():
        exact = [int(wanted[name][column]) for column in (total_key, count_key, "Min (ns)", "Max (ns)")]
        assert [row["total_ns"], row["count"], row["min_ns"], row["max_ns"]] == exact, name
        rounded = [float(wanted[name][column]) for column in ("Avg (ns)", "Med (ns)", "StdDev (ns)")]
        assert [row["mean_ns"], row["median_ns"], row["stddev_ns"]] == pytest.approx(rounded, abs=ROUNDED), name


@every_capture
def test_kernels_match_nsys(name: str, nsys_reports: NsysReports, real_context: RealContext) -> None:
    table = whole(real_context(name), kernels.SECTION)["summary"]
    compared(table, nsys_reports(name)["cuda_gpu_kern_sum"], "Name", "Total Time (ns)", "Instances")


@every_capture
def test_operating_system_calls_match_nsys(name: str, nsys_reports: NsysReports, real_context: RealContext) -> None:
    table = whole(real_context(name), os_calls.SECTION)["summary"]
    compared(table, nsys_reports(name)["osrt_sum"], "Name", "Total Time (ns)", "Num Calls")


@every_capture
def test_cuda_calls_match_nsys(name: str, nsys_reports: NsysReports, real_context: RealContext) -> None:
    """Nsys keeps version suffixes of five digits in names; without them some of its rows are one row here."""
    table = whole(real_context(name), host_calls.SECTION)["summary"]
    by_name: dict[str, Rows] = defaultdict(list)
    for row in nsys_reports(name)["cuda_api_sum"]:
        by_name[base_name(row["Name"])].append(row)
    assert set(table["name"]) == by_name.keys()
    alone = {key for key, rows in by_name.items() if len(rows) == 1}
    expected = [{**by_name[key][0], "Name": key} for key in alone]
    compared(table[table["name"].isin(alone)], expected, "Name", "Total Time (ns)", "Num Calls")
    for called, total_ns, count in zip(table["name"], table["total_ns"], table["count"], strict=True):
        assert total_ns == sum(int(each["Total Time (ns)"]) for each in by_name[called])
        assert count == sum(int(each["Num Calls"]) for each in by_name[called])


def operation_name(kind: str) -> str:
    """Return nsys's name for a kind of copy."""
    return "[CUDA memset]" if kind == "Memset" else f"[CUDA memcpy {kind}]"


@every_capture
def test_copies_and_memsets_match_nsys(name: str, nsys_reports: NsysReports, real_context: RealContext) -> None:
    """Nsys does not distinguish kinds of memory, and prints sizes with three decimals of a megabyte."""
    table = whole(real_context(name), copies.SECTION)["summary"]
    grouped = table.assign(operation=table["kind"].map(operation_name)).groupby("operation")
    found = grouped.agg(total_ns=("total_ns", "sum"), count=("count", "sum"), bytes=("bytes", "sum"))
    times = {row["Operation"]: row for row in nsys_reports(name)["cuda_gpu_mem_time_sum"]}
    sizes = {row["Operation"]: row for row in nsys_reports(name)["cuda_gpu_mem_size_sum"]}
    assert set(found.index) == times.keys() == sizes.keys()
    for operation, row in found.iterrows():
        time, size = times[str(operation)], sizes[str(operation)]
        assert (row["total_ns"], row["count"]) == (int(time["Total Time (ns)"]), int(time["Count"]))
        assert row["count"] == int(size["Count"])
        assert row["bytes"] / 1e6 == pytest.approx(float(size["Total (MB)"]), abs=0.00051)


@every_capture
def test_ranges_match_nsys(name: str, nsys_reports: NsysReports, real_context: RealContext) -> None:
    """There is one row for each name, for all styles; a range that was never closed lasts until the last event."""
    table = whole(real_context(name), ranges.SECTION)["summary"]
    expected = summed(nsys_reports(name)["nvtx_sum"], ("Total Time (ns)", "Instances"))
    found = {row["name"]: [row["total_ns"], row["count"]] for row in table.to_dict("records")}
    assert found == expected


def summed(rows: Rows, columns: tuple[str, ...]) -> dict[str, list[int]]:
    """Return sums of columns by range name; nsys also distinguishes styles, processes and threads."""
    found: dict[str, list[int]] = {}
    for row in rows:
        before = found.get(plain(row["Range"]), [0] * len(columns))
        found[plain(row["Range"])] = [old + int(row[column]) for old, column in zip(before, columns, strict=True)]
    return found


@every_capture
def test_projections_match_nsys(name: str, nsys_reports: NsysReports, real_trace: RealTrace) -> None:
    """A range covers what its own thread launched; both leave out CUDA graphs that are traced as a whole."""
    trace = real_trace(name)
    frames = {**trace.frames, tables.GRAPHS.name: trace[tables.GRAPHS].iloc[:0]}
    table = whole(find_context(replace(trace, frames=frames)), ranges.SECTION)["projection"]
    columns = ("Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances")
    expected = summed(nsys_reports(name)["nvtx_gpu_proj_sum"], columns)
    own = table[table["count"] > 0]
    found = {row["name"]: [row["envelope_ns"], row["range_ns"], row["count"]] for row in own.to_dict("records")}
    assert found == expected


@every_capture
def test_kernels_by_range_match_nsys(name: str, nsys_reports: NsysReports, real_context: RealContext) -> None:
    """A kernel counts in each range around its launch; nsys lists kernels outside all ranges without a name."""
    table = whole(real_context(name), ranges.SECTION)["kernels"]
    expected: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in nsys_reports(name)["nvtx_kern_sum"]:
        if row["NVTX Range"]:
            both = expected[plain(row["NVTX Range"]), row["Kernel Name"]]
            both[0] += int(row["Total Time (ns)"])
            both[1] += int(row["Kern Inst"])
    found = {(row["range"], row["name"]): [row["total_ns"], row["count"]] for row in table.to_dict("records")}
    assert found == expected


def busy_of(trace: Trace) -> dict[tuple[int, int], tuple[Spans, pd.DataFrame]]:
    """Return the union of busy intervals, by nsys's rules, and the operations, for each process and device."""
    assert not {trace.text(int(i)) for i in array(trace[tables.OVERHEADS], "name_id")} & OVERHEADS
    frames = [trace[spec] for spec in (tables.KERNELS, tables.COPIES, tables.MEMSETS) if len(trace[spec])]
    if not frames:
        return {}
    whole_frame = pd.concat([frame[["start", "end", "process", "device_id"]] for frame in frames])
    groups = whole_frame[whole_frame["start"] > 0].groupby(["process", "device_id"])
    found: dict[tuple[int, int], tuple[Spans, pd.DataFrame]] = {}
    for _, group in groups:
        process, device = group.iloc[0][["process", "device_id"]]
        found[tables.pid(int(process)), int(device)] = merge(group["start"], group["end"]), group
    return found


@every_capture
def test_gaps_match_nsys(name: str, nsys_reports: NsysReports, real_trace: RealTrace) -> None:
    """Gaps of any length match, with their starts, for each process and device from first to last operation."""
    found = []
    for (number, device), (spans, _) in busy_of(real_trace(name)).items():
        holes = gaps(spans, int(spans.start[0]), int(spans.end[-1]))
        found += [(number, device, s, e - s) for s, e in zip(holes.start.tolist(), holes.end.tolist(), strict=True)]
    rows = nsys_reports(name)["gpu_gaps:gap=0:rows=-1"]
    keys = ("PID", "Device ID", "Start (ns)", "Duration (ns)")
    assert sorted(found) == sorted(tuple(int(row[key]) for key in keys) for row in rows)


@every_capture
def test_utilization_over_time_matches_nsys(name: str, nsys_reports: NsysReports, real_trace: RealTrace) -> None:
    """Nsys splits each device's time into thirty intervals, lists those below half, and joins neighbours.

    nsys adds up operations that overlap; the captures have few of them, and the same sum is made here.
    """
    found = []
    for (number, device), (spans, frame) in busy_of(real_trace(name)).items():
        first, last = int(spans.start[0]), int(spans.end[-1])
        size = -((first - last) // CHUNKS)
        edges = [min(first + n * size, last) for n in range(CHUNKS + 1)]
        chunks = [(a, b, overlap(frame, a, b)) for a, b in pairwise(edges) if b > a]
        found += [(number, device, *row) for row in coalesced(chunks)]
    keys = ("PID", "Device ID", "Start (ns)", "Duration (ns)", "In-Use (%)")
    expected = sorted(tuple(float(row[key]) for key in keys) for row in nsys_reports(name)["gpu_time_util"])
    assert len(found) == len(expected)
    for mine, theirs in zip(sorted(found), expected, strict=True):
        assert mine == pytest.approx(theirs, abs=ROUNDED)


def overlap(frame: pd.DataFrame, start: int, end: int) -> int:
    """Return the summed time of operations inside an interval."""
    inside = frame["end"].clip(upper=end) - frame["start"].clip(lower=start)
    return int(inside.clip(lower=0).sum())


def coalesced(chunks: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, float]]:
    """Return start, length and share in percent of adjacent intervals that are used less than half."""
    found: list[list[int]] = []
    for start, end, used in chunks:
        if 2 * used >= end - start:
            continue
        if found and found[-1][1] == start:
            found[-1][1:] = [end, found[-1][2] + used]
        else:
            found.append([start, end, used])
    return [(start, end - start, 100 * used / (end - start)) for start, end, used in found]


def test_the_busy_time_of_the_ledger_matches_nsys_s_gaps(nsys_reports: NsysReports, real_context: RealContext) -> None:
    """For one process on one device, operations and gaps add up to the whole time."""
    context = real_context("cnn_amp")
    busy = context.operations.busy(0)
    idle = sum(int(row["Duration (ns)"]) for row in nsys_reports("cnn_amp")["gpu_gaps:gap=0:rows=-1"])
    assert total(busy) + idle == int(busy.end[-1] - busy.start[0])
