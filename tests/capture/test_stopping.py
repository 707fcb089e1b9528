"""How a recording is ended while the program still lives. With a fake nsys, for any order of events."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import Run, driven, fake_nsys, living, marker, python, until

from nsyswrap.capture.foreground import ForegroundCall, Limits, run_in_foreground
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.process import output_of
from nsyswrap.capture.progress import silent
from nsyswrap.capture.run_dir import RunDir
from nsyswrap.capture.stopping import (
    CaptureInterruptedError,
    CaptureTerminatedError,
    Stopper,
    aborted_error,
    collected_signals,
)

__all__ = ["driven", "fake_nsys", "marker"]

Driven = Callable[..., Run]

# Says what the log of the fake nsys holds when a signal comes.
WITNESS = """
import os, signal, sys, time
from pathlib import Path
def tell(number, frame):
    log = Path(os.environ["FAKE_NSYS_LOG"])
    print("log:", log.read_text() if log.exists() else "empty", flush=True)
    sys.exit(5)
signal.signal(signal.SIGINT, tell)
signal.signal(signal.SIGTERM, tell)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the fake nsys notes that a recording was stopped."""
    path = tmp_path / "nsys-calls"
    monkeypatch.setenv("FAKE_NSYS_LOG", str(path))
    return path


def stopper(folder: Path, *command: str, collect_s: float = 5.0) -> Stopper:
    """A stopper that runs a command of the test."""
    folder.mkdir(exist_ok=True)
    return Stopper((lambda _pid: command) if command else None, RunDir(folder), {"PATH": "/usr/bin:/bin"}, collect_s)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("fake_nsys", "log")
def test_nsys_stops_recording_before_the_program_gets_its_signal(driven: Driven, number: signal.Signals) -> None:
    """What nsys has not yet taken from a program dies with it."""
    run = driven(*python(WITNESS))
    run.wait_for_output("ready")
    run.send(number)
    assert run.finish() == 5
    assert "log: stopped --session=nsyswrap-" in run.output


@pytest.mark.usefixtures("fake_nsys", "log")
def test_a_time_out_stops_recording_first_too(driven: Driven) -> None:
    """In the same order."""
    run = driven(*python(WITNESS), timeout_s=0.5)
    assert run.finish() == 5
    assert "log: stopped --session=nsyswrap-" in run.output


@pytest.mark.usefixtures("fake_nsys")
def test_a_recording_of_limited_length_is_stopped_once(driven: Driven, log: Path) -> None:
    """The program goes on, and is not signalled."""
    run = driven("sh", "-c", "sleep 1; exit 4", duration_s=0.2, delay_s=0.1)
    assert run.finish() == 4
    assert len(log.read_text().splitlines()) == 1
    assert run.result["notes"] == ["The program ended with exit code 4"]


@pytest.mark.usefixtures("fake_nsys")
def test_a_program_that_ends_by_itself_is_not_stopped(driven: Driven, log: Path) -> None:
    """Then nsys does by itself what there is to do."""
    assert driven("true", duration_s=60).finish() == 0
    assert not log.exists()


@pytest.mark.usefixtures("fake_nsys")
def test_a_recording_that_cannot_be_stopped_does_not_keep_the_program(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may have ended already, or not have begun."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "stop-fails")
    run = driven(*python(WITNESS.replace('os.environ["FAKE_NSYS_LOG"]', '"/no/such/log"')))
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    assert run.finish() == 5
    assert "log: empty" in run.output


def test_nsys_that_hangs_on_stopping_is_not_waited_for_for_ever(fake_nsys: Nsys, tmp_path: Path, marker: str) -> None:
    """After its time the program is ended all the same; in the end nothing is left."""
    work = RunDir(tmp_path / "w")
    work.folder.mkdir()
    argv = (str(fake_nsys.path), "profile", f"--output={tmp_path / 'capture'}", *work.inner(["sleep", "60"]))
    call = ForegroundCall(
        argv=argv,
        run_dir=work,
        env={"PATH": "/usr/bin:/bin"},
        stop=lambda _pid: ("sh", "-c", "sleep 1.5; true", marker),
        limits=Limits(timeout_s=0.2, collect_s=0.3),
    )
    began = time.monotonic()
    ended = run_in_foreground(call, silent)
    assert (ended.code, ended.timed_out) == (143, True)
    assert 1.0 < time.monotonic() - began < 10.0
    assert living(marker) == []


@pytest.mark.usefixtures("fake_nsys")
def test_a_second_signal_does_not_wait_for_nsys(driven: Driven, monkeypatch: pytest.MonkeyPatch, marker: str) -> None:
    """The user insists."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "stop-hangs")
    run = driven(*python(WITNESS, marker))
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    time.sleep(0.5)
    run.send(signal.SIGINT)
    assert run.finish() == 130
    until(lambda: not [pid for pid in living(marker) if pid != run.process.pid], "all processes gone")


def test_nothing_is_taken_before_it_is_asked_for(tmp_path: Path) -> None:
    """A stopper that was not started has nothing at work."""
    idle = stopper(tmp_path / "w", "true")
    assert (idle.has_collected_all(), idle.has_ended()) == (False, True)


def test_all_is_taken_when_nsys_says_so(tmp_path: Path) -> None:
    """It goes on to write the report meanwhile."""
    busy = stopper(tmp_path / "w", "sh", "-c", "echo Generating /tmp/x.qdstrm; sleep 1")
    busy.start(1)
    until(busy.has_collected_all, "the word of nsys")
    assert not busy.has_ended()
    until(busy.has_ended, "the end")


def test_a_command_that_ends_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    """Whatever its code."""
    failed = stopper(tmp_path / "w", "false")
    failed.start(1)
    until(failed.has_ended, "the end")
    assert failed.has_collected_all()


@pytest.mark.parametrize("command", [(), ("/no/such/nsys",)])
def test_without_a_command_the_program_may_be_ended_at_once(tmp_path: Path, command: tuple[str, ...]) -> None:
    """None that is known, or none that can be started."""
    none = stopper(tmp_path / "w", *command)
    none.start(1)
    assert (none.has_collected_all(), none.has_ended()) == (True, True)


def test_a_namespace_is_held_until_the_recording_is_stopped(tmp_path: Path) -> None:
    """All of it dies with its first process, also the command that still writes the report."""
    slow = stopper(tmp_path / "w", "sleep", "0.6")
    slow.start(1)
    began = time.monotonic()
    watcher = threading.Thread(target=lambda: until(slow.has_ended, "the end"))
    watcher.start()
    output = output_of(slow.run_dir.namespace_init(["sh", "-c", "exit 7"]), timeout_s=10)
    watcher.join()
    assert output.code == 7
    assert time.monotonic() - began > 0.5


def test_a_namespace_without_a_stop_ends_with_nsys(tmp_path: Path) -> None:
    """There is nothing to wait for."""
    assert output_of(RunDir(tmp_path).namespace_init(["sh", "-c", "exit 143"]), timeout_s=5).code == 143


def test_patience_ends(tmp_path: Path) -> None:
    """A silent nsys does not keep a program alive."""
    slow = stopper(tmp_path / "w", "sleep", "2", collect_s=0.1)
    slow.start(1)
    assert not slow.has_collected_all()
    time.sleep(0.2)
    assert slow.has_collected_all()
    until(slow.has_ended, "the end")


def test_a_recording_is_stopped_once(tmp_path: Path) -> None:
    """A second call starts nothing."""
    once = stopper(tmp_path / "w", "sh", "-c", f"echo x >>{tmp_path / 'count'}")
    once.start(1)
    once.start(1)
    until(once.has_ended, "the end")
    assert (tmp_path / "count").read_text() == "x\n"


def test_the_command_is_told_the_program(tmp_path: Path) -> None:
    """A program in a namespace of its own is found by its id."""
    seen: list[int] = []

    def command(pid: int) -> tuple[str, ...]:
        seen.append(pid)
        return ("true",)

    (tmp_path / "w").mkdir()
    told = Stopper(command, RunDir(tmp_path / "w"), {"PATH": "/usr/bin:/bin"}, 1.0)
    told.start(4711)
    until(told.has_ended, "the end")
    assert seen == [4711]


def test_signals_are_kept_in_order() -> None:
    """And do not end us."""
    with collected_signals() as received:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert received == [signal.SIGTERM, signal.SIGINT]


def test_another_thread_keeps_no_signals() -> None:
    """Python lets only the main thread have handlers; a capture in another goes without."""
    outcome: list[list[signal.Signals]] = []

    def run() -> None:
        with collected_signals() as received:
            outcome.append(received)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcome == [[]]


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (signal.SIGINT, CaptureInterruptedError, 130),
        (signal.SIGTERM, CaptureTerminatedError, 143),
        (signal.SIGHUP, CaptureTerminatedError, 143),
    ],
)
def test_an_abandoned_run_has_the_code_of_its_signal(number: signal.Signals, kind: type[Exception], code: int) -> None:
    """As a shell would give it."""
    error = aborted_error(number)
    assert isinstance(error, kind)
    assert error.exit_code == code
