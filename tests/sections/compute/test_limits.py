"""The limits of kernels, found from name and grid, from counters, and from recorded sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from real_captures import every_gpu_capture

from nsyswrap.loop.context import find_context
from nsyswrap.report import choose_window
from nsyswrap.sections.compute import limits
from nsyswrap.sections.compute.kernel_groups import grouped_kernels
from nsyswrap.sections.compute.limits import KernelLimit, find_limits
from nsyswrap.trace.tables import Trace

RealTrace = Callable[[str], Trace]
US = 1000
# The name of an addition in bfloat16: 6 bytes for each of 1024 elements of a block.
ADD = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
# 6.144 MB in 1 us are 6,144 GB/s. At this peak, 1000 blocks take at least 1 us; at a tenth of it, 10 us.
PEAK, CACHE = 6_144_000_000_000, 1_000_000


def export(**columns: int) -> ExportBuilder:
    """Return an export with one GPU whose rates are known."""
    rates: dict[str, Any] = {"memoryBandwidth": PEAK, "l2CacheSize": CACHE, "clockRate": 1_000_000_000}
    return ExportBuilder().gpu(**(rates | columns))


def found(trace: Trace, end: int = 10_000 * US) -> list[KernelLimit]:
    """Return the limit of each group of kernels, in order of name, grid and block."""
    context = find_context(trace)
    return find_limits(context, grouped_kernels(context, window(0, end)))


@pytest.mark.parametrize(
    ("length", "by", "share"),
    [
        (1_000, limits.MEMORY, 1.0),
        (1_250, limits.MEMORY_OR_LATENCY, 0.8),
        (2 * US, limits.UNKNOWN, 0.5),
        (10 * US, limits.UNKNOWN, 0.1),
    ],
)
def test_bytes_by_time_are_a_share_of_the_peak(length: int, by: str, share: float) -> None:
    """For the lower bound, both tensors that an addition reads are the same: two thirds of the bytes."""
    (limit,) = found(trace_of(export().kernel(0, length, ADD, gridX=1000, blockX=128)))
    assert (limit.by, limit.known_from, limit.unit) == (by, limits.BY_NAME, limits.MEMORY)
    assert limit.peak_share_high == pytest.approx(share)
    assert limit.peak_share_low == pytest.approx(share * 2 / 3, rel=2e-3)


def test_what_is_faster_than_the_memory_reads_a_tensor_twice() -> None:
    """The bytes of three tensors would take 1.25 times as long as the kernel."""
    (limit,) = found(trace_of(export().kernel(0, 800, ADD, gridX=1000, blockX=128)))
    assert (limit.by, limit.peak_share_high) == (limits.MEMORY, 1)


def test_what_fits_into_the_cache_may_come_from_there() -> None:
    (limit,) = found(trace_of(export(l2CacheSize=60_000_000).kernel(0, 1_250, ADD, gridX=1000, blockX=128)))
    assert limit.by == limits.CACHE


def test_few_blocks_limit_a_kernel_of_any_name() -> None:
    """The GPU has 132 multiprocessors."""
    built = export().kernel(0, 100 * US, "k", gridX=65).kernel(100 * US, 200 * US, "k", gridX=67)
    assert [(each.by, each.known_from) for each in found(trace_of(built))] == [
        (limits.FEW_BLOCKS, limits.BY_NAME),
        (limits.UNKNOWN, limits.NOT_KNOWN),
    ]


def test_without_the_peak_nothing_is_known() -> None:
    (limit,) = found(trace_of(ExportBuilder().gpu().kernel(0, 1_250, ADD, gridX=1000, blockX=128)))
    assert (limit.by, limit.known_from) == (limits.UNKNOWN, limits.NOT_KNOWN)
    assert np.isnan(limit.peak_share_low)


def test_elements_that_are_not_known_for_sure_leave_an_interval() -> None:
    """4 or 8 elements a thread of 4 or 6 bytes give between 26.7 and 80 % of the peak."""
    name = ADD.replace("(int)8", "(int)4").replace("c10::BFloat16", "short")
    (limit,) = found(trace_of(export().kernel(0, 1_250, name, gridX=1000, blockX=128)))
    assert limit.by == limits.MEMORY_OR_LATENCY
    assert (limit.peak_share_low, limit.peak_share_high) == pytest.approx((0.8 / 3, 0.8), rel=2e-3)


def sampled(built: ExportBuilder, read: int, written: int, tensor: int) -> ExportBuilder:
    """Add samples of three counters, each of 10 us."""
    for number, (name, value) in enumerate(
        {"DRAM Read Bandwidth": read, "DRAM Write Bandwidth": written, "Tensor Active": tensor}.items()
    ):
        built.metric(name, [(at * 10 * US, value) for at in range(12)], number=number)
    return built


@pytest.mark.parametrize(
    ("counters", "by", "bounds", "unit"),
    [
        ((50, 30, 0), limits.MEMORY, (0.78, 0.80), limits.MEMORY),
        ((10, 5, 75), limits.TENSOR, (0.74, 0.75), limits.TENSOR),
        ((10, 5, 30), limits.UNKNOWN, (0.29, 0.30), limits.TENSOR),
        ((20, 0, 0), limits.UNKNOWN, (0.19, 0.20), limits.MEMORY),
    ],
)
def test_counters_during_a_kernel_show_its_limit(
    counters: tuple[int, int, int], by: str, bounds: tuple[float, float], unit: str
) -> None:
    """Samples are rounded up to a whole per cent."""
    (limit,) = found(trace_of(sampled(export().kernel(0, 100 * US, GEMM, gridX=132), *counters)))
    assert (limit.by, limit.known_from, limit.unit) == (by, limits.BY_COUNTERS, unit)
    assert (limit.peak_share_low, limit.peak_share_high) == pytest.approx(bounds)


@pytest.mark.parametrize(("length", "known_from"), [(45, limits.NOT_KNOWN), (55, limits.BY_COUNTERS)])
def test_five_samples_show_a_limit(length: int, known_from: str) -> None:
    """A sample takes 10 us."""
    (limit,) = found(trace_of(sampled(export().kernel(0, length * US, GEMM, gridX=132), 50, 30, 0)))
    assert limit.known_from == known_from


def test_samples_of_two_kernels_tell_of_neither() -> None:
    """With kernels of 8 us, each sample overlaps two kernels, or idle time."""
    built = export()
    for number in range(10):
        built.kernel(number * 8 * US, (number + 1) * 8 * US, GEMM, gridX=132)
    (limit,) = found(trace_of(sampled(built, 50, 30, 0)))
    assert limit.known_from == limits.NOT_KNOWN


def test_recorded_sizes_show_the_rate_of_a_product() -> None:
    """132 SMs at 1 GHz, 4096 operations a cycle, are 540.7 TFLOP/s. So 2 * 1024^3 operations take at least 3.97 us."""
    text = "aten::mm, op_id = 1, sizes = [[1024, 1024], [1024, 1024]]"
    built = export().range(text, 0, 50 * US, registered=False)
    built.kernel(60 * US, 65 * US, GEMM, gridX=132, launched=(10 * US, 20 * US))
    (limit,) = found(trace_of(built))
    assert (limit.by, limit.known_from, limit.unit) == (limits.TENSOR, limits.BY_SIZES, limits.TENSOR)
    assert limit.peak_share_low == limit.peak_share_high == pytest.approx(2 * 1024**3 / (132 * 4096 * 5000))


def test_a_product_of_a_row_is_limited_by_the_memory() -> None:
    """With one row there are 2 operations for 2 bytes. 8192 x 8192 values of 2 bytes are 134 MB, 22 us at the peak."""
    text = "aten::mm, op_id = 1, sizes = [[1, 8192], [8192, 8192]]"
    built = export().range(text, 0, 50 * US, registered=False)
    built.kernel(60 * US, 85 * US, GEMM, gridX=132, launched=(10 * US, 20 * US))
    (limit,) = found(trace_of(built))
    assert (limit.by, limit.known_from, limit.unit) == (limits.MEMORY, limits.BY_SIZES, limits.MEMORY)
    assert limit.peak_share_low == pytest.approx(2 * (8192**2 + 2 * 8192) / 25e-6 / PEAK)


def test_a_group_with_a_product_of_unknown_size_has_no_rate() -> None:
    text = "aten::mm, op_id = 1, sizes = [[1024, 1024], [1024, 1024]]"
    built = export().range(text, 0, 50 * US, registered=False)
    built.kernel(60 * US, 65 * US, GEMM, gridX=132, launched=(10 * US, 20 * US))
    built.kernel(70 * US, 75 * US, GEMM, gridX=132, launched=(55 * US, 56 * US))
    (limit,) = found(trace_of(built))
    assert limit.known_from == limits.NOT_KNOWN


@every_gpu_capture
def test_no_kernel_of_a_real_capture_is_faster_than_the_memory(real_trace: RealTrace, name: str) -> None:
    """Bytes that are in the cache neither before nor after a kernel are read or written at most at the peak rate."""
    context = find_context(real_trace(name))
    kernels = grouped_kernels(context, choose_window(context, "all"))
    length = context.operations.end[kernels.rows] - context.operations.start[kernels.rows]
    shortest = np.full(len(kernels.groups), np.iinfo(np.int64).max)
    np.minimum.at(shortest, kernels.code, length)
    known = 0
    for group, least in zip(kernels.groups, shortest.tolist(), strict=True):
        if group.work is not None and group.work.bytes_low is not None:
            known += 1
            through = max(group.work.bytes_low - 2 * group.gpu.cache_bytes, 0)
            assert through <= group.gpu.memory_bytes_per_second * least / 1e9, group.kind.name
    assert known


@pytest.mark.parametrize(("tensor", "known_from"), [(95, limits.BY_COUNTERS), (20, limits.BY_SIZES)])
def test_the_unit_nearer_to_its_peak_counts(tensor: int, known_from: str) -> None:
    """2 * 4096^3 operations in 300 us are 84.7 % of the peak."""
    text = "aten::mm, op_id = 1, sizes = [[4096, 4096], [4096, 4096]]"
    built = export().range(text, 0, 2 * US, registered=False)
    built.kernel(10 * US, 310 * US, GEMM, gridX=132, launched=(US, US + 500))
    (limit,) = found(trace_of(sampled(built, 5, 5, tensor)))
    assert (limit.by, limit.known_from) == (limits.TENSOR, known_from)
