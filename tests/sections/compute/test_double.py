"""Work in FP64: where it begins, and what FP32 saves."""

from pathlib import Path
from typing import Any

import pytest
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.what_if.saving import WhatIf

RULE = "compute/double"
US, STEPS = 1000, 4
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_kernel__5x_cublas"
DOUBLE = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1>(T1::Params)"


def images(dtype: str, storage: int) -> dict[str, Any]:
    return tensor(64, 65536, dtype=dtype, storage=storage)


def steps(wide: str) -> list[Made]:
    """Return images that are normalized with statistics of a type, then cast."""
    return [
        Made("div", [images("float32", 1)], [images("float32", 2)], 100),
        Made("sub", [images("float32", 2), tensor(64, 1, dtype=wide, storage=3)], [images(wide, 4)], 120, line=8),
        Made("clamp", [images(wide, 4)], [images(wide, 5)], 160, line=9),
        Made("copy_", [images("bfloat16", 6), images(wide, 5), False], [images("bfloat16", 6)], 100, line=9),
    ]


def test_fp32_moves_half_the_bytes(tmp_path: Path) -> None:
    """Of 12 bytes an element 8 are left, and of 16 are 8. The cast only moves data: 4 bytes at 60 % of 3.35 TB/s."""
    finding = findings(steps("float64"), tmp_path).get(RULE)
    assert finding is not None
    assert finding.lost_ns == STEPS * 380 * US
    assert "layer (model.py:9)" in finding.headline
    assert "FP64 begins in layer (model.py:8)" in finding.evidence
    assert finding.saving is not None
    saved = 120 * 4 / 12 + 160 * 8 / 16 + 64 * 65536 * 4 / (0.6 * 3.35e6)
    assert finding.saving.point / STEPS / US == pytest.approx(saved, rel=0.03)
    assert finding.severity == "problem"


def test_a_cast_between_both_types_is_gone(tmp_path: Path) -> None:
    cast = Made("copy_", [images("float64", 7), images("float32", 2), False], [images("float64", 7)], 200)
    finding = findings([*steps("float64")[:1], cast], tmp_path).get(RULE)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(200, rel=0.05)


@pytest.mark.parametrize(("dtype", "kernel", "us"), [("float32", TF32, 463), ("bfloat16", NVJET, 1000)])
def test_a_product_runs_at_the_peak_of_fp32(dtype: str, kernel: str, us: int, tmp_path: Path) -> None:
    """137.4 GFLOP take 463 us at 60 % of 494.7 TFLOP/s where others use TF32, and 3.42 ms at 60 % of 67 TFLOP/s."""
    other, wide = (tensor(4096, 4096, dtype=each, storage=at) for at, each in enumerate((dtype, "float64")))
    product = Made("mm", [wide, wide], [tensor(4096, 4096, dtype="float64", storage=9)], 1000, DOUBLE, module="whiten")
    finding = findings([Made("mm", [other, other], [other], 500, kernel), product], tmp_path).get(RULE)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / STEPS / US == pytest.approx(1000 - us, rel=0.05)
    assert isinstance(finding.what_if, WhatIf)
    (each,) = finding.what_if.alternatives
    assert (each.alternative.kind, each.alternative.tf32, each.time_ns) == ("single", us == 463, STEPS * 1000 * US)


def test_a_program_in_fp64_alone_has_chosen_it(tmp_path: Path) -> None:
    finding = findings([Made("mul", [images("float64", 1)], [images("float64", 2)], 500)], tmp_path).get(RULE)
    assert finding is not None
    assert finding.severity == "note"


def test_fp32_is_none(tmp_path: Path) -> None:
    assert RULE not in findings(steps("float32"), tmp_path)
