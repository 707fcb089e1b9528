"""Stopping a recording before the program ends, with a fake nsys for any order of events."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from capture_fixtures import Run, driven, fake_nsys, living, marker, python, until

from nsyswrap.capture.foreground import ForegroundCall, TimeLimits, run_in_foreground
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.process import output_of
from nsyswrap.capture.progress import silent
from nsyswrap.capture.run_dir import RunDir
from nsyswrap.capture.stopping import Stopper

__all__ = ["driven", "fake_nsys", "marker"]

Driven = Callable[..., Run]

# Prints the log of the fake nsys when a signal arrives.
WITNESS = """
import os, signal, sys, time
from pathlib import Path
def print_log(number, frame):
    log = Path(os.environ["FAKE_NSYS_LOG"])
    print("log:", log.read_text() if log.exists() else "empty", flush=True)
    sys.exit(5)
signal.signal(signal.SIGINT, print_log)
signal.signal(signal.SIGTERM, print_log)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file where the fake nsys logs that a recording was stopped."""
    path = tmp_path / "nsys-calls"
    monkeypatch.setenv("FAKE_NSYS_LOG", str(path))
    return path


def stopper(folder: Path, *command: str, collect_s: float = 5.0) -> Stopper:
    """Return a stopper that runs a command of the test."""
    folder.mkdir(exist_ok=True)
    return Stopper((lambda _pid: command) if command else None, RunDir(folder), {"PATH": "/usr/bin:/bin"}, collect_s)


def waiting(file: Path, *, first: str = ":", last: str = ":") -> tuple[str, ...]:
    """Return a command that ends when a file exists; it runs two commands of the shell before and after it waits."""
    return ("sh", "-c", f'{first}; while [ ! -e "$0" ]; do sleep 0.02; done; {last}', str(file))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("fake_nsys", "log")
def test_nsys_stops_recording_before_the_program_gets_its_signal(driven: Driven, number: signal.Signals) -> None:
    """Data that nsys has not yet collected is lost with the program."""
    run = driven(*python(WITNESS))
    run.wait_for_output("ready")
    run.send(number)
    assert run.finish() == 5
    assert "log: stopped --session=nsyswrap-" in run.output


# Gets SIGTERM once, whatever its launcher does, and ends at SIGUSR1.
REPEATED = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("got", flush=True))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(8))
print("ready", flush=True)
while True:
    time.sleep(0.02)
"""

# Says which signal of a scheduler it got, and goes on until SIGTERM.
HANDLER = """
import signal, sys, time
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, _frame: print("got", number, flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(6))
print("ready", flush=True)
while True:
    time.sleep(0.02)
"""
FOR_THE_PROGRAM = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT, signal.SIGXCPU]


@pytest.mark.usefixtures("fake_nsys")
def test_signals_for_the_program_reach_it_and_the_recording_goes_on(driven: Driven, log: Path) -> None:
    """SLURM sends SIGUSR1 so that a program saves its state before the time limit."""
    run = driven(*python(HANDLER, *(number.name for number in FOR_THE_PROGRAM)))
    run.wait_for_output("ready")
    for number in FOR_THE_PROGRAM:
        run.send(number)
        run.wait_for_output(f"got {int(number)}\n")
    assert not log.exists()
    run.send(signal.SIGTERM)
    assert run.finish() == 6


@pytest.mark.parametrize("number", FOR_THE_PROGRAM)
@pytest.mark.usefixtures("fake_nsys")
def test_a_signal_that_would_kill_the_program_stops_the_recording_first(
    driven: Driven, log: Path, number: signal.Signals
) -> None:
    """Neither nsys nor the program is left behind, and the exit code is that of the signal."""
    run = driven(*python(HANDLER))
    run.wait_for_output("ready")
    run.send(number)
    assert run.finish() == 128 + number
    assert log.read_text().startswith("stopped --session=nsyswrap-")
    note = f"The program was stopped by {number.name}; the capture holds what was recorded until then"
    assert run.result["notes"] == [note]


@pytest.mark.parametrize("launcher", ["TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK"])
@pytest.mark.usefixtures("fake_nsys", "log")
def test_a_signal_that_a_launcher_repeats_does_not_lose_the_capture(
    driven: Driven, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """Torchrun forwards the SIGTERM that SLURM has sent to each process of the job."""
    monkeypatch.setenv(launcher, "0")
    run = driven(*python(REPEATED))
    run.wait_for_output("ready")
    for _ in range(2):
        run.send(signal.SIGTERM)
        run.wait_for_output("got")
    run.send(signal.SIGUSR1)
    assert run.finish() == 8
    assert (run.result_path.parent / "result" / "capture.nsys-rep").exists()


@pytest.mark.usefixtures("fake_nsys")
def test_a_recording_of_limited_length_is_stopped_once(driven: Driven, log: Path) -> None:
    """The program continues, and gets no signal."""
    run = driven("sh", "-c", "sleep 1; exit 4", duration_s=0.2, delay_s=0.1)
    assert run.finish() == 4
    assert len(log.read_text().splitlines()) == 1
    assert run.result["notes"] == ["The program ended with exit code 4"]


@pytest.mark.usefixtures("fake_nsys")
def test_if_the_recording_cannot_be_stopped_the_program_still_ends(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session may have ended already, or not have started."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "stop-fails")
    run = driven(*python(WITNESS.replace('os.environ["FAKE_NSYS_LOG"]', '"/no/such/log"')))
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    assert run.finish() == 5
    assert "log: empty" in run.output


def test_waiting_for_a_hanging_stop_command_is_limited(fake_nsys: Nsys, tmp_path: Path, marker: str) -> None:
    """After the limit the program is ended, and no process is left."""
    work = RunDir(tmp_path / "w")
    work.folder.mkdir()
    argv = (str(fake_nsys.path), "profile", f"--output={tmp_path / 'capture'}", *work.inner(["sleep", "60"]))
    call = ForegroundCall(
        argv=argv,
        run_dir=work,
        env={"PATH": "/usr/bin:/bin"},
        stop=lambda _pid: ("sh", "-c", "sleep 1.5; true", marker),
        limits=TimeLimits(timeout_s=0.2, collect_s=0.3),
    )
    began = time.monotonic()
    ended = run_in_foreground(call, silent)
    assert (ended.code, ended.timed_out) == (143, True)
    assert 1.0 < time.monotonic() - began < 50.0
    assert living(marker) == []


@pytest.mark.usefixtures("fake_nsys")
def test_a_second_signal_does_not_wait_for_nsys(driven: Driven, monkeypatch: pytest.MonkeyPatch, marker: str) -> None:
    """All processes are killed at once."""
    monkeypatch.setenv("FAKE_NSYS_FAILURE", "stop-hangs")
    run = driven(*python(WITNESS, marker))
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    time.sleep(0.5)
    run.send(signal.SIGINT)
    assert run.finish() == 130
    until(lambda: not [pid for pid in living(marker) if pid != run.process.pid], "all processes gone")


def test_the_output_of_nsys_shows_that_all_is_collected(tmp_path: Path) -> None:
    """Nsys still writes the report then."""
    busy = stopper(tmp_path / "w", *waiting(tmp_path / "go", first="echo Generating /tmp/x.qdstrm"), collect_s=120)
    busy.start(1)
    until(busy.has_collected_all, "the word of nsys")
    assert not busy.has_ended()
    (tmp_path / "go").touch()
    until(busy.has_ended, "the end")


@pytest.mark.parametrize("command", [(), ("/no/such/nsys",)])
def test_without_a_command_the_program_may_be_ended_at_once(tmp_path: Path, command: tuple[str, ...]) -> None:
    """There may be no command, or one that cannot be started."""
    none = stopper(tmp_path / "w", *command)
    none.start(1)
    assert (none.has_collected_all(), none.has_ended()) == (True, True)


def test_a_namespace_exists_until_the_recording_is_stopped(tmp_path: Path) -> None:
    """All its processes die with the first one, including the command that writes the report."""
    exited, stopped = tmp_path / "exited", tmp_path / "stopped"
    slow = stopper(tmp_path / "w", *waiting(exited, last=f"sleep 0.2; touch '{stopped}'"))
    slow.start(1)
    watcher = threading.Thread(target=lambda: until(slow.has_ended, "the end"))
    watcher.start()
    output = output_of(slow.run_dir.namespace_init(["sh", "-c", f"touch '{exited}'; exit 7"]), timeout_s=120)
    assert (output.code, stopped.exists()) == (7, True)
    watcher.join()


def test_a_namespace_without_a_stop_ends_with_nsys(tmp_path: Path) -> None:
    """Nothing stops the recording, so it does not wait."""
    assert output_of(RunDir(tmp_path).namespace_init(["sh", "-c", "exit 143"]), timeout_s=120).code == 143


def test_waiting_for_the_data_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nsys without output does not keep a program running."""
    slow = stopper(tmp_path / "w", *waiting(tmp_path / "go"), collect_s=600)
    slow.start(1)
    assert not slow.has_collected_all()
    later = time.monotonic() + 601
    monkeypatch.setattr("nsyswrap.capture.stopping.time", SimpleNamespace(monotonic=lambda: later))
    assert slow.has_collected_all()
    (tmp_path / "go").touch()
    until(slow.has_ended, "the end")


def test_a_recording_is_stopped_once(tmp_path: Path) -> None:
    """A second call has no effect."""
    once = stopper(tmp_path / "w", "sh", "-c", f"echo x >>{tmp_path / 'count'}")
    once.start(1)
    once.start(1)
    until(once.has_ended, "the end")
    assert (tmp_path / "count").read_text() == "x\n"
