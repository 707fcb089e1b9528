"""A result is found by the content that it was made from, and by nothing else."""

import os
from pathlib import Path

import pytest
from made_sums import made_sums

from nsyswrap.many.capture_sums import encoded
from nsyswrap.many.kept_results import KeptResults, content_key


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "capture.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"events")
    return path


def test_a_key_is_of_content_and_not_of_names(capture: Path, tmp_path: Path) -> None:
    """A moved capture keeps its key; other bytes, options or recorded facts change it."""
    key = content_key(capture, "steps")
    moved = tmp_path / "other.sqlite"
    moved.write_bytes(b"events")
    os.utime(moved, (1, 1))
    assert content_key(moved, "steps") == key
    assert content_key(capture, "all") != key
    (capture.parent / "run.json").write_text("{}")
    with_record = content_key(capture, "steps")
    assert with_record != key
    capture.write_bytes(b"other events")
    assert content_key(capture, "steps") not in {key, with_record}


def test_a_file_for_the_host_counts_by_size_and_time(capture: Path) -> None:
    report = capture.with_name("report.json")
    report.write_text("{}")
    key = content_key(report, "", capture)
    os.utime(capture, (1, 1))
    assert content_key(report, "", capture) != key


def test_results_are_kept_and_damaged_ones_are_not_used(tmp_path: Path) -> None:
    results = KeptResults(tmp_path / "cache")
    key = "ab" * 32
    assert results.find(key) is None
    results.keep(key, encoded(made_sums()))
    assert results.find(key) == made_sums()
    assert results.has([key, "cd" * 32]) == {key}
    (file,) = (tmp_path / "cache").rglob("*.json")
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(file.read_text()[:-9])
    assert results.find(key) is None
