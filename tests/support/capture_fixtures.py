"""Fixtures and small functions for tests of `nsyswrap.capture`: a fake nsys on PATH, and captures in processes."""

import contextlib
import json
import os
import shlex
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
from fake_nsys import EXPORT_HELP, PROFILE_HELP

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.inherited import namespace_prefix
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.result_folder import HOST_NAME

SUPPORT = Path(__file__).parent
DRIVER = SUPPORT / "capture_driver.py"
FAKE = SUPPORT / "fake_nsys.py"

# Long, because other processes may keep the machine busy; a test that holds ends as soon as it can.
_WAIT_S = 120


def executable(path: Path, text: str) -> Path:
    """Write an executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_tree(folder: Path, version: str = "") -> Path:
    """Create a fake nsys with an importer, in NVIDIA's folder layout, and return its path.

    The shell answers what every capture asks for, version and help, in a tenth of the time of Python.
    """
    text = f"""#!/bin/bash -p
{f"export FAKE_NSYS_VERSION={version}" if version else ""}
case "$*" in
  --version) echo "NVIDIA Nsight Systems version ${{FAKE_NSYS_VERSION:-2023.4.4.54}}-234433681190v0" ;;
  "profile --help") echo {shlex.quote(PROFILE_HELP)} ;;
  "export --help") echo {shlex.quote(EXPORT_HELP)} ;;
  *) exec "{sys.executable}" "{FAKE}" "$@" ;;
esac
"""
    executable(folder / "host-linux-x64" / "QdstrmImporter", "#!/bin/sh\necho 2023.4.4\n")
    return executable(folder / "target-linux-x64" / "nsys", text)


@pytest.fixture
def fake_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nsys:
    """Return a fake nsys that is first on PATH, without variables of this session."""
    for name in ("NSYSWRAP_NSYS", "FAKE_NSYS_FAILURE", "FAKE_NSYS_VERSION", "FAKE_NSYS_RANGE"):
        monkeypatch.delenv(name, raising=False)
    path = fake_tree(tmp_path / "fake")
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return Nsys(path, (2023, 4, 4, 54), "PATH")


@pytest.fixture
def private_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty temporary folder, so that a test can see what is left in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def options(folder: Path, *command: str, **fields: Any) -> CaptureOptions:  # noqa: ANN401 - any field
    """Return the options for a command, with the fields that a test changes."""
    return CaptureOptions(command=command, folder=folder, **fields)


def python(program: str, *arguments: str) -> tuple[str, ...]:
    """Return a command that runs a few lines of Python."""
    return (sys.executable, "-c", program, *arguments)


def results_in(folder: Path) -> list[str]:
    """Return the names of a result's files without the samples of the host.

    The program is looked for every 50 ms; one that is over by then leaves no samples.
    """
    return sorted(path.name for path in folder.iterdir() if path.name != HOST_NAME)


def report_of(folder: Path) -> dict[str, Any]:
    """Return the content of a fake report: the arguments and variables of its nsys."""
    content: dict[str, Any] = json.loads((folder / "capture.nsys-rep").read_text(encoding="utf-8"))
    return content


def living(marker: str) -> list[int]:
    """Return the running processes, other than this one, with the marker on their command line."""
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
    """Wait until a condition holds; fail with its description if it does not.

    A condition on all processes of the machine takes some time itself, so it is looked at less often.
    """
    began = time.monotonic()
    deadline = began + _WAIT_S
    while not condition():
        ended = time.monotonic()
        assert ended < deadline, f"timed out: {what}"
        time.sleep(max(0.02, 4 * (ended - began)))
        began = time.monotonic()


@dataclass(slots=True)
class Run:
    """A capture in its own process, started by `driven`.

    Attributes:
        process: The driver, in place of the command line.
        output_path: The file with the program's output.
    """

    process: subprocess.Popen[bytes]
    result_path: Path
    output_path: Path

    @property
    def output(self) -> str:
        """Return what the program has printed so far."""
        return self.output_path.read_text(encoding="utf-8")

    def wait_for_output(self, text: str) -> None:
        """Wait until the program has printed a text; fail if the run ends without it."""
        until(lambda: text in self.output or self.process.poll() is not None, text)
        assert text in self.output, self.result

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the driver, as a terminal or a scheduler would."""
        self.process.send_signal(number)

    def finish(self) -> int:
        """Wait until the driver ends, and return its exit code."""
        return self.process.wait(_WAIT_S)

    @property
    def result(self) -> dict[str, Any]:
        """Return the driver's result."""
        content: dict[str, Any] = json.loads(self.result_path.read_text(encoding="utf-8"))
        return content


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Return a function that starts captures in their own processes; they are killed at the end of the test."""
    runs: list[Run] = []

    def start(*command: str, folder: Path | None = None, **fields: object) -> Run:
        place = tmp_path / f"run-{len(runs)}"
        place.mkdir()
        request = {"command": command, "folder": str(folder or place / "result"), **fields}
        output = place / "output"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, DRIVER, place / "driver-result", json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        runs.append(Run(process, place / "driver-result", output))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


@pytest.fixture
def marker() -> Iterator[str]:
    """Return a word for the command lines of processes that a test starts; they are killed at the end of the test."""
    word = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    yield word
    for pid in living(word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def namespaces_or_skip() -> None:
    """Skip the test if the kernel or a container forbids process namespaces."""
    try:
        namespace_prefix()
    except CaptureError as error:
        pytest.skip(error.message)
