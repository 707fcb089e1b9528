"""The finding on kernels that change layouts, for several GPUs; tests/attribution/test_root_causes.py has the rest."""

from pathlib import Path
from typing import Any

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from made_operators import LOOP, Made, findings, tensor
from savings import saving_of

from nsyswrap.loop.context import find_context
from nsyswrap.model import Finding
from nsyswrap.sections.tensor_cores import section
from nsyswrap.trace.tables import Trace

TURN = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, 0>(int)"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckcrs_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1"
GROUP_NORM = "void at::native::<unnamed>::ComputeFusedParamsCUDAKernel<float>(long, long)"
PRODUCT = "ampere_sgemm_128x64_nn"


def found(trace: Trace) -> dict[str, Finding]:
    """Return the findings on tensor cores in a window of 1000 ns, by rule."""
    return {each.rule: each for each in run_section(section, find_context(trace), window(0, 1000)).findings}


@pytest.mark.parametrize("gpus", [1, 4])
def test_time_lost_is_the_mean_over_gpus(gpus: int) -> None:
    """Each GPU spends 300 of 1000 ns on the layout and 100 ns on a product without tensor cores."""
    made = ExportBuilder()
    for device in range(gpus):
        made.gpu(device).kernel(0, 300, TURN, device=device).kernel(300, 500, CONVOLUTION, device=device)
        made.kernel(500, 600, PRODUCT, device=device)
    findings = found(trace_of(made))
    layout = findings["tensor_cores/layout"]
    assert (layout.lost_ns, "take 30.0 % of the time" in layout.headline) == (300, True)
    assert findings["tensor_cores/not_used"].lost_ns == 100


def test_a_gpu_that_spends_little_does_not_add_up_with_others() -> None:
    """Each of four GPUs spends 1 % of the window, which is too little for a finding."""
    made = ExportBuilder()
    for device in range(4):
        made.gpu(device).kernel(0, 10, TURN, device=device).kernel(10, 500, CONVOLUTION, device=device)
    assert "tensor_cores/layout" not in found(trace_of(made))


@pytest.mark.parametrize("has_group_norm", [False, True])
def test_beside_a_group_norm_channels_last_may_save_nothing(*, has_group_norm: bool) -> None:
    """PyTorch's group norm copies images back to channels first on a GPU. The convolution is launched after 4 ns."""
    made = ExportBuilder().gpu()
    made.kernel(20, 320, TURN, launched=(1, 2)).kernel(320, 500, CONVOLUTION, launched=(3, 4))
    if has_group_norm:
        made.kernel(500, 510, GROUP_NORM, launched=(5, 6))
    layout = found(trace_of(made))["tensor_cores/layout"]
    assert saving_of(layout).point == pytest.approx(300, abs=20)
    assert (saving_of(layout).low == 0) is has_group_norm
    assert ("Time both layouts" in layout.advice) is has_group_norm


IMAGES = {"shape": [32, 64, 56, 56], "dtype": "bfloat16"}
FIRST, LAST = [64 * 56 * 56, 56 * 56, 56, 1], [64 * 56 * 56, 1, 56 * 64, 64]


def images(strides: list[int], dtype: str = "bfloat16") -> dict[str, Any]:
    return IMAGES | {"strides": strides, "dtype": dtype, "storage": None}


@pytest.mark.parametrize(
    ("taken", "made", "is_layout"),
    [
        (images(FIRST), images(LAST), True),
        (images(LAST), images(FIRST), True),
        (images(FIRST), images(FIRST), False),
        (images(FIRST, "float32"), images(LAST), False),  # a cast
        (tensor(8, 16, 512, 64), {**tensor(8, 16, 512, 64), "strides": [524288, 64, 1024, 1]}, False),  # heads
        (tensor(32, 1, 56, 56), {**tensor(32, 1, 56, 56), "strides": [3136, 1, 56, 1]}, False),  # one channel
    ],
)
def test_copies_between_both_layouts_count(
    taken: dict[str, Any], made: dict[str, Any], *, is_layout: bool, tmp_path: Path
) -> None:
    """Each takes 300 of 600 us of a step with a convolution."""
    operators = [
        Made("cudnn_convolution", [images(FIRST), tensor(64, 64, 3, 3)], [images(FIRST)], 300, CONVOLUTION),
        Made("copy_", [made, taken, False], [made], 300, LOOP, module="norm", line=9),
    ]
    finding = findings(operators, tmp_path, section).get("tensor_cores/layout")
    assert (finding is not None) == is_layout
    if finding is not None:
        assert finding.lost_ns == 4 * 300_000
        assert any("model.py:9 in module norm" in each for each in finding.evidence)
