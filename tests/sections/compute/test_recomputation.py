"""Activations that are computed again: what that costs, which line wants it, and what keeping them needs."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_operators import NVJET, Made, findings, tensor

from nsyswrap.model import Finding

RULE = "compute/recomputation"
ROWS = tensor(8192, 4096)
FACTORS = [ROWS, tensor(4096, 4096, columns_first=True)]
AROUND = (
    ("/home/someone/app/model.py", 19, "Block.forward"),
    ("/usr/lib/python3/site-packages/torch/utils/checkpoint.py", 512, "checkpoint"),
    ("/usr/lib/python3/site-packages/torch/_compile.py", 54, "inner"),
    ("/home/someone/app/model.py", 28, "Model.forward"),
)
PRODUCT = Made("mm", FACTORS, [ROWS], 500, NVJET, "blocks.1.mlp", 19, stack=AROUND)
RELU = Made("relu", [ROWS], [ROWS], 100, module="blocks.1.mlp", line=20, stack=AROUND)
BLOCK = Made("add", [ROWS, ROWS], [ROWS], 100, module="blocks.1", line=21, stack=AROUND)
FORWARD = (PRODUCT, RELU, BLOCK)
AGAIN = tuple(replace(each, of=2, again=True) for each in FORWARD)
BACKWARD = tuple(Made("mm", FACTORS, [ROWS], 500, NVJET, of=at, module="blocks.1.mlp") for at in (0, 0))
US, STEPS, MIB, GIB = 1000, 4, 1 << 20, 1 << 30


def found(operators: tuple[Made, ...], path: Path, most_gib: int = 0) -> Finding | None:
    """Return the finding; with the most of a step in GiB where it was read."""
    memory = [[0, None, GIB], [2, None, most_gib * GIB], [5, None, GIB]] if most_gib else []
    return findings(operators, path, memory=memory).get(RULE)


def test_what_is_computed_again_is_saved(tmp_path: Path) -> None:
    """700 of 2,400 us; 3 results of 8192 x 4096 in half precision are 192 MiB."""
    finding = found((*FORWARD, *AGAIN, *BACKWARD), tmp_path)
    assert finding is not None
    assert finding.lost_ns == STEPS * 700 * US
    assert finding.saving is not None
    assert finding.saving.point == pytest.approx(finding.lost_ns, rel=0.01)
    assert "blocks.1 (model.py:28)" in finding.headline
    assert "192 MiB" in finding.advice
    assert "140 GiB" in finding.advice
    assert finding.severity == "warning"


def test_a_line_is_named_where_no_frames_are_known(tmp_path: Path) -> None:
    """Without frames that show which line wants it, a line of it is named. What is changed in place is no result."""
    forward = (replace(PRODUCT, stack=()), Made("relu_", [ROWS], [ROWS], 300, line=20))
    again = tuple(replace(each, of=1, again=True) for each in forward)
    finding = found((*forward, *again, *BACKWARD), tmp_path)
    assert finding is not None
    assert "layer (model.py:20)" in finding.headline
    assert "64.0 MiB" in finding.advice


def test_without_recomputation_there_is_none(tmp_path: Path) -> None:
    assert found((*FORWARD, *BACKWARD), tmp_path) is None


def test_what_no_gpu_can_hold_is_computed_again(tmp_path: Path) -> None:
    """A result of 160 GiB is more than the memory of an H200."""
    huge = replace(PRODUCT, outputs=[tensor(20 << 10, 4 << 20)])
    assert found((huge, *FORWARD[1:], replace(huge, of=2, again=True), *AGAIN[1:], *BACKWARD), tmp_path) is None


@pytest.mark.parametrize(
    ("taken", "said", "severity"),
    [(139, "so the memory suffices", "problem"), (140, "so it suffices for", "warning")],
)
def test_the_room_beside_the_most_of_a_step_says_whether_the_memory_suffices(
    taken: int, said: str, severity: str, tmp_path: Path
) -> None:
    """Of 140 GiB 139 are taken, which leaves 1 GiB for 192 MiB; or all are, and a part of it fits."""
    finding = found((*FORWARD, *AGAIN, *BACKWARD), tmp_path, taken)
    assert finding is not None
    assert said in finding.advice
    assert finding.severity == severity
