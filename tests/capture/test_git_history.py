"""What git knows of commits."""

import os
import subprocess
from pathlib import Path

import pytest
from capture_fixtures import executable

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.git_history import commits_in, committed_s, git_state

HOOKS = ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman")

# Settings of a repository, each with SPY for a program.
HOSTILE = {
    "clean filter": {"filter.x.clean": "SPY", "filter.x.required": "true"},
    "smudge filter": {"filter.x.smudge": "SPY"},
    "process filter": {"filter.x.process": "SPY"},
    "filter with an equals sign": {"filter.a=b.clean": "SPY"},
    "fsmonitor": {"core.fsmonitor": "SPY"},
    "text conversion": {"diff.x.textconv": "SPY", "diff.x.cachetextconv": "false"},
    "external diff": {"diff.external": "SPY", "diff.x.command": "SPY"},
    "pager": {"core.pager": "SPY", "pager.status": "SPY", "pager.show": "SPY", "pager.rev-list": "SPY"},
    "alias": {f"alias.{name}": "!SPY" for name in ("status", "show", "rev-parse", "rev-list", "cat-file", "config")},
    "signature": {"log.showSignature": "true", "gpg.program": "SPY", "gpg.ssh.program": "SPY"},
    "hooks": {"core.hooksPath": "HOOKS"},
    "include": {"include.path": "INCLUDED"},
    "partial clone": {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": ".",
        "remote.origin.uploadpack": "SPY",
    },
}
SIGNED = """tree {tree}
author a <a@example.org> 1700000000 +0000
committer a <a@example.org> 1700000000 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 iHUEABYIAB0WIQ=
 -----END PGP SIGNATURE-----

signed
"""


def run_git(folder: Path, *arguments: str, text: str | None = None) -> str:
    """Run git with a neutral identity, and return its output."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout.strip()


def made(folder: Path, content: str = "pass\n") -> Path:
    """Create a repository with one commit of a script."""
    folder.mkdir()
    (folder / "train.py").write_text(content)
    run_git(folder, "init", "-q")
    run_git(folder, "add", "train.py")
    run_git(folder, "commit", "-q", "-m", "first")
    return folder


def dirty(folder: Path) -> object:
    """Return whether the state of a repository says that its files differ."""
    state = git_state(folder)
    assert state is not None
    return state["dirty"]


def touch(path: Path) -> None:
    """Give a file a time in the future: git then compares its content, whatever the index says."""
    os.utime(path, (1 << 32, 1 << 32))


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


def test_a_clean_repository(tmp_path: Path) -> None:
    """It has its commit and is not dirty; untracked files do not count."""
    folder = made(tmp_path / "repo")
    (folder / "new.txt").write_text("untracked")
    touch(folder / "train.py")
    commit = run_git(folder, "rev-parse", "HEAD")
    made_s = committed_s(commit, folder)
    assert git_state(folder) == {"commit": commit, "dirty": False, "committed_s": made_s}
    assert made_s is not None


@pytest.mark.parametrize("change", ["in the folder", "in the index", "removed", "made executable", "added"])
def test_a_changed_repository_is_dirty(tmp_path: Path, change: str) -> None:
    """The commit alone would not describe what ran."""
    folder = made(tmp_path / "repo")
    script = folder / "train.py"
    if change == "removed":
        script.unlink()
    elif change == "made executable":
        script.chmod(0o755)
    elif change == "added":
        (folder / "new.py").write_text("pass\n")
        run_git(folder, "add", "new.py")
    else:
        script.write_text("changed\n")
        if change == "in the index":
            run_git(folder, "add", "train.py")
            script.write_text("pass\n")
    assert dirty(folder) is True


def test_a_worktree_a_split_index_and_a_folder_below_have_a_state(tmp_path: Path) -> None:
    """Their index and objects are elsewhere."""
    folder = made(tmp_path / "repo")
    run_git(folder, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    run_git(folder, "update-index", "--split-index")
    (folder / "below").mkdir()
    for place in (folder, folder / "below", tmp_path / "other"):
        assert dirty(place) is False
    (tmp_path / "other" / "train.py").write_text("changed\n")
    assert [dirty(place) for place in (folder, tmp_path / "other")] == [False, True]


def test_a_repository_with_long_ids_has_a_state(tmp_path: Path) -> None:
    """SHA-256 needs a setting of the repository."""
    folder = tmp_path / "repo"
    folder.mkdir()
    run_git(folder, "init", "-q", "--object-format=sha256")
    (folder / "train.py").write_text("pass\n")
    run_git(folder, "add", "train.py")
    run_git(folder, "commit", "-q", "-m", "first")
    assert dirty(folder) is False


def test_line_ends_of_the_settings_are_no_change(tmp_path: Path) -> None:
    """The files of the folder have others than those of the commit."""
    folder = made(tmp_path / "repo")
    run_git(folder, "config", "core.autocrlf", "true")
    (folder / "train.py").unlink()
    run_git(folder, "checkout", "-q", "train.py")
    touch(folder / "train.py")
    assert (folder / "train.py").read_bytes() == b"pass\r\n"
    assert dirty(folder) is False


def test_whether_a_file_with_a_filter_differs_is_unknown(tmp_path: Path) -> None:
    """Only its filter can tell. A file without a filter beside it decides."""
    folder = made(tmp_path / "repo")
    (folder / ".gitattributes").write_text("*.py filter=lfs\n")
    run_git(folder, "add", ".gitattributes")
    run_git(folder, "commit", "-q", "-m", "second")
    assert dirty(folder) is False
    (folder / "train.py").write_text("whole\n")
    assert dirty(folder) is None
    (folder / ".gitattributes").write_text("*.py filter=lfs text\n")
    assert dirty(folder) is True


def test_a_change_in_a_submodule_is_a_change(tmp_path: Path) -> None:
    folder, library = made(tmp_path / "repo"), made(tmp_path / "library", "library\n")
    run_git(folder, "submodule", "add", "-q", str(library), "library")
    run_git(folder, "commit", "-q", "-m", "second")
    assert dirty(folder) is False
    (folder / "library" / "train.py").write_text("changed\n")
    assert dirty(folder) is True


def test_outside_a_repository_there_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds without git and without a commit."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
    run_git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert git_state(tmp_path) is None


def hostile(repository: Path, settings: dict[str, str], spy: Path) -> None:
    """Give a repository settings and hooks that run a program."""
    names = {"SPY": str(spy), "HOOKS": str(spy.parent / "hooks"), "INCLUDED": str(spy.parent / "included")}
    git_folder = Path(run_git(repository, "rev-parse", "--absolute-git-dir"))
    (spy.parent / "included").write_text(f'[filter "x"]\nclean = {spy}\n[core]\nfsmonitor = {spy}\n')
    for place in (spy.parent / "hooks", git_folder / "hooks"):
        for name in HOOKS:
            executable(place / name, spy.read_text())
    for setting, value in settings.items():
        for word, real in names.items():
            value = value.replace(word, real)  # noqa: PLW2901 - each word in turn
        run_git(repository, "config", setting, value)


@pytest.mark.parametrize("where", ["repository", "submodule"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_that_a_repository_names_is_run(tmp_path: Path, kind: str, where: str) -> None:
    """The file has a filter, a diff driver and a new time, the commit a signature, and an object is missing."""
    spy = executable(tmp_path / "spy", f"#!/bin/sh\ntouch {tmp_path / 'ran'}\ncat\n")
    folder = made(tmp_path / "repo")
    if where == "submodule":
        made(tmp_path / "library")
        run_git(folder, "submodule", "add", "-q", str(tmp_path / "library"), "library")
    repository = folder if where == "repository" else folder / "library"
    driver = "a=b" if "equals" in kind else "x"
    (repository / ".gitattributes").write_text(f"*.py filter={driver} diff=x\n")
    run_git(repository, "add", ".gitattributes")
    signed = SIGNED.format(tree=run_git(repository, "write-tree"))
    commit = run_git(repository, "hash-object", "-t", "commit", "-w", "--stdin", text=signed)
    run_git(repository, "reset", "-q", "--soft", commit)
    if where == "submodule":
        run_git(folder, "add", "library")
        run_git(folder, "commit", "-q", "-m", "second")
    if kind == "partial clone":
        tree = run_git(repository, "rev-parse", "HEAD^{tree}")
        (Path(run_git(repository, "rev-parse", "--absolute-git-dir")) / "objects" / tree[:2] / tree[2:]).unlink()
    hostile(repository, HOSTILE[kind], spy)
    (repository / "train.py").write_text("pas!\n")
    touch(repository / "train.py")
    assert git_state(folder) is not None
    assert committed_s(commit, repository) == 1_700_000_000
    assert commits_in("HEAD", repository) == (commit,)
    assert not (tmp_path / "ran").exists()
