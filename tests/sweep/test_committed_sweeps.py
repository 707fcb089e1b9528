"""The committed sweeps: what they describe, and what they measured."""

import ast
import json
import lzma
from pathlib import Path

import pytest

from nsyswrap.sweep.cells import cells_of
from nsyswrap.sweep.document import sweep_from_tree
from nsyswrap.sweep.spec import parse

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted(each.parent for each in (ROOT / "reports" / "sweeps").glob("*/sweep.toml"))
every_sweep = pytest.mark.parametrize("folder", SWEEPS, ids=lambda each: str(each.name))


@every_sweep
def test_a_sweep_runs_a_workload_with_options_that_it_has(folder: Path) -> None:
    for cell in cells_of(parse((folder / "sweep.toml").read_text(), "a")):
        program = next(ROOT / word for word in cell.command if word.startswith("workloads/"))
        words = {each.value for each in ast.walk(ast.parse(program.read_text())) if isinstance(each, ast.Constant)}
        own = cell.command[cell.command.index(str(program.relative_to(ROOT))) :]
        assert {word for word in own if word.startswith("--")} <= words | {"--steps", "--batch-size"}


@every_sweep
def test_a_committed_result_is_that_of_its_sweep(folder: Path) -> None:
    """Each cell was measured on a GPU with as many GPUs as it says, and nothing private is in it."""
    text = (folder / "sweep.json").read_text()
    sweep = sweep_from_tree(json.loads(text), "x")
    assert sweep.spec.text == (folder / "sweep.toml").read_text()
    for result in sweep.cells:
        assert result.step is not None, result.cell.key
        for run in result.runs:
            assert run.machine["GPU"].startswith("NVIDIA")
            assert int(run.machine["GPUs"]) == (result.cell.gpus or 1)
            assert sum(part.step_ns for part in run.parts) == pytest.approx(run.mean_ns, rel=0.02)
    for report in folder.glob("*/report.json.xz"):
        assert json.loads(lzma.decompress(report.read_bytes()))["session"]["hostname"] == ""
    assert not {"/root", "/home", "/tmp"} & set(text.split('"'))  # noqa: S108 - a folder that must not be there
