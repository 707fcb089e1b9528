"""Which steps of other loops are recorded under the real nsys, what a long job costs, and what a killed one leaves."""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import Run, driven, options, python, until

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import CaptureResult, profile
from nsyswrap.capture.process_tree import descendants
from nsyswrap.capture.progress import silent
from nsyswrap.capture.resume import resumed
from nsyswrap.loop.step_detection import find_steps
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export

__all__ = ["driven"]

TRAINER = Path(__file__).parents[1] / "support" / "trainer_program.py"

# Steps of one optimizer and one batch; or "in turns": of two optimizers with four batches each, and with evaluations.
LOOP = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
kind, count, killed_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2 if kind == "in turns" else 1)]
data = TensorDataset(torch.ones(6, 4))
for step in range(count):
    for optimizer in optimizers:
        for batch in range(4 if kind == "in turns" else 1):
            model(torch.ones(3, 4)).sum().backward()
            time.sleep(0.01 if not kind else 0.001 if kind == "short steps" else 0.005)
        optimizer.step()
    if kind == "in turns" and step % 5 == 4:
        with torch.no_grad():
            for (inputs,) in DataLoader(data, batch_size=2): model(inputs)
    if step == killed_at:
        print("waits", flush=True)
        time.sleep(60)
"""
NEVER = "-1"


def record(nsys: Nsys, folder: Path, steps: str, *command: str) -> CaptureResult:
    return profile(options(folder / "result", *command, traces=("nvtx",), annotate=True, steps=steps), nsys)


def steps_in(export: Path) -> list[str]:
    """Return the names of the steps in a capture."""
    return list(find_steps(load_export(export)).frame["name"])


def names(first: int, end: int) -> list[str]:
    return [f"step {number}" for number in range(first, end)]


def test_a_step_is_a_turn_of_the_loop(nsys: Nsys, tmp_path: Path) -> None:
    """Four batches each, and the turns of two optimizers, are one step of 8 * 5 ms; an evaluation takes none."""
    result = record(nsys, tmp_path, "20:30", *python(LOOP, "in turns", "40", NEVER))
    assert steps_in(result.export) == names(20, 30)
    (process,) = json.loads((result.folder / "steps_alone.json").read_text())["processes"]
    assert (process["first_step"], min(process["host_ns"]) >= 40_000_000) == (3, True)


@pytest.mark.parametrize("library", ["lightning", "transformers", "accelerate"])
def test_the_steps_of_a_trainer_are_recorded(
    library: str, nsys: Nsys, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no callback, and trains on to its end. Two batches are a step, with evaluations in between."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    result = record(nsys, tmp_path, "20:30", sys.executable, str(TRAINER), library, "64")
    assert (result.exit_code, "64 steps\n" in capfd.readouterr().out) == (0, True)
    assert steps_in(result.export) == names(20, 30)


@pytest.mark.thorough
def test_a_capture_is_as_large_however_long_the_job_is(nsys: Nsys, tmp_path: Path) -> None:
    """The same steps are recorded of one that is ten times as long; the host is sampled until they are."""
    results = [
        record(nsys, tmp_path / count, "100:200", *python(LOOP, "short steps", count, NEVER))
        for count in ("400", "4000")
    ]
    (short, long), long_ns = (each.folder for each in results), results[1].wall_ns
    rows = [len(load_export(each / "capture.sqlite")[tables.RANGES]) for each in (short, long)]
    assert rows[0] == rows[1]
    for name in ("capture.nsys-rep", "capture.sqlite"):
        assert (long / name).stat().st_size < 1.1 * (short / name).stat().st_size
    times = json.loads((long / "host.json").read_text())["times_ns"]
    assert long_ns - (times[-1] - times[0]) > 2_000_000_000  # the steps after the recording take at least 4 s


def test_a_program_that_is_killed_after_its_recording_leaves_all_of_it(
    driven: Callable[..., Run], tmp_path: Path
) -> None:
    run = driven(*python(LOOP, "", "60", "40"), traces=("nvtx",), annotate=True, steps="10:20", folder=tmp_path / "out")
    run.wait_for_output("waits")
    program = max(descendants(run.process.pid))
    os.kill(program, signal.SIGKILL)
    assert run.finish() == 128 + signal.SIGKILL
    assert "killed by SIGKILL; the capture holds what was recorded until then" in run.result["notes"][0]
    assert steps_in(tmp_path / "out" / "capture.sqlite") == names(10, 20)


def test_a_job_that_is_killed_after_its_recording_can_be_finished(driven: Callable[..., Run], tmp_path: Path) -> None:
    """The program, nsys and nsyswrap itself are killed at once; `nsyswrap resume` does the rest."""
    folder = tmp_path / "out"
    run = driven(*python(LOOP, "", "60", "40"), traces=("nvtx",), annotate=True, steps="10:20", folder=folder)
    run.wait_for_output("waits")
    until((folder / ".run" / "capture.nsys-rep").is_file, "nsys has written its report")
    for process in (run.process.pid, *descendants(run.process.pid)):
        os.kill(process, signal.SIGKILL)
    run.process.wait()
    with resumed(folder, silent) as export:
        assert steps_in(export) == names(10, 20)
    assert (folder / "steps_alone.json").is_file()
