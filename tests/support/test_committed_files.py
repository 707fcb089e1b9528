"""Committed files are those that git lists; without git the test that needs them is skipped."""

import subprocess
from pathlib import Path

import pytest
from committed_files import committed


def test_only_committed_files_are_listed(tmp_path: Path) -> None:
    """Names may have blanks and non-ASCII letters. Untracked and deleted files are left out."""
    folder = tmp_path / "reports"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("a b.json", "ü.json", "gone.json"):
        (folder / name).write_text("x")
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    (folder / "gone.json").unlink()
    (folder / "made-by-a-run.json").write_text("x")
    assert [path.name for path in committed("reports", tmp_path)] == ["a b.json", "ü.json"]


def test_a_folder_without_git_is_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(pytest.skip.Exception, match="not a git checkout"):
        committed("reports", tmp_path)


def test_a_machine_without_git_is_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="git is not installed"):
        committed("reports", tmp_path)
