"""A process that may not change files sees which ones it is about to change, and which ones it makes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsyswrap.experiments.tried import writes

PROGRAM = """
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location("writes", sys.argv[1])
writes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(writes)
writes.WriteGuard(lambda path: print("changes", os.path.basename(path)),
                  lambda path: print("makes", os.path.basename(path)), sys.argv[3:]).begin()
{}
"""


def seen(folder: Path, text: str, *own: str) -> list[str]:
    """Return what is seen of a few lines of Python that run in a folder."""
    environment = {**os.environ, "TMPDIR": str(folder / "temporary")}
    (folder / "temporary").mkdir(exist_ok=True)
    words = [sys.executable, "-c", PROGRAM.format(text), writes.__file__, "--", *own]
    run = subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder, env=environment)
    return run.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a file that is older than the process."""
    (tmp_path / "old").write_text("old")
    subprocess.run(["sleep", "0.3"], check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("open('old', 'w')", ["changes old"]),
        ("open('old', 'a')", ["changes old"]),
        ("open('old', 'r+')", ["changes old"]),
        ("open('old')", []),
        ("os.remove('old')", ["changes old"]),
        ("os.truncate('old', 0)", ["changes old"]),
        ("open('new', 'w'); open('new', 'w')", ["makes new"]),
        ("open('new', 'w'); os.replace('new', 'old')", ["makes new", "changes old"]),
        ("open('new', 'w'); os.remove('new'); open('new', 'w')", ["makes new"]),
        ("os.open('old', os.O_WRONLY)", ["changes old"]),
        ("open('temporary/new', 'w'); open('/dev/null', 'w')", []),
    ],
)
def test_what_changes_a_file_is_seen(folder: Path, text: str, found: list[str]) -> None:
    assert seen(folder, text) == found


def test_a_file_of_an_earlier_run_may_be_written_again(folder: Path) -> None:
    assert seen(folder, "open('old', 'w')", str(folder / "old")) == []
