"""Products on kernels for an older GPU, or that load little at once, though their sizes are fine."""

from pathlib import Path

import pytest
from made_operators import ALIGN1, NVJET, Made, findings, tensor

RULE = "compute/older_kernel"
OLDER = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_64x3_nn_align8>(T1::Params)"
ROWS, WIDTH = 4096, 4096


def product(kernel: str, us: int = 2000, width: int = WIDTH) -> Made:
    """Return a product of 137 GFLOP: 139 us at 989.4 TFLOP/s, 232 us at 60 % of it."""
    return Made("mm", [tensor(ROWS, width), tensor(width, WIDTH)], [tensor(ROWS, WIDTH)], us, kernel, module="head")


def test_data_that_begins_beside_a_full_load_is_named(tmp_path: Path) -> None:
    finding = findings([product(ALIGN1)], tmp_path).get(RULE)
    assert finding is not None
    assert "load few bytes" in finding.headline
    assert "head (model.py:7)" in finding.headline
    assert "slices" in finding.advice
    assert finding.severity == "problem"
    assert finding.saving is not None
    assert finding.saving.point / finding.lost_ns == pytest.approx(1 - 232 / 2000, abs=0.01)


def test_an_older_kernel_that_the_library_chose_may_save_nothing(tmp_path: Path) -> None:
    finding = findings([product(OLDER)], tmp_path).get(RULE)
    assert finding is not None
    assert "older GPU" in finding.headline
    assert finding.saving is not None
    assert finding.saving.low == 0


@pytest.mark.parametrize("operator", [product(NVJET), product(ALIGN1, width=4097)])
def test_this_gpus_kernels_and_odd_sizes_are_not_meant(operator: Made, tmp_path: Path) -> None:
    """Odd sizes have a finding of their own."""
    assert RULE not in findings([operator], tmp_path)
