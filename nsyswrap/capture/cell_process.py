"""Run one cell of a sweep: a process of its own, whose output goes to a file, with a limit of its time.

The process has a session of its own, and keeps a file locked. So a sweep that was killed finds out whether its last run
still goes on: the system releases the lock when the process ends, however it ends.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nsyswrap.capture.process_tree import descendants

_POLL_S = 0.2
# After SIGTERM a program ends, nsys writes its report, and it is exported: minutes for a large one. Ours.
_END_S = 60.0
_KILLED_S = 10.0


class CellExit(NamedTuple):
    """How a process ended: its exit code, its time in seconds, and whether that was its limit."""

    code: int
    wall_s: float
    timed_out: bool


def run_cell(argv: Sequence[str], environment: Mapping[str, str], output: Path, lock: Path, limit_s: float) -> CellExit:
    """Run a command to its end, without a terminal.

    The lock is a file that it keeps locked as long as it runs, also without us.

    Raises:
        OSError: It cannot be started, or a file cannot be written.
    """
    began = time.monotonic()
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _try_lock(held)
        with output.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - argv is a list; no shell reads it
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
                pass_fds=(held,),
            )
        code, timed_out = _waited(process, limit_s)
    finally:
        os.close(held)
        wait_for_earlier(lock, 0.0)  # removes it, unless the process could not be ended
    return CellExit(code if code >= 0 else 128 - code, time.monotonic() - began, timed_out)


def _waited(process: "subprocess.Popen[bytes]", limit_s: float) -> tuple[int, bool]:
    """Return the exit code of a process, and whether its limit ended it; whatever interrupts us ends it as well."""
    try:
        return process.wait(limit_s), False
    except subprocess.TimeoutExpired:
        return _end(process), True
    except BaseException:
        _end(process)
        raise


def wait_for_earlier(lock: Path, limit_s: float) -> bool:
    """Wait for a run that an earlier sweep started and that goes on without it; return whether it has ended.

    It keeps the lock, which is removed.

    Raises:
        OSError: The file cannot be opened.
    """
    if not lock.exists():
        return True
    until = time.monotonic() + limit_s
    held = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        while not _try_lock(held):
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
    finally:
        os.close(held)
    lock.unlink(missing_ok=True)
    return True


def _try_lock(descriptor: int) -> bool:
    """Return whether a file could be locked; no other process holds it then, where the file system has locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _end(process: "subprocess.Popen[bytes]") -> int:
    """End a process and all that it started: first with SIGTERM, so that it can keep what it has."""
    below = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        process.terminate()
    try:
        return process.wait(_END_S)
    except subprocess.TimeoutExpired:
        below = [*below, *descendants(process.pid)]
        for pid in (process.pid, *below):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # a process that waits for a disk cannot be killed
        return process.wait(_KILLED_S)
    return -signal.SIGKILL
