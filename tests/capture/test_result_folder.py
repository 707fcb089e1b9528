"""The folder of a result: made once, filled in one step, never written over by accident."""

import stat
import threading
from pathlib import Path

import pytest

from nsyswrap.capture.result_folder import result_folder
from nsyswrap.errors import CaptureError, UsageError


def names(folder: Path) -> set[str]:
    """What a folder holds, hidden files too."""
    return {path.name for path in folder.iterdir()}


def fill(folder: Path, *files: str, force: bool = False) -> None:
    """Write some files as a run does, each with its own name as its text."""
    with result_folder(folder, force=force) as private:
        for name in files:
            (private / name).write_text(name)


def test_what_was_written_is_in_the_folder_at_the_end(tmp_path: Path) -> None:
    """And the private folder is gone."""
    fill(tmp_path / "r", "capture.nsys-rep", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.nsys-rep", "capture.sqlite"}


def test_nothing_is_in_its_place_before_the_end(tmp_path: Path) -> None:
    """Who looks meanwhile sees no half a result."""
    with result_folder(tmp_path / "r", force=False) as private:
        (private / "capture.sqlite").write_text("half")
        assert names(tmp_path / "r") == {private.name}


def test_the_private_folder_is_for_the_owner_alone(tmp_path: Path) -> None:
    """As is a folder that we make, but not one that was there."""
    with result_folder(tmp_path / "r", force=False) as private:
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o700
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "theirs" / "file").write_text("")
    with result_folder(tmp_path / "theirs", force=True) as private:
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o755


def test_missing_parents_are_made(tmp_path: Path) -> None:
    """The default folder lies in one that a new user does not have."""
    fill(tmp_path / "a" / "b" / "r", "capture.sqlite")
    assert names(tmp_path / "a" / "b" / "r") == {"capture.sqlite"}


def test_an_empty_folder_may_be_there_already(tmp_path: Path) -> None:
    """Made for us by a script, for instance."""
    (tmp_path / "r").mkdir()
    fill(tmp_path / "r", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path) -> None:
    """Whatever it is; the hint names both ways out."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="is there already") as caught:
        fill(tmp_path / "r", "capture.sqlite")
    assert "-o" in caught.value.hint
    assert "--force" in caught.value.hint
    assert names(tmp_path / "r") == {"notes.txt"}


@pytest.mark.parametrize("force", [False, True])
def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, *, force: bool) -> None:
    """Force replaces results, not files of any kind."""
    (tmp_path / "r").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        fill(tmp_path / "r", "capture.sqlite", force=force)
    assert (tmp_path / "r").read_text() == "mine"


def test_force_removes_all_of_the_old_result_and_nothing_else(tmp_path: Path) -> None:
    """A report of the old run beside a capture of the new one would lie."""
    (tmp_path / "r").mkdir()
    for name in ("capture.nsys-rep", "capture.sqlite", "run.json", "report.json", "report.html", "mine.txt"):
        (tmp_path / "r" / name).write_text("old")
    fill(tmp_path / "r", "capture.nsys-rep", force=True)
    assert names(tmp_path / "r") == {"capture.nsys-rep", "mine.txt"}
    assert (tmp_path / "r" / "capture.nsys-rep").read_text() == "capture.nsys-rep"


def test_a_run_that_wrote_nothing_leaves_the_old_result(tmp_path: Path) -> None:
    """Force replaces, and there is nothing to replace it with."""
    fill(tmp_path / "r", "capture.sqlite")
    fill(tmp_path / "r", force=True)
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_a_run_that_wrote_nothing_leaves_no_new_folder(tmp_path: Path) -> None:
    """So that the same command works again."""
    fill(tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_what_a_failed_run_wrote_is_kept(tmp_path: Path) -> None:
    """An unfinished recording is better than none."""

    def fail() -> None:
        with result_folder(tmp_path / "r", force=False) as private:
            (private / "capture.qdstrm").write_text("recorded")
            raise CaptureError("no report")

    with pytest.raises(CaptureError):
        fail()
    assert names(tmp_path / "r") == {"capture.qdstrm"}


def test_what_a_report_was_made_from_does_not_stay_beside_it(tmp_path: Path) -> None:
    """The tool may not have removed it yet."""
    fill(tmp_path / "r", "capture.nsys-rep", "capture.qdstrm", "capture.sqlite")
    assert names(tmp_path / "r") == {"capture.nsys-rep", "capture.sqlite"}


def test_files_that_are_no_result_do_not_stay(tmp_path: Path) -> None:
    """Tools leave files beside their output."""
    fill(tmp_path / "r", "capture.sqlite", "capture.sqlite-journal", "core")
    assert names(tmp_path / "r") == {"capture.sqlite"}


def test_of_many_runs_for_one_folder_one_wins(tmp_path: Path) -> None:
    """The folder is made exclusively, so two at once cannot both have it."""
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


def test_forced_runs_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    """The last to end has its result there, whole."""
    fill(tmp_path / "r", "capture.sqlite")
    with result_folder(tmp_path / "r", force=True) as first, result_folder(tmp_path / "r", force=True) as second:
        assert first != second
        for private, text in ((first, "first"), (second, "second")):
            (private / "capture.sqlite").write_text(text)
            (private / "capture.nsys-rep").write_text(text)
    assert {path.read_text() for path in (tmp_path / "r").iterdir()} == {"first"}


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    """With the system's own reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"cannot be made: (Not a directory|File exists)"):
        fill(tmp_path / "file" / "r", "capture.sqlite")


def test_runs_at_once_take_the_next_free_folder(tmp_path: Path) -> None:
    """Each has its own, also where one of them ended before the other began."""
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


def test_force_removes_what_killed_runs_left(tmp_path: Path) -> None:
    """Their private folders, under both names; nothing else goes."""
    for name in (".run", ".run-abc", ".runner", "mine"):
        (tmp_path / "r" / name).mkdir(parents=True)
        (tmp_path / "r" / name / "capture.nsys-rep").write_text("old")
    fill(tmp_path / "r", "capture.sqlite", force=True)
    assert names(tmp_path / "r") == {"capture.sqlite", ".runner", "mine"}


def test_force_leaves_the_private_folder_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """It is locked, or still empty because it was made just now."""
    (tmp_path / "r" / ".run-new").mkdir(parents=True)
    with result_folder(tmp_path / "r", force=True) as private:
        (private / "capture.sqlite").write_text("first")
        fill(tmp_path / "r", "capture.sqlite", force=True)
        assert names(tmp_path / "r") == {"capture.sqlite", private.name, ".run-new"}
    assert (tmp_path / "r" / "capture.sqlite").read_text() == "first"
