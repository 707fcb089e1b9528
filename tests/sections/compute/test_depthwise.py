"""The section finds depthwise convolutions in PyTorch's own kernels."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of

from nsyswrap.loop.context import find_context, find_states
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.sections.compute import section
from nsyswrap.sections.compute.depthwise import at_peak, needed_share
from nsyswrap.sections.compute.kernel_groups import grouped_kernels
from nsyswrap.what_if.simulate import find_simulation

US = 1000
FORWARD = "void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int)3, float, int>(int)"
WEIGHT = "void at::native::<unnamed>::conv_depthwise2d_grad_weight_kernel<float, int>(int)"
CUDNN = "void conv2d_c1_k1_nhwc_kernel<float, float, float, float, float, (int)3, (int)1, (int)8>(T1 *)"


def export() -> ExportBuilder:
    """Return an export with a GPU whose memory moves 8.192 MB in a microsecond."""
    return ExportBuilder().gpu(memoryBandwidth=8_192_000_000_000)


def test_a_convolution_needs_to_read_and_write_each_element_once() -> None:
    """1000 blocks of 1024 results of 4 bytes are 8.192 MB read and written: 1 us of 4."""
    context = find_context(trace_of(export().kernel(0, 4 * US, FORWARD, gridX=1000, blockX=1024)))
    kernels = grouped_kernels(context, window(0, 100 * US))
    assert needed_share(kernels.groups[0], 4 * US) == pytest.approx(0.25)
    assert needed_share(kernels.groups[0], 500) == 1


def test_own_kernels_are_worth_a_finding() -> None:
    """PyTorch's own kernels have a finding, those of cuDNN have none."""
    built = export().kernel(0, 40 * US, FORWARD, gridX=1000, blockX=1024).kernel(50 * US, 60 * US, CUDNN, gridX=999)
    built.kernel(40 * US, 50 * US, WEIGHT, gridX=288, blockX=256)
    found = {
        each.rule: each for each in run_section(section, find_context(trace_of(built)), window(0, 200 * US)).findings
    }
    assert list(found) == ["compute/depthwise"]
    assert found["compute/depthwise"].lost_ns == 50 * US
    assert found["compute/depthwise"].evidence[0] == f"40.0 µs in 1 launch of {FORWARD}"


def test_in_float32_channels_last_may_save_nothing() -> None:
    """The saving is that of the peak rate; in float32 there may be none."""
    for name, factor, or_nothing in (
        (FORWARD, 0.25, True),
        (FORWARD.replace("float", "c10::BFloat16"), 0.125, False),
    ):
        trace = trace_of(export().kernel(0, 4 * US, name, launched=(-9, -8), gridX=1000, blockX=1024))
        context, chosen = find_context(trace), window(-10, 100 * US)
        simulation = find_simulation(context, find_states(context, chosen), chosen, find_collectives(context))
        change = at_peak(grouped_kernels(context, chosen), simulation)
        assert change.change.factor == pytest.approx([factor], rel=1e-6)
        assert change.or_nothing == or_nothing


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int)5, c10::BFloat16, int>(int)", True),
        ("void at::native::<unnamed>::conv_depthwise2d_forward_kernel_generic<c10::BFloat16, int>(int)", False),
        ("void at::native::<unnamed>::conv_depthwise2d_backward_kernel<(int)5, (int)1, c10::BFloat16, int>(int)", True),
        (
            "void at::native::<unnamed>::conv_depthwise2d_backward_kernel<(int)0, (int)1, c10::BFloat16, int>(int)",
            False,
        ),
    ],
)
def test_no_saving_is_predicted_for_a_filter_of_unknown_size(name: str, *, is_known: bool) -> None:
    """Kernels for filters of 1, 3 and 5 say so in their names. Another filter may be large: arithmetic limits it."""
    built = export().kernel(0, 40 * US, name, launched=(-9, -8), gridX=1000, blockX=1024)
    found = run_section(section, find_context(trace_of(built)), window(-10, 100 * US)).findings
    assert [each.rule for each in found] == ["compute/depthwise"]
    assert (found[0].saving is not None) == is_known
    assert any("size of the filter" in each for each in found[0].evidence) != is_known
