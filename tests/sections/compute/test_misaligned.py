"""Products whose sizes forbid full loads: which size, to which number, and what padding saves."""

from pathlib import Path

import pytest
from made_operators import ALIGN1, NVJET, Made, findings, tensor

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.peak_rates import MeasuredRates
from nsyswrap.model import Finding
from nsyswrap.sections.compute.misaligned import better_size

RULE = "compute/misaligned"
WIDTH, ROWS = 1024, 2048


def product(rows: int, inner: int, columns: int, kernel: str = ALIGN1, us: int = 4000, **more: object) -> Made:
    """Return a product of matrices, the second one as the weight of a layer has it."""
    factors = [tensor(rows, inner), tensor(inner, columns, columns_first=True)]
    return Made("mm", factors, [tensor(rows, columns)], us, kernel, **more)  # type: ignore[arg-type]


def found(operators: list[Made], path: Path) -> Finding | None:
    return findings(operators, path).get(RULE)


def test_an_odd_vocabulary_is_padded(tmp_path: Path) -> None:
    """2 * 2048 * 1024 * 50,304 operations need 213 us at 989.4 TFLOP/s, so 356 us at 60 % of it."""
    finding = found([product(ROWS, WIDTH, 50_257, module="head", line=29)], tmp_path)
    assert finding is not None
    assert "50,257" in finding.headline
    assert "head (model.py:29)" in finding.headline
    assert "50,257 to 50,304" in finding.advice
    assert (finding.severity, finding.saving_method) == ("problem", "simulated")
    assert finding.saving is not None
    assert finding.saving.point / finding.lost_ns == pytest.approx(1 - 356 / 4000, abs=0.005)


@pytest.mark.parametrize(("rows", "left"), [(ROWS, 1000), (ROWS // 6, 1000), (ROWS // 9, 356)])
def test_aligned_products_of_like_size_show_the_pace(rows: int, left: int, tmp_path: Path) -> None:
    """At the pace of the aligned one the other one takes 1000 us. One of a ninth of the size shows no pace."""
    aligned = product(rows, WIDTH, 50_304, NVJET, 1000 * rows // ROWS)
    finding = found([aligned, product(ROWS, WIDTH, 50_257)], tmp_path)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / finding.lost_ns == pytest.approx(1 - left / 4000, abs=0.005)


@pytest.mark.parametrize(("rows", "share"), [(200, 1.0), (140, 0.6)])
def test_a_product_of_like_size_as_the_measured_ones_reaches_their_rate(
    rows: int, share: float, tmp_path: Path
) -> None:
    """Products of 2 * 4096 ** 3 operations were measured; 167 rows have an eighth of that, at 300 TFLOP/s."""
    reached = MeasuredRates("NVIDIA H200", 132, {"bfloat16": Interval(3e14, 3e14, 3e14)})
    finding = findings([product(rows, WIDTH, 50_260, us=200)], tmp_path, rates=reached)[RULE]
    assert finding.saving is not None
    needed = 2 * rows * WIDTH * 50_304 / 3e8
    assert finding.saving.point / finding.lost_ns == pytest.approx(1 - needed / share / 200, abs=0.005)


@pytest.mark.parametrize(
    "operator",
    [
        product(2047, WIDTH, 50_304),  # the number of rows does not matter
        product(ROWS, WIDTH, 50_264),  # a multiple of 8
        product(ROWS, WIDTH, 50_257, NVJET),  # a kernel that loads it in full
        Made("relu", [tensor(ROWS, 50_257)], [tensor(ROWS, 50_257)]),
    ],
)
def test_other_operators_are_no_misaligned_products(operator: Made, tmp_path: Path) -> None:
    assert found([operator], tmp_path) is None


@pytest.mark.parametrize(("size", "step", "better"), [(50_257, 8, 50_304), (964, 8, 1024), (900, 8, 904), (30, 4, 32)])
def test_sizes_go_up_to_64_where_that_adds_little(size: int, step: int, better: int) -> None:
    """From 900 to 960 it would be more than a sixteenth: then one load more is enough."""
    assert better_size(size, step) == better
