"""`nsyswrap gate` as a user runs it: inputs, outputs and exit codes."""

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import commands
import paired_reports as pairs
import pytest

from nsyswrap.capture.recorded_run import SCHEMA
from nsyswrap.cli.gate import _repeated
from nsyswrap.render import json_report

run, in_json = partial(commands.run, "gate"), partial(commands.in_json, "gate")


@cache
def report_text(median_ms: float, number: int) -> str:
    """Return a report.json of steps of so many ms."""
    whole = pairs.report(pairs.lengths(median_ms, seed=number))
    return json_report.render(pairs.with_session(whole, started_utc=f"2026-11-21T04:{number:02d}:00"))


def stored(folder: Path, median_ms: float, number: int, commit: str = "") -> Path:
    """Write a result folder with a report of steps of so many ms, as `profile` does."""
    target = folder / f"run-{number:02d}"
    target.mkdir(parents=True)
    (target / "report.json").write_text(report_text(median_ms, number), encoding="utf-8")
    if commit:
        record = {"schema": SCHEMA, "git": {"commit": commit, "dirty": number % 2 == 0}}
        (target / "run.json").write_text(json.dumps(record))
    return target


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Return a folder of eight result folders with steps of 4 ms."""
    for number in range(8):
        stored(tmp_path / "main", 4.0, number, "abc")
    return tmp_path / "main"


@pytest.fixture
def slow(tmp_path: Path) -> list[Path]:
    """Return three result folders with steps of 5 ms."""
    return [stored(tmp_path / "new", 5.0, number) for number in (10, 11, 12)]


def test_slower_runs_exit_with_1(earlier: Path, slow: list[Path]) -> None:
    result = run(*slow, "--against", earlier)
    assert result.exit_code == 1
    assert "Regressed: +24." in " ".join(result.stdout.split())
    assert result.stderr == "nsyswrap: the new runs are slower\nhint: see the result for what takes longer\n"


def test_equal_runs_exit_with_0(earlier: Path, tmp_path: Path) -> None:
    result = run(*(stored(tmp_path, 4.0, at) for at in (20, 21, 22)), "--against", earlier)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\nPasses:" in result.stdout


def test_runs_that_cannot_tell_exit_with_3_and_say_how_many_would(earlier: Path, tmp_path: Path) -> None:
    new = stored(tmp_path, 4.0, 20)
    result = run(
        new, "--find", 1.1, "--allow-one", "--against", earlier / "run-01", earlier / "run-02", earlier / "run-03"
    )
    assert result.exit_code == 3
    assert result.stderr.startswith("nsyswrap: the runs cannot tell whether a step became slower\nhint: ")
    assert "runs" in result.stderr.splitlines()[1]


def test_against_takes_all_paths_up_to_the_next_option(earlier: Path, slow: list[Path]) -> None:
    """Files, folders and folders of folders give the same result; options and new runs may follow."""
    whole = in_json(*slow, "--against", earlier)
    folders = sorted(earlier.iterdir())
    files = [folder / "report.json" for folder in folders]
    for arguments in (
        (*slow, "--against", *files),
        ("--against", *folders[:3], "--against", *folders[3:], "--find", 5, slow[0].parent),
    ):
        assert in_json(*arguments) == whole


def test_against_is_repeated_before_each_path() -> None:
    words = ["new", "--against", "a", "b", "--find", "5", "more", "--against"]
    expected = ["new", "--against", "a", "--against", "b", "--find", "5", "more", "--against"]
    assert list(_repeated(words)) == expected


def test_runs_have_the_name_of_their_folder_and_their_commit(earlier: Path, slow: list[Path]) -> None:
    found = in_json(*slow, "--against", earlier)
    assert [(one["name"], one["commit"]) for one in found["earlier"][:2]] == [
        ("run-00", "abc+changes"),
        ("run-01", "abc"),
    ]
    assert found["new"][0]["commit"] == ""


@pytest.mark.parametrize("options", [("--find", "1"), ("--margin", "1"), ("--find", "nan"), ("--accept", "anything")])
def test_wrong_options_exit_with_2(earlier: Path, slow: list[Path], options: tuple[str, ...]) -> None:
    assert run(*slow, "--against", earlier, *options).exit_code == 2


def test_missing_sides_exit_with_2(slow: list[Path]) -> None:
    assert run(*slow).exit_code == 2
    assert run("--against", slow[0]).exit_code == 2
    assert run(slow[0], "--against").exit_code == 2


def test_paths_without_a_run_exit_with_2(tmp_path: Path, slow: list[Path]) -> None:
    (tmp_path / "empty").mkdir()
    for path, words in ((tmp_path / "empty", "holds no report.json"), (tmp_path / "gone", "there is no run at")):
        result = run(*slow, "--against", path)
        assert result.exit_code == 2
        assert words in result.stderr


def test_a_mistake_of_ours_exits_with_4(earlier: Path, slow: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its traceback."""
    monkeypatch.setattr("nsyswrap.cli.gate._named", lambda *_: 1 // 0)
    result = run(*slow, "--against", earlier)
    assert result.exit_code == 4
    assert "ZeroDivisionError" in result.stderr


def test_a_history_that_cannot_be_read_exits_with_4(slow: list[Path], tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("this is no database, but a text")
    result = run(*slow, "--against", "HEAD", "--db", tmp_path / "text.sqlite")
    assert (result.exit_code, result.stdout) == (4, "")


def test_a_result_that_is_not_read_exits_with_4(earlier: Path, slow: list[Path]) -> None:
    """As in `nsyswrap gate ... | head -1`."""
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "nsyswrap", "gate", *map(str, slow), "--against", str(earlier)]
    done = subprocess.run(words, check=False, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert done.returncode == 4
    assert done.stderr == "nsyswrap: the result was not read to its end\nhint: write it to a file with -o\n"


def test_one_run_passes_or_fails_only_where_it_is_allowed(earlier: Path, slow: list[Path]) -> None:
    result = run(slow[0], "--against", earlier)
    assert result.exit_code == 3
    assert "use --allow-one" in result.stderr
    assert run(slow[0], "--against", earlier, "--allow-one").exit_code == 1


def test_another_machine_is_said_and_does_not_count(earlier: Path, slow: list[Path]) -> None:
    """As run.json beside a report names it."""
    for machine, folders in (("a", sorted(earlier.iterdir())), ("b", slow)):
        for folder in folders:
            record = {"schema": SCHEMA, "machine": machine, "versions": {"torch": "2.11"}}
            (folder / "run.json").write_text(json.dumps(record))
    result = run(*slow, "--against", earlier)
    assert result.exit_code == 3
    assert "8 earlier runs do not count: Other machine: b against a." in " ".join(result.stdout.split())
    accepted = run(*slow, "--against", earlier, "--accept", "machine")
    assert accepted.exit_code == 1
    assert "Other machine: b against a. You accepted this. Regressed" in " ".join(accepted.stdout.split())


@pytest.mark.parametrize("text", ["{", "[]", '{"git": 3}'])
def test_a_damaged_run_json_means_an_unknown_commit(earlier: Path, slow: list[Path], text: str) -> None:
    (earlier / "run-00" / "run.json").write_text(text)
    assert in_json(*slow, "--against", *sorted(earlier.iterdir())[:3])["earlier"][0]["commit"] == ""


def test_an_input_is_not_overwritten(earlier: Path, slow: list[Path]) -> None:
    """Neither where it is given itself nor where its folder is."""
    for base in (earlier / "run-00", earlier):
        result = run(*slow, "--against", base, "-o", earlier / "run-00" / "report.json", "--force")
        assert result.exit_code == 2
        assert "is an input" in result.stderr
