"""Which steps of other loops are recorded under the real nsys, and what a long job costs."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from capture_fixtures import options, python

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import CaptureResult, profile
from nsyswrap.loop.step_detection import find_steps
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export

TRAINER = Path(__file__).parents[1] / "support" / "trainer_program.py"

# "short steps" of one optimizer and one batch; or "in turns": two optimizers with four batches each, and evaluations.
LOOP = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
kind, count = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2 if kind == "in turns" else 1)]
data = TensorDataset(torch.ones(6, 4))
for step in range(count):
    for optimizer in optimizers:
        for batch in range(4 if kind == "in turns" else 1):
            model(torch.ones(3, 4)).sum().backward()
            time.sleep(0.001 if kind == "short steps" else 0.005)
        optimizer.step()
    if kind == "in turns" and step % 5 == 4:
        with torch.no_grad():
            for (inputs,) in DataLoader(data, batch_size=2): model(inputs)
"""


def record(nsys: Nsys, folder: Path, steps: str, *command: str) -> CaptureResult:
    return profile(options(folder / "result", *command, traces=("nvtx",), annotate=True, steps=steps), nsys)


def steps_in(export: Path) -> list[str]:
    """Return the names of the steps in a capture."""
    return list(find_steps(load_export(export)).frame["name"])


def names(first: int, end: int) -> list[str]:
    return [f"step {number}" for number in range(first, end)]


def test_a_step_is_a_turn_of_the_loop(nsys: Nsys, tmp_path: Path) -> None:
    """Four batches each, and the turns of two optimizers, are one step of 8 * 5 ms; an evaluation takes none."""
    result = record(nsys, tmp_path, "20:30", *python(LOOP, "in turns", "40"))
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
        record(nsys, tmp_path / count, "100:200", *python(LOOP, "short steps", count)) for count in ("400", "4000")
    ]
    (short, long), long_ns = (each.folder for each in results), results[1].wall_ns
    rows = [len(load_export(each / "capture.sqlite")[tables.RANGES]) for each in (short, long)]
    assert rows[0] == rows[1]
    for name in ("capture.nsys-rep", "capture.sqlite"):
        assert (long / name).stat().st_size < 1.1 * (short / name).stat().st_size
    times = json.loads((long / "host.json").read_text())["times_ns"]
    assert long_ns - (times[-1] - times[0]) > 2_000_000_000  # the steps after the recording take at least 4 s
