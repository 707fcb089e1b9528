"""Finishing an interrupted run: from each state in which a kill may leave it."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import executable, fake_nsys, fake_tree, options, results_in

from nsyswrap.base.errors import CaptureError, UsageError
from nsyswrap.capture.convert import is_export
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.progress import silent
from nsyswrap.capture.result_folder import FolderInUseError, folder_lock
from nsyswrap.capture.resume import resumed
from nsyswrap.capture.run_dir import private_folder

__all__ = ["fake_nsys"]

Killed = Callable[..., Path]

# What nsys's importer does, as far as a run needs it.
IMPORTER = f"""#!{sys.executable}
import sys
from pathlib import Path
source, target = Path(sys.argv[2]), Path(sys.argv[4])
if source.read_text() == "broken":
    sys.exit("cannot read it")
target.write_text(source.read_text())
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with a fake nsys."""
    folder = tmp_path_factory.mktemp("finished")
    nsys = Nsys(fake_tree(folder / "fake"), (2023, 4, 4, 54), "PATH")
    profile(options(folder / "whole", "true"), nsys)
    return folder / "whole"


@pytest.fixture
def killed(fake_nsys: Nsys, whole: Path, tmp_path: Path) -> Killed:
    """Return a function that makes the folder of a run that was killed, with these files of a finished one."""
    executable(fake_nsys.path.parent.parent / "host-linux-x64" / "QdstrmImporter", IMPORTER)

    def make(*names: str) -> Path:
        private = tmp_path / "out" / ".run"
        private.mkdir(parents=True)
        for name in names:
            (private / name).write_bytes((whole / name).read_bytes())
        return private

    return make


def test_a_report_of_a_killed_run_is_exported(killed: Killed, tmp_path: Path) -> None:
    """It is readable by its owner only, as after any run."""
    (killed("capture.nsys-rep").parent / ".run" / "capture.nsys-rep").chmod(0o664)
    with resumed(tmp_path / "out", silent) as export:
        assert is_export(export)
    assert results_in(tmp_path / "out") == ["capture.nsys-rep", "capture.sqlite"]
    assert (tmp_path / "out" / "capture.nsys-rep").stat().st_mode & 0o777 == 0o600


def test_what_nsys_recorded_without_a_report_is_imported(killed: Killed, whole: Path, tmp_path: Path) -> None:
    """It lies in nsys's temporary folder, which is removed."""
    private = killed()
    with private_folder() as temporary:
        (temporary / "nsys-report-1.qdstrm").write_bytes((whole / "capture.nsys-rep").read_bytes())
        (private / "temporary").symlink_to(temporary)
        with resumed(tmp_path / "out", silent) as export:
            assert is_export(export)
        assert not temporary.exists()
    assert results_in(tmp_path / "out") == ["capture.nsys-rep", "capture.sqlite"]


def test_a_second_attempt_of_the_importer_saves_a_run(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nsys exits with 0 and leaves its .qdstrm where its importer fails, which may be for a passing reason."""
    executable(fake_nsys.path.parent.parent / "host-linux-x64" / "QdstrmImporter", IMPORTER)
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "no-importer")
    result = profile(options(tmp_path / "result", "true"), fake_nsys)
    assert results_in(result.folder) == ["capture.nsys-rep", "capture.sqlite"]
    assert "nsys could not write its report at once; a second attempt did" in result.notes


def test_recorded_data_that_cannot_be_imported_is_kept(killed: Killed, tmp_path: Path) -> None:
    (killed() / "capture.qdstrm").write_text("broken")
    with pytest.raises(CaptureError, match=r"cannot make a report of .*capture.qdstrm \(nsys: cannot read it\)"):
        resumed(tmp_path / "out", silent).__enter__()
    assert results_in(tmp_path / "out") == ["capture.qdstrm"]


def test_a_half_export_is_replaced(killed: Killed, tmp_path: Path) -> None:
    (killed("capture.nsys-rep") / "capture.sqlite").write_text("half")
    with resumed(tmp_path / "out", silent) as export:
        assert is_export(export)


def test_a_finished_export_is_used(killed: Killed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No nsys is needed then."""
    killed("capture.nsys-rep", "capture.sqlite")
    monkeypatch.setenv("PATH", os.devnull)
    with resumed(tmp_path / "out", silent) as export:
        assert is_export(export)


def test_without_recorded_data_there_is_nothing_to_finish(killed: Killed, tmp_path: Path) -> None:
    killed()
    with pytest.raises(UsageError, match="out holds nothing that a run recorded"):
        resumed(tmp_path / "out", silent).__enter__()


def test_a_run_that_goes_on_is_left_alone(killed: Killed, tmp_path: Path) -> None:
    private = killed("capture.nsys-rep")
    with folder_lock(tmp_path / "out"), pytest.raises(FolderInUseError):
        resumed(tmp_path / "out", silent).__enter__()
    assert (private / "capture.nsys-rep").exists()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such is no folder"):
        resumed(tmp_path / "no such", silent).__enter__()


def test_a_full_disk_keeps_what_was_recorded(killed: Killed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data in the temporary folder is not lost."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    private = killed()
    with private_folder() as temporary:
        recorded = temporary / "nsys-report-1.qdstrm"
        recorded.write_text("recorded")
        (private / "temporary").symlink_to(temporary)
        monkeypatch.setattr("shutil.move", fails)
        with pytest.raises(CaptureError, match=r"cannot be kept in /.*: No space left on device \(.* free\)"):
            resumed(tmp_path / "out", silent).__enter__()
        assert recorded.read_text() == "recorded"
