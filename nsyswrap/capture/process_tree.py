"""The processes below ours, read from ``/proc``: whom to signal, and who is still there.

nsys starts its agent and the program in sessions of their own, so no process group holds them all. While a capture
runs we are the reaper of orphans below us (``PR_SET_CHILD_SUBREAPER``): whatever loses its parent becomes our child
instead of init's, and can be found, waited for and ended.
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
    """Be the parent of all processes below ours that lose theirs; as before again at the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def children_by_parent() -> dict[int, list[int]]:
    """Read which processes each process started or adopted; ended ones that nobody waited for are left out."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            parent, state = _stat(int(entry.name))
            if state not in {"", "Z", "X"}:
                children.setdefault(parent, []).append(int(entry.name))
    return children


def descendants(pid: int, excluded: frozenset[int] = frozenset()) -> list[int]:
    """List the living processes below one.

    Args:
        pid: Whose.
        excluded: Processes to leave out, and all below them.

    Returns:
        Process ids, parents before their children.
    """
    children = children_by_parent()
    found: list[int] = []
    waiting = [child for child in children.get(pid, []) if child not in excluded]
    while waiting:
        process = waiting.pop(0)
        found.append(process)
        waiting += [child for child in children.get(process, []) if child not in excluded]
    return found


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that ended and was not waited for does not."""
    return _stat(pid)[1] not in {"", "Z", "X"}


def outer_pid(inner: int, candidates: list[int]) -> int | None:
    """Find a process by the id that it has in its own, perhaps inner, process namespace.

    Args:
        inner: The id as the process itself sees it.
        candidates: Where to look.

    Returns:
        Its id as we see it, or None where none of the candidates has that id.
    """
    for pid in candidates:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith("NSpid:") and int(line.split()[-1]) == inner:
                    return pid
    return None


def kill_all(pid: int, excluded: frozenset[int]) -> bool:
    """Kill every process below one, and those they start meanwhile.

    Args:
        pid: Whose descendants.
        excluded: Processes to leave alone, and all below them.

    Returns:
        Whether none is left.
    """
    quiet_rounds = 0
    for _ in range(_KILL_ROUNDS):
        left = descendants(pid, excluded)
        # One look can miss a process whose parent ends while we read; two in a row do not.
        quiet_rounds = 0 if left else quiet_rounds + 1
        if quiet_rounds == _QUIET_ROUNDS:
            return True
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_S)
    return False


def wait_for(pid: int) -> int | None:
    """Take the exit code of a child of ours that ended.

    Returns:
        0 to 255, 128 + n where a signal ended it, or None where it is not our child or has not ended.
    """
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return shell_code(os.waitstatus_to_exitcode(status)) if done else None


def reap_children(excluded: frozenset[int]) -> None:
    """Take the exit codes of ended children of ours, so that none stays as a zombie; the spared are left alone."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in excluded and _stat(int(entry.name)) == (os.getpid(), "Z"):
            wait_for(int(entry.name))


def shell_code(code: int) -> int:
    """Turn a negative signal number into the code that a shell gives: 128 + n."""
    return 128 - code if code < 0 else code


def _stat(pid: int) -> tuple[int, str]:
    """Parent and state letter of a process; 0 and an empty state where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, ""
    # The name stands in brackets and may hold anything, brackets and spaces too; what follows the last one is plain.
    state, parent, *_ = text.rpartition(")")[2].split()
    return int(parent), state
