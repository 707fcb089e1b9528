"""The descendants of our process, read from ``/proc``, to signal them, wait for them and kill them.

nsys starts its agent and the program in separate sessions, so no process group holds them all. While a capture runs, we
adopt orphaned descendants (``PR_SET_CHILD_SUBREAPER``): they become our children instead of those of init, so we can
find them, wait for them and end them.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_KILL_ROUNDS = 250
_QUIET_ROUNDS = 3
_KILL_PAUSE_S = 0.02


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Adopt descendants whose parent ends, until the end of the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def children_by_parent() -> dict[int, list[int]]:
    """Return the ids of the living children of each process."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            parent, state = _stat(int(entry.name))
            if state not in {"", "Z", "X"}:
                children.setdefault(parent, []).append(int(entry.name))
    return children


def descendants(pid: int, excluded: frozenset[int] = frozenset()) -> list[int]:
    """Return the ids of the living descendants of a process, parents before their children.

    Those that are excluded are left out with their descendants.
    """
    children = children_by_parent()
    pids: list[int] = []
    waiting = [child for child in children.get(pid, []) if child not in excluded]
    while waiting:
        process = waiting.pop(0)
        pids.append(process)
        waiting += [child for child in children.get(process, []) if child not in excluded]
    return pids


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    return _stat(pid)[1] not in {"", "Z", "X"}


def parent_of(pid: int) -> int | None:
    """Return the parent of a process, or None if the process does not exist."""
    parent, state = _stat(pid)
    return parent if state else None


def is_cut_off(pid: int) -> bool:
    """Return whether a process has threads of nsys, but closed the descriptors by which they are reached.

    Each of these threads waits in ``epoll_wait``, and goes on doing so if its descriptor is closed: seen with nsys
    2023.4.4, whose threads have names like ``[NSys Comms]``. At its end the process waits for them.
    """
    try:
        names = [
            path.read_text(encoding="utf-8", errors="replace") for path in Path(f"/proc/{pid}/task").glob("*/comm")
        ]
        return any(name.startswith("[NSys") for name in names) and not any(
            entry.readlink().name.endswith("[eventpoll]") for entry in Path(f"/proc/{pid}/fd").iterdir()
        )
    except OSError:
        return False


def with_variable(name: str, value: str, candidates: list[int]) -> list[int]:
    """Return the processes that were started with an environment variable of this value."""
    entry, pids = os.fsencode(f"{name}={value}"), []
    for pid in candidates:
        with contextlib.suppress(OSError):
            if entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                pids.append(pid)
    return pids


def outer_pid(inner: int, candidates: list[int]) -> int | None:
    """Return the process id in our namespace of a process with a given id in its own; None if no candidate matches.

    Both ids are of one process: ``inner`` in its own namespace.
    """
    for pid in candidates:
        with contextlib.suppress(OSError):
            if own_id(status_fields(f"/proc/{pid}/status"), "NSpid", "Pid") == inner:
                return pid
    return None


def status_fields(path: str) -> dict[str, str]:
    """Return the fields of a ``status`` file of a process or thread; gVisor leaves out many of them.

    Raises:
        OSError: The process has ended.
    """
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - read many times
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def own_id(fields: dict[str, str], by_namespace: str, plain: str) -> int:
    """Return an id in the process's own namespace; a kernel that does not list ids by namespace has only one."""
    return int(fields.get(by_namespace, fields[plain]).split()[-1])


def stat_fields(pid: int) -> list[str]:
    """Return the fields of a process's ``stat`` file from its state on: state, parent, ...; none if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name is in brackets and may itself hold brackets and spaces; the fields after the last bracket are plain.
    return text.rpartition(")")[2].split()


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since the boot; empty if it has ended."""
    return "".join(stat_fields(pid)[19:20])


def kill_all(pid: int, excluded: frozenset[int]) -> bool:
    """Kill all descendants of a process, including those that they start meanwhile; return whether none is left.

    Those that are excluded go on, with their descendants.
    """
    quiet_rounds = 0
    for _ in range(_KILL_ROUNDS):
        left = descendants(pid, excluded)
        # A single scan can miss a process whose parent ends during the scan; repeated scans do not.
        quiet_rounds = 0 if left else quiet_rounds + 1
        if quiet_rounds == _QUIET_ROUNDS:
            return True
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_S)
    return False


def wait_for(pid: int) -> int | None:
    """Return the exit code of a child that has ended.

    Returns:
        0 to 255, 128 + n if a signal ended it, or None if it is not our child or has not ended.
    """
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return shell_code(os.waitstatus_to_exitcode(status)) if done else None


def reap_children(excluded: frozenset[int]) -> None:
    """Wait for all children that have ended, except the excluded ones, so that no zombie stays."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in excluded and _stat(int(entry.name)) == (os.getpid(), "Z"):
            wait_for(int(entry.name))


def shell_code(code: int) -> int:
    """Return an exit code as a shell reports it: 128 + n for a negative signal number."""
    return 128 - code if code < 0 else code


def _stat(pid: int) -> tuple[int, str]:
    """Return parent and state letter of a process; 0 and an empty state if it does not exist."""
    state, parent, *_ = stat_fields(pid) or ("", "0")
    return int(parent), state
