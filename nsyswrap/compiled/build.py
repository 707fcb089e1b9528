"""Compiles the functions once into the user's cache, beside the analysis, where the machine has a C compiler.

Nothing waits for the compiler, and whatever goes wrong, numpy does the work.
"""

import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FLAGS = ("-O2", "-shared", "-fPIC")
COMPILER_VARIABLE = "CC"
TIME_LIMIT_S = 30.0
# Permissions of others: none on the folder, and no right to write the library.
OTHERS, OTHERS_WRITE = 0o077, 0o022


@dataclass(frozen=True, slots=True)
class Build:
    """A compiler that runs.

    Attributes:
        process: The compiler.
        unfinished: The file that it writes.
        target: The name of that file when it is complete.
        deadline_s: When it is stopped, on the clock of ``time.monotonic``.
    """

    process: "subprocess.Popen[bytes]"
    unfinished: Path
    target: Path
    deadline_s: float

    def is_running(self) -> bool:
        """Return whether the compiler still runs; afterwards the library is there, or it cannot be made."""
        code = self.process.poll()
        if code is None and time.monotonic() < self.deadline_s:
            return True
        if code == 0:
            with contextlib.suppress(OSError):
                self._publish()
        self.stop()
        return False

    def _publish(self) -> None:
        """Give the library its name when all of it is on the disk: loading a part of one may end the process."""
        with self.unfinished.open("rb") as file:
            os.fchmod(file.fileno(), 0o700)
            os.fsync(file.fileno())
        self.unfinished.replace(self.target)

    def stop(self) -> None:
        """Stop the compiler, and remove what it has written so far."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        with contextlib.suppress(OSError):
            self.unfinished.unlink()


def begin_build(sources: Sequence[Path], target: Path, environ: Mapping[str, str]) -> Build | None:
    """Start to compile a library; return None where that is impossible.

    Args:
        sources: Files in C.
        target: The library. Its folder is made for this user only.
        environ: The environment; ``CC`` names the compiler, which is ``cc`` by default.
    """
    unfinished = target.with_suffix(f".{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(target.parent):
            return None
        compiler = shlex.split(environ.get(COMPILER_VARIABLE, "")) or ["cc"]
        command = [*compiler, *FLAGS, "-x", "c", *map(str, sources), "-o", str(unfinished)]
        null = subprocess.DEVNULL
        process = subprocess.Popen(  # noqa: S603 - no shell reads it, and the compiler is the user's own
            command, stdin=null, stdout=null, stderr=null, env=dict(environ), start_new_session=True
        )
    except (OSError, ValueError):
        return None
    return Build(process, unfinished, target, time.monotonic() + TIME_LIMIT_S)


def is_private(folder: Path) -> bool:
    """Return whether a folder is this user's, and closed to others."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def is_trusted(library: Path) -> bool:
    """Return whether only this user can have written a library: it and its folder are the user's own."""
    try:
        found = library.lstat()
    except OSError:
        return False
    is_own = found.st_uid == os.geteuid() and not found.st_mode & OTHERS_WRITE
    return library.is_file() and not library.is_symlink() and is_own and is_private(library.parent)
