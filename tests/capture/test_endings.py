"""Notes and errors for captures that the program, the disk or the user ended, with a fake nsys."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import commands
import hand_made
import pytest
from capture_fixtures import fake_nsys, options, results_in
from click.testing import Result
from real_captures import more

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.process import Output, output_of
from nsyswrap.capture.progress import Phase
from nsyswrap.capture.signals import CaptureInterruptedError
from nsyswrap.cli.profile import print_summary, with_notes
from nsyswrap.model import Report

__all__ = ["fake_nsys"]

ENDINGS = {
    "exit 0": (),
    "exit 7": ("The program ended with exit code 7",),
    "exit 255": ("The program ended with exit code 255",),
    "kill -9 $$": ("The program was killed by SIGKILL; the capture holds what was recorded until then",),
    "kill -SEGV $$": ("The program was killed by SIGSEGV; the capture holds what was recorded until then",),
}


@pytest.mark.parametrize("script", ENDINGS)
def test_a_program_that_fails_gets_one_note(fake_nsys: Nsys, tmp_path: Path, script: str) -> None:
    """A program that succeeds gets none."""
    assert profile(options(tmp_path / "result", "sh", "-c", script), fake_nsys).notes == ENDINGS[script]


def test_a_program_that_ends_before_the_delay_is_not_a_failure_of_nsys(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it ran longer than the delay, it is a failure of nsys."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "no-report")
    with pytest.raises(CaptureError, match=r"ended before recording started \(--delay 10\)") as caught:
        profile(options(tmp_path / "result", "true", delay_s=10.0), fake_nsys)
    assert caught.value.hint == "Choose a shorter --delay"
    with pytest.raises(CaptureError, match="nsys wrote no report"):
        profile(options(tmp_path / "result", "sleep", "0.5", delay_s=0.1), fake_nsys)


def test_a_full_disk_while_the_recording_moves_is_an_error(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The incomplete file is removed."""

    def fills_the_disk(_source: Path, target: Path) -> None:
        target.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("FAKE_NSYS_FAILURE", "no-importer")
    monkeypatch.setattr("shutil.move", fills_the_disk)
    with pytest.raises(CaptureError, match=r"cannot be kept in /.*: No space left on device \(.* free\)") as caught:
        profile(options(tmp_path / "result", "true"), fake_nsys)
    assert (caught.value.exit_code, "Free some space" in caught.value.hint) == (125, True)
    assert not (tmp_path / "result").exists()


def test_ctrl_c_during_the_export_keeps_the_report(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The hint says how to continue."""

    def interrupt(phase: Phase, _share: float | None) -> None:
        if phase is Phase.EXPORTING:
            raise KeyboardInterrupt

    with pytest.raises(CaptureInterruptedError) as caught:
        profile(options(tmp_path / "result", "true"), fake_nsys, interrupt)
    assert results_in(tmp_path / "result") == ["capture.nsys-rep"]
    assert f"nsyswrap resume {tmp_path / 'result'}'" in caught.value.hint


def test_a_folder_name_that_begins_with_dashes_is_not_an_option(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nsys export gets the absolute path of the report."""
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[str, ...]] = []

    def noted(argv: tuple[str, ...], **rest: Any) -> Output:  # noqa: ANN401 - whatever it takes
        seen.append(argv)
        return output_of(argv, **rest)

    monkeypatch.setattr("nsyswrap.capture.convert.output_of", noted)
    profile(options(Path("--"), "true"), fake_nsys)
    assert Path(seen[-1][-1]).is_absolute()


def interrupted(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Run the command line, with Ctrl-C during the analysis."""

    def interrupt(*_: object) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr("nsyswrap.cli.profile.analyzed", interrupt)
    before = os.umask(0o022)
    try:
        return commands.run("profile", "--quiet", *arguments)
    finally:
        os.umask(before)


@pytest.mark.usefixtures("fake_nsys")
def test_ctrl_c_during_the_analysis_keeps_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 130, as at any other time."""
    result = interrupted(monkeypatch, "-o", str(tmp_path / "out"), "--", "true")
    assert result.exit_code == 130
    assert "nsyswrap: stopped before the report was made\n" in result.output
    assert f"nsyswrap resume {tmp_path / 'out'}'" in result.output
    assert results_in(tmp_path / "out") == ["capture.nsys-rep", "capture.sqlite", "run.json"]


@pytest.mark.parametrize(("form", "quiet"), [("text", False), ("text", True), ("json", False)])
def test_a_note_is_in_the_report_and_once_on_stderr(
    capsys: pytest.CaptureFixture[str], form: str, *, quiet: bool
) -> None:
    """If there is a summary, the note is part of it."""
    note = "The program ended with exit code 7"
    report = with_notes(hand_made.full_report(), (note,))
    assert report.notes == (*hand_made.full_report().notes, f"{note}.")
    print_summary(report, Path("out"), (note,), form=form, quiet=quiet)
    shown = capsys.readouterr()
    assert (shown.err.count(note), shown.out.count(note)) == (1, form == "json")


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", *more("<&-", ">&-", "2>&-")])
@pytest.mark.usefixtures("fake_nsys")
def test_closed_standard_streams_are_replaced_by_empty_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """The program's output is discarded, and it is still recorded; 5 is its own exit code."""
    # The run is described before the export. Without one, the analysis is not imported, which takes longest.
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "export-fails")
    program = "import sys; print(1, flush=True); print(2, file=sys.stderr, flush=True); sys.exit(5)"
    line = f'exec "$0" -m nsyswrap profile --quiet --format json -o "$1" -- "$0" -c "$2" {closed}'
    words = ["/bin/sh", "-c", line, sys.executable, str(tmp_path / "out"), program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Bad file descriptor" not in done.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))["exit_code"] == 5
