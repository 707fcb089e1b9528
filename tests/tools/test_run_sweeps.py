"""The committed sweeps: what they describe, what they measured, and how they are packed."""

import ast
import importlib
import itertools
import json
import lzma
import sys
import time
from pathlib import Path

import pytest

from nsyswrap.render.json_reader import read_report
from nsyswrap.sweep.cells import cells_of
from nsyswrap.sweep.document import sweep_from_tree
from nsyswrap.sweep.spec import parse

tool = importlib.import_module("run_sweeps")

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted(each.parent for each in (ROOT / "reports" / "sweeps").glob("*/sweep.toml"))
every_sweep = pytest.mark.parametrize("folder", SWEEPS, ids=lambda each: str(each.name))


@every_sweep
def test_a_sweep_runs_a_workload_with_options_that_it_has(folder: Path) -> None:
    """Also in its small form, in which each replacement that it needs still finds its text."""
    text = (folder / "sweep.toml").read_text()
    for old, new in tool.TINY.items():
        text = text.replace(old, new)
    for cell in (*cells_of(parse((folder / "sweep.toml").read_text(), "a")), *cells_of(parse(text, "a"))):
        program = next(ROOT / word for word in cell.command if word.startswith("workloads/"))
        words = {each.value for each in ast.walk(ast.parse(program.read_text())) if isinstance(each, ast.Constant)}
        own = cell.command[cell.command.index(str(program.relative_to(ROOT))) :]
        assert {word for word in own if word.startswith("--")} <= words | {"--steps", "--batch-size"}
    assert "steps 30" not in text


@every_sweep
def test_a_committed_result_is_that_of_its_sweep(folder: Path) -> None:
    """Each cell was measured on a GPU with as many GPUs as it says, and nothing private is in it."""
    if not (folder / "sweep.json").exists():
        pytest.skip("not run yet")
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


def test_a_packed_sweep_has_its_result_and_its_reports(tmp_path: Path) -> None:
    """A second run of a cell has a folder of its own; a run without a report has its output."""
    source, sample = tmp_path / "source", ROOT / "reports" / "samples" / "mnist-8-workers" / "report.json"
    for run in ("1", "2"):
        place = source / "runs" / "cell" / f"run-{run}"
        place.mkdir(parents=True)
        place.with_suffix(".txt").write_text("x" * 10_000)
        if run == "2":
            (place / "report.json").write_bytes(sample.read_bytes())
    (source / "sweep.json").write_text("{}")
    tool.pack(source, tmp_path / "packed")
    files = {str(each.relative_to(tmp_path / "packed")) for each in (tmp_path / "packed").rglob("*") if each.is_file()}
    assert files == {"sweep.json", "cell/output.txt", "cell.2/output.txt", "cell.2/report.json.xz"}
    unpacked = tmp_path / "report.json"
    unpacked.write_bytes(lzma.decompress((tmp_path / "packed" / "cell.2" / "report.json.xz").read_bytes()))
    assert read_report(unpacked).verdict == read_report(sample).verdict


TRAINS = """
import json, os, pathlib, sys, time
place = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
ranks = int(sys.argv[sys.argv.index("--nproc-per-node") + 1]) if "--nproc-per-node" in sys.argv else 1
began = time.monotonic()
time.sleep(0.3)
span = [began, time.monotonic()]
place.with_suffix(".json").write_text(json.dumps([os.environ["CUDA_VISIBLE_DEVICES"], span, ranks]))
print("(medians)\\n" * ranks, flush=True)
time.sleep(0.4)
"""


def test_runs_train_beside_one_another_only_on_other_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on all GPUs come first; the next one trains while the capture of the one before is exported."""
    spec = parse((ROOT / "reports" / "sweeps" / "alexnet" / "sweep.toml").read_text(), "a")
    program = tmp_path / "profile.py"
    program.write_text(TRAINS)
    monkeypatch.setattr(tool, "PROFILE", (sys.executable, str(program)))
    began = time.monotonic()
    tool.run_beside(spec, tmp_path / "out", {}, began + 100)
    runs = [json.loads(each.read_text()) for each in (tmp_path / "out" / "runs").glob("*/run-1.json")]
    runs.sort(key=lambda each: each[1][0])
    assert len(runs) == sum(not cell.same_as for cell in cells_of(spec))
    counts = [len(visible.split(",")) for visible, *_ in runs]
    assert counts == sorted(counts, reverse=True)
    for at, (visible, (_, end), _) in enumerate(runs):
        for other, (start, _), _ in runs[at + 1 :]:
            assert start >= end or not set(visible.split(",")) & set(other.split(","))
    assert any(later[1][0] < run[1][1] for run, later in itertools.pairwise(runs) if len(run[0]) == 1)
