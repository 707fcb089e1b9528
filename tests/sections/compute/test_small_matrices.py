"""Runs of small products that one launch could compute."""

from collections.abc import Sequence

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.hardware.kernel_names.classify import classify
from nsyswrap.loop.context import find_context
from nsyswrap.model import Gpu
from nsyswrap.sections.compute import section
from nsyswrap.sections.compute.kernel_groups import LaunchGroup, grouped_kernels
from nsyswrap.sections.compute.small_matrices import part_of_gpu, runs
from nsyswrap.trace.tables import Trace

US = 1000
GEMM = "nvjet_sm90_tst_64x8_64x16_4x2_h_bz_bias_TNT"
SPLIT = "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, float, float, float, (bool)0>(T6)"


def export(names: Sequence[str], length: int = 5 * US, blocks: int = 8) -> ExportBuilder:
    """Return an export with these kernels one after another."""
    built = ExportBuilder().gpu()
    for number, name in enumerate(names):
        built.kernel(number * length, (number + 1) * length, name, gridX=blocks, blockX=384)
    return built


def counted(trace: Trace) -> list[int]:
    """Return the number of equal products in the run of each kernel."""
    context = find_context(trace)
    return [int(each) for each in runs(context, grouped_kernels(context, window(0, 10_000 * US)))]


def test_equal_products_in_a_row_are_a_run() -> None:
    """The kernel that sums a split product belongs to the product before it."""
    assert counted(trace_of(export([GEMM, GEMM, "k", GEMM, SPLIT, GEMM]))) == [2, 2, 0, 2, 0, 2]


@pytest.mark.parametrize(("length", "blocks", "run"), [(10 * US, 8, 0), (5 * US, 4224, 0), (5 * US, 4216, 3)])
def test_long_products_and_large_ones_are_none(length: int, blocks: int, run: int) -> None:
    """Long ones with small grids have the finding on small grids. 4224 tiles of 64 x 8 are half of 132 of 256 x 128."""
    assert counted(trace_of(export([GEMM] * 3, length, blocks))) == [run] * 3


@pytest.mark.parametrize(
    ("name", "blocks", "part"),
    [
        (GEMM, 132, 64 * 8 / 32768),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x256x32_warpgroupsize2x1x1_kernel__5x_cublas", 66, 0.5),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>(T1::Params)", 264, 0.25),
        ("void gemmSN_NN_kernel<float, (int)256>(T1)", 33, 0.25),
        ("sgemm_largek_lds64", 500, 1),
        (GEMM, 0, 1),
    ],
)
def test_tiles_and_blocks_show_how_much_of_the_gpu_a_product_could_use(name: str, blocks: int, part: float) -> None:
    group = LaunchGroup(Gpu(0, "", sm_count=132), classify(name), blocks, 128, None, None)
    assert part_of_gpu(group) == part


def test_a_run_is_worth_a_finding() -> None:
    trace = trace_of(export([GEMM] * 6))
    (found,) = run_section(section, find_context(trace), window(0, 100 * US)).findings
    assert (found.rule, found.lost_ns) == ("compute/small_matrices", 30 * US)
    assert found.evidence[0].startswith("30.0 µs in 6 launches of 8 blocks, up to 6 in a row: nvjet")
