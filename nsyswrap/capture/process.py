"""Run a tool to its end: collect its output, limit its time, leave no process running.

All processes of nsyswrap are started here or in :mod:`nsyswrap.capture.foreground`.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.process_tree import descendants
from nsyswrap.capture.signals import held_back_signals

_POLL_S = 0.1
# How long the pipes of a tool that has ended are read: what it wrote is in them already.
_LEFT_OPEN_S = 1.0
_KILLED_S = 5.0
_STDERR = 2


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a finished process.

    Args:
        code: Exit code; negative is the number of the signal that ended it.
        stdout: Its standard output, undecodable bytes replaced.
        stderr: Its standard error, undecodable bytes replaced.
    """

    code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Return both streams, for error messages."""
        return f"{self.stdout}{self.stderr}"


def output_of(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
) -> Output:
    """Run a tool without a terminal, in its own session, and return its exit code and output.

    After ``timeout_s`` the tool and its children are killed. ``on_stderr`` gets each piece of standard error as it
    arrives.

    Raises:
        TimeoutError: It ran longer than ``timeout_s``.
        OSError: It cannot be started.
    """
    deadline = time.monotonic() + timeout_s
    process = None
    try:
        with held_back_signals():
            process = _started(argv, env, cwd)
        output = _drain(process, deadline, on_stderr)
        code = process.wait(max(deadline - time.monotonic(), 0.0))
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise TimeoutError(f"{os.fspath(argv[0])} ran longer than {timeout_s:g} s") from error
    finally:
        if process is not None:
            _end(process)
    return Output(code, *(pipe.decode(errors="replace") for pipe in output))


def run_on_stderr(argv: Sequence[str]) -> int:
    """Run a command to its end, with all of its output on stderr; return its exit code, 128 + n for a signal."""
    code = subprocess.run(argv, stdout=_STDERR, check=False).returncode  # noqa: S603 - argv is a list; no shell reads it
    return code if code >= 0 else 128 - code


def _started(argv: Sequence[str | Path], env: Mapping[str, str] | None, cwd: Path | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - argv is a list built by this package; no shell reads it
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


def _drain(
    process: subprocess.Popen[bytes], deadline: float, on_stderr: Callable[[bytes], None] | None
) -> tuple[bytes, bytes]:
    """Read both pipes at once until both are closed; reading one after the other could block.

    A process that the tool has left may keep them open for ever, so after the tool's end they are read a little longer.
    """
    ended_at: float | None = None
    collected: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    with selectors.DefaultSelector() as selector:
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, name)
        while selector.get_map():
            now = time.monotonic()
            if ended_at is None and process.poll() is not None:
                ended_at = now
            if ended_at is not None and now > ended_at + _LEFT_OPEN_S:
                _signal_session(process.pid)
                break
            if ended_at is None and now >= deadline:
                raise TimeoutError
            for key, _ in selector.select(_POLL_S):
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                    continue
                collected[key.data].append(piece)
                if key.data == "stderr" and on_stderr is not None:
                    on_stderr(piece)
    return b"".join(collected["stdout"]), b"".join(collected["stderr"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool that still runs and its descendants, also those in other sessions, and close its pipes."""
    if process.poll() is None:
        below = descendants(process.pid)  # after its end they have another parent
        _signal_session(process.pid)
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that waits for a disk cannot be killed
            process.wait(_KILLED_S)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _signal_session(leader: int) -> None:
    """Kill the processes of a tool's own session; no other session has its number as long as one of them runs."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
