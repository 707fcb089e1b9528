"""The section on occupancy: estimates by kernel, their means weighted by time, and its findings."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from hypothesis import given
from hypothesis import strategies as st
from real_captures import RealContext, every_gpu_capture
from savings import ends_of

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import find_context
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.report import choose_window
from nsyswrap.sections import ledger, occupancy
from nsyswrap.sections.occupancy import busy_multiprocessors
from nsyswrap.trace.tables import Trace

# An H200 has 132 multiprocessors. A block of 256 threads and 32 registers fits 8 times, so 1056 blocks are one wave.
WAVE = 8 * 132
US = 1000


def export(release: int = 2025) -> ExportBuilder:
    """Return an export with one H200."""
    return ExportBuilder(release).gpu()


def section(trace: Trace, end: int = 1000) -> Section:
    """Return the section of a window that starts at 0."""
    return run_section(occupancy, find_context(trace), window(0, end))


def value(found: Section, label: str) -> object:
    fact = found.fact(label)
    assert isinstance(fact, Fact)
    return fact.value


def row(found: Section, name: str) -> dict[str, object]:
    table = found.tables["kernels"]
    return dict(table[table["name"] == name].iloc[0])


def test_one_full_wave_fills_the_gpu() -> None:
    found = section(trace_of(export().kernel(0, 100, "full", gridX=WAVE, blockX=256)))
    assert row(found, "full") == {
        "name": "full",
        "theoretical_occupancy": 1.0,
        "achieved_estimate": 1.0,
        "sm_efficiency_estimate": 1.0,
        "limiter": "none",
        "count": 1,
        "total_ns": 100,
    }
    assert (value(found, "unfilled_share"), value(found, "tail_share")) == (0.0, 0.0)


def test_a_small_grid_leaves_multiprocessors_empty() -> None:
    """With 33 blocks of 8 warps, a quarter of 132 multiprocessors is busy, each with 8 of 64 warps."""
    found = section(trace_of(export().kernel(0, 100, "small", gridX=11, gridY=3, blockX=64, blockY=4)))
    mine = row(found, "small")
    assert (mine["theoretical_occupancy"], mine["limiter"]) == (1.0, "none")
    assert mine["sm_efficiency_estimate"] == pytest.approx(0.25)
    assert mine["achieved_estimate"] == pytest.approx(0.25 * 8 / 64)
    assert value(found, "unfilled_share") == 1.0
    assert value(found, "tail_share") is None


def test_the_last_wave_leaves_places_empty() -> None:
    """One and a half waves leave a quarter of the places of two waves empty."""
    found = section(trace_of(export().kernel(0, 100, "tail", gridX=WAVE * 3 // 2, blockX=256)))
    assert value(found, "tail_share") == pytest.approx(0.25)


def test_facts_are_weighted_by_time() -> None:
    """300 ns at 100 % and 100 ns at 50 % give 87.5 %."""
    built = export().kernel(0, 300, "a", gridX=WAVE, blockX=256).kernel(300, 400, "b", gridX=WAVE, blockX=32)
    found = section(trace_of(built))
    assert value(found, "theoretical_occupancy_share") == pytest.approx((300 * 1.0 + 100 * 0.5) / 400)


def test_launches_of_one_name_are_weighted_and_show_the_limiter_of_most_time() -> None:
    """Two launch configurations of one name: 200 ns limited by registers (50 %), 100 ns without a limit."""
    built = export().kernel(0, 200, "k", gridX=WAVE, blockX=256, registers=64)
    found = section(trace_of(built.kernel(200, 300, "k", gridX=WAVE, blockX=256)))
    mine = row(found, "k")
    assert mine["theoretical_occupancy"] == pytest.approx((200 * 0.5 + 100 * 1.0) / 300)
    assert (mine["limiter"], mine["count"], mine["total_ns"]) == ("registers", 2, 300)


def test_gpus_are_averaged_and_have_their_own_limits() -> None:
    """A block of 1024 threads fills the 32 warps of a Turing and two thirds of the 48 of a GA102."""
    built = (
        ExportBuilder()
        .gpu(0, "T4", computeMajor=7, computeMinor=5, smCount=40)
        .gpu(1, "RTX 3090", computeMajor=8, computeMinor=6, smCount=82)
    )
    built.kernel(0, 1000, "k", gridX=40, blockX=1024).kernel(0, 500, "k", gridX=82, blockX=1024, device=1)
    found = section(trace_of(built))
    assert row(found, "k")["theoretical_occupancy"] == pytest.approx((1000 * 1.0 + 500 * 32 / 48) / 1500)
    assert value(found, "sm_efficiency_estimate_share") == pytest.approx((1.0 + 0.5) / 2)


def test_the_exports_own_limits_are_used() -> None:
    """The export limits an H200 to 16 warps, so two blocks of 8 warps fit."""
    own: dict[str, Any] = {"maxWarpsPerSm": 16, "maxBlocksPerSm": 8, "maxRegistersPerSm": 65536, "maxShmemPerSm": 65536}
    found = section(trace_of(ExportBuilder().gpu(**own).kernel(0, 9, "k", gridX=132, blockX=256)))
    assert row(found, "k")["achieved_estimate"] == pytest.approx(0.5)


def test_a_collective_is_no_compute_kernel() -> None:
    """NCCL chooses the number of its blocks."""
    built = export().kernel(0, 100, "ncclDevKernel_AllReduce").kernel(100, 200, "k", gridX=132, blockX=256)
    assert section(trace_of(built)).tables["kernels"]["name"].tolist() == ["k"]


def test_an_export_without_launch_configurations_says_so() -> None:
    """There is no estimate, and no finding on low occupancy."""
    columns = ("gridX", "registersPerThread")
    built = export().kernel(0, 900, "k").without("CUPTI_ACTIVITY_KIND_KERNEL", *columns)
    found = section(trace_of(built))
    assert [fact.value for fact in found.facts] == [None] * 5
    assert np.isnan(row(found, "k")["theoretical_occupancy"])  # type: ignore[call-overload]
    assert (row(found, "k")["limiter"], found.findings) == ("", ())
    assert "900 ns of kernel time" in found.notes[1]


def test_without_a_known_gpu_nothing_is_estimated() -> None:
    found = section(trace_of(ExportBuilder().kernel(0, 900, "k")))
    assert [fact.value for fact in found.facts] == [None] * 5


def test_a_gpu_with_unknown_limits_still_has_busy_multiprocessors() -> None:
    """Which multiprocessors of a Pascal have a block does not depend on how registers are allocated."""
    built = ExportBuilder().gpu(computeMajor=6, computeMinor=1, smCount=28).kernel(0, 500, "k", gridX=14)
    found = section(trace_of(built))
    assert row(found, "k")["sm_efficiency_estimate"] == pytest.approx(0.5)
    assert value(found, "sm_efficiency_estimate_share") == pytest.approx(0.25)
    assert value(found, "theoretical_occupancy_share") is None


def test_a_window_without_kernels_has_no_estimates() -> None:
    found = run_section(occupancy, find_context(trace_of(export().kernel(0, 100, "k"))), window(500, 900))
    assert [fact.value for fact in found.facts] == [None] * 5
    assert len(found.tables["kernels"]) == 0
    assert found.findings == ()


def findings(trace: Trace, end: int = 1000 * US) -> dict[str, Finding]:
    return {finding.rule: finding for finding in section(trace, end).findings}


def test_small_grids_are_a_finding() -> None:
    """33 of 132 multiprocessors are busy for 400 of 1000 us. On all of them the work takes a quarter of the time."""
    (found,) = findings(trace_of(export().kernel(0, 400 * US, "k", gridX=33, blockX=256))).values()
    assert (found.rule, found.severity, found.device_id) == ("occupancy/small_grid", "warning", 0)
    assert (found.lost_ns, *ends_of(found)) == (400 * US, None, None)
    assert found.evidence[:1] == ("400 µs in 1 launch of 33 blocks, theoretical occupancy 100.0 %: k",)
    assert "40.0 %" in found.headline


@pytest.mark.parametrize(("length", "severity"), [(49, None), (50, "note"), (199, "note"), (200, "warning")])
def test_the_severity_of_a_finding_follows_its_share(length: int, severity: str | None) -> None:
    """There is no finding below 5 % of 1000 us, and a warning from 20 % on."""
    found = findings(trace_of(export().kernel(0, length * US, "k", gridX=33, blockX=256)))
    assert [each.severity for each in found.values()] == ([severity] if severity else [])


def test_few_warps_are_a_finding() -> None:
    """With 255 registers a thread, one block of 8 of 64 warps fits: half of the limit for low occupancy."""
    built = export().kernel(0, 400 * US, "elementwise_kernel", gridX=9000, blockX=256, registers=255)
    (found,) = findings(trace_of(built)).values()
    assert (found.rule, found.lost_ns, found.saving) == ("occupancy/low", 400 * US, None)
    assert found.advice.startswith("Limited by registers. ")


@pytest.mark.parametrize(("blocks", "threads", "registers"), [(67, 256, 32), (9000, 320, 96)])
def test_half_of_the_multiprocessors_and_a_quarter_of_their_warps_are_enough(
    blocks: int, threads: int, registers: int
) -> None:
    """The first grid has blocks for 67 of 132 multiprocessors. Of the second one, 20 of 64 warps fit."""
    built = export().kernel(0, 400 * US, "elementwise_kernel", gridX=blocks, blockX=threads, registers=registers)
    assert findings(trace_of(built)) == {}


def test_matrix_products_have_few_warps_by_choice() -> None:
    built = export().kernel(0, 400 * US, "sm90_xmma_gemm_f16f16_f16f32", gridX=9000, blockX=256, registers=255)
    assert findings(trace_of(built)) == {}


def test_each_gpu_has_its_own_finding() -> None:
    built = export().gpu(1).kernel(0, 400 * US, "k", gridX=33).kernel(0, 300 * US, "k", gridX=33, device=1)
    found = section(trace_of(built), 1000 * US).findings
    assert [(f.device_id, f.lost_ns) for f in found] == [(0, 400 * US), (1, 300 * US)]


def test_very_many_gpus_are_simulated_once() -> None:
    """The fix is one of the program: all findings have the same saving."""
    builder = export()
    for device in range(20):
        launched = (device * 100, device * 100 + 50)
        builder.gpu(device).kernel(
            10_000, 510_000 + device, "small", launched=launched, gridX=1, blockX=256, device=device
        )
    findings = [each for each in section(trace_of(builder), 1_000_000).findings if each.rule == "occupancy/small_grid"]
    assert len(findings) == 20
    assert len({each.saving for each in findings}) == 1


def test_short_kernels_are_not_a_finding_on_small_grids() -> None:
    """Each of forty kernels takes 9.9 us, less than its launch: their number is the problem."""
    built = export()
    for number in range(40):
        built.kernel(number * 10 * US, number * 10 * US + 9_900, "k", gridX=33, blockX=256)
    assert findings(trace_of(built)) == {}


@pytest.mark.parametrize(
    "name",
    [
        "sgemm_32x32x32_NN",  # the section on tensor cores has it
        "void at::native::batch_norm_collect_statistics_kernel<0, float>()",  # more rows add no block to these
        "void at::native::<unnamed>::GammaBetaBackwardCUDAKernelTemplate<float, float, 32, 32, 256>()",
    ],
)
def test_grids_that_more_work_does_not_fill_are_left_out(name: str) -> None:
    built = export().kernel(0, 400 * US, name, gridX=33, blockX=256)
    assert findings(trace_of(built)) == {}


def test_a_small_grid_is_not_a_finding_on_low_occupancy_as_well() -> None:
    """Few blocks with few warps each give one finding."""
    built = export().kernel(0, 400 * US, "elementwise_kernel", gridX=9, blockX=256, registers=255)
    assert list(findings(trace_of(built))) == ["occupancy/small_grid"]


def counted(start: list[int], end: list[int], blocks: list[int], multiprocessors: int) -> int:
    running = [[b for s, e, b in zip(start, end, blocks, strict=True) if s <= at < e] for at in range(60)]
    return sum(min(sum(each), multiprocessors) for each in running)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(1, 9)), min_size=1, max_size=12))
def test_busy_multiprocessors_are_what_counting_finds(kernels: list[tuple[int, int, int]]) -> None:
    kernels.sort()
    start, end = [k[0] for k in kernels], [k[0] + k[1] for k in kernels]
    blocks = [k[2] for k in kernels]
    found = busy_multiprocessors(np.array(start), np.array(end), np.array(blocks, np.int64), 5)
    assert found == counted(start, end, blocks, 5)


@every_gpu_capture
def test_every_kernel_of_a_real_capture_fits(real_context: RealContext, name: str) -> None:
    """A kernel that ran had a resident block, so an occupancy of 0 means that the formula is wrong."""
    context = real_context(name)
    table = run_section(occupancy, context, choose_window(context)).tables["kernels"]
    assert table["theoretical_occupancy"].gt(0).all()
    assert table["theoretical_occupancy"].le(1).all()
    assert (table["achieved_estimate"] <= table["theoretical_occupancy"] + 1e-12).all()
    assert table["limiter"].ne("").all()


@every_gpu_capture
def test_multiprocessors_are_no_busier_than_their_gpu(real_context: RealContext, name: str) -> None:
    context = real_context(name)
    chosen = choose_window(context)
    rows = run_section(ledger, context, chosen).tables["devices"]
    kernel_rows = ["compute_ns", "communication_wait_ns", "communication_transfer_ns"]
    busy = rows[kernel_rows].to_numpy().sum() / rows["window_ns"].sum()
    efficiency = value(run_section(occupancy, context, chosen), "sm_efficiency_estimate_share")
    assert isinstance(efficiency, float)
    assert 0 < efficiency <= busy


def test_a_real_capture_is_what_a_query_finds(captures: Callable[[str], Path], real_context: RealContext) -> None:
    """The share of busy multiprocessors is the time-weighted mean of min(1, blocks / 132), computed in SQL."""
    query = """select sum((end - start) * min(1.0, gridX * gridY * gridZ / 132.0)) / sum(end - start)
               from CUPTI_ACTIVITY_KIND_KERNEL"""
    with closing(sqlite3.connect(f"file:{captures('bench_source')}?mode=ro&immutable=1", uri=True)) as database:
        (expected,) = database.execute(query).fetchone()
    whole = Window(0, 10**12, "all", "user")
    table = run_section(occupancy, real_context("bench_source"), whole).tables["kernels"]
    assert np.average(table["sm_efficiency_estimate"], weights=table["total_ns"]) == pytest.approx(expected)
