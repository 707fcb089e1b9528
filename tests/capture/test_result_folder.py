"""The folder of a result: created once, filled in one step, and never overwritten by accident."""

import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from capture_fixtures import living, until

from nsyswrap.base.errors import CaptureError, UsageError
from nsyswrap.capture.result_folder import FolderInUseError, is_interrupted, reserve_folder, run_folder, was_begun


@contextmanager
def result_folder(folder: Path, *, force: bool, next_free: bool = False) -> Iterator[Path]:
    """Reserve a folder, and yield the private folder in it, as a run does."""
    with reserve_folder(folder, force=force, next_free=next_free) as place, run_folder(place) as private:
        yield private


def names(folder: Path) -> set[str]:
    """Return the names of all files in a folder, including hidden ones."""
    return {path.name for path in folder.iterdir()}


def fill(folder: Path, *files: str, force: bool = False) -> None:
    """Write some files as a run does, with their names as content."""
    with result_folder(folder, force=force) as private:
        for name in files:
            (private / name).write_text(name)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (("capture.nsys-rep", "capture.sqlite"), {"capture.nsys-rep", "capture.sqlite"}),
        (("capture.nsys-rep", "capture.qdstrm", "capture.sqlite"), {"capture.nsys-rep", "capture.sqlite"}),
        (("capture.sqlite", "capture.sqlite-journal", "core"), {"capture.sqlite"}),
    ],
)
def test_at_the_end_the_folder_holds_the_result(tmp_path: Path, written: tuple[str, ...], left: set[str]) -> None:
    """It may exist. Nsys may leave its recording beside its report, and tools other files; they are removed."""
    (tmp_path / "r").mkdir()
    fill(tmp_path / "r", *written)
    assert names(tmp_path / "r") == left


def test_before_the_end_the_folder_holds_no_result(tmp_path: Path) -> None:
    """An incomplete result is not visible."""
    with result_folder(tmp_path / "r", force=False) as private:
        (private / "capture.sqlite").write_text("half")
        assert names(tmp_path / "r") == {private.name, ".lock"}


def test_only_the_owner_can_access_the_private_folder(tmp_path: Path) -> None:
    """This also holds for a new result folder, but not for an existing one."""
    with result_folder(tmp_path / "r", force=False) as private:
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o700
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "theirs" / "file").write_text("")
    with result_folder(tmp_path / "theirs", force=True) as private:
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o755


def test_missing_parents_are_created(tmp_path: Path) -> None:
    """The parent of the default folder may not exist yet."""
    fill(tmp_path / "a" / "b" / "r", "capture.sqlite")
    assert names(tmp_path / "a" / "b" / "r") == {"capture.sqlite"}


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """Any file counts; the hint names two solutions."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="exists already") as caught:
        fill(tmp_path / "r", "capture.sqlite")
    assert "-o" in caught.value.hint
    assert "--force" in caught.value.hint
    assert names(tmp_path / "r") == {"notes.txt"}


@pytest.mark.parametrize("force", [False, True])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, *, force: bool) -> None:
    """Force replaces results only."""
    (tmp_path / "r").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        fill(tmp_path / "r", "capture.sqlite", force=force)
    assert (tmp_path / "r").read_text() == "mine"


def test_force_removes_only_the_complete_old_result(tmp_path: Path) -> None:
    """A report of the old run beside a new capture would be wrong."""
    (tmp_path / "r").mkdir()
    for name in (
        "capture.nsys-rep",
        "capture.sqlite",
        "host.json",
        "run.json",
        "report.json",
        "report.html",
        "mine.txt",
    ):
        (tmp_path / "r" / name).write_text("old")
    fill(tmp_path / "r", "capture.nsys-rep", force=True)
    assert names(tmp_path / "r") == {"capture.nsys-rep", "mine.txt"}
    assert (tmp_path / "r" / "capture.nsys-rep").read_text() == "capture.nsys-rep"


def test_a_run_without_files_keeps_the_old_result(tmp_path: Path) -> None:
    """There is nothing to replace it with."""
    fill(tmp_path / "r", "capture.sqlite")
    fill(tmp_path / "r", force=True)
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_a_run_without_files_leaves_no_new_folder(tmp_path: Path) -> None:
    """The same command must work again."""
    fill(tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_files_of_a_failed_run_are_kept(tmp_path: Path) -> None:
    """An unfinished recording is still useful."""

    def fail() -> None:
        with result_folder(tmp_path / "r", force=False) as private:
            (private / "capture.qdstrm").write_text("recorded")
            raise CaptureError("no report")

    with pytest.raises(CaptureError):
        fail()
    assert names(tmp_path / "r") == {"capture.qdstrm"}


def test_only_one_of_many_runs_gets_the_folder(tmp_path: Path) -> None:
    """The private folder is created exclusively."""
    outcomes: list[str] = []
    start, held = threading.Barrier(8), threading.Event()

    def run() -> None:
        start.wait(10)
        try:
            with result_folder(tmp_path / "r", force=False) as private:
                (private / "capture.sqlite").write_text("mine")
                held.wait(10)
            outcomes.append("won")
        except UsageError:
            outcomes.append("refused")
            if outcomes.count("refused") == 7:
                held.set()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["won"]
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_a_second_run_is_refused_and_hears_who_writes(tmp_path: Path) -> None:
    """Also with --force: two writers would mix their files."""
    with result_folder(tmp_path / "r", force=False) as private:
        (private / "capture.sqlite").write_text("first")
        for force in (False, True):
            with pytest.raises(FolderInUseError, match=rf"r is in use by process {os.getpid()} on ") as caught:
                fill(tmp_path / "r", "capture.sqlite", force=force)
            assert "Wait" in caught.value.hint
    assert (tmp_path / "r" / "capture.sqlite").read_text() == "first"
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    """The message has the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"cannot be created: (Not a directory|File exists)"):
        fill(tmp_path / "file" / "r", "capture.sqlite")


def test_runs_at_once_take_the_next_free_folder(tmp_path: Path) -> None:
    """Each run has its own folder, even if one run ended before the other started."""
    fill(tmp_path / "r", "capture.sqlite")
    start, held = threading.Barrier(4), threading.Barrier(4)

    def run() -> None:
        start.wait(10)
        with result_folder(tmp_path / "r", force=False, next_free=True) as private:
            (private / "capture.sqlite").write_text(private.parent.name)
            held.wait(10)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == {"r", "r-2", "r-3", "r-4", "r-5"}
    for name in ("r-2", "r-3", "r-4", "r-5"):
        assert (tmp_path / name / "capture.sqlite").read_text() == name


def killed(folder: Path, *files: str) -> None:
    """Leave a folder as a killed run does, after it wrote some files."""
    (folder / ".run").mkdir(parents=True)
    for name in files:
        (folder / ".run" / name).write_text(name)
    (folder / ".lock").write_text('{"pid": 999999999, "host": "gone", "started": "1"}')


def test_the_next_run_says_that_the_last_one_was_interrupted(tmp_path: Path) -> None:
    killed(tmp_path / "r", "capture.nsys-rep")
    with pytest.raises(UsageError, match="r holds an interrupted run") as caught:
        fill(tmp_path / "r", "capture.sqlite")
    assert caught.value.hint == f"Finish it with 'nsyswrap resume {tmp_path / 'r'}', or replace it with --force"
    assert (tmp_path / "r" / ".run" / "capture.nsys-rep").exists()
    fill(tmp_path / "r", "capture.sqlite", force=True)
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_a_run_killed_before_it_recorded_anything_leaves_the_folder_free(tmp_path: Path) -> None:
    """Its lock is stale."""
    killed(tmp_path / "r")
    assert (was_begun(tmp_path / "r"), is_interrupted(tmp_path / "r")) == (True, False)
    fill(tmp_path / "r", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_data_that_nsys_has_not_put_into_a_report_counts_as_recorded(tmp_path: Path) -> None:
    killed(tmp_path / "r")
    (tmp_path / "nsyswrap-x").mkdir()
    (tmp_path / "nsyswrap-x" / "report.qdstrm").write_text("recorded")
    (tmp_path / "r" / ".run" / "temporary").symlink_to(tmp_path / "nsyswrap-x")
    assert is_interrupted(tmp_path / "r")


@pytest.mark.parametrize(
    ("files", "interrupted"),
    [
        (("capture.nsys-rep", "run.json"), True),
        (("capture.nsys-rep", "capture.sqlite", "run.json", "report.json"), True),
        (("capture.nsys-rep", "capture.sqlite", "run.json", "report.json", "report.html"), False),
        (("capture.nsys-rep",), False),
        (("report.html",), False),
    ],
)
def test_a_run_ends_with_its_page(tmp_path: Path, files: tuple[str, ...], *, interrupted: bool) -> None:
    """A capture without run.json is not of a run."""
    fill(tmp_path / "r", *files)
    assert is_interrupted(tmp_path / "r") is interrupted


def test_a_folder_that_nsys_still_writes_to_is_in_use(tmp_path: Path) -> None:
    """Nsys may outlive a killed run by some seconds."""
    killed(tmp_path / "r", "capture.nsys-rep")
    (tmp_path / "r" / ".run" / "temporary").symlink_to(tmp_path / "nsyswrap-of-this-test")
    argv = ["sh", "-c", "read x", "--session-new=nsyswrap-of-this-test"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as nsys:
        # Popen returns before the new command line can be read.
        until(lambda: living("session-new=nsyswrap-of-this-test"), "the command line of nsys")
        with pytest.raises(FolderInUseError, match=f"in use by nsys, process {nsys.pid}, of a run that was killed"):
            fill(tmp_path / "r", "capture.sqlite", force=True)
        nsys.communicate(b"x\n")
    fill(tmp_path / "r", "capture.sqlite", force=True)


def test_a_result_is_published_without_a_mix_of_two_runs(tmp_path: Path) -> None:
    """A run with fewer files removes those that only the earlier run had."""
    fill(tmp_path / "r", "capture.nsys-rep", "capture.sqlite", "host.json", "run.json", "report.json", "report.html")
    fill(tmp_path / "r", "capture.nsys-rep", "run.json", force=True)
    assert names(tmp_path / "r") == {"capture.nsys-rep", "run.json"}
