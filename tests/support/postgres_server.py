"""A PostgreSQL server in a folder of its own, on a Unix socket, for the tests of the history.

It refuses to run as root, so root starts it as another user.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Where Debian and Fedora keep its programs, which are not on PATH.
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
_TIMEOUT_S = 120
_USERS = ("postgres", "daemon")
# Nothing that the tests write must survive a power cut.
_OPTIONS = "-c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=60 -c shared_buffers=16MB"


def programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL; None where it is not installed."""
    on_path = shutil.which("initdb")
    found = [path for place in _PLACES for path in Path("/").glob(place.lstrip("/")) if (path / "initdb").is_file()]
    return Path(on_path).resolve().parent if on_path else max(found, default=None)


@contextmanager
def server(binaries: Path) -> Iterator[str]:
    """Yield the URL of the database of a new server; at the end it is stopped and its folder removed.

    The folder is in /tmp, since the path of a socket has at most 107 characters.
    """
    folder = Path(tempfile.mkdtemp(prefix="nsyswrap-pg-", dir="/tmp"))
    user = next(each for each in _USERS if _exists(each)) if os.geteuid() == 0 else ""
    try:
        if user:
            shutil.chown(folder, user)
        data = folder / "data"
        _run(user, [binaries / "initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"], folder)
        control: list[str | Path] = [binaries / "pg_ctl", "-D", data, "-w", "-t", str(_TIMEOUT_S)]
        _run(user, [*control, "-l", folder / "log", "-o", f"-k {folder} {_OPTIONS}", "start"], folder)
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            _run(user, [*control, "-m", "immediate", "stop"], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
