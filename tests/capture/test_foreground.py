"""A program under a fake nsys in the user's terminal: its output, its signals, its end."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from capture_fixtures import Run, driven, fake_nsys, living, marker, python, until

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.foreground import ForegroundCall, TimeLimits, run_in_foreground
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.progress import Phase, silent
from nsyswrap.capture.run_dir import RunDir, files_below, quoted_output

__all__ = ["driven", "fake_nsys", "marker"]

pytestmark = pytest.mark.usefixtures("fake_nsys")

Driven = Callable[..., Run]

# Prints that it is ready and sleeps; on Ctrl-C it cleans up for a while and exits with its own code.
SLEEPER = """
import sys, time
print("ready", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("cleaned up", flush=True)
    sys.exit(9)
"""

# Ignores all ending signals except SIGKILL, and so does its child in another session.
DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", sys.argv[1]], start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""

# Starts a process in another session, and ends.
DAEMON_MAKER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", sys.argv[1]], start_new_session=True)
"""


def foreground(nsys: Nsys, folder: Path, *program: str, limits: TimeLimits | None = None) -> ForegroundCall:
    """Return a call of the fake nsys for a program, with its private folder."""
    folder.mkdir(exist_ok=True)
    work = RunDir(folder)
    argv = (str(nsys.path), "profile", f"--output={folder / 'capture'}", *work.inner(program))
    return ForegroundCall(argv=argv, run_dir=work, env={"PATH": "/usr/bin:/bin"}, limits=limits or TimeLimits())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_program_killed_by_a_signal_gives_128_and_the_signal(driven: Driven, number: signal.Signals) -> None:
    """A shell reports it in the same way."""
    assert driven(*python(f"import os; os.kill(os.getpid(), {int(number)})")).finish() == 128 + number


def test_both_streams_of_the_program_are_unchanged(driven: Driven) -> None:
    """The program's output is the same byte for byte, without output of nsys."""
    run = driven(*python(r"import sys; sys.stdout.write('out \x1b[31m%\r\n'); sys.stderr.write('err\n')"))
    assert run.finish() == 0
    assert run.output_path.read_bytes() in {b"out \x1b[31m%\r\nerr\n", b"err\nout \x1b[31m%\r\n"}


def test_the_program_can_write_to_stderr_only(
    fake_nsys: Nsys, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """If stdout is for results, the program's stdout goes to stderr."""
    call = foreground(fake_nsys, tmp_path / "w", *python("print('from the program')"))
    ended = run_in_foreground(
        ForegroundCall(argv=call.argv, run_dir=call.run_dir, env=call.env, output_to_stderr=True), silent
    )
    out, err = capfd.readouterr()
    assert (ended.code, out, err) == (0, "", "from the program\n")


def test_ctrl_c_goes_to_the_program_which_ends_in_its_own_way(driven: Driven) -> None:
    """The program cleans up, its exit code is kept, the report is written, and a note says what happened."""
    run = driven(*python(SLEEPER))
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    assert run.finish() == 9
    assert "cleaned up" in run.output
    assert run.result["notes"] == ["The program was stopped by SIGINT; the capture holds what was recorded until then"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminating_signals_are_forwarded_too(driven: Driven, number: signal.Signals) -> None:
    """A capture remains after a scheduler ends the job or the terminal is closed."""
    run = driven(*python(SLEEPER))
    run.wait_for_output("ready")
    run.send(number)
    assert run.finish() == 128 + number
    assert run.result["exit_code"] == 128 + number


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_everything_at_once(
    driven: Driven, marker: str, number: signal.Signals, code: int
) -> None:
    """The program, its child in another session and nsys are killed, and the empty result folder is removed."""
    run = driven(*python(DEAF, marker))
    run.wait_for_output("ready")
    processes = living(marker)
    run.send(number)
    time.sleep(0.3)  # the kernel merges two equal pending signals
    assert set(living(marker)) == set(processes)
    run.send(number)
    assert run.finish() == code
    until(lambda: not [pid for pid in living(marker) if pid != run.process.pid], "all processes gone")
    assert not (run.result_path.parent / "result").exists()
    assert run.result["message"] == "stopped before nsys had written its report"
    assert run.result["hint"] == "Interrupt only once to keep the recorded data"


def test_a_time_out_ends_the_program_and_keeps_the_capture(driven: Driven) -> None:
    """The program gets SIGTERM, so its code is 143, and the note names the option."""
    run = driven(*python(SLEEPER), timeout_s=0.5)
    assert run.finish() == 143
    assert run.result["notes"] == ["The program was ended after 0.5 s (--timeout)"]


def test_a_program_that_ignores_the_time_out_is_killed(fake_nsys: Nsys, tmp_path: Path, marker: str) -> None:
    """After the grace period the program and its descendants are killed; nsys still writes its report.

    A shell ignores the signal first: on a busy machine Python may take longer to start than the time-out.
    """
    limits = TimeLimits(timeout_s=1.5, grace_s=0.4)
    deaf = ("sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *python(DEAF, marker))
    call = foreground(fake_nsys, tmp_path / "w", *deaf, limits=limits)
    ended = run_in_foreground(call, silent)
    assert (ended.code, ended.timed_out) == (137, True)
    assert living(marker) == []
    assert (tmp_path / "w" / "capture.nsys-rep").exists()


def test_a_daemon_of_the_program_keeps_running(driven: Driven, marker: str) -> None:
    """A background process of the program outlives a successful capture."""
    run = driven(*python(DAEMON_MAKER, marker))
    assert run.finish() == 0
    assert len(living(marker)) == 1


def test_nsys_that_ends_before_the_program_does_not_end_the_run(
    tmp_path: Path,
) -> None:
    """If the recording ends first, the run waits for the program and its exit code."""
    early = ForegroundCall(
        argv=("sh", "-c", '"$@" & sleep 0.3', "early", *RunDir(tmp_path).inner(["sh", "-c", "sleep 1; exit 5"])),
        run_dir=RunDir(tmp_path),
        env={"PATH": "/usr/bin:/bin"},
    )
    ended = run_in_foreground(early, silent)
    assert (ended.code, ended.started) == (5, True)
    assert ended.wall_ns > 800_000_000


def test_the_phases_are_reported_in_order(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The only phases are running and then writing."""
    seen: list[Phase] = []
    run_in_foreground(foreground(fake_nsys, tmp_path / "w", "true"), lambda phase, _share: seen.append(phase))
    assert seen[0] is Phase.RUNNING
    assert set(seen[1:]) == {Phase.WRITING}


def test_an_nsys_that_does_not_start_the_program_is_killed(fake_nsys: Nsys, tmp_path: Path, marker: str) -> None:
    """After the start limit there is an error, and no nsys keeps running."""
    call = foreground(fake_nsys, tmp_path / "w", "true", marker, limits=TimeLimits(start_s=0.5))
    call = ForegroundCall(
        argv=call.argv,
        run_dir=call.run_dir,
        env={**call.env, "FAKE_NSYS_FAILURE": "hangs-at-start"},
        limits=call.limits,
    )
    with pytest.raises(CaptureError, match=r"did not start the program within 0\.5 s"):
        run_in_foreground(call, silent)
    assert living(marker) == []


@pytest.mark.parametrize(("crashes", "starts"), [(2, 3), (9, 3), (1, 1)])
def test_an_nsys_that_ends_before_the_program_is_started_again(
    fake_nsys: Nsys, tmp_path: Path, marker: str, crashes: int, starts: int
) -> None:
    """The program starts once at most, also where a process of the crashed nsys is left, and not after Ctrl-C."""
    program = ("sh", "-c", f"echo ran >>{tmp_path / 'runs'}; exit 4", marker)
    call = foreground(fake_nsys, tmp_path / "w", *program)
    log = {"FAKE_NSYS_FAILURE": "loses-agent", "FAKE_NSYS_LOG": str(tmp_path / "log")}
    env = {**call.env, **log, "FAKE_NSYS_CRASHES": f"{crashes}", "TMPDIR": str(tmp_path / "w")}

    def press_ctrl_c(_phase: Phase, _share: float | None) -> None:
        if starts == 1:
            os.kill(os.getpid(), signal.SIGINT)

    ended = run_in_foreground(replace(call, env=env), press_ctrl_c)
    assert (tmp_path / "log").read_text() == "start\n" * starts
    assert living(marker) == []
    runs = int(starts > crashes)
    assert ((tmp_path / "runs").exists(), ended.started, ended.code) == (bool(runs), bool(runs), 4 * runs)
    assert not runs or (tmp_path / "runs").read_text() == "ran\n"


def test_an_nsys_that_hangs_while_writing_is_killed(fake_nsys: Nsys, tmp_path: Path, marker: str) -> None:
    """If its files stop growing there is an error, and no nsys keeps running."""
    call = foreground(fake_nsys, tmp_path / "w", "true", marker, limits=TimeLimits(silence_s=0.5))
    call = ForegroundCall(
        argv=call.argv,
        run_dir=call.run_dir,
        env={**call.env, "FAKE_NSYS_FAILURE": "hangs-writing"},
        limits=call.limits,
    )
    with pytest.raises(CaptureError, match="wrote nothing for") as caught:
        run_in_foreground(call, silent)
    assert "Generating" in caught.value.message
    assert living(marker) == []


def test_signal_handlers_are_restored(fake_nsys: Nsys, tmp_path: Path) -> None:
    """The caller's handlers are active again afterwards."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    run_in_foreground(foreground(fake_nsys, tmp_path / "w", "true"), silent)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_arguments_reach_the_program_unchanged(driven: Driven) -> None:
    """Two shells do not change spaces, quotes, dollars, empty words and dashes."""
    words = ["a b", "", "'\"", "$HOME", "*", "--output=x", "-c", "%h", "\\", "ü"]
    run = driven(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
    run.finish()
    assert run.output.strip() == str(words)


def test_only_the_last_lines_of_nsys_are_quoted() -> None:
    """Progress bars and empty lines are left out."""
    assert quoted_output("one\r[1/1] [==20% ] x\r\n\ntwo\nthree\nfour\n") == " (nsys: two / three / four)"
    assert not quoted_output("\r[1/1] [=100%] x\n")


def test_a_removed_folder_has_no_files(tmp_path: Path) -> None:
    """Nsys may remove folders during the scan."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("")
    assert files_below(tmp_path / "a") == [tmp_path / "a" / "b" / "file"]
    assert files_below(tmp_path / "gone") == []
