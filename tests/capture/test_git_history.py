"""What git knows of commits."""

import subprocess
from pathlib import Path

import pytest

from nsyswrap.capture.git_history import commits_in, committed_s
from nsyswrap.errors import UsageError


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, list[str]]:
    """Return a repository and its three commits, the oldest first, a minute apart."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    commits = []
    for number in range(3):
        dates = dict.fromkeys(("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"), f"{1_700_000_000 + 60 * number} +0000")
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), **dates}
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True, env=environment)
        done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        commits.append(done.stdout.strip())
    return tmp_path, commits


def test_a_commit_has_a_time(repository: tuple[Path, list[str]]) -> None:
    folder, commits = repository
    assert committed_s(commits[1], folder) == 1_700_000_060


@pytest.mark.parametrize("commit", ["f" * 40, "", "--help", "HEAD; ls"])
def test_an_unknown_commit_has_none(commit: str, repository: tuple[Path, list[str]]) -> None:
    assert committed_s(commit, repository[0]) is None


def test_outside_a_repository_there_is_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert committed_s("HEAD", tmp_path / "missing") is None
    monkeypatch.setenv("PATH", "")
    assert committed_s("HEAD", tmp_path) is None


def test_a_range_has_its_commits_the_newest_first(repository: tuple[Path, list[str]]) -> None:
    folder, commits = repository
    assert commits_in("HEAD~2..HEAD", folder) == (commits[2], commits[1])
    assert commits_in("HEAD~2..", folder) == (commits[2], commits[1])


@pytest.mark.parametrize("revisions", ["nowhere..HEAD", "--all", "a b"])
def test_what_is_no_range_is_an_error(revisions: str, repository: tuple[Path, list[str]]) -> None:
    with pytest.raises(UsageError, match="commits"):
        commits_in(revisions, repository[0])
