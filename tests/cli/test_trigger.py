"""`nsyswrap trigger`: what it says."""

from pathlib import Path

import commands
import pytest

from nsyswrap.capture import trigger as module


def test_it_says_which_steps_were_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of steps is passed on; without one the program chooses."""
    wanted: list[str] = []

    def record(folder: Path, steps: str) -> list[dict[str, int]]:
        assert folder == tmp_path
        wanted.append(steps)
        return [{"first": 40, "last": 49}]

    monkeypatch.setattr(module, "trigger", record)
    for options in (["--steps", "10"], []):
        done = commands.run("trigger", *options, tmp_path)
        assert (done.exit_code, done.stderr) == (0, "nsyswrap: recorded steps 40 to 49\n")
    assert wanted == ["10", ""]


def test_a_folder_without_a_program_is_an_error(tmp_path: Path) -> None:
    done = commands.run("trigger", tmp_path)
    assert done.exit_code == 2
    assert "--steps later" in done.stderr
