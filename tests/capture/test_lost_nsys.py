"""A part of nsys that is killed, or waits for ever: the run ends, says why, and keeps what there is."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys, living, marker, options, python, results_in, until

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.failures import early_death, no_report
from nsyswrap.capture.foreground import ForegroundCall, RunResult, TimeLimits, run_in_foreground
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.process_tree import is_cut_off
from nsyswrap.capture.progress import Phase, Progress, silent
from nsyswrap.capture.run_dir import RunDir
from nsyswrap.capture.signals import CaptureInterruptedError, CaptureTerminatedError

__all__ = ["fake_nsys", "marker"]

# An nsys that starts the program through a launcher. It learns of the program's end from the launcher.
NSYS = 'sh -c \'"$@" & wait $!; code=$?; echo $code >"$0"; exit $code\' "$REPORTED" "$@" & '
WAITS = f'{NSYS} until [ -s "$REPORTED" ]; do sleep 0.05; done; exit "$(cat "$REPORTED")"'
NEVER_ENDS = f"{NSYS} exec sleep 600"
# Programs that kill the launcher, and the nsys above it.
KILLS_PARENT = 'kill -9 $PPID; sleep "$1"; exit 5'
KILLS_NSYS = 'kill -9 "$(cut -d " " -f 4 "/proc/$PPID/stat")"; sleep 0.2; exit 5'

# Closes all descriptors of a process with a thread named like nsys's.
CUT_OFF = """
import os, select, sys, threading, time
poll = select.epoll()
def wait():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(sys.argv[1])
    time.sleep(60)
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.1)
if sys.argv[2] == "close":
    os.closerange(3, 1024)
open(sys.argv[3], "w").close()
time.sleep(float(sys.argv[4]))
os._exit(0)
"""


def running(folder: Path, nsys: str, *program: str, limits: TimeLimits | None = None) -> ForegroundCall:
    """Return a call of an nsys, a shell script, whose stop command writes its report."""
    work = RunDir(folder / "w")
    work.out.mkdir(parents=True)
    stop = f"echo Generating; touch {work.out / 'capture.nsys-rep'}"
    return ForegroundCall(
        argv=("sh", "-c", nsys, "nsys", *work.inner(program)),
        run_dir=work,
        env={"PATH": "/usr/bin:/bin", "REPORTED": str(folder / "reported")},
        stop=lambda _pid: ("sh", "-c", stop),
        limits=limits or TimeLimits(silence_s=20),
    )


def signalling(at: Phase, number: signal.Signals) -> Progress:
    """Return a progress callback that sends this process a signal at the start of a phase."""
    left = [number]

    def progress(phase: Phase, _share: float | None) -> None:
        if phase is at and left:
            os.kill(os.getpid(), left.pop())

    return progress


def result(**fields: object) -> RunResult:
    """Return the result of a run, with the fields that a test changes."""
    usual = RunResult(
        code=0, started=True, wall_ns=1, stopped_by=None, timed_out=False, nsys_output="", least_free=1 << 40
    )
    return replace(usual, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("after_s", ["0.3", "0"])
def test_a_program_that_kills_its_parent_ends_the_run(tmp_path: Path, after_s: str) -> None:
    """Nsys does not notice its end, so its recording is stopped, and it is killed once there is a report."""
    call = running(tmp_path, WAITS, "sh", "-c", KILLS_PARENT, "sh", after_s)
    began = time.monotonic()
    ended = run_in_foreground(call, silent)
    assert time.monotonic() - began < 10
    assert (ended.code, ended.lost_launcher, ended.killed_by) == (5, True, None)
    assert (call.run_dir.out / "capture.nsys-rep").exists()
    assert early_death(ended) is not None


def test_an_nsys_that_is_killed_leaves_the_exit_code_of_the_program(tmp_path: Path) -> None:
    """The launcher has it; that of nsys is not the program's."""
    ended = run_in_foreground(running(tmp_path, WAITS, "sh", "-c", KILLS_NSYS), silent)
    assert (ended.code, ended.killed_by, ended.lost_launcher) == (5, signal.SIGKILL, False)
    assert early_death(ended) == "nsys was killed by SIGKILL"


def test_an_nsys_that_waits_for_ever_is_ended_once_its_report_is_there(tmp_path: Path) -> None:
    """The exit code of the program is unknown then."""
    limits = TimeLimits(notice_s=0.3, grace_s=0.3, silence_s=20)
    ended = run_in_foreground(running(tmp_path, NEVER_ENDS, "true", limits=limits), silent)
    assert (ended.code, ended.lost_launcher) == (125, True)


def test_an_nsys_without_a_report_is_not_ended(tmp_path: Path) -> None:
    """It may be slow; the user gets one hint meanwhile."""
    hints: list[str] = []
    call = running(
        tmp_path, NEVER_ENDS, "true", limits=TimeLimits(notice_s=0.1, grace_s=0.1, hint_s=0.3, silence_s=1.5)
    )
    call = replace(call, stop=lambda _pid: ("false",), on_hint=hints.append)
    with pytest.raises(CaptureError, match=r"nsys wrote nothing for 1\.5 s after the program ended"):
        run_in_foreground(call, silent)
    (hint,) = hints
    assert hint.startswith("the program has ended, but nsys has written nothing for 0.3 s. Ctrl-C ends the wait")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_signal_after_the_end_of_the_program_ends_the_wait(
    tmp_path: Path, marker: str, number: signal.Signals
) -> None:
    """Nsys has the time of the grace period to go on writing."""
    limits = TimeLimits(grace_s=0.3, silence_s=600)
    call = running(tmp_path, f"{NSYS} exec sh -c 'sleep 600; true' {marker}", "true", limits=limits)
    began = time.monotonic()
    with pytest.raises(CaptureError, match=r"nsys wrote nothing for 0\.3 s after the program ended"):
        run_in_foreground(replace(call, stop=None), signalling(Phase.WRITING, number))
    assert time.monotonic() - began < 10
    until(lambda: not living(marker), "nsys gone")


def test_the_first_signal_ends_an_nsys_that_does_not_start_the_program(tmp_path: Path, marker: str) -> None:
    call = running(tmp_path, f"exec sh -c 'sleep 600; true' {marker}", "true", limits=TimeLimits(grace_s=0.3))
    with pytest.raises(CaptureInterruptedError, match="stopped before nsys had started the program"):
        run_in_foreground(call, signalling(Phase.RUNNING, signal.SIGINT))
    until(lambda: not living(marker), "nsys gone")


def test_a_signal_while_nsys_writes_ends_the_run_after_its_report(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The program had ended by itself, so its exit code is not of a signal; the export is left for `resume`."""
    seen: list[Phase] = []
    interrupt = signalling(Phase.WRITING, signal.SIGTERM)

    def progress(phase: Phase, share: float | None) -> None:
        seen.append(phase)
        interrupt(phase, share)

    with pytest.raises(CaptureTerminatedError, match="stopped before the capture was exported") as caught:
        profile(options(tmp_path / "result", "true"), fake_nsys, progress)
    assert f"nsyswrap resume {tmp_path / 'result'}" in caught.value.hint
    assert results_in(tmp_path / "result") == ["capture.nsys-rep"]
    assert Phase.EXPORTING not in seen


@pytest.mark.parametrize(
    ("name", "how", "expected"), [("[NSys Comms]", "close", True), ("[NSys]", "keep", False), ("mine", "close", False)]
)
def test_a_process_is_cut_off_from_nsys_if_its_threads_have_no_descriptor_to_wait_on(
    tmp_path: Path, marker: str, name: str, how: str, *, expected: bool
) -> None:
    with subprocess.Popen(python(CUT_OFF, name, how, str(tmp_path / "ready"), "60", marker)) as process:
        until((tmp_path / "ready").exists, "the process ready")
        assert is_cut_off(process.pid) == expected
        process.kill()
    assert not is_cut_off(process.pid)


def test_a_program_that_closes_the_descriptors_of_nsys_gets_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on: it may have more to do."""
    monkeypatch.setattr("nsyswrap.capture.foreground._LOOK_S", 0.1)
    hints: list[str] = []
    program = python(CUT_OFF, "[NSys]", "close", str(tmp_path / "ready"), "1.5")
    call = running(tmp_path, WAITS, *program, limits=TimeLimits(hint_s=0.2, silence_s=20))
    ended = run_in_foreground(replace(call, on_hint=hints.append), silent)
    assert ended.code == 0
    (hint,) = hints
    assert "the program has closed descriptors of nsys" in hint
    assert "Ctrl-C" in hint


CASES: dict[str, Callable[[], RunResult]] = {
    "nsys was killed by SIGKILL, so there is no report; the program ended with code 3": lambda: result(
        code=3, killed_by=signal.SIGKILL
    ),
    "nsys was killed by SIGSEGV and did not start the program": lambda: result(started=False, killed_by=signal.SIGSEGV),
    "nsys lost its agent, which was killed or crashed, so there is no report; the program ended with code 0": lambda: (
        result(nsys_output="Connection to Agent lost. This is most likely a bug.")
    ),
    "nsys did not notice the end of the program, because its launcher, the program's parent, is gone, so there is no "
    "report": lambda: result(code=125, lost_launcher=True),
}


@pytest.mark.parametrize("message", CASES)
def test_an_error_names_the_part_of_nsys_that_is_gone(fake_nsys: Nsys, tmp_path: Path, message: str) -> None:
    """It has the exit code of the program, where that is known."""
    error = no_report(CASES[message](), options(tmp_path, "true"), fake_nsys, None, (tmp_path, tmp_path))
    assert error.message == message
