"""A PostgreSQL server in a folder of its own, on a Unix socket, for the tests of the history.

It refuses to run as root, so root starts it as another user.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

# Where Debian and Fedora keep its programs, which are not on PATH.
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
_TIMEOUT_S = 120
_USERS = ("postgres", "daemon")
# Nothing that the tests write must survive a power cut.
_OPTIONS = "-c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=60 -c shared_buffers=16MB"

# The URL of a started server, as long as it runs.
Server = AbstractContextManager[str]


def programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL; None where it is not installed."""
    on_path = shutil.which("initdb")
    found = [path for place in _PLACES for path in Path("/").glob(place.lstrip("/")) if (path / "initdb").is_file()]
    return Path(on_path).resolve().parent if on_path else max(found, default=None)


@contextmanager
def server(binaries: Path) -> Iterator[str]:
    """Yield the URL of the database of a new server; at the end it is stopped and its folder removed."""
    with _made(binaries) as made, _started(made) as url:
        yield url


@contextmanager
def full_then_roomy(binaries: Path, most_bytes: int) -> Iterator[tuple[Callable[[], Server], Callable[[], Server]]]:
    """Yield two functions that start the same new server: on a disk that is soon full, and on one that has room.

    Args:
        binaries: Folder with the programs of PostgreSQL.
        most_bytes: No file of the server grows beyond it on the full disk; more than the MiB of a file of its log.
    """
    with _made(binaries, "--wal-segsize=1") as made:
        yield lambda: _started(made, most_bytes), lambda: _started(made)


class _Made(NamedTuple):
    """A server that was made: its programs, its folder, and the user that it runs as; empty for this one."""

    binaries: Path
    folder: Path
    user: str


@contextmanager
def _made(binaries: Path, *options: str) -> Iterator[_Made]:
    """Yield a new server that is not started.

    The folder is in /tmp, since the path of a socket has at most 107 characters.
    """
    folder = Path(tempfile.mkdtemp(prefix="nsyswrap-pg-", dir="/tmp"))
    user = next(each for each in _USERS if _exists(each)) if os.geteuid() == 0 else ""
    try:
        if user:
            shutil.chown(folder, user)
        make: list[str | Path] = [
            binaries / "initdb",
            "-D",
            folder / "data",
            "-A",
            "trust",
            "-U",
            "tester",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        _run(user, [*make, *options], folder)
        yield _Made(binaries, folder, user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _started(made: _Made, most_bytes: int | None = None) -> Iterator[str]:
    """Start a server and yield the URL of its database; stop it at the end."""
    binaries, folder, user = made
    control: list[str | Path] = [binaries / "pg_ctl", "-D", folder / "data", "-w", "-t", str(_TIMEOUT_S)]
    start = [*control, "-l", folder / "log", "-o", f"-k {folder} {_OPTIONS}", "start"]
    # The shell counts blocks of 512 bytes.
    limited = [] if most_bytes is None else ["sh", "-c", f'ulimit -S -f {most_bytes // 512} && exec "$@"', "sh"]
    _run(user, [*limited, *start], folder)
    try:
        yield f"postgresql://tester@/postgres?host={folder}"
    finally:
        _run(user, [*control, "-m", "immediate", "stop"], folder)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _run(user: str, command: Sequence[str | Path], folder: Path) -> None:
    """Run a program as a user, in a folder that the user may read; its output is in the error if it fails."""
    ids = pwd.getpwnam(user) if user else None
    log = folder / "output"
    with log.open("ab") as output:
        # Into a file and not a pipe: the server keeps its output open.
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            timeout=_TIMEOUT_S,
            check=False,
            user=ids.pw_uid if ids else None,
            group=ids.pw_gid if ids else None,
            extra_groups=() if ids else None,
        )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {log.read_text(errors='replace')}")
