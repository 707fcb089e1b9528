"""Tensors that kernels pass on through the memory: what fusion saves of their bytes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.model import Finding

RULE = "compute/unfused"
US, STEPS = 1000, 4


def rows(storage: int) -> dict[str, Any]:
    """Return a tensor in this memory."""
    return tensor(8192, 4096, storage=storage)


def product(taken: int, made: int) -> Made:
    return Made("mm", [rows(taken), tensor(4096, 4096)], [rows(made)], 600, NVJET, "layer.linear")


GATE = (
    product(0, 1),
    Made("mul", [rows(1), rows(1)], [rows(2)], 200, module="layer", line=7),
    Made("tanh", [rows(2)], [rows(3)], 200, module="layer", line=8),
    Made("add", [rows(3), rows(1), 1], [rows(4)], 300, module="layer", line=9),
    product(4, 5),
)


def found(operators: tuple[Made, ...], path: Path) -> Finding | None:
    return findings(operators, path).get(RULE)


def saved_us(operators: tuple[Made, ...], path: Path) -> float:
    """Return the time lost to passing tensors on, in us a step."""
    finding = found(operators, path)
    assert finding is not None
    return finding.lost_ns / STEPS / US


def test_what_the_next_kernel_reads_alone_is_neither_written_nor_read(tmp_path: Path) -> None:
    """Half of `mul`, all of `tanh`, and one of three tensors of `add`; the simulation saves the same."""
    finding = found(GATE, tmp_path)
    assert finding is not None
    assert finding.lost_ns / STEPS / US == pytest.approx(100 + 200 + 100, abs=1)
    assert finding.saving is not None
    assert finding.saving.point == pytest.approx(finding.lost_ns, rel=0.01)
    assert "layer (model.py:8) and 2 other places" in finding.headline


def test_what_the_backward_pass_reads_is_written_all_the_same(tmp_path: Path) -> None:
    """Of `tanh` the result is kept: half of it is saved."""
    backward = Made("tanh_backward", [rows(9), rows(3)], [rows(10)], 300, of=2, module="layer")
    assert saved_us((*GATE, backward), tmp_path) == pytest.approx(100 + 100 + 100, abs=1)


def test_memory_that_is_written_again_holds_another_tensor(tmp_path: Path) -> None:
    """`tanh` writes where the product reads later: what that reads is what `relu` wrote there."""
    reused = replace(GATE[4], inputs=[rows(3), tensor(4096, 4096)])
    relu = Made("relu", [rows(4)], [rows(3)], 200, module="layer")
    assert saved_us((*GATE[:4], relu, reused), tmp_path) == pytest.approx(100 + 200 + 200 + 100, abs=1)


@pytest.mark.parametrize(
    "operators",
    [
        # A product between two of them: all have to be written.
        (GATE[0], GATE[1], product(2, 6), replace(GATE[2], inputs=[rows(6)]), product(3, 7)),
        # Neighbours that share nothing.
        (GATE[0], *(Made("relu", [rows(10 * at)], [rows(10 * at + 1)], 200) for at in range(1, 4)), GATE[4]),
        # What a compiler made already.
        (GATE[0], *(replace(each, kernel="triton_poi_fused_add_0") for each in GATE[1:4]), GATE[4]),
    ],
)
def test_other_kernels_pass_nothing_on(operators: tuple[Made, ...], tmp_path: Path) -> None:
    assert found(operators, tmp_path) is None
