"""`nsyswrap verify` as a user runs it: programs, commits and kept runs, outputs and exit codes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nsyswrap.cli import cli
from nsyswrap.experiments import verify as verify_module
from nsyswrap.experiments.verify_runs import ProgramTime, VerifiedProgram, WorkRun

_PROGRAM = """
import torch

torch.manual_seed(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    loss = model(torch.ones(3, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(*arguments: object) -> Result:
    """Run verify in this process; an unexpected exception fails the test."""
    result = CliRunner().invoke(cli, ["verify", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with programs of four and of three steps."""
    monkeypatch.chdir(tmp_path)
    for name, steps in (("four.py", 4), ("three.py", 3)):
        (tmp_path / name).write_text(_PROGRAM.replace("STEPS", str(steps)))
    return tmp_path


def a_record(loss: float) -> dict[str, Any]:
    """Return the record of a process with one backward pass."""
    events = [{"kind": "backward", "value": loss, "work": {}}, {"kind": "end", "work": {}}]
    found = {"pid": 1, "problem": "", "torch": "2", "events": events, "parameters": {}, "written": {}}
    return {**found, "precision": {"float32 products": "highest"}}


@pytest.fixture
def runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Replace the processes: by the file of a program, its losses in the order of its runs, and the times in ms."""
    assert folder.is_dir()
    found: dict[str, list[Any]] = {"four.py": [1.0], "three.py": [1.0], "times": [10.0, 10.0]}

    def recorded(program: VerifiedProgram, _timeout_s: float, _roundoff: float = 0.0) -> WorkRun:
        losses = found[Path(program.command[1]).name]
        return WorkRun(0, (), (a_record(losses.pop(0) if len(losses) > 1 else losses[0]),), {})

    def timed(program: VerifiedProgram, _timeout_s: float) -> ProgramTime:
        return ProgramTime(1e6 * found["times"][Path(program.command[1]).name == "three.py"], 1e9)

    monkeypatch.setattr(verify_module, "recorded", recorded)
    monkeypatch.setattr(verify_module, "timed", timed)
    monkeypatch.setattr(verify_module, "run_once", lambda *_what: None)
    return found


def test_the_same_work_in_less_time_exits_with_0(runs: dict[str, list[Any]]) -> None:
    runs["times"] = [10.0, 8.0]
    result = run("four.py", "three.py")
    assert result.exit_code == 0, result.output
    assert "NEW does the same work as BASE and is 1.25 times as fast" in result.stdout
    assert "nsyswrap: timing turn 3 of at most 10" in result.stderr
    assert "turn 4" not in result.stderr


def test_the_same_work_in_more_time_exits_with_1(runs: dict[str, list[Any]]) -> None:
    runs["times"] = [8.0, 10.0]
    result = run("four.py", "three.py", "-q")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, "nsyswrap: NEW does not pass: same work, slower")


def test_another_loss_exits_with_1_and_is_not_timed(runs: dict[str, list[Any]]) -> None:
    runs["three.py"] = [1.5]
    result = run("four.py", "three.py")
    assert result.exit_code == 1
    assert "timing" not in result.stderr
    assert "In step 0, NEW has 1.5, BASE 1" in result.stdout


def test_a_program_that_does_not_repeat_itself_exits_with_3(runs: dict[str, list[Any]]) -> None:
    runs["three.py"] = [1.5, 1.7]
    result = run("four.py", "three.py")
    assert result.exit_code == 3
    assert "NEW does not repeat itself" in " ".join(result.stdout.split())


@pytest.mark.usefixtures("runs")
def test_kept_runs_are_compared_later() -> None:
    assert run("four.py", "three.py", "--keep", "kept").exit_code == 0
    result = run("kept/base.json", "three.py", "--format", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["work"]) == (0, "same work")
    assert "timed one after the other" in found["notes"][0]
    assert run("four.py", "three.py", "--keep", "kept").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("four.py", "gone"), "no file, folder or commit 'gone'"),
        ((".", "."), "no script is given"),
        ((".", ".", "--", "five.py"), ". has no five.py"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_wrong_program_exits_with_2(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_file_that_is_no_kept_run_exits_with_4(folder: Path) -> None:
    (folder / "other.json").write_text('{"schema": "other/1"}')
    result = run("other.json", "four.py")
    assert result.exit_code == 4
    assert "other.json has the schema other/1" in result.stderr


@pytest.mark.usefixtures("runs")
def test_a_commit_and_a_folder_have_the_script(folder: Path) -> None:
    """The files of the commit are another place; the working folder stays."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(folder))
    for words in (("init", "-q"), ("add", "four.py"), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *words], check=True)
    result = run("HEAD", ".", "--", "four.py", "--epochs", "1")
    assert result.exit_code == 0, result.output
    assert ". against HEAD" in result.stdout


@pytest.mark.slow
@pytest.mark.thorough
def test_results_that_the_first_run_keeps_on_disk_are_other_work(folder: Path) -> None:
    """The first run of NEW does all of the work; the runs that would be timed do not."""
    once = "import os\nif os.path.exists('done'): STEPS = 1\nelse: STEPS = 4; open('done', 'w').close()\n"
    (folder / "three.py").write_text(once + _PROGRAM)
    result = run("four.py", "three.py", "--turns", "0", "-q")
    assert result.exit_code == 1
    assert "NEW makes 1 optimizer step, BASE 4 optimizer steps" in " ".join(result.stdout.split())


@pytest.mark.thorough
@pytest.mark.usefixtures("folder")
def test_two_programs_are_run_and_recorded() -> None:
    """With real processes: three steps are not the work of four."""
    result = run("four.py", "three.py", "--turns", "0", "-q", "--format", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"]) == (1, "other work")
    assert found["checks"][0]["words"] == "NEW makes 3 optimizer steps, BASE 4 optimizer steps."
