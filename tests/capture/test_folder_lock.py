"""The lock of a folder: one holder, whose name the others hear, and none after its process has ended."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from capture_fixtures import until

from nsyswrap.capture.result_folder import LOCK_NAME, FolderInUseError, folder_lock

HOLDER = """
import sys, time
from pathlib import Path
from nsyswrap.capture.result_folder import folder_lock
with folder_lock(Path(sys.argv[1])):
    Path(sys.argv[1], "held").touch()
    time.sleep(60)
"""


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    """The system releases it, so the next one takes over."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path]) as holder:
        until((tmp_path / "held").exists, "the lock")
        with pytest.raises(FolderInUseError, match=f"in use by process {holder.pid} on {socket.gethostname()}"):
            folder_lock(tmp_path).__enter__()
        holder.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK_NAME).exists()
    with folder_lock(tmp_path):
        assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK_NAME).exists()


def test_no_two_threads_hold_a_lock_at_once(tmp_path: Path) -> None:
    """Each removes the file when it ends, and the others must not lock a removed file."""
    inside, most = [0], [0]
    guard = threading.Lock()

    def enter() -> None:
        for _ in range(200):
            try:
                with folder_lock(tmp_path):
                    with guard:
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                    with guard:
                        inside[0] -= 1
            except FolderInUseError:
                continue

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def no_locks(_descriptor: int, _operation: int) -> None:
    """Fail as a file system without locks does."""
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.parametrize(
    ("pid", "host", "held"),
    [(os.getpid(), socket.gethostname(), True), (999_999_999, socket.gethostname(), False), (1, "elsewhere", True)],
    ids=("this process", "no process", "another host"),
)
def test_without_locks_the_process_of_the_holder_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, host: str, *, held: bool
) -> None:
    """A process of another host cannot be looked for, so it counts as alive."""
    with folder_lock(tmp_path):
        named = json.loads((tmp_path / LOCK_NAME).read_text())
    (tmp_path / LOCK_NAME).write_text(json.dumps({**named, "pid": pid, "host": host}))
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(FolderInUseError) if held else nullcontext(), folder_lock(tmp_path):
        pass


def test_a_process_with_the_id_of_the_holder_is_not_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process ids are used again."""
    (tmp_path / LOCK_NAME).write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "started": "1"}))
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with folder_lock(tmp_path):
        pass
