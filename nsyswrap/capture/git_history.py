"""What git knows of commits: when they were made, which ones a range has, and whether files differ from one.

Nothing that the configuration of a repository names is run. Git takes programs from it when it compares files (clean
filters, fsmonitor), shows commits (signatures, pagers, text conversion) or fetches missing objects (remotes of partial
clones). So commits are read by plumbing, which shows and fetches nothing, and files are compared in a git folder of
this run alone, without a configuration.
"""

import os
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.process import Output, output_of

# What git puts after a commit without its parents; no reader typed it.
_ALONE = "^!"
_TIMEOUT_S = 20
# Git takes no lock, calls no monitor of files and no hook, and fetches no object.
_GIT = ("git", "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ONLY_READS = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0"}

# The settings that say how files of the commit look in the working folder. None names a program.
_LOOKS = "autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|trustctime|checkstat|checkroundtripencoding"
_SHA256_DIGITS = 64
_SUBMODULE = "160000"
# The values of the attribute ``filter`` that name none.
_NO_FILTER = {"unspecified", "unset", "set"}
# So many changed files are looked at: as many names fit into a command line.
_LOOKED_AT = 400


def git_state(folder: Path) -> dict[str, object] | None:
    """Return the commit of a folder, when it was made, and whether tracked files differ; None outside a repository.

    Returns:
        ``commit``, ``dirty`` (None if unknown) and ``committed_s`` (as in ``committed_s``).
    """
    try:
        commit = _head(folder)
    except (OSError, TimeoutError):
        return None
    if commit is None:
        return None
    try:
        dirty = _differs(folder, commit)
    except (OSError, TimeoutError):
        dirty = None
    return {"commit": commit, "dirty": dirty, "committed_s": committed_s(commit, folder)}


def committed_s(commit: str, folder: Path) -> int | None:
    """Return when a commit was made, seconds since 1970 in UTC; None where git or the repository does not know it."""
    if not commit.isalnum():
        return None
    try:
        answer = _git(folder, ["cat-file", "commit", commit])
    except (OSError, TimeoutError):
        return None
    head = answer.stdout.partition("\n\n")[0].splitlines()
    line = next((each for each in head if each.startswith("committer ")), "")
    seconds = line.rpartition("> ")[2].partition(" ")[0]
    return int(seconds) if answer.code == 0 and seconds.isdigit() else None


def commits_in(revisions: str, folder: Path) -> tuple[str, ...]:
    """Return the ids of the commits that a range has, the newest first.

    The revisions are as git writes them, such as "main~10..main" or "v1.2..".

    Raises:
        UsageError: Git does not know the range, or there is no git.
    """
    hint = "give a range that 'git log' takes, such as main~10..main, in a folder of the repository"
    if revisions.startswith("-"):
        raise UsageError(f"{revisions!r} is not a range of commits", hint=hint)
    try:
        answer = _git(folder, ["rev-list", revisions, "--"])
    except (OSError, TimeoutError) as error:
        raise UsageError(f"git cannot list the commits of {revisions}: {error}", hint=hint) from error
    if answer.code != 0:
        lines = answer.stderr.strip().splitlines() or ["it fails"]
        words = f"git cannot list the commits of {revisions}: {lines[0]}"
        raise UsageError(words.replace(_ALONE, ""), hint=hint)
    return tuple(answer.stdout.split())


def export_commit(commit: str, folder: Path, target: Path) -> Path:
    """Write the files of a commit into a folder, and return the place in it that stands for the given folder.

    Raises:
        UsageError: Git does not know the commit, or there is no git.
    """
    hint = "give a file, a folder, or a commit that 'git log' takes, in a folder of the repository"
    packed = target.with_name(f"{target.name}.tar")
    try:
        known = _git(folder, ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"])
        place = _git(folder, ["rev-parse", "--show-toplevel", "--show-prefix"]).stdout.splitlines()
        if known.code or not place:
            raise UsageError(f"there is no file, folder or commit {commit!r}", hint=hint)
        top, prefix = Path(place[0]), "".join(place[1:2])
        answer = _git(top, ["archive", "--format=tar", "-o", str(packed), known.stdout.split()[-1]])
    except (OSError, TimeoutError) as error:
        raise UsageError(f"git cannot read {commit}: {error}", hint=hint) from error
    if answer.code:
        raise UsageError(f"git cannot read {commit}: {answer.stderr.strip()}", hint=hint)
    target.mkdir()
    # Git has no names that lead out of the tree; Python 3.11.2 has no filter.
    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(packed) as archive:
        archive.extractall(target, **safe)  # noqa: S202 - see above
    packed.unlink()
    return target / prefix


def _head(folder: Path) -> str | None:
    """Return the commit that a folder is at; None outside a repository, or before its first commit."""
    answer = _git(folder, ["rev-parse", "--verify", "HEAD"])
    return answer.stdout.strip() if answer.code == 0 else None


def _differs(folder: Path, commit: str) -> bool | None:
    """Return whether tracked files differ from a commit; None if that is unknown.

    A file that a filter writes, as Git LFS does, can be compared only by that filter: then it is unknown.
    """
    names = ("index", "objects", "info/attributes")
    paths = _git(folder, ["rev-parse", "--show-toplevel", *(word for name in names for word in ("--git-path", name))])
    lines = paths.stdout.splitlines()
    if paths.code != 0 or len(lines) != 1 + len(names):  # there are no files, or a name has a line break
        return None
    top, index, objects, attributes = Path(lines[0]), *(folder.absolute() / line for line in lines[1:])
    with tempfile.TemporaryDirectory(prefix="nsyswrap-git-") as place:
        _make_git_folder(Path(place), commit, index, attributes)
        own = {
            "GIT_DIR": place,
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "HOME": place,  # for git up to 2.31
            "XDG_CONFIG_HOME": place,
        }
        words = ["status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty"]
        status = _git(top, [*_looks(folder), *words], own)
    if status.code != 0:
        return None
    entries = status.stdout.split("\0")[:-1]
    compared = _without_filter(top, [entry[3:] for entry in entries if entry.startswith(" M ")])
    if compared or any(not entry.startswith(" M ") for entry in entries):
        return True
    of_submodules = [_submodule_differs(path) for path in _submodules(top)]
    return True if True in of_submodules else None if entries or None in of_submodules else False


def _make_git_folder(place: Path, commit: str, index: Path, attributes: Path) -> None:
    """Make a folder that git takes for that of a repository at a commit, without its configuration and hooks.

    Attributes say which filter a file has, and whether it is text; the filters themselves are configuration.
    """
    for name in ("objects", "refs", "info"):
        (place / name).mkdir()
    (place / "HEAD").write_text(f"{commit}\n", encoding="ascii")
    is_sha256 = len(commit) == _SHA256_DIGITS
    text = f"[core]\nrepositoryformatversion = {int(is_sha256)}\nbare = false\n[status]\nrenames = false\n"
    text += "[extensions]\nobjectFormat = sha256\n" if is_sha256 else ""
    (place / "config").write_text(text, encoding="ascii")
    (place / "info" / "attributes").symlink_to(attributes)
    for shared in index.parent.glob("sharedindex.*"):  # of a split index
        (place / shared.name).symlink_to(shared)


def _looks(folder: Path) -> list[str]:
    """Return the settings of a repository that say how its files look, as words of a command line."""
    settings_text = _git(folder, ["config", "--null", "--get-regexp", rf"^core\.({_LOOKS})$"]).stdout
    settings = (entry.partition("\n") for entry in settings_text.split("\0") if entry)
    return [word for name, has_value, value in settings for word in ("-c", f"{name}={value}" if has_value else name)]


def _without_filter(top: Path, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    fields = _git(top, ["check-attr", "-z", "filter", "--", *paths[:_LOOKED_AT]]).stdout.split("\0")
    filtered = {path for path, value in zip(fields[::3], fields[2::3], strict=False) if value not in _NO_FILTER}
    return [path for path in paths[:_LOOKED_AT] if path not in filtered]


def _submodules(top: Path) -> Iterable[Path]:
    """Yield the folders of the submodules that are checked out."""
    if not (top / ".gitmodules").exists():
        return
    for entry in _git(top, ["ls-files", "--stage", "-z"]).stdout.split("\0"):
        folder = top / entry.partition("\t")[2]
        if entry.startswith(_SUBMODULE) and (folder / ".git").exists():
            yield folder


def _submodule_differs(folder: Path) -> bool | None:
    """Return whether tracked files of a submodule differ from its commit; None if that is unknown."""
    commit = _head(folder)
    return None if commit is None else _differs(folder, commit)


def _git(folder: Path, arguments: Sequence[str], own: Mapping[str, str] | None = None) -> Output:
    """Run git in a folder; with variables of our own it gets none of the user's that are for git."""
    kept = os.environ if own is None else {name: os.environ[name] for name in os.environ if name[:4] != "GIT_"}
    environment = {**kept, **(own or {}), **_ONLY_READS}
    return output_of([*_GIT, "-C", str(folder), *arguments], timeout_s=_TIMEOUT_S, env=environment)
