"""One capture from options to result, with a fake nsys that fails in each way the real one was seen to fail."""

import json
import stat
import sys
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_nsys, options, private_tmp, python, report_of

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import export_report, is_export, profile, resolved_command
from nsyswrap.capture.progress import Phase
from nsyswrap.errors import (
    CaptureError,
    CommandNotExecutableError,
    CommandNotFoundError,
    ExportError,
    NsyswrapError,
    UsageError,
)

__all__ = ["fake_nsys", "private_tmp"]


def failing(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Make the fake nsys fail."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", how)


def names(folder: Path) -> set[str]:
    """What a folder holds, hidden files too."""
    return {path.name for path in folder.iterdir()}


def test_a_capture_leaves_a_report_and_an_export(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Both stand in the folder, and nothing else does."""
    result = profile(options(tmp_path / "result", "true"), fake_nsys)
    assert names(tmp_path / "result") == {"capture.nsys-rep", "capture.sqlite"}
    assert (result.report, result.export) == (
        tmp_path / "result" / "capture.nsys-rep",
        tmp_path / "result" / "capture.sqlite",
    )


def test_the_result_says_what_ran(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Command as given, exit code, time and nsys."""
    result = profile(options(tmp_path / "result", "sh", "-c", "sleep 0.2; exit 6"), fake_nsys)
    assert (result.command, result.exit_code, result.nsys) == (("sh", "-c", "sleep 0.2; exit 6"), 6, fake_nsys)
    assert 100_000_000 < result.wall_ns < 5_000_000_000


def test_a_capture_is_readable_by_its_owner_alone(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Captures hold the environment of the program, so the folder is 0700 and its files are 0600."""
    profile(options(tmp_path / "result", "true"), fake_nsys)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "result").iterdir()}
    assert modes == {"capture.nsys-rep": 0o600, "capture.sqlite": 0o600}
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o700


def test_nothing_is_left_in_the_temporary_folder(fake_nsys: Nsys, tmp_path: Path, private_tmp: Path) -> None:
    """The private folder of a run goes with it."""
    profile(options(tmp_path / "result", "true"), fake_nsys)
    assert names(private_tmp) == set()


def test_nsys_has_a_temporary_folder_of_its_own_and_the_program_keeps_its_own(
    fake_nsys: Nsys, tmp_path: Path, private_tmp: Path
) -> None:
    """TMPDIR of nsys is the run's private folder; the program sees the one that the user set."""
    show = python(f"import os; open({str(tmp_path / 'seen')!r}, 'w').write(os.environ['TMPDIR'])")
    profile(options(tmp_path / "result", *show), fake_nsys)
    nsys_saw = report_of(tmp_path / "result")["environment"]["TMPDIR"]
    assert Path(nsys_saw).parent == private_tmp
    assert (tmp_path / "seen").read_text() == str(private_tmp)


def test_a_program_without_tmpdir_stays_without(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that the user does not have is not made up."""
    monkeypatch.delenv("TMPDIR", raising=False)
    program = python("import os, sys; sys.exit('TMPDIR' in os.environ)")
    assert profile(options(tmp_path / "result", *program), fake_nsys).exit_code == 0


@pytest.mark.parametrize("name", ["a b", "it's", 'say "x"', "100%h %q{HOME} %p", "Ünïcødé-模型", "-dash", "new\nline"])
def test_folders_of_any_name_work(fake_nsys: Nsys, tmp_path: Path, name: str) -> None:
    """Neither does nsys expand a % in them, nor a shell split them."""
    profile(options(tmp_path / name, "true"), fake_nsys)
    assert names(tmp_path / name) == {"capture.nsys-rep", "capture.sqlite"}
    assert "%" not in next(word for word in report_of(tmp_path / name)["arguments"] if word.startswith("--output="))


def test_a_relative_folder_is_relative_to_us_and_not_to_the_program(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's working folder does not move the result."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    profile(options(Path("result"), "true", cwd=tmp_path / "elsewhere"), fake_nsys)
    assert names(tmp_path / "result") == {"capture.nsys-rep", "capture.sqlite"}


def test_the_program_runs_in_its_working_folder(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The option cwd is the program's."""
    (tmp_path / "work").mkdir()
    profile(options(tmp_path / "result", "touch", "here", cwd=tmp_path / "work"), fake_nsys)
    assert (tmp_path / "work" / "here").exists()


def test_added_variables_reach_the_program(fake_nsys: Nsys, tmp_path: Path) -> None:
    """A value may hold commas and equals signs, which nsys's own option would split at."""
    program = python("import os, sys; sys.exit(os.environ['FAKE_X'] != 'a=b,c=d')")
    result = profile(options(tmp_path / "result", *program, environment=(("FAKE_X", "a=b,c=d"),)), fake_nsys)
    assert result.exit_code == 0


def test_an_existing_result_is_not_touched(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Without force the program does not even run."""
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "capture.sqlite").write_text("precious")
    with pytest.raises(UsageError, match="is there already") as caught:
        profile(options(folder, "touch", str(tmp_path / "ran")), fake_nsys)
    assert "--force" in caught.value.hint
    assert (folder / "capture.sqlite").read_text() == "precious"
    assert not (tmp_path / "ran").exists()


def test_force_replaces_a_result_whole(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Reports of the earlier run go too, and files that are not ours stay."""
    folder = tmp_path / "result"
    profile(options(folder, "true"), fake_nsys)
    for name in ("report.html", "run.json", "notes.txt"):
        (folder / name).write_text("old")
    profile(options(folder, "false", force=True), fake_nsys)
    assert names(folder) == {"capture.nsys-rep", "capture.sqlite", "notes.txt"}
    assert report_of(folder)["arguments"][-1].endswith("/false")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("never-starts", ("did not start the program (nsys: Unable to launch the application)", "nsyswrap doctor")),
        ("no-report", ("nsys wrote no report; the program ended with code 0", "nsyswrap doctor")),
        ("no-importer", ("could not write its report (nsys: Generating", "is kept in")),
        ("disk-full", ("the disk is full", "Free space")),
        ("crash", ("nsys wrote no report; the program ended with code 139", "nsyswrap doctor")),
        ("export-fails", ("cannot export", "at least as new as the one that recorded it")),
        ("export-missing", ("cannot export", "NSYSWRAP_NSYS")),
        ("empty", ("cannot export", "NSYSWRAP_NSYS")),
    ],
)
def test_each_known_failure_of_nsys_is_an_error_with_cause_and_remedy(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: tuple[str, str]
) -> None:
    """Also where nsys itself exits with 0."""
    failing(monkeypatch, how)
    with pytest.raises(CaptureError) as caught:
        profile(options(tmp_path / "result", "true"), fake_nsys)
    assert said[0] in caught.value.message
    assert said[1] in caught.value.hint
    assert caught.value.exit_code == 125


@pytest.mark.parametrize("how", ["never-starts", "no-report", "disk-full", "crash"])
def test_a_failure_without_a_report_leaves_no_folder(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The same command works again, once the cause is mended."""
    failing(monkeypatch, how)
    with pytest.raises(CaptureError):
        profile(options(tmp_path / "result", "true"), fake_nsys)
    assert not (tmp_path / "result").exists()
    monkeypatch.delenv("FAKE_NSYS_FAILURE")
    assert profile(options(tmp_path / "result", "true"), fake_nsys).exit_code == 0


def test_what_was_recorded_is_kept_where_the_importer_fails(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The .qdstrm is in the result folder, and the hint names it."""
    failing(monkeypatch, "no-importer")
    with pytest.raises(CaptureError) as caught:
        profile(options(tmp_path / "result", "true"), fake_nsys)
    kept = tmp_path / "result" / "capture.qdstrm"
    assert kept.read_text() == "recorded"
    assert str(kept) in caught.value.hint


def test_the_report_is_kept_where_the_export_fails(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was not in vain: a newer nsys can export it."""
    failing(monkeypatch, "export-fails")
    with pytest.raises(CaptureError):
        profile(options(tmp_path / "result", "true"), fake_nsys)
    assert names(tmp_path / "result") == {"capture.nsys-rep"}


def test_a_capture_range_that_never_began_is_named(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here nsys exits with the program's code, leaves no report, and says nothing."""
    failing(monkeypatch, "no-report")
    with pytest.raises(CaptureError, match="epoch 3@train never began"):
        profile(options(tmp_path / "result", "true", capture_range="epoch 3@train"), fake_nsys)


@pytest.mark.parametrize("name", ["no-such-command", "x" * 300, f"./{'x' * 300}"])
def test_a_command_that_does_not_exist_is_127(fake_nsys: Nsys, tmp_path: Path, name: str) -> None:
    """It is found out before anything runs or is made."""
    with pytest.raises(CommandNotFoundError, match=f"{name}: there is no such command") as caught:
        profile(options(tmp_path / "result", name), fake_nsys)
    assert caught.value.exit_code == 127
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize("name", ["./train.py", "./data"])
def test_a_command_that_may_not_be_executed_is_126(fake_nsys: Nsys, tmp_path: Path, name: str) -> None:
    """A file without the right to be executed, or a folder; for a script the hint names python."""
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "data").mkdir()
    with pytest.raises(CommandNotExecutableError) as caught:
        profile(options(tmp_path / "result", name, cwd=tmp_path), fake_nsys)
    assert caught.value.exit_code == 126
    assert ("python ./train.py" in caught.value.hint) == (name == "./train.py")
    assert ("is a folder" in caught.value.message) == (name == "./data")
    assert "chmod" not in caught.value.hint


def test_no_command_at_all_is_a_usage_error(tmp_path: Path) -> None:
    """There is nothing to run."""
    with pytest.raises(UsageError, match="no command to profile"):
        resolved_command(options(tmp_path / "result"))


def test_a_command_is_looked_up_as_the_program_would_see_it(tmp_path: Path) -> None:
    """A PATH that is set for the program counts, and a link to an interpreter is not followed."""
    tool = executable(tmp_path / "real" / "tool", "#!/bin/sh\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to(tool)
    found = resolved_command(options(tmp_path, "tool", "x", environment=(("PATH", str(tmp_path / "bin")),)))
    assert found == (str(tmp_path / "bin" / "tool"), "x")


def test_the_phases_of_a_capture(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Running, writing, exporting, each with shares that never fall."""
    seen: list[tuple[Phase, float | None]] = []
    profile(options(tmp_path / "result", "true"), fake_nsys, lambda phase, share: seen.append((phase, share)))
    order = list(dict.fromkeys(phase for phase, _ in seen))
    assert order == [Phase.RUNNING, Phase.WRITING, Phase.EXPORTING]
    exported = [share for phase, share in seen if phase is Phase.EXPORTING and share is not None]
    assert exported == sorted(exported)
    assert exported[-1] == 1.0


def test_two_captures_at_once_share_nothing(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Of two runs into one folder the later is refused while the first still runs."""
    inner = (
        "from pathlib import Path\nfrom capture_fixtures import options\n"
        "from nsyswrap.capture.locate import find_nsys\nfrom nsyswrap.capture.nsys import profile\n"
        f"profile(options(Path({str(tmp_path / 'result')!r}), 'true'), find_nsys())"
    )
    result = profile(
        options(tmp_path / "result", sys.executable, "-c", inner, cwd=Path(__file__).parents[1]), fake_nsys
    )
    assert result.exit_code == 1
    assert report_of(tmp_path / "result")["arguments"][-1] == inner


def test_an_export_takes_the_place_of_a_stale_one(fake_nsys: Nsys, tmp_path: Path) -> None:
    """What lies at the target, even a newer file, is replaced by what the report holds."""
    report = tmp_path / "x.nsys-rep"
    report.write_text(json.dumps({"arguments": [], "environment": {}}))
    target = tmp_path / "x.sqlite"
    target.write_text("stale")
    export_report(fake_nsys, report, target)
    assert is_export(target)
    assert names(tmp_path) >= {"x.nsys-rep", "x.sqlite"}


def test_a_failed_export_leaves_the_target_alone(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an export never takes the place of a whole one."""
    failing(monkeypatch, "export-fails")
    report, target = tmp_path / "x.nsys-rep", tmp_path / "x.sqlite"
    report.write_text("{}")
    target.write_text("whole")
    with pytest.raises(ExportError, match=r"nsys 2023\.4\.4\.54 cannot export .*newer version"):
        export_report(fake_nsys, report, target)
    assert target.read_text() == "whole"


def test_a_report_that_is_not_there_cannot_be_exported(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The path is named, and nothing is run."""
    with pytest.raises(ExportError, match=r"gone\.nsys-rep: there is no such file"):
        export_report(fake_nsys, tmp_path / "gone.nsys-rep", tmp_path / "x.sqlite")


def test_an_export_is_a_database_with_tables(tmp_path: Path) -> None:
    """Neither an empty file, nor a text, nor a truncated database is one."""
    for name, content in {"empty": b"", "text": b"hello", "cut": b"SQLite format 3\0" + b"\0" * 50}.items():
        (tmp_path / name).write_bytes(content)
        assert not is_export(tmp_path / name), name
    assert not is_export(tmp_path / "absent")


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(fake_nsys: Nsys, tmp_path: Path) -> None:
    """A file where a folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NsyswrapError, match="cannot be made") as caught:
        profile(options(tmp_path / "file" / "result", "true"), fake_nsys)
    assert "-o" in caught.value.hint


def test_a_temporary_folder_with_a_percent_sign_is_not_used(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By nsys it would be expanded in the name of its report."""
    odd = tmp_path / "50%p"
    odd.mkdir()
    monkeypatch.setenv("TMPDIR", str(odd))
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    profile(options(tmp_path / "result", "true"), fake_nsys)
    assert names(odd) == set()
