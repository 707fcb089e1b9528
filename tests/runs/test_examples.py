"""docs/history.md: its examples run, and it describes each column of each frame."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

from nsyswrap.cli.recording import recorded_run
from nsyswrap.runs.frames import COLUMNS
from nsyswrap.runs.history import open_history

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "history.md"


def test_the_examples_in_the_documentation_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `>>>` is run, in order, on a history of two real runs."""
    monkeypatch.delenv("NSYSWRAP_DB", raising=False)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    history = open_history()
    for name in ("mnist-1-worker", "mnist-8-workers"):
        shutil.copytree(
            ROOT / "reports" / "samples" / name, tmp_path / name, ignore=shutil.ignore_patterns("capture.*")
        )
        history.add(recorded_run(tmp_path / name))
    failures: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0), out=failures.append)
    assert failures == []
    assert runner.tries >= 8


def test_the_documentation_names_every_column() -> None:
    """The table of frames has each frame with exactly its columns."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (`.*) \|$", PAGE.read_text(), re.MULTILINE)
    found = {
        frame: re.findall(r"`(\w+)`", columns) for frames, columns in rows for frame in re.findall(r"`(\w+)`", frames)
    }
    assert found == {frame: list(columns) for frame, columns in COLUMNS.items()}
