"""The folder of kept reports: private, whole, bounded; anything else in it is not used and not followed."""

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.report_cache import files
from nsyswrap.report_cache.files import FOLDER, MAGIC, MARKERS, Kept, find, forget, keep

KEPT = Kept("made from", "00", "words", has_timeline=True)
OPTIONS = "options"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "capture.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"events")
    return path


def kept_file(capture: Path) -> Path:
    """Return the only kept report beside a capture."""
    (path,) = (capture.parent / FOLDER).glob("*.report")
    return path


def found(capture: Path, options: str = OPTIONS) -> tuple[Kept, bytes] | None:
    """Return what is kept, as plain bytes."""
    answer = find(capture, options)
    return None if answer is None else (answer[0], bytes(answer[1]))


def test_a_report_is_found_by_its_capture_and_options(capture: Path) -> None:
    assert find(capture, OPTIONS) is None
    assert keep(capture, OPTIONS, KEPT, b"report")
    assert found(capture) == (KEPT, b"report")
    assert find(capture, "others") is None
    assert find(capture.with_name("other.sqlite"), OPTIONS) is None


def test_nobody_else_can_read_it_and_no_program_takes_it_along(capture: Path) -> None:
    """Folder 0700, files 0600 whatever the umask is; git and programs that make backups leave the folder out."""
    before = os.umask(0)
    try:
        keep(capture, OPTIONS, KEPT, b"report")
    finally:
        os.umask(before)
    folder = capture.parent / FOLDER
    assert folder.name.startswith(".")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


@given(place=st.integers(0, 150), change=st.integers(1, 255))
def test_a_changed_byte_is_noticed_wherever_it_is(
    place: int, change: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    capture = tmp_path_factory.mktemp("changed") / "capture.sqlite"
    capture.write_bytes(b"events")
    keep(capture, OPTIONS, KEPT, b"report" * 9)
    path = kept_file(capture)
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= change
    path.write_bytes(content)
    assert find(capture, OPTIONS) is None


@pytest.mark.parametrize("content", [b"", MAGIC, MAGIC[:-1], b"\x80\x04\x95", b"{}", MAGIC + bytes(32)])
def test_a_truncated_or_foreign_file_is_not_used(capture: Path, content: bytes) -> None:
    """Also a pickle: nothing here could load one."""
    keep(capture, OPTIONS, KEPT, b"report")
    kept_file(capture).write_bytes(content)
    assert find(capture, OPTIONS) is None
    assert keep(capture, OPTIONS, KEPT, b"again")
    assert found(capture) == (KEPT, b"again")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_use_is_not_used(capture: Path, mode: int) -> None:
    keep(capture, OPTIONS, KEPT, b"report")
    kept_file(capture).chmod(mode)
    assert find(capture, OPTIONS) is None


def test_a_folder_that_others_can_write_to_is_not_used(capture: Path) -> None:
    keep(capture, OPTIONS, KEPT, b"report")
    (capture.parent / FOLDER).chmod(0o777)
    assert find(capture, OPTIONS) is None
    assert not keep(capture, OPTIONS, KEPT, b"report")


def test_a_file_of_another_user_is_not_used(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(capture, OPTIONS, KEPT, b"report")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert find(capture, OPTIONS) is None


def test_a_link_in_place_of_a_file_is_neither_read_nor_written_through(capture: Path, tmp_path: Path) -> None:
    keep(capture, OPTIONS, KEPT, b"report")
    path, elsewhere = kept_file(capture), tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert find(capture, OPTIONS) is None
    assert keep(capture, OPTIONS, KEPT, b"new")
    assert elsewhere.read_bytes() == before
    assert not path.is_symlink()


def test_a_link_in_place_of_the_folder_is_left_alone(capture: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (capture.parent / FOLDER).symlink_to(elsewhere)
    assert not keep(capture, OPTIONS, KEPT, b"report")
    assert list(elsewhere.iterdir()) == []
    assert find(capture, OPTIONS) is None


def test_a_pipe_in_place_of_a_file_does_not_block(capture: Path) -> None:
    keep(capture, OPTIONS, KEPT, b"report")
    path = kept_file(capture)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert find(capture, OPTIONS) is None


def test_a_file_in_place_of_the_folder_is_no_error(capture: Path) -> None:
    (capture.parent / FOLDER).write_text("mine")
    assert not keep(capture, OPTIONS, KEPT, b"report")
    assert find(capture, OPTIONS) is None
    forget(capture)
    assert (capture.parent / FOLDER).read_text() == "mine"


def test_a_disk_without_room_is_no_error(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails leaves nothing behind, and an earlier report stays whole."""
    keep(capture, OPTIONS, KEPT, b"report")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert not keep(capture, OPTIONS, KEPT, b"new")
    assert found(capture) == (KEPT, b"report")
    assert {path.name for path in (capture.parent / FOLDER).iterdir()} == {*MARKERS, kept_file(capture).name}


def test_a_report_that_would_fill_the_disk_is_not_kept(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 200})())
    assert not keep(capture, OPTIONS, KEPT, b"report")
    assert not (capture.parent / FOLDER).exists()


def test_a_report_much_larger_than_its_capture_is_not_kept(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ALWAYS_BYTES", 200)
    assert keep(capture, OPTIONS, KEPT, b"small")
    assert not keep(capture, OPTIONS, KEPT, bytes(200))


def test_the_oldest_reports_go_first(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest one stays, and what is no report is not touched."""
    monkeypatch.setattr(files, "MOST_FILES", 2)
    for number, options in enumerate("abc"):
        keep(capture, options, KEPT, b"report")
        os.utime(files._path(capture, options), (number, number))  # noqa: SLF001 - its time decides
    (capture.parent / FOLDER / "mine.txt").write_text("mine")
    keep(capture, "d", KEPT, b"report")
    assert [options for options in "abcd" if find(capture, options)] == ["c", "d"]
    assert (capture.parent / FOLDER / "mine.txt").read_text() == "mine"


def test_what_a_killed_program_left_is_removed_later(capture: Path) -> None:
    """Not at once: another program may be writing it."""
    keep(capture, OPTIONS, KEPT, b"report")
    fresh, old = (capture.parent / FOLDER / f".{name * 8}" for name in ("ab", "cd"))
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    keep(capture, OPTIONS, KEPT, b"report")
    assert fresh.exists()
    assert not old.exists()


def test_two_writers_at_once_leave_one_whole_report(capture: Path) -> None:
    reports = [bytes([number]) * 100_000 for number in range(8)]
    writers = [threading.Thread(target=keep, args=(capture, OPTIONS, KEPT, each)) for each in reports]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        answer = found(capture)
        assert answer is None or answer[1] in reports
    for each in writers:
        each.join()
    answer = found(capture)
    assert answer is not None
    assert answer[1] in reports


def test_only_the_reports_of_one_capture_are_forgotten(capture: Path) -> None:
    other = capture.with_name("other.sqlite")
    other.write_bytes(b"events")
    for path in (capture, other):
        keep(path, OPTIONS, KEPT, b"report")
    forget(capture)
    assert find(capture, OPTIONS) is None
    assert find(other, OPTIONS) is not None
