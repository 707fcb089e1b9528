"""Fixtures and small tools for the tests of `nsyswrap.capture`: a fake nsys on PATH, the real one, and runs of both."""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.options import CaptureOptions

SUPPORT = Path(__file__).parent
DRIVER = SUPPORT / "capture_driver.py"
FAKE = SUPPORT / "fake_nsys.py"

_WAIT_S = 30


def executable(path: Path, text: str) -> Path:
    """Write a script and make it executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_tree(folder: Path, version: str = "") -> Path:
    """Lay out a fake nsys as NVIDIA does, importer beside it, and return the nsys."""
    set_version = f"FAKE_NSYS_VERSION={version} " if version else ""
    text = f'#!/bin/sh\n{set_version}exec "{sys.executable}" "{FAKE}" "$@"\n'
    executable(folder / "host-linux-x64" / "QdstrmImporter", "#!/bin/sh\necho 2023.4.4\n")
    return executable(folder / "target-linux-x64" / "nsys", text)


@pytest.fixture
def fake_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nsys:
    """A fake nsys, first on PATH; no variable of the session decides anything."""
    for name in ("NSYSWRAP_NSYS", "FAKE_NSYS_FAILURE", "FAKE_NSYS_VERSION", "FAKE_NSYS_RANGE"):
        monkeypatch.delenv(name, raising=False)
    path = fake_tree(tmp_path / "fake")
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return Nsys(path, (2023, 4, 4, 54), "PATH")


@pytest.fixture
def private_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty temporary folder, so that a test can see what is left in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def options(folder: Path, *command: str, **fields: Any) -> CaptureOptions:  # noqa: ANN401 - any field of the options
    """Options for a command, with what a test changes."""
    return CaptureOptions(command=command, folder=folder, **fields)


def python(program: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs a few lines of Python."""
    return (sys.executable, "-c", program, *arguments)


def report_of(folder: Path) -> dict[str, Any]:
    """What a fake report says: the arguments and variables that it was made with."""
    answer: dict[str, Any] = json.loads((folder / "capture.nsys-rep").read_text(encoding="utf-8"))
    return answer


def living(marker: str) -> list[int]:
    """Processes, other than this one, that have a word with the marker on their command line and have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            ended = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "Z"
            if not ended and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until something holds; fail by name where it never does."""
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.02)


@dataclass(slots=True)
class Run:
    """A capture in a process of its own, started by `driven`.

    Attributes:
        process: The driver, which stands for the command line.
        answer_path: The file with its result.
        output_path: The file with what the program printed.
    """

    process: subprocess.Popen[bytes]
    answer_path: Path
    output_path: Path

    @property
    def output(self) -> str:
        """What the program printed so far."""
        return self.output_path.read_text(encoding="utf-8")

    def wait_for_output(self, text: str) -> None:
        """Wait until the program has printed something; fail where the run ends without it."""
        until(lambda: text in self.output or self.process.poll() is not None, text)
        assert text in self.output, self.answer

    def send(self, number: signal.Signals) -> None:
        """Send the driver a signal, as a terminal or a scheduler would."""
        self.process.send_signal(number)

    def finish(self) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(_WAIT_S)

    @property
    def answer(self) -> dict[str, Any]:
        """The driver's result."""
        result: dict[str, Any] = json.loads(self.answer_path.read_text(encoding="utf-8"))
        return result


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start captures in processes of their own; what still runs at the end is killed."""
    runs: list[Run] = []

    def start(*command: str, folder: Path | None = None, **fields: object) -> Run:
        place = tmp_path / f"run-{len(runs)}"
        place.mkdir()
        request = {"command": command, "folder": str(folder or place / "result"), **fields}
        output = place / "output"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, DRIVER, place / "answer", json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        runs.append(Run(process, place / "answer", output))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


@pytest.fixture
def marker() -> Iterator[str]:
    """A word for the command line of processes that a test starts; those that still run at the end are killed."""
    word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    yield word
    for pid in living(word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def tool_path(folder: Path, *names: str) -> str:
    """A PATH that holds the named tools of this machine, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        real = shutil.which(name)
        assert real is not None, name
        (folder / name).symlink_to(real)
    return str(folder)
