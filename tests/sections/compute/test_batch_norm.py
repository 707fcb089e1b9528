"""The section finds batch norms that give each channel one block."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from savings import saving_of

from nsyswrap.hardware.kernel_work import has_block_a_channel
from nsyswrap.loop.context import find_context
from nsyswrap.sections import occupancy
from nsyswrap.sections.compute import section
from nsyswrap.sections.compute.batch_norm import needed_shares
from nsyswrap.sections.compute.kernel_groups import grouped_kernels

US = 1000
PART = "<c10::BFloat16, float, float, int>(int)"
COLLECTS = f"void at::native::batch_norm_collect_statistics_kernel{PART}"
APPLIES = f"void at::native::batch_norm_transform_input_kernel{PART}"
BACKWARD = f"void at::native::batch_norm_backward_kernel{PART}"
OF_CUDNN = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, (int)512>(T2 *)"


def layer() -> ExportBuilder:
    """Return a layer of 16 channels on 132 multiprocessors: 40 us for the statistics, 4 to apply, 80 backward."""
    built = ExportBuilder().gpu()
    built.kernel(0, 40 * US, COLLECTS, launched=(-9, -8), gridX=16, blockX=512)
    built.kernel(40 * US, 44 * US, APPLIES, launched=(-7, -6), gridX=16, gridY=256, blockX=512)
    return built.kernel(50 * US, 130 * US, BACKWARD, launched=(-5, -4), gridX=16, blockX=512)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (COLLECTS, True),
        (BACKWARD, True),
        (APPLIES, False),
        (OF_CUDNN, True),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, (int)512>(T2)", True),
        ("void cudnn::bn_bw_1C11_singleread<float, (int)512>(T2)", True),
        ("bn_fw_tr_1C11_kernel_NCHW", True),
        ("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float)", False),
        ("void cudnn::bn_fw_tr_1C11_kernel_NHWC<float>(T2)", False),
        (f"void at::native::batch_norm_collect_statistics_channels_last_kernel{PART}", False),
        (f"void at::native::batch_norm_backward_reduce_channels_last_kernel{PART}", False),
        ("void cudnn::batchnorm_fwtr_nhwc_semiPersist<__half>(int)", False),
        ("my_batch_norm_backward_kernel", False),
    ],
)
def test_a_name_shows_whether_a_channel_has_one_block(name: str, *, expected: bool) -> None:
    assert has_block_a_channel(name) is expected


def test_a_pass_takes_half_of_the_time_that_the_norm_is_applied_in() -> None:
    """To apply it reads and writes the tensor in 4 us. The statistics move it once, the backward pass 5 times."""
    kernels = grouped_kernels(find_context(trace_of(layer())), window(0, 200 * US))
    shares = dict(zip((each.kind.name for each in kernels.groups), needed_shares(kernels), strict=True))
    assert shares[COLLECTS] == pytest.approx(2 / 40)
    assert shares[BACKWARD] == pytest.approx(10 / 80)


def test_without_the_kernel_that_applies_it_blocks_decide() -> None:
    """33 blocks on 132 multiprocessors need a quarter of the time at most; 264 need all of it."""
    built = ExportBuilder().gpu()
    built.kernel(0, 40 * US, OF_CUDNN, gridX=33, blockX=512).kernel(50 * US, 60 * US, OF_CUDNN, gridX=264, blockX=512)
    kernels = grouped_kernels(find_context(trace_of(built)), window(0, 200 * US))
    shares = dict(zip((each.blocks for each in kernels.groups), needed_shares(kernels), strict=True))
    assert shares == pytest.approx({33: 0.25, 264: 1.0})


def test_its_finding_takes_the_place_of_that_on_small_grids() -> None:
    """A larger batch adds no block, so the finding that advises one leaves these kernels out."""
    context, chosen = find_context(trace_of(layer())), window(-10, 200 * US)
    assert run_section(occupancy, context, chosen).findings == ()
    (found,) = (each for each in run_section(section, context, chosen).findings if each.rule == "compute/batch_norm")
    assert found.lost_ns == 120 * US
    assert 0 < saving_of(found).low < saving_of(found).point <= 108 * US
    assert found.evidence[0] == f"80.0 µs in 1 launch of {BACKWARD}"
