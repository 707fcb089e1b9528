"""`nsyswrap sweep`: each cell once, failures as rows, and a sweep that was killed goes on. `profile` is a stand-in."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import commands
import pytest
from real_captures import more

from nsyswrap.cli import sweep_runs

FAKE = (sys.executable, "-S", str(Path(__file__).resolve().parents[1] / "support" / "fake_profile.py"))
GRID = """
command = "{what}"
seed = 5
[axes]
what = [WHAT]
batch = [64]
[environment]
FAKE_PROFILE_VALUE = "b{batch}"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with the stand-in the working folder."""
    monkeypatch.setattr(sweep_runs, "PROFILE", FAKE)
    monkeypatch.setenv("FAKE_PROFILE_LOG", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def described(place: Path, *what: str, more: str = "") -> str:
    """Write a sweep over what happens; return its file."""
    text = GRID.replace("WHAT", ", ".join(f'"{each}"' for each in what)) + more
    (place / "grid.toml").write_text(text)
    return str(place / "grid.toml")


run = partial(commands.run, "sweep")


def begun(place: Path) -> Counter[str]:
    """Return how often each cell was begun."""
    log = place / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(Path(line.split()[0]).parent.name for line in lines)


def test_each_ending_is_a_cell_and_none_is_the_end(place: Path) -> None:
    limit = "[budget]\nrun_time_s = 1\n"
    done = run(described(place, "ok", "memory", "crash", "silent", "sleep", more=limit))
    tree = json.loads((place / "reports" / "sweeps" / "grid" / "sweep.json").read_text())
    endings = {cell["values"]["what"]: (cell["ending"], cell["reason"][:40]) for cell in tree["cells"]}
    # On a machine under load other cells may run into the limit of one second, too.
    late = ("time limit", "it ran longer than 1 s")
    assert endings["sleep"] == late
    assert endings["memory"] in {("out of memory", "torch.OutOfMemoryError: CUDA out of memo"), late}
    assert endings["crash"] in {("crashed", "ValueError: no such model"), late}
    assert endings["silent"] in {("no steps", "its report has no steps: mark them with "), late}
    assert "seed 5" in done.stderr
    assert set((place / "log").read_text().split()[1::2]) == {"b64"}


def test_a_second_call_runs_nothing_and_shows_the_same(place: Path) -> None:
    """So does a call with the result alone, in each form."""
    file = described(place, "ok", "crash")
    first, again = run(file, "-o", "out"), run(file, "-o", "out")
    assert begun(place) == {"what-ok_batch-64": 1, "what-crash_batch-64": 1}
    assert first.stdout == again.stdout
    assert run("out").stdout == first.stdout
    assert run("out/sweep.json", "--format", "json").stdout == (place / "out" / "sweep.json").read_text()
    assert run("out", "-o", "page.html").exit_code == 0
    assert (place / "page.html").read_text() == (place / "out" / "sweep.html").read_text()


CALL = f"import sys; from nsyswrap.cli import cli, sweep_runs; sweep_runs.PROFILE = {FAKE!r}; cli(sys.argv[1:])"


@pytest.mark.parametrize("number", [signal.SIGINT, *more(signal.SIGTERM)])
def test_an_ending_signal_ends_the_run_and_says_how_to_go_on(place: Path, number: signal.Signals) -> None:
    """Nothing is left running, and no result is kept of the run that it ended."""
    file = described(place, "sleep")
    sweep = subprocess.Popen(
        [sys.executable, "-c", CALL, "sweep", file, "-o", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 100
        while not begun(place) and time.monotonic() < until:
            time.sleep(0.05)
        sweep.send_signal(number)
        said, _ = sweep.communicate(timeout=100)
    finally:
        sweep.kill()
    assert sweep.returncode == 130
    assert "hint: the same command goes on with what is missing" in said
    assert [each.name for each in (place / "out" / "runs" / "what-sleep_batch-64").glob("run-1.*")] == ["run-1.txt"]


@pytest.mark.parametrize(("what", "times"), [("orphan", 1), ("outage", 2)])
def test_a_sweep_that_was_killed_goes_on(place: Path, what: str, times: int) -> None:
    """A run that goes on without its sweep is waited for and counts; one that was killed, too, is run again."""
    file = described(place, what, "ok", "crash")
    killed = subprocess.run(
        [sys.executable, "-c", CALL, "sweep", file, "-o", "out"],
        env=dict(os.environ),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL
    done = run(file, "-o", "out")
    assert done.exit_code == 0, done.output
    assert begun(place) == {f"what-{what}_batch-64": times, "what-ok_batch-64": 1, "what-crash_batch-64": 1}
    tree = json.loads((place / "out" / "sweep.json").read_text())
    assert [cell["ending"] for cell in tree["cells"]] == ["measured", "measured", "crashed"]


def test_a_history_that_fails_does_not_lose_a_run(place: Path) -> None:
    """Then `profile` ends with 125 after it has written the report."""
    done = run(described(place, "full"), "-o", "out")
    assert done.exit_code == 0, done.output
    assert "what full, batch 64 is measured, but `profile` failed after its report" in done.stderr


def test_a_budget_ends_a_sweep_and_a_larger_one_goes_on(place: Path) -> None:
    done = run(described(place, "ok", "crash", "memory", more="[budget]\nruns = 2\n"), "-o", "out")
    assert "the budget of 2 runs is used up" in done.stderr
    assert sum(begun(place).values()) == 2
    assert "not run" in (place / "out" / "sweep.html").read_text()
    run(described(place, "ok", "crash", "memory", more="[budget]\ntime_s = 600\n"), "-o", "out")
    assert set(begun(place).values()) == {1}
    assert len(begun(place)) == 3


@pytest.mark.parametrize(("option", "recorded"), [("--record", 1), ("--no-record", 0)])
def test_each_run_is_an_ordinary_run_of_profile(
    place: Path, monkeypatch: pytest.MonkeyPatch, option: str, recorded: int
) -> None:
    """It has --record, the folder of the run, the options of the sweep and the command of the cell."""
    monkeypatch.setattr(sweep_runs, "PROFILE", (*FAKE, "--seen"))
    monkeypatch.setenv("FAKE_PROFILE_WORDS", str(place / "words"))
    run(described(place, "ok"), "-o", "out", option)
    folder = "out/runs/what-ok_batch-64/run-1"
    words = ["--seen", *["--record"] * recorded, "-o", folder, "--", "ok"]
    assert (place / "words").read_text().split() == words


def test_nothing_measured_cannot_tell(place: Path) -> None:
    done = run(described(place, "crash"), "-o", "out")
    assert done.exit_code == 3
    assert "no cell was measured" in done.stderr


def test_another_command_in_the_same_folder_is_refused(place: Path) -> None:
    file = described(place, "ok")
    run(file, "-o", "out")
    Path(file).write_text(Path(file).read_text().replace('"{what}"', '"{what} --other"'))
    done = run(file, "-o", "out")
    assert done.exit_code == 2
    assert "another command" in done.stderr


def test_wrong_places_are_refused(place: Path) -> None:
    (place / "full").mkdir()
    (place / "full" / "a.txt").touch()
    (place / "a.json").write_text("{}")
    (place / "bad.toml").write_text("command =")
    for arguments, code, words in (
        (("none.toml",), 2, "no sweep at"),
        ((described(place, "ok"), "-o", "full"), 2, "holds no sweep"),
        (("a.json",), 1, "holds no sweep"),
        (("bad.toml",), 2, "is no TOML"),
    ):
        done = run(*arguments)
        assert (done.exit_code, words in done.stderr) == (code, True), done.output
