"""Weights that are cast again in a step."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.model import Finding

RULE = "compute/repeated_casts"
US, STEPS = 1000, 4
WEIGHT = tensor(4096, 4096, dtype="float32", storage=1)


def cast(number: int) -> Made:
    """Return a cast of the weight into new memory."""
    made = tensor(4096, 4096, storage=100 + number)
    return Made("copy_", [made, WEIGHT, False], [made], 100, module="layers.0", line=7)


def micro_batch(number: int) -> tuple[Made, ...]:
    rows = tensor(8192, 4096, storage=200 + number)
    product = Made("mm", [rows, tensor(4096, 4096, storage=100 + number)], [rows], 500, NVJET, "layers.0")
    return cast(number), product, replace(product, of=2 * number + 1)


def found(operators: tuple[Made, ...], path: Path) -> Finding | None:
    return findings(operators, path).get(RULE)


@pytest.mark.parametrize("count", [2, 4])
def test_all_casts_after_the_first_one_are_saved(count: int, tmp_path: Path) -> None:
    """Each takes 100 us."""
    finding = found(tuple(each for number in range(count) for each in micro_batch(number)), tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * (count - 1) * 100 * US
    assert finding.saving is not None
    assert finding.saving.point == pytest.approx(finding.lost_ns, rel=0.01)
    assert "layers.0 (model.py:7)" in finding.headline


@pytest.mark.parametrize(
    "between",
    [
        Made("add_", [WEIGHT, WEIGHT], [WEIGHT], 50),  # it has changed since
        Made("mul", [tensor(4096, 4096, dtype="float32")] * 2, [WEIGHT], 50),  # it is another tensor in the same memory
    ],
)
def test_what_has_changed_is_cast_again(between: Made, tmp_path: Path) -> None:
    assert found((*micro_batch(0), between, cast(1)), tmp_path) is None


def test_a_copy_without_another_type_is_no_cast(tmp_path: Path) -> None:
    copies = (
        replace(cast(at), inputs=[WEIGHT, WEIGHT], outputs=[tensor(4096, 4096, storage=50 + at)]) for at in range(2)
    )
    assert found((*micro_batch(0)[1:2], *copies), tmp_path) is None
