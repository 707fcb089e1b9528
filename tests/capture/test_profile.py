"""A capture from options to result, with a fake nsys that fails in each way the real one was observed to fail."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_nsys, options, private_tmp, python, report_of, results_in

from nsyswrap.base.errors import (
    CaptureError,
    CommandNotExecutableError,
    CommandNotFoundError,
    ExportError,
    UsageError,
)
from nsyswrap.capture.convert import export_report, is_export
from nsyswrap.capture.failures import export_failed
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile, resolved_command
from nsyswrap.capture.progress import Phase

__all__ = ["fake_nsys", "private_tmp"]


def failing(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Select the failure of the fake nsys."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", how)


def names(folder: Path) -> set[str]:
    """Return the names of all files in a folder, including hidden ones."""
    return {path.name for path in folder.iterdir()}


def test_the_result_describes_the_run(fake_nsys: Nsys, tmp_path: Path) -> None:
    """It has the command, the exit code, the time and the nsys."""
    result = profile(options(tmp_path / "result", "sh", "-c", "sleep 0.2; exit 6"), fake_nsys)
    assert (result.command, result.exit_code, result.nsys) == (("sh", "-c", "sleep 0.2; exit 6"), 6, fake_nsys)
    assert 100_000_000 < result.wall_ns < 5_000_000_000


def test_only_the_owner_can_read_a_capture(fake_nsys: Nsys, tmp_path: Path) -> None:
    """It holds the program's environment, so the folder has mode 0700 and its files 0600."""
    profile(options(tmp_path / "result", "true"), fake_nsys)
    folder = tmp_path / "result"
    assert results_in(folder) == ["capture.nsys-rep", "capture.sqlite"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_is_left_in_the_temporary_folder(fake_nsys: Nsys, tmp_path: Path, private_tmp: Path) -> None:
    """The private folder of the run is removed."""
    profile(options(tmp_path / "result", "true"), fake_nsys)
    assert names(private_tmp) == set()


def test_nsys_has_its_own_temporary_folder_and_the_program_keeps_its(
    fake_nsys: Nsys, tmp_path: Path, private_tmp: Path
) -> None:
    """TMPDIR of nsys is the run's private folder; that of the program is unchanged."""
    show = python(f"import os; open({str(tmp_path / 'seen')!r}, 'w').write(os.environ['TMPDIR'])")
    profile(options(tmp_path / "result", *show), fake_nsys)
    nsys_saw = report_of(tmp_path / "result")["environment"]["TMPDIR"]
    assert Path(nsys_saw).parent == private_tmp
    assert (tmp_path / "seen").read_text() == str(private_tmp)


def test_a_program_without_tmpdir_gets_none(fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is not added."""
    monkeypatch.delenv("TMPDIR", raising=False)
    program = python("import os, sys; sys.exit('TMPDIR' in os.environ)")
    assert profile(options(tmp_path / "result", *program), fake_nsys).exit_code == 0


@pytest.mark.parametrize("name", ["100%h %q{HOME} %p", '-it\'s "Ünïcødé-模型"\n'])
def test_folders_of_any_name_work(fake_nsys: Nsys, tmp_path: Path, name: str) -> None:
    """Nsys does not expand a %, and no shell splits the name."""
    profile(options(tmp_path / name, "true"), fake_nsys)
    assert results_in(tmp_path / name) == ["capture.nsys-rep", "capture.sqlite"]
    assert "%" not in next(word for word in report_of(tmp_path / name)["arguments"] if word.startswith("--output="))


def test_a_relative_folder_is_relative_to_us_and_not_to_the_program(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's working folder does not matter."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    profile(options(Path("result"), "true", cwd=tmp_path / "elsewhere"), fake_nsys)
    assert results_in(tmp_path / "result") == ["capture.nsys-rep", "capture.sqlite"]


def test_added_variables_reach_the_program(fake_nsys: Nsys, tmp_path: Path) -> None:
    """A value may contain commas and equals signs, where nsys's own option would split it."""
    program = python("import os, sys; sys.exit(os.environ['FAKE_X'] != 'a=b,c=d')")
    result = profile(options(tmp_path / "result", *program, environment=(("FAKE_X", "a=b,c=d"),)), fake_nsys)
    assert result.exit_code == 0


def test_an_existing_result_is_not_touched(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Without force the program does not run."""
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "capture.sqlite").write_text("precious")
    with pytest.raises(UsageError, match="exists already") as caught:
        profile(options(folder, "touch", str(tmp_path / "ran")), fake_nsys)
    assert "--force" in caught.value.hint
    assert (folder / "capture.sqlite").read_text() == "precious"
    assert not (tmp_path / "ran").exists()


NO_IMPORT, NO_EXPORT = ["capture.qdstrm"], ["capture.nsys-rep"]


@pytest.mark.parametrize(
    ("how", "message", "hint", "kept"),
    [
        ("never-starts", "did not start the program (nsys: Unable to launch the application)", "nsyswrap doctor", []),
        ("no-report", "nsys wrote no report; the program ended with code 0", "nsyswrap doctor", []),
        ("no-importer", "could not write its report (nsys: Generating", "result/capture.qdstrm", NO_IMPORT),
        ("disk-full", "the disk is full", "Free some space", []),
        ("crash", "nsys was killed by SIGSEGV, so there is no report", "dmesg", []),
        ("export-fails", "cannot export", "at least as new as the one that recorded it", NO_EXPORT),
        ("export-missing", "cannot export", "NSYSWRAP_NSYS", NO_EXPORT),
        ("empty", "cannot export", "NSYSWRAP_NSYS", NO_EXPORT),
    ],
)
def test_each_known_failure_of_nsys_is_an_error_with_cause_and_remedy(  # noqa: PLR0913, PLR0917 - a row of the table
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, message: str, hint: str, kept: list[str]
) -> None:
    """This holds even if nsys exits with 0. What it recorded is kept; without anything there is no folder."""
    failing(monkeypatch, how)
    with pytest.raises(CaptureError) as caught:
        profile(options(tmp_path / "result", "true"), fake_nsys)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 125
    assert (results_in(tmp_path / "result") if kept else (tmp_path / "result").exists()) == (kept or False)


def test_a_capture_range_that_never_started_is_named(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nsys exits with the program's code, writes no report and prints nothing."""
    failing(monkeypatch, "no-report")
    with pytest.raises(CaptureError, match="epoch 3@train never started"):
        profile(options(tmp_path / "result", "true", capture_range="epoch 3@train"), fake_nsys)


@pytest.mark.parametrize("name", ["no-such-command", "x" * 300, f"./{'x' * 300}"])
def test_a_command_that_does_not_exist_is_127(fake_nsys: Nsys, tmp_path: Path, name: str) -> None:
    """The error comes before anything runs or is created."""
    with pytest.raises(CommandNotFoundError, match=f"{name}: command not found") as caught:
        profile(options(tmp_path / "result", name), fake_nsys)
    assert caught.value.exit_code == 127
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize("name", ["./train.py", "./data"])
def test_a_command_that_is_not_executable_is_126(fake_nsys: Nsys, tmp_path: Path, name: str) -> None:
    """It may be a file without the permission, or a folder; for a script the hint names python."""
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "data").mkdir()
    with pytest.raises(CommandNotExecutableError) as caught:
        profile(options(tmp_path / "result", name, cwd=tmp_path), fake_nsys)
    assert caught.value.exit_code == 126
    assert ("python ./train.py" in caught.value.hint) == (name == "./train.py")
    assert ("is a folder" in caught.value.message) == (name == "./data")
    assert "chmod" not in caught.value.hint


MISSING = {
    "nope.py": (127, "nope.py does not exist"),
    f"{'x' * 300}.py": (127, f"{'x' * 300}.py does not exist"),
    "folder.py": (126, "folder.py is a folder"),
    "secret.py": (126, "secret.py cannot be read"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_script_that_python_cannot_read_leaves_no_folder(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing is run and recorded."""
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "secret.py").touch()
    real = os.access  # root may read every file
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK and real(path, mode))
    with pytest.raises(CaptureError) as caught:
        profile(options(tmp_path / "result", sys.executable, name, cwd=tmp_path), fake_nsys)
    assert (caught.value.exit_code, caught.value.message) == MISSING[name]
    assert not (tmp_path / "result").exists()


def test_a_folder_with_a_main_program_is_a_script(tmp_path: Path) -> None:
    """Python runs it."""
    (tmp_path / "train.py").mkdir()
    (tmp_path / "train.py" / "__main__.py").touch()
    command = resolved_command(options(tmp_path, sys.executable, "train.py", cwd=tmp_path))
    assert command == (sys.executable, "train.py")


def test_a_name_of_the_working_folder_is_no_command(tmp_path: Path) -> None:
    """A shell does not find it either; the message says what it is."""
    (tmp_path / "data").mkdir()
    (tmp_path / "train").touch()
    with pytest.raises(CommandNotExecutableError, match="data is a folder"):
        resolved_command(options(tmp_path, "data", cwd=tmp_path))
    with pytest.raises(CommandNotFoundError, match="train: command not found") as caught:
        resolved_command(options(tmp_path, "train", cwd=tmp_path))
    assert caught.value.hint == "A file of this folder is run as ./train"


def test_an_empty_command_is_a_usage_error(tmp_path: Path) -> None:
    """There is nothing to run."""
    with pytest.raises(UsageError, match="no command to profile"):
        resolved_command(options(tmp_path / "result"))


def test_a_command_is_searched_in_the_path_of_the_program(tmp_path: Path) -> None:
    """A PATH that is set for the program is used, and a link to an interpreter is not followed."""
    tool = executable(tmp_path / "real" / "tool", "#!/bin/sh\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to(tool)
    found = resolved_command(options(tmp_path, "tool", "x", environment=(("PATH", str(tmp_path / "bin")),)))
    assert found == (str(tmp_path / "bin" / "tool"), "x")


def test_the_phases_of_a_capture(fake_nsys: Nsys, tmp_path: Path) -> None:
    """They are running, writing and exporting, each with shares that never fall."""
    seen: list[tuple[Phase, float | None]] = []
    profile(options(tmp_path / "result", "true"), fake_nsys, lambda phase, share: seen.append((phase, share)))
    order = list(dict.fromkeys(phase for phase, _ in seen))
    assert order == [Phase.RUNNING, Phase.WRITING, Phase.EXPORTING]
    exported = [share for phase, share in seen if phase is Phase.EXPORTING and share is not None]
    assert exported == sorted(exported)
    assert exported[-1] == 1.0


def test_a_failed_export_keeps_the_target(fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete export does not replace a complete one."""
    failing(monkeypatch, "export-fails")
    report, target = tmp_path / "x.nsys-rep", tmp_path / "x.sqlite"
    report.write_text("{}")
    target.write_text("whole")
    with pytest.raises(ExportError, match=r"nsys 2023\.4\.4\.54 cannot export .*newer version"):
        export_report(fake_nsys, report, target)
    assert target.read_text() == "whole"


NEWER = "x.nsys-rep was recorded by nsys 2026.1.1; this machine has nsys 2023.4.4, which cannot read it"


@pytest.mark.parametrize(
    ("start", "reason", "message", "hint"),
    [
        ("NVIDIA Tegra Profiler Report 2026@1@1@54-234v0.", "", NEWER, "Install nsys 2026.1.1 or newer"),
        (
            "NVIDIA Tegra Profiler Report 36398880.",
            "Report was created in Nsight Systems version (2026.1.1.54-234v0), newer than your current version",
            NEWER,
            "Install nsys 2026.1.1 or newer",
        ),
        (
            "NVIDIA Tegra Profiler Report 2022@4@2@1-v0.",
            "Mismatch.",
            "(nsys: Mismatch.)",
            "recorded by nsys 2022.4.2, so",
        ),
        (
            "NVIDIA Tegra Profiler Report 36398880.",
            "Throw in function f\nDynamic exception type: boost::wrapexcept<x>\nstd::exception::what: y",
            "x.nsys-rep; a newer nsys recorded it, or it is damaged",
            "at least as new",
        ),
        ("", "", "cannot export", "at least as new"),
    ],
)
def test_the_error_of_a_report_says_whether_it_is_of_a_newer_nsys_or_damaged(  # noqa: PLR0913 - a case has four parts
    fake_nsys: Nsys, tmp_path: Path, *, start: str, reason: str, message: str, hint: str
) -> None:
    """The report begins with the version of its nsys, or nsys prints it; the text of an exception is left out."""
    report = tmp_path / "x.nsys-rep"
    report.write_bytes(start.encode() + b"\n\x0b\xff" * 100)
    error = export_failed(fake_nsys, report, tmp_path / "x.sqlite", reason)
    assert message in error.message
    assert hint in error.hint
    assert "boost" not in error.message


def test_the_version_beside_a_capture_is_that_of_its_nsys(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Some releases write the number of a build into the report."""
    report = tmp_path / "capture.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 36398880.\n")
    (tmp_path / "run.json").write_text(json.dumps({"schema": "nsyswrap.run/1", "versions": {"nsys": "2025.3.1.0"}}))
    message = export_failed(fake_nsys, report, tmp_path / "x.sqlite", "").message
    assert "was recorded by nsys 2025.3.1; this machine has nsys 2023.4.4" in message


def test_a_missing_report_cannot_be_exported(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The message has the path, and nothing is run."""
    with pytest.raises(ExportError, match=r"gone\.nsys-rep does not exist"):
        export_report(fake_nsys, tmp_path / "gone.nsys-rep", tmp_path / "x.sqlite")


def test_an_export_is_a_database_with_tables(tmp_path: Path) -> None:
    """An empty file, a text or a truncated database is not an export."""
    for name, content in {"empty": b"", "text": b"hello", "cut": b"SQLite format 3\0" + b"\0" * 50}.items():
        (tmp_path / name).write_bytes(content)
        assert not is_export(tmp_path / name), name
    assert not is_export(tmp_path / "absent")


def test_a_temporary_folder_with_a_percent_sign_is_not_used(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nsys would expand it in the name of its report."""
    odd = tmp_path / "50%p"
    odd.mkdir()
    monkeypatch.setenv("TMPDIR", str(odd))
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    profile(options(tmp_path / "result", "true"), fake_nsys)
    assert names(odd) == set()
