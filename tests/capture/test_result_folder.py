"""The folder of a result: created once, filled in one step, and never overwritten by accident."""

import stat
import threading
from pathlib import Path

import pytest

from nsyswrap.capture.result_folder import result_folder
from nsyswrap.errors import CaptureError, UsageError


def names(folder: Path) -> set[str]:
    """Return the names of all files in a folder, including hidden ones."""
    return {path.name for path in folder.iterdir()}


def fill(folder: Path, *files: str, force: bool = False) -> None:
    """Write some files as a run does, with their names as content."""
    with result_folder(folder, force=force) as private:
        for name in files:
            (private / name).write_text(name)


def test_at_the_end_the_folder_holds_the_written_files(tmp_path: Path) -> None:
    """The private folder is removed."""
    fill(tmp_path / "r", "capture.nsys-rep", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.nsys-rep", "capture.sqlite"}


def test_before_the_end_the_folder_holds_no_result(tmp_path: Path) -> None:
    """An incomplete result is not visible."""
    with result_folder(tmp_path / "r", force=False) as private:
        (private / "capture.sqlite").write_text("half")
        assert names(tmp_path / "r") == {private.name}


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


def test_an_existing_empty_folder_is_accepted(tmp_path: Path) -> None:
    """A script may have created it."""
    (tmp_path / "r").mkdir()
    fill(tmp_path / "r", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.sqlite"}


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
    for name in ("capture.nsys-rep", "capture.sqlite", "run.json", "report.json", "report.html", "mine.txt"):
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


def test_the_unfinished_recording_is_removed_beside_its_report(tmp_path: Path) -> None:
    """Nsys may not have removed it yet."""
    fill(tmp_path / "r", "capture.nsys-rep", "capture.qdstrm", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.nsys-rep", "capture.sqlite"}


def test_other_files_are_removed(tmp_path: Path) -> None:
    """Tools may leave files beside their output."""
    fill(tmp_path / "r", "capture.sqlite", "capture.sqlite-journal", "core")
    assert names(tmp_path / "r") == {"capture.sqlite"}


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


def test_forced_runs_at_once_have_separate_private_folders(tmp_path: Path) -> None:
    """The complete result is that of the last run to end."""
    fill(tmp_path / "r", "capture.sqlite")
    with result_folder(tmp_path / "r", force=True) as first, result_folder(tmp_path / "r", force=True) as second:
        assert first != second
        for private, text in ((first, "first"), (second, "second")):
            (private / "capture.sqlite").write_text(text)
            (private / "capture.nsys-rep").write_text(text)
    assert {path.read_text() for path in (tmp_path / "r").iterdir()} == {"first"}


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


def test_force_removes_the_private_folders_of_killed_runs(tmp_path: Path) -> None:
    """Both names are removed, and nothing else."""
    for name in (".run", ".run-abc", ".runner", "mine"):
        (tmp_path / "r" / name).mkdir(parents=True)
        (tmp_path / "r" / name / "capture.nsys-rep").write_text("old")
    fill(tmp_path / "r", "capture.sqlite", force=True)
    assert names(tmp_path / "r") == {"capture.sqlite", ".runner", "mine"}


def test_force_keeps_the_private_folder_of_a_running_run(tmp_path: Path) -> None:
    """It is locked, or still empty because it is new."""
    (tmp_path / "r" / ".run-new").mkdir(parents=True)
    with result_folder(tmp_path / "r", force=True) as private:
        (private / "capture.sqlite").write_text("first")
        fill(tmp_path / "r", "capture.sqlite", force=True)
        assert names(tmp_path / "r") == {"capture.sqlite", private.name, ".run-new"}
    assert (tmp_path / "r" / "capture.sqlite").read_text() == "first"
