"""What git knows of commits: when they were made, and which ones a range has."""

from collections.abc import Sequence
from pathlib import Path

from nsyswrap.capture.process import Output, output_of
from nsyswrap.errors import UsageError

# What git puts after a commit without its parents; no reader typed it.
_ALONE = "^!"
_TIMEOUT_S = 20
# These only read: they take no lock, and run no program of the repository's configuration.
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C")


def committed_s(commit: str, folder: Path) -> int | None:
    """Return when a commit was made, seconds since 1970 in UTC; None where git or the repository does not know it.

    Args:
        commit: Its id.
        folder: A folder of the repository.
    """
    if not commit.isalnum():
        return None
    try:
        found = _git(folder, ["show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}", "--"])
    except (OSError, TimeoutError):
        return None
    text = found.stdout.strip()
    return int(text) if found.code == 0 and text.isdigit() else None


def commits_in(revisions: str, folder: Path) -> tuple[str, ...]:
    """Return the ids of the commits that a range has, the newest first.

    Args:
        revisions: As git writes it, such as "main~10..main" or "v1.2..".
        folder: A folder of the repository.

    Raises:
        UsageError: Git does not know the range, or there is no git.
    """
    hint = "give a range that 'git log' takes, such as main~10..main, in a folder of the repository"
    if revisions.startswith("-"):
        raise UsageError(f"{revisions!r} is not a range of commits", hint=hint)
    try:
        found = _git(folder, ["rev-list", revisions, "--"])
    except (OSError, TimeoutError) as error:
        raise UsageError(f"git cannot list the commits of {revisions}: {error}", hint=hint) from error
    if found.code != 0:
        lines = found.stderr.strip().splitlines() or ["it fails"]
        words = f"git cannot list the commits of {revisions}: {lines[0]}"
        raise UsageError(words.replace(_ALONE, ""), hint=hint)
    return tuple(found.stdout.split())


def _git(folder: Path, arguments: Sequence[str]) -> Output:
    return output_of([*_GIT, str(folder), *arguments], timeout_s=_TIMEOUT_S)
