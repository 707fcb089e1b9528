"""Products whose sizes forbid full loads: which size, to which number, and what padding saves."""

from pathlib import Path

import pytest
from made_operators import ALIGN1, NVJET, Made, findings, tensor

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


def test_aligned_products_of_like_size_show_the_pace(tmp_path: Path) -> None:
    """The aligned one takes 1000 us; the other one may take as long for each operation."""
    finding = found([product(ROWS, WIDTH, 50_304, NVJET, 1000), product(ROWS, WIDTH, 50_257)], tmp_path)
    assert finding is not None
    assert finding.saving is not None
    assert finding.saving.point / finding.lost_ns == pytest.approx(1 - 1000 / 4000, abs=0.005)


@pytest.mark.parametrize(
    "operator",
    [
        product(2047, WIDTH, 50_304),  # the number of rows does not matter
        product(ROWS, WIDTH, 50_257, NVJET),  # a kernel that loads it in full
        Made("relu", [tensor(ROWS, 50_257)], [tensor(ROWS, 50_257)]),
    ],
)
def test_other_operators_are_no_misaligned_products(operator: Made, tmp_path: Path) -> None:
    assert found([operator], tmp_path) is None


@pytest.mark.parametrize(("size", "step", "better"), [(50_257, 8, 50_304), (1001, 8, 1024), (129, 8, 136), (30, 4, 32)])
def test_sizes_go_up_to_64_where_that_adds_little(size: int, step: int, better: int) -> None:
    """From 129 to 192 it would be half as much again: then one load more is enough."""
    assert better_size(size, step) == better
