"""A disk that runs full: the recording stops before, and nsys is not waited for."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from capture_fixtures import fake_nsys, options, python, results_in

from nsyswrap.capture import foreground
from nsyswrap.capture.disk_space import FULL_BYTES, LOW_BYTES, free_bytes, is_below, low_limit
from nsyswrap.capture.foreground import Limits
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.errors import CaptureError

__all__ = ["fake_nsys"]

# Ends once its recording has been stopped.
UNTIL_STOPPED = """
import os, time
from pathlib import Path
while not Path(os.environ["FAKE_NSYS_LOG"]).exists():
    time.sleep(0.02)
"""


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
    monkeypatch.setattr(foreground, "is_below", lambda _folder, limit: limit > FULL_BYTES)
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
    monkeypatch.setattr("nsyswrap.capture.nsys.Limits", lambda **_rest: Limits(full_s=0.2))
    recorded = "import os, sys; open(os.path.join(os.environ['NSYS_TMP'], 'report.qdstrm'), 'w').write('recorded')"
    wanted = options(
        tmp_path / "result",
        "sh",
        "-c",
        f'NSYS_TMP=$(dirname "$NSYSWRAP_ANNOTATE"); export NSYS_TMP; "{sys.executable}" -c "{recorded}"',
        annotate=True,
    )
    with pytest.raises(CaptureError, match=r"the disk of /.*nsyswrap-\w+ is full, so nsys wrote no report") as caught:
        profile(wanted, fake_nsys)
    assert "TMPDIR" in caught.value.hint
    assert f"nsyswrap resume {tmp_path / 'result'}" in caught.value.hint
    assert results_in(tmp_path / "result") == ["capture.qdstrm"]
