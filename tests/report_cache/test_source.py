"""What a report is made from: every change of it changes the fingerprint."""

import os
from pathlib import Path

import pytest

from nsyswrap.privacy import Identity
from nsyswrap.report_cache import source
from nsyswrap.report_cache.source import fingerprint, words_digest

SALT = b"salt"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "capture.sqlite"
    path.write_bytes(bytes(3_000_000))
    return path


def test_it_stays_the_same_while_nothing_changes(capture: Path) -> None:
    assert fingerprint(capture, "steps") == fingerprint(capture, "steps")


def test_options_and_files_that_are_read_too_count(capture: Path, tmp_path: Path) -> None:
    """A file that appears, changes or goes away counts, too."""
    rules = tmp_path / "rules.toml"
    found = [fingerprint(capture, "steps"), fingerprint(capture, "all"), fingerprint(capture, "steps", [rules])]
    for text in ("", "a"):
        rules.write_text(text)
        found.append(fingerprint(capture, "steps", [rules]))
    for name in source.BESIDE:
        (tmp_path / name).write_text("{}")
        found.append(fingerprint(capture, "steps"))
    assert len(set(found)) == len(found)


def test_a_byte_that_is_changed_in_place_counts_also_with_the_old_time(capture: Path) -> None:
    """The time of the last change of the inode cannot be set back."""
    before, times = fingerprint(capture, ""), capture.stat()
    with capture.open("r+b") as file:
        file.seek(1_234_567)
        file.write(b"x")
    os.utime(capture, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert capture.stat().st_size == times.st_size
    assert fingerprint(capture, "") != before


def test_a_copy_is_another_capture(capture: Path) -> None:
    """Its content may be the same, but what lies beside it need not belong to it."""
    before, times = fingerprint(capture, ""), capture.stat()
    copy = capture.with_name("copy")
    copy.write_bytes(capture.read_bytes())
    os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
    copy.replace(capture)
    assert fingerprint(capture, "") != before


def test_the_source_of_nsyswrap_counts(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(capture, "")
    monkeypatch.setattr(source, "source_digest", lambda: "another version")
    assert fingerprint(capture, "") != before


@pytest.mark.parametrize("suffix", ["-journal", "-wal"])
def test_a_capture_that_is_being_written_has_none(capture: Path, suffix: str) -> None:
    Path(f"{capture}{suffix}").touch()
    with pytest.raises(OSError, match="is being written"):
        fingerprint(capture, "")


def test_what_is_no_file_has_none(tmp_path: Path) -> None:
    """A pipe is not opened, which would block."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(OSError, match="is not a file"):
            fingerprint(path, "")


@pytest.mark.parametrize("size", [0, 1, 100, 20_000])
def test_small_captures_have_one(tmp_path: Path, size: int) -> None:
    path = tmp_path / "small.sqlite"
    path.write_bytes(bytes(size))
    assert fingerprint(path, "")


def test_words_change_their_digest_and_the_salt_hides_equal_words() -> None:
    one, other = Identity(("/home/a",), ("a",), ("secret",)), Identity(("/home/a",), ("a",), ("other",))
    assert words_digest(one, SALT) == words_digest(one, SALT)
    assert len({words_digest(one, SALT), words_digest(other, SALT), words_digest(one, b"pepper")}) == 3
