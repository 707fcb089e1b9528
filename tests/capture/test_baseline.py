"""The run without nsys executes the same program, and its processes time their own ranges."""

import os
from pathlib import Path

import pytest
from annotate_fixtures import write_torch
from capture_fixtures import options, python

from nsyswrap.capture.baseline import run_alone
from nsyswrap.loop.step_detection import find_timed_steps

PROGRAM = """
import os, sys, nvtx
assert "NVTX_INJECTION64_PATH" not in os.environ
for number in range(8):
    with nvtx.annotate(f"step {number}"), nvtx.annotate("other"):
        sum(range(1000 * (number + 1)))
sys.exit(int(sys.argv[1]))
"""
TRAINING = """
import torch
optimizer = torch.optim.Optimizer()
for _ in range(16):
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_the_programs_own_ranges_are_timed_and_its_exit_code_is_kept(code: int, tmp_path: Path) -> None:
    """Other ranges are left out. The first two steps are warm-up, as in a capture; so is a third that was disturbed."""
    run = run_alone(options(tmp_path / "out", *python(PROGRAM, str(code))))
    steps = find_timed_steps(run.processes)
    assert run.exit_code == code
    assert steps.measured_count in {5, 6}
    assert list(steps.frame["name"]) == [f"step {number}" for number in range(8)]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_unchanged_program_is_timed_by_the_marks_of_annotate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_torch(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    chosen = options(tmp_path / "out", *python(TRAINING), annotate=True)
    steps = find_timed_steps(run_alone(chosen).processes)
    assert steps.measured_count >= 6
    assert (steps.frame["end"] > steps.frame["start"]).all()


def test_a_program_without_ranges_has_none_to_time(tmp_path: Path) -> None:
    """So has a training without --annotate."""
    assert run_alone(options(tmp_path / "out", *python("import nvtx"))).processes == ()


def test_the_program_gets_its_variables_and_its_folder(tmp_path: Path) -> None:
    program = "import os, sys; sys.exit(0 if (os.environ['WANTED'], os.getcwd()) == ('yes', sys.argv[1]) else 1)"
    chosen = options(
        tmp_path / "out", *python(program, os.fspath(tmp_path)), environment=(("WANTED", "yes"),), cwd=tmp_path
    )
    assert run_alone(chosen).exit_code == 0
