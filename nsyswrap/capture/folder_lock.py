"""The lock of a folder: one writer at a time, whose name is known to the others.

The system releases the lock when the process ends, however it ends, so a stale lock is taken over without a question.
"""

import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.process_tree import start_time

LOCK_NAME = ".lock"

# File systems without locks, such as Lustre mounted without them. There, the holder's process is looked for instead.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


class FolderInUseError(UsageError):
    """Another process writes to the folder."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock.

    Args:
        pid: Its process id.
        host: Its host.
        started: When it started, in clock ticks since the boot: process ids are used again.
    """

    pid: int
    host: str
    started: str

    def lives(self) -> bool:
        """Return whether it runs; of another host that is unknown, and taken as yes."""
        return self.host != socket.gethostname() or start_time(self.pid) == self.started


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which exists, until the end of the block.

    Raises:
        FolderInUseError: Another process, or another thread of this one, holds it.
        OSError: The lock cannot be created.
    """
    path = folder / LOCK_NAME
    descriptor = _locked(path)
    try:
        own = Holder(os.getpid(), socket.gethostname(), start_time(os.getpid()))
        text = json.dumps({"pid": own.pid, "host": own.host, "started": own.started}).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: afterwards it may be another's
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Return whether a process writes to a folder."""
    try:
        with folder_lock(folder):
            return False
    except FolderInUseError:
        return True
    except OSError:
        return False


def _locked(path: Path) -> int:
    """Return the descriptor of the locked file."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # its holder removed it before we locked it


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path.parent, _holder(descriptor)) from None
    except OSError as error:
        holder = _holder(descriptor)
        if error.errno not in _NO_LOCKS:
            raise
        if holder is not None and holder.lives():
            raise _in_use(path.parent, holder) from error


def _holder(descriptor: int) -> Holder | None:
    """Return the process that a lock names; None for a file that says nothing yet."""
    try:
        named = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(int(named["pid"]), str(named["host"]), str(named["started"]))
    except (ValueError, TypeError, KeyError):
        return None


def _in_use(folder: Path, holder: Holder | None) -> FolderInUseError:
    by = "" if holder is None else f" by process {holder.pid} on {holder.host}"
    return FolderInUseError(f"{folder} is in use{by}", hint="Wait until it has ended, or give another folder with -o")
