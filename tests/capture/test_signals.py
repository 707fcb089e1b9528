"""Which signals end a run, which the program gets as they are, and which count as a demand to end at once."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from capture_fixtures import until

from nsyswrap.capture.inherited import blocked_signals
from nsyswrap.capture.signals import (
    CaptureHungUpError,
    CaptureInterruptedError,
    CaptureTerminatedError,
    Received,
    StopRequest,
    aborted_error,
    collected_signals,
    is_sent_to_all,
    number_of,
    signals_as_errors,
    stopped_error,
    survives,
)


def test_ending_signals_are_collected_in_order_and_those_for_the_program_apart() -> None:
    """None ends this process."""
    with collected_signals() as received:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGXCPU):
            signal.raise_signal(number)
    assert received.ending == [signal.SIGTERM, signal.SIGINT]
    assert received.passed == [signal.SIGUSR1, signal.SIGXCPU]


def test_another_thread_collects_no_signals() -> None:
    """Python allows signal handlers only in the main thread."""
    outcome: list[Received] = []

    def run() -> None:
        with collected_signals() as received:
            outcome.append(received)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcome == [Received()]


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (signal.SIGINT, CaptureInterruptedError, 130),
        (signal.SIGTERM, CaptureTerminatedError, 143),
        (signal.SIGHUP, CaptureHungUpError, 129),
    ],
)
def test_an_aborted_run_has_the_exit_code_of_its_signal(
    number: signal.Signals, kind: type[Exception], code: int
) -> None:
    """A shell gives the same exit code."""
    error = aborted_error(number)
    assert isinstance(error, kind)
    assert error.exit_code == code


@pytest.mark.parametrize("block", [collected_signals, signals_as_errors])
def test_an_ignored_signal_stays_ignored(block: Callable[[], AbstractContextManager[object]]) -> None:
    """As under nohup: the run goes on when the terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with block():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def by_default() -> Iterator[None]:
    """Let SIGTERM end this process, as without the measurement of coverage, which has a handler for it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("by_default")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_without_a_program_an_ending_signal_is_an_error(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, signals_as_errors():
        signal.raise_signal(number)
    assert number_of(caught.value) is number


@pytest.mark.usefixtures("by_default")
def test_the_collection_of_signals_comes_before_the_error() -> None:
    """While a program runs, a signal is for it."""
    with signals_as_errors():
        with collected_signals() as received:
            signal.raise_signal(signal.SIGTERM)
        assert received.ending == [signal.SIGTERM]
        with pytest.raises(StopRequest):
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("first", "second", "launched", "demanded"),
    [
        (signal.SIGINT, signal.SIGINT, False, True),
        (signal.SIGTERM, signal.SIGTERM, False, True),
        (signal.SIGHUP, signal.SIGHUP, False, False),
        (signal.SIGUSR1, signal.SIGUSR1, False, False),
        (signal.SIGTERM, signal.SIGTERM, True, False),
        (signal.SIGINT, signal.SIGINT, True, False),
    ],
)
def test_launchers_and_terminals_may_repeat_a_signal(
    first: signal.Signals, second: signal.Signals, *, launched: bool, demanded: bool
) -> None:
    """Torchrun forwards a Ctrl-C that the terminal has sent to its ranks already; the capture must not be lost."""
    received = Received(ending=[first, second])
    assert received.demands_abort(1, launched=launched) is demanded
    assert not received.demands_abort(2, launched=launched)


HANDLERS = {
    "signal.signal(signal.SIGUSR1, lambda *_: None)": True,
    "signal.signal(signal.SIGUSR1, signal.SIG_IGN)": True,
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])": True,
    "pass": False,
}


@pytest.mark.parametrize("line", HANDLERS)
def test_a_process_survives_what_it_handles(tmp_path: Path, line: str) -> None:
    code = f"import signal, sys, time\n{line}\nopen(sys.argv[1], 'w').close()\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "ready"]) as process:
        until((tmp_path / "ready").exists, "the handler")
        assert survives(process.pid, signal.SIGUSR1) is HANDLERS[line]
        process.kill()
    assert not survives(process.pid, signal.SIGUSR1)


def test_an_interrupt_of_python_is_ctrl_c() -> None:
    assert number_of(KeyboardInterrupt()) is None
    assert stopped_error(None, "stopped", "").exit_code == 130
    assert stopped_error(signal.SIGTERM, "stopped", "").exit_code == 143


def test_a_process_whose_handlers_are_not_shown_may_not_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    """GVisor does not list them."""
    monkeypatch.setattr("nsyswrap.capture.signals.status_fields", lambda _path: {"Pid": "1"})
    assert not survives(os.getpid(), signal.SIGUSR1)


def test_a_signal_for_the_program_waits_for_the_next_look() -> None:
    """Two signals arrive before the first look, one between the first and the second."""
    received = Received(passed=[signal.SIGUSR1, signal.SIGUSR2])
    assert received.due() == []
    received.collect(signal.SIGXCPU, None)
    assert received.due() == [signal.SIGUSR1, signal.SIGUSR2]
    assert (received.due(), received.due(), received.passed) == ([signal.SIGXCPU], [], [])


def test_a_signal_that_waits_for_nsys_was_sent_to_all() -> None:
    with blocked_signals():
        nsys = subprocess.Popen(["sleep", "60"])
    with nsys:
        try:
            assert not is_sent_to_all(signal.SIGUSR1, nsys.pid)
            nsys.send_signal(signal.SIGUSR1)
            assert is_sent_to_all(signal.SIGUSR1, nsys.pid)
            assert not is_sent_to_all(signal.SIGTERM, nsys.pid)
            assert nsys.poll() is None
        finally:
            nsys.kill()
    assert not is_sent_to_all(signal.SIGUSR1, nsys.pid)
