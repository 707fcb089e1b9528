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


def test_the_documentation_describes_every_column() -> None:
    parts = re.split(r"^### (\w+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    found = {
        frame: dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
        for frame, text in zip(parts[::2], parts[1::2], strict=True)
    }
    assert found == {frame: dict(columns) for frame, columns in COLUMNS.items()}
