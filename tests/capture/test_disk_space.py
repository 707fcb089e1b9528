"""A disk that runs full: the recording stops before, and nsys is not waited for."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from capture_fixtures import fake_nsys, options, python, results_in

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture import disk_space, failures, foreground
from nsyswrap.capture.disk_space import FULL_BYTES, LOW_BYTES, free_bytes, full_disk, is_below, low_limit
from nsyswrap.capture.foreground import TimeLimits
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile

__all__ = ["fake_nsys"]

# Ends once its recording has been stopped.
UNTIL_STOPPED = """
import os, time
from pathlib import Path
while not Path(os.environ["FAKE_NSYS_LOG"]).exists():
    time.sleep(0.02)
"""


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder on a disk of 512 KiB; who may not mount one gets a folder that says the same."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder], check=False).returncode == 0:
        yield folder
        subprocess.run(["umount", "--lazy", folder], check=True)
    else:
        refuse(monkeypatch, lambda place: place == folder or folder in place.parents, errno.ENOSPC)
        yield folder


def refuse(monkeypatch: pytest.MonkeyPatch, affected: Callable[[Path], bool], number: int) -> None:
    """Make all writing to some folders fail with this error."""
    real = tempfile.TemporaryFile

    def opened(*, dir: Path) -> object:  # noqa: A002 - the name that it has
        if affected(dir):
            raise OSError(number, os.strerror(number))
        return real(dir=dir)

    monkeypatch.setattr(disk_space, "tempfile", SimpleNamespace(TemporaryFile=opened))


def of_size(monkeypatch: pytest.MonkeyPatch, free: int, blocks: int = 1000) -> None:
    """Make each disk report this many free bytes."""
    found = SimpleNamespace(f_bavail=free // 512, f_frsize=512, f_blocks=blocks)
    monkeypatch.setattr(os, "statvfs", lambda _path: found)


@pytest.mark.parametrize(("free", "limit"), [(LOW_BYTES * 10, LOW_BYTES), (LOW_BYTES, LOW_BYTES // 2), (0, 0)])
def test_a_small_disk_is_used_to_its_half(monkeypatch: pytest.MonkeyPatch, free: int, limit: int) -> None:
    of_size(monkeypatch, free)
    assert low_limit(Path()) == limit
    assert not is_below(Path(), limit)


def test_an_unknown_size_is_not_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Some network file systems report none, and a folder may be gone."""
    assert free_bytes(tmp_path / "gone") is None
    of_size(monkeypatch, 0, blocks=0)
    assert (free_bytes(tmp_path), low_limit(tmp_path), is_below(tmp_path, 1)) == (None, 0, False)


def test_a_recording_ends_before_its_disk_is_full(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nsys kills the program with SIGSEGV; so the recording is stopped, and the program goes on."""
    monkeypatch.setenv("FAKE_NSYS_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(foreground, "free_bytes", lambda _folder: 2 * FULL_BYTES)
    result = profile(options(tmp_path / "result", *python(UNTIL_STOPPED)), fake_nsys)
    assert result.exit_code == 0
    assert result.notes == (
        "The recording was stopped before the program ended, because the disk of TMPDIR was almost full",
    )


def test_nsys_is_not_waited_for_on_a_full_disk(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the disk, and what was recorded is kept."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "hangs-writing")
    monkeypatch.setattr(foreground, "is_below", lambda folder, limit: limit == FULL_BYTES and folder.exists())
    monkeypatch.setattr("nsyswrap.capture.nsys.TimeLimits", lambda **_rest: TimeLimits(full_s=0.2))
    recorded = "import os, sys; open(os.path.join(os.environ['NSYS_TMP'], 'report.qdstrm'), 'w').write('recorded')"
    wanted = options(
        tmp_path / "result",
        "sh",
        "-c",
        f'NSYS_TMP=$(dirname "$NSYSWRAP_ANNOTATE"); export NSYS_TMP; "{sys.executable}" -c "{recorded}"',
        annotate=True,
    )
    with pytest.raises(
        CaptureError, match=r"the disk of /.*nsyswrap-\w+ is full \(.* free\), so nsys wrote no report"
    ) as caught:
        profile(wanted, fake_nsys)
    assert "TMPDIR" in caught.value.hint
    assert f"nsyswrap resume {tmp_path / 'result'}" in caught.value.hint
    assert results_in(tmp_path / "result") == ["capture.qdstrm"]


@pytest.mark.parametrize("what", ["TMPDIR", "the result"])
def test_a_full_disk_is_named_before_the_program_runs(
    fake_nsys: Nsys, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """This holds for nsys's temporary files and for the result; nothing is left."""
    if what == "TMPDIR":
        monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    folder = tmp_path / "result" if what == "TMPDIR" else small_disk / "result"
    with pytest.raises(CaptureError) as caught:
        profile(options(folder, "touch", str(tmp_path / "ran")), fake_nsys)
    named = small_disk if what == "TMPDIR" else folder
    start = f"nsys cannot record: nothing can be written to {named}: No space left on device ("
    assert caught.value.message.startswith(start)
    assert caught.value.message.endswith(" free)")
    assert "TMPDIR" in caught.value.hint
    assert not (tmp_path / "ran").exists()
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_folder_that_cannot_be_written_to_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A quota leaves free space on the disk."""
    refuse(monkeypatch, lambda place: place.name == "b", number)
    (tmp_path / "a").mkdir()
    assert full_disk([tmp_path / "a"]) is None
    found = full_disk([tmp_path / "a", tmp_path / "b"])
    assert found is not None
    assert found.startswith(f"nothing can be written to {tmp_path / 'b'}: {os.strerror(number)} (")


def test_a_disk_that_was_full_during_the_run_is_named(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have space again; nsys says nothing of it."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "no-importer")
    monkeypatch.setenv("FAKE_NSYS_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(foreground, "free_bytes", lambda _folder: 4096)
    with pytest.raises(CaptureError, match=r"4\.00 KiB were free on the disk of /.* during the run") as caught:
        profile(options(tmp_path / "result", "sleep", "0.3"), fake_nsys)
    assert f"kept in {tmp_path / 'result' / 'capture.qdstrm'}" in caught.value.hint


def test_an_nsys_that_starts_nothing_on_a_small_disk_has_too_little_space(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2023.4.4 ends with SIGSEGV there."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "never-starts")
    monkeypatch.setattr(failures, "is_below", lambda _folder, limit: limit == 16 << 20)
    message = r"nsys did not start the program and wrote no report: there is too little space on the disk of /"
    with pytest.raises(CaptureError, match=message):
        profile(options(tmp_path / "result", "true"), fake_nsys)


def test_a_full_shared_memory_is_named(fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nsys cannot start; containers often have little."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "never-starts")
    refuse(monkeypatch, lambda place: place == disk_space.SHARED_MEMORY, errno.ENOSPC)
    with pytest.raises(CaptureError, match="nothing can be written to /dev/shm: No space left on device"):
        profile(options(tmp_path / "result", "true"), fake_nsys)


def test_an_export_to_a_full_disk_names_it(fake_nsys: Nsys, tmp_path: Path) -> None:
    report = tmp_path / "c.nsys-rep"
    report.touch()
    error = failures.export_failed(fake_nsys, report, tmp_path / "c.sqlite", "ERROR: Disk quota exceeded")
    assert f"cannot be exported: the disk of {tmp_path} is full (" in error.message
