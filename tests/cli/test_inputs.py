"""Errors when a capture is read: one message, one hint, the right exit code, and never a traceback."""

import os
from pathlib import Path

import commands
import pytest
from export_builder import ExportBuilder

from nsyswrap.cli.inputs import phase_rule

COMMANDS = ("analyze", "report")

every_command = pytest.mark.parametrize("command", COMMANDS)


def failure(command: str, *arguments: object) -> tuple[int, str]:
    """Run a command that fails; return its exit code and its stderr."""
    result = commands.run(command, *arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    return result.exit_code, result.stderr


def lines(text: str) -> list[str]:
    """Return the lines of an error, checked to be one message and one hint."""
    found = text.splitlines()
    assert len(found) == 2
    assert found[0].startswith("nsyswrap: ")
    assert found[1].startswith("hint: ")
    return found


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in its own folder."""
    monkeypatch.chdir(tmp_path)


@every_command
def test_a_file_that_is_not_an_export_is_an_error(command: str, tmp_path: Path) -> None:
    path = tmp_path / "capture.sqlite"
    path.write_text("not a database, but long enough to be one" * 10)
    code, text = failure(command, path)
    assert code == 1
    assert "not a SQLite file" in lines(text)[0]
    assert not (tmp_path / "report.html").exists()


@every_command
def test_control_characters_of_a_path_are_escaped(command: str, tmp_path: Path) -> None:
    """A path cannot move the terminal's cursor or imitate a line of ours."""
    code, text = failure(command, tmp_path / "a\x1b[2J\nhint: no.sqlite")
    assert code == 1
    assert r"a\x1b[2J\nhint: no.sqlite does not exist" in lines(text)[0]


@every_command
def test_a_path_that_is_not_utf8_is_read(command: str, tmp_path: Path) -> None:
    """File names are bytes on Linux."""
    path = ExportBuilder().kernel(1, 2).write(tmp_path / "x.sqlite").rename(tmp_path / os.fsdecode(b"caf\xe9.sqlite"))
    result = commands.run(command, path, *(["-o", "r.html"] if command == "report" else []))
    assert (result.exit_code, result.exception) == (0, None)


@every_command
def test_a_broken_nsys_rep_is_an_error(command: str, tmp_path: Path) -> None:
    """The message names the file, and no temporary file is left."""
    (tmp_path / "bad.nsys-rep").write_text("no report at all")
    code, text = failure(command, tmp_path / "bad.nsys-rep")
    assert code == 1
    assert "bad.nsys-rep" in text
    assert "hint: " in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.nsys-rep"]


@every_command
@pytest.mark.parametrize("suffix", ["nsys-rep", "qdrep"])
def test_what_nsys_recorded_needs_nsys(
    command: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1: 125 is for profiling. Versions of nsys up to 2021 recorded a .qdrep."""
    monkeypatch.setenv("NSYSWRAP_NSYS", str(tmp_path / "nowhere"))
    (tmp_path / f"some.{suffix}").write_text("x")
    code, text = failure(command, tmp_path / f"some.{suffix}")
    assert code == 1
    assert "NSYSWRAP_NSYS" in lines(text)[0]


WRONG = {
    "window": (["--window", "soon"], "--window 'soon'"),
    "backwards": (["--window", "2:1"], "--window 2:1"),
    "far": (["--window", "0:99999999999"], "--window 0:99999999999"),
    "step": (["--step-range", "("], "--step-range '('"),
    "phase": (["--phase", "data"], "--phase 'data'"),
    "pattern": (["--phase", "data=["], "--phase 'data=['"),
    "nameless": (["--phase", "=x"], "--phase '=x'"),
}


@every_command
@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_option_value_is_a_usage_error(wrong: str, command: str, tmp_path: Path) -> None:
    """The error comes before the capture is read: the file does not even exist."""
    arguments, words = WRONG[wrong]
    code, text = failure(command, tmp_path / "missing.sqlite", *arguments)
    assert code == 2
    assert words in lines(text)[0]


@every_command
@pytest.mark.parametrize("arguments", [[], ["x.sqlite", "y.sqlite"], ["x.sqlite", "--no-such-option"]])
def test_an_invalid_command_line_is_a_usage_error(command: str, arguments: list[str]) -> None:
    """Click prints its own message."""
    code, text = failure(command, *arguments)
    assert code == 2
    assert text.startswith(f"Usage: nsyswrap {command}" if "nsyswrap" in text else f"Usage: cli {command}")


CANNOT_TELL: dict[str, tuple[ExportBuilder, list[str], str]] = {
    "no steps": (ExportBuilder().kernel(1, 2, launched=(0, 1)), ["--window", "steps"], "no steps"),
    "nothing": (ExportBuilder(), [], "no events at all"),
    "nothing at all": (ExportBuilder(), ["--window", "all"], "no events at all"),
}


@every_command
@pytest.mark.parametrize("kind", CANNOT_TELL)
def test_a_capture_that_holds_too_little_exits_with_3(kind: str, command: str, tmp_path: Path) -> None:
    """The input is valid, but cannot answer the question."""
    builder, arguments, words = CANNOT_TELL[kind]
    code, text = failure(command, builder.write(tmp_path / "little.sqlite"), *arguments)
    assert code == 3
    assert words in lines(text)[0]
    assert not (tmp_path / "report.html").exists()


def test_a_phase_is_a_name_and_a_pattern() -> None:
    """The pattern may hold an equals sign."""
    name, pattern = phase_rule("data=^x=(1|2)$")
    assert name == "data"
    assert pattern.search("x=2")
