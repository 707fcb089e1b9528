"""Evidence names the few costliest of what a finding is about."""

from collections.abc import Callable

import pytest
from analysis_fixtures import HasSection, run_section
from export_builder import ExportBuilder, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.report import choose_window
from nsyswrap.sections import occupancy, steps
from nsyswrap.sections.compute import section as compute
from nsyswrap.sections.tensor_cores import section as tensor_cores

US = 1000
LOOP = "void at::native::vectorized_elementwise_kernel<(int)8, {}, std::array<char *, (unsigned long)2>>(int, T2, T3)"
TYPES = ", ".join(["c10::BFloat16"] * 3)
FUNCTIONS = ("Mul", "Div", "Add", "Sub", "Min", "Max", "Fmod")


def turned() -> ExportBuilder:
    """Return five kernels that turn layouts, each a microsecond longer, and a convolution."""
    made = ExportBuilder().gpu()
    for number in range(5):
        name = f"void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, {number}>(int)"
        made.kernel(10 * number * US, (10 * number + 1 + number) * US, name)
    name = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckcrs_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1"
    return made.kernel(60 * US, 70 * US, name)


def unfilled() -> ExportBuilder:
    """Return kernels of one block, each 10 us longer."""
    made = ExportBuilder().gpu()
    for number in range(5):
        made.kernel(number * 100 * US, (number * 100 + 20 + 10 * number) * US, f"small {number}", blockX=256)
    return made


def repeated() -> ExportBuilder:
    """Return four equal small products in a row for each of five grids, each grid a microsecond longer."""
    made, at = ExportBuilder().gpu(), 0
    for number in range(5):
        for _ in range(4):
            end = at + (2 + number) * US
            made.kernel(at, end, "nvjet_sm90_tst_64x8_64x16_4x2_h_bz_bias_TNT", gridX=8 + number, blockX=384)
            at = end
    return made


def chained() -> ExportBuilder:
    """Return seven elementwise kernels in a row, each 10 us longer."""
    made, at = ExportBuilder().gpu(), 0
    for number, function in enumerate(FUNCTIONS):
        end = at + (60 + 10 * number) * US
        name = LOOP.format(f"at::native::AUnaryFunctor<{TYPES}, at::native::{function}Functor<float>>")
        made.kernel(at, end, name, gridX=1000, blockX=128)
        at = end
    return made


def depthwise() -> ExportBuilder:
    """Return five depthwise convolutions in a row, each 10 us longer."""
    made, at = ExportBuilder().gpu(), 0
    for number in range(5):
        end = at + (60 + 10 * number) * US
        name = f"void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int){2 * number + 1}, float, int>(int)"
        made.kernel(at, end, name, gridX=1000, blockX=1024)
        at = end
    return made


def uneven() -> ExportBuilder:
    """Return forty steps of 1 ms. Five take longer, each by more than the one before it."""
    made, at = ExportBuilder().os_call("mmap", 0, 1), 0
    for number in range(40):
        end = at + 1000 * US + (500 + 10 * number) * US * (number % 8 == 7)
        made.range(f"batch {number}", at, end)
        made.kernel(at + 100 * US, end - 100 * US, "k", launched=(at + 10 * US, at + 20 * US))
        at = end
    return made


@pytest.mark.parametrize(
    ("module", "rule", "built", "among", "count"),
    [
        (tensor_cores, "tensor_cores/layout", turned, "launch of", 3),
        (occupancy, "occupancy/small_grid", unfilled, "launch of", 3),
        (compute, "compute/small_matrices", repeated, "in a row", 3),
        (compute, "compute/unfused", chained, "launch of", 3),
        (compute, "compute/depthwise", depthwise, "launch of", 3),
        (compute, "compute/kernels", chained, "in 1 launch", 5),
        (steps, "steps/uneven", uneven, "batch", 3),
    ],
)
def test_the_costliest_are_named(
    module: HasSection, rule: str, built: Callable[[], ExportBuilder], among: str, count: int
) -> None:
    context = find_context(trace_of(built()))
    found = run_section(module, context, choose_window(context)).findings
    (lines,) = [[line for line in each.evidence if among in line] for each in found if each.rule == rule]
    assert len(lines) == count, lines


def test_the_three_kinds_of_kernels_that_take_most_time_are_named() -> None:
    made = ExportBuilder().gpu()
    names = (
        "nvjet_sm90_tst_64x8_64x16_4x2_h_bz_bias_TNT",
        "void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int)3, float, int>(int)",
        "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int, T2, const T1 *)",
        LOOP.format(f"at::native::AUnaryFunctor<{TYPES}, at::native::MulFunctor<float>>"),
        "ampere_sgemm_128x64_nn",
    )
    for number, name in enumerate(names):
        made.kernel(number * 100 * US, (number * 100 + 95 - number) * US, name, gridX=1000, blockX=128)
    context = find_context(trace_of(made))
    found = run_section(compute, context, choose_window(context)).findings
    (headline,) = [each.headline for each in found if each.rule == "compute/kernels"]
    assert headline.partition("Kernel time: ")[2].count("%") == 3
