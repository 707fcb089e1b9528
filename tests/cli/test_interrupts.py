"""Ending signals while a capture is read: the command ends at once, whatever its threads do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys, living, results_in, until

from nsyswrap.cli.interrupts import leaving_at_once

__all__ = ["fake_nsys"]

# A thread that an exception in the main thread would wait for.
BUSY = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from nsyswrap.cli.interrupts import leaving_at_once
with leaving_at_once("stopped", "go on", clean_up=lambda: Path(sys.argv[1], "cleaned").touch()):
    with leaving_at_once("never said"), ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 600)
        Path(sys.argv[1], "busy").touch()
        pool.submit(time.sleep, 600).result()
"""

# The command line, with an analysis that does not end.
HANGING = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import nsyswrap.cli.profile
from nsyswrap.cli import cli
def hang(*_):
    with ThreadPoolExecutor(1) as pool:
        Path(sys.argv[1]).touch()
        return pool.submit(time.sleep, 600).result()
module = sys.modules["nsyswrap.cli.profile"]
module.analyzed = hang
cli(sys.argv[2:])
"""

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_does_not_wait_for_threads(tmp_path: Path, number: signal.Signals) -> None:
    """The outer message is printed, and its folder cleaned up."""
    with subprocess.Popen([sys.executable, "-c", BUSY, tmp_path], stderr=subprocess.PIPE, text=True) as process:
        until((tmp_path / "busy").exists, "the thread")
        process.send_signal(number)
        _, shown = process.communicate(timeout=60)
    assert (process.returncode, shown) == (128 + number, "\nnsyswrap: stopped\nhint: go on\n")
    assert (tmp_path / "cleaned").exists()


def test_the_handlers_are_those_of_before() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with leaving_at_once("stopped"):
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in ENDING] == before


@pytest.mark.usefixtures("fake_nsys")
def test_an_analysis_ends_at_once_and_can_be_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    argv = [
        sys.executable,
        "-c",
        HANGING.replace("import cli, profile", "import cli, profile as _"),
        str(tmp_path / "busy"),
    ]
    words = ["profile", "-q", "--no-profiler-cost", "-o", str(out), "--", "true"]
    with subprocess.Popen([*argv, *words], stderr=subprocess.PIPE, text=True) as process:
        until((tmp_path / "busy").exists, "the analysis")
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"hint: The capture is kept: run 'nsyswrap resume {out}' to make the report\n" in shown
    assert results_in(out) == ["capture.nsys-rep", "capture.sqlite", "run.json"]


@pytest.mark.usefixtures("fake_nsys")
def test_a_signal_during_the_export_keeps_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler sends SIGTERM at the time limit. The next run says what to do."""
    out, log = tmp_path / "out", tmp_path / "log"
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "export-hangs")
    monkeypatch.setenv("FAKE_NSYS_LOG", str(log))
    argv = [sys.executable, "-m", "nsyswrap", "profile", "-q", "--no-profiler-cost", "-o", str(out), "--", "true"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        until(log.exists, "the export")
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 143
    assert shown == (
        "nsyswrap: stopped before the capture was exported\n"
        f"hint: The capture is kept: run 'nsyswrap resume {out}' to finish\n"
    )
    assert results_in(out) == ["capture.nsys-rep", "run.json"]
    until(lambda: not living(str(out)), "the end of the export, which was killed")
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert f"nsyswrap: {out} holds an interrupted run\nhint: Finish it with 'nsyswrap resume {out}'" in again.stderr


def test_a_blocked_terminal_does_not_keep_the_process(tmp_path: Path) -> None:
    """Its messages have no reader any more."""
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", BUSY, tmp_path], stderr=writer) as process:
        os.close(reader)
        os.close(writer)
        until((tmp_path / "busy").exists, "the thread")
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert time.monotonic() - began < 60
