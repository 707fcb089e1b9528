"""Programs that record their own steps under the real nsys, and what a killed one leaves."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from annotate_fixtures import write_torch
from capture_fixtures import Run, driven, options, python, until

from nsyswrap.capture import step_watch
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import CaptureResult, NothingRecordedError, profile
from nsyswrap.capture.process_tree import descendants
from nsyswrap.capture.progress import silent
from nsyswrap.capture.resume import resumed
from nsyswrap.capture.trigger import trigger
from nsyswrap.loop.step_detection import find_steps
from nsyswrap.trace.load import load_export

__all__ = ["driven"]

# Takes steps of 20 ms; at one of them it may kill itself.
TRAIN = """
import os, sys, time, torch
steps, killed_at = int(sys.argv[1]), int(sys.argv[2])
{setup}
for step in range(steps):
    if step == killed_at:
        os.kill(os.getpid(), 9)
    {work}
    optimizer.step()
    time.sleep(0.02)
print("trained", flush=True)
if killed_at < 0:
    time.sleep(60)
"""
REAL = TRAIN.format(
    setup="""
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    work="model(torch.ones(3, 4)).sum().backward()",
)
# For the small package in place of torch, whose import takes a twentieth of the time.
SMALL = TRAIN.format(setup="optimizer = torch.optim.Optimizer()", work="")
NEVER = 10**6


@pytest.fixture
def small_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs import the small package in place of torch."""
    write_torch(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))


def record(nsys: Nsys, folder: Path, steps: str, count: int, killed_at: int = NEVER, **fields: object) -> CaptureResult:
    command = fields.pop("command", python(SMALL))
    given = (*command, str(count), str(killed_at))  # type: ignore[misc]
    return profile(options(folder / "result", *given, traces=("nvtx",), annotate=True, steps=steps, **fields), nsys)


def measured(export: Path) -> list[list[str]]:
    """Return the names of the measured steps of each process in a capture."""
    return [list(mine["name"]) for _, mine in find_steps(load_export(export)).measured.groupby("process")]


def names(first: int, end: int) -> list[str]:
    return [f"step {number}" for number in range(first, end)]


def test_the_steps_that_were_chosen_are_recorded_and_the_program_runs_on(
    nsys: Nsys, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """All of them are measured, because the warm-up is over. Those before are timed, and not recorded."""
    result = record(nsys, tmp_path, "30:40", 60, command=python(REAL))
    assert (result.exit_code, capfd.readouterr().out) == (0, "trained\n")
    assert measured(result.export) == [names(30, 40)]
    assert {name: result.steps[name] for name in ("armed", "first", "last")} == {"armed": True, "first": 30, "last": 39}
    alone = json.loads((result.folder / "steps_alone.json").read_text())
    (process,) = alone["processes"]
    assert (alone["version"], process["first_step"], process["rank"], process["gpu_ns"]) == (1, 3, None, None)
    assert len(process["host_ns"]) == 27
    assert min(process["host_ns"]) >= 20_000_000
    (xray,) = json.loads((result.folder / "xray.json").read_text())["processes"]
    assert (xray["step"], bool(xray["operators"])) == (40, hasattr(sys, "monitoring"))


@pytest.mark.thorough
def test_ranks_record_the_same_steps(nsys: Nsys, tmp_path: Path) -> None:
    """One of them opens and ends the range. Each times its own steps before.

    On busy cores the other is some steps behind, and has fewer of them.
    """
    script = tmp_path / "train.py"
    script.write_text(REAL)
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script))
    result = record(nsys, tmp_path, "20:30", 50, command=command)
    assert result.exit_code == 0
    recorded = measured(result.export)
    assert len(recorded) == 2
    assert set(recorded[0]) | set(recorded[1]) <= set(names(20, 32))
    assert len(set(recorded[0]) & set(recorded[1])) >= 3
    alone = json.loads((result.folder / "steps_alone.json").read_text())["processes"]
    assert [each["rank"] for each in alone] == [0, 1]


@pytest.mark.usefixtures("small_torch")
def test_a_program_that_is_killed_while_it_records_leaves_its_capture(nsys: Nsys, tmp_path: Path) -> None:
    result = record(nsys, tmp_path, "10:1000", 60, killed_at=40)
    assert result.exit_code == 128 + signal.SIGKILL
    assert set(measured(result.export)[0]) >= set(names(10, 39))
    assert "killed by SIGKILL" in result.notes[0]
    assert (result.folder / "steps_alone.json").exists()


@pytest.mark.usefixtures("small_torch")
def test_a_program_that_is_killed_before_it_records_leaves_an_error(nsys: Nsys, tmp_path: Path) -> None:
    with pytest.raises(NothingRecordedError, match="before its recording began") as caught:
        record(nsys, tmp_path, "50:60", 60, killed_at=10)
    assert caught.value.exit_code == 128 + signal.SIGKILL
    assert "was killed by SIGKILL after" in caught.value.message
    assert "Run it without nsyswrap" in caught.value.hint


@pytest.mark.usefixtures("small_torch")
def test_a_program_with_too_few_steps_runs_once_more(
    nsys: Nsys, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second run is recorded from start to end. The first one has timed its steps."""
    hints: list[str] = []
    wanted = options(tmp_path / "result", *python(SMALL, "8", str(NEVER)), traces=("nvtx",), annotate=True, steps="30")
    result = profile(wanted, nsys, on_hint=hints.append)
    assert capfd.readouterr().out == "trained\ntrained\n"
    assert ["runs once more" in hint for hint in hints] == [True]
    assert len(find_steps(load_export(result.export)).frame) >= 6
    assert len(json.loads((result.folder / "steps_alone.json").read_text())["processes"][0]["host_ns"]) >= 4
    assert (result.steps["armed"], result.exit_code) == (False, 0)


LOOP = """
import sys, time, torch
for _ in range(int(sys.argv[1])):
    time.sleep(0.1)
"""


@pytest.mark.usefixtures("small_torch")
def test_a_program_without_steps_is_recorded_after_a_while(
    nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop has no optimizer, so nsys is started from outside."""
    monkeypatch.setattr(step_watch, "PATIENCE_S", 1.0)
    result = record(nsys, tmp_path, "30", 60, command=python(LOOP))
    assert result.exit_code == 0
    assert result.steps["from_outside"] is True


@pytest.mark.usefixtures("small_torch")
def test_a_program_may_end_with_its_recording(nsys: Nsys, tmp_path: Path) -> None:
    """It would run for another minute. The exit code says that it did what was wanted."""
    result = record(nsys, tmp_path, "10:20", 30, killed_at=-1, stop_after=True)
    assert result.exit_code == 0
    assert measured(result.export) == [names(10, 20)]
    assert result.notes == ("The program was ended after its steps were recorded (--stop-after)",)
    assert result.wall_ns < 60 * 10**9
    assert os.environ.get("NSYSWRAP_STEPS") is None


@pytest.mark.usefixtures("small_torch")
def test_each_trigger_records_steps(nsys: Nsys, tmp_path: Path) -> None:
    """The first capture is that of the run, the second is kept beside it."""
    found: list[dict[str, int]] = []

    def ask_twice() -> None:
        until((tmp_path / "result" / ".run" / "temporary" / "annotate" / "status" / "later").exists, "it waits")
        found.extend([*trigger(tmp_path / "result", "5"), *trigger(tmp_path / "result", "4")])

    user = threading.Thread(target=ask_twice)
    user.start()
    result = record(nsys, tmp_path, "later", 400)
    user.join()
    assert [each["last"] - each["first"] for each in found] == [4, 3]
    assert measured(result.export) == [names(found[0]["first"], found[0]["first"] + 5)]
    assert result.steps["more"] == found[1:]
    assert (result.folder / "capture.2.nsys-rep").is_file()


@pytest.mark.usefixtures("small_torch")
def test_a_program_that_is_killed_after_its_recording_leaves_all_of_it(
    driven: Callable[..., Run], tmp_path: Path
) -> None:
    run = driven(*python(SMALL, "40", "-1"), traces=("nvtx",), annotate=True, steps="10:20", folder=tmp_path / "out")
    run.wait_for_output("trained")
    program = max(descendants(run.process.pid))
    os.kill(program, signal.SIGKILL)
    assert run.finish() == 128 + signal.SIGKILL
    assert "killed by SIGKILL; the capture holds what was recorded until then" in run.result["notes"][0]
    assert measured(tmp_path / "out" / "capture.sqlite") == [names(10, 20)]


@pytest.mark.usefixtures("small_torch")
def test_a_job_that_is_killed_after_its_recording_can_be_finished(driven: Callable[..., Run], tmp_path: Path) -> None:
    """The program, nsys and nsyswrap itself are killed at once; `nsyswrap resume` does the rest."""
    folder = tmp_path / "out"
    run = driven(*python(SMALL, "40", "-1"), traces=("nvtx",), annotate=True, steps="10:20", folder=folder)
    run.wait_for_output("trained")
    until((folder / ".run" / "capture.nsys-rep").is_file, "nsys has written its report")
    for process in (run.process.pid, *descendants(run.process.pid)):
        os.kill(process, signal.SIGKILL)
    run.process.wait()
    with resumed(folder, silent) as export:
        assert measured(export) == [names(10, 20)]
    assert (folder / "steps_alone.json").is_file()
