"""Captures with the real nsys of this machine, for behaviour that the fake nsys only imitates."""

import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from capture_fixtures import Run, driven, living, marker, namespaces_or_skip, options, python, until
from real_captures import more

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.doctor import holds_range
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import CaptureResult, profile
from nsyswrap.capture.progress import Phase
from nsyswrap.trace.connection import opened
from nsyswrap.trace.description import command_words
from nsyswrap.trace.load import load_export

__all__ = ["driven", "marker"]

Driven = Callable[..., Run]

RANGE = python("import nvtx\nprint('a long ' + 'sentence')\nwith nvtx.annotate('one range'): pass\nraise SystemExit(4)")

SLEEPER = """
import sys, time, nvtx
with nvtx.annotate("before the end"): pass
print("ready", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(9)
"""
# In 1 of 680 runs on a busy machine, nsys 2023.4.4 lost the exit code of a program that ended while `nsys stop` still
# ran, and exited with 0. So what the program prints is the proof that it got the signal.
INTERRUPTED = {9, 0}

IN_PART = """
import os, sys, time
def begun():
    born = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    open(sys.argv[1], "w").write(str(time.clock_gettime(time.CLOCK_BOOTTIME) - born))
def wait_for_nsys(output="Generating"):
    end = time.monotonic() + 250
    while time.monotonic() < end and not (os.path.exists(sys.argv[2]) and output in open(sys.argv[2]).read()):
        time.sleep(0.02)
"""

DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", sys.argv[1]], start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""


def limits(least_s: float) -> tuple[float, float, float]:
    """Return time limits for a small program under nsys: each is enough on a machine that is busier.

    The first is long enough for this machine as it is now. On a busy one, an nsys that is stopped while it starts may
    hang, until it is killed.
    """
    began = time.monotonic()
    subprocess.run(python("import nvtx"), check=True)
    first = min(max(least_s, 20 * (time.monotonic() - began)), 10.0)
    return first, 4 * first, 16 * first


def processes(export: Path) -> list[int]:
    with closing(sqlite3.connect(export)) as database:
        return [int(pid) for (pid,) in database.execute("SELECT pid FROM PROCESSES")]


def test_a_range_of_the_program_is_in_the_export(nsys: Nsys, tmp_path: Path) -> None:
    """The exit code and the command are the program's, no trace is left out, and the export shows its progress.

    The folder may have any name: nsys 2023.4.4 loses a report with an escaped percent sign in its name; ours has none.
    By default nsys keeps a copy of everything that the program prints.
    """
    seen: list[tuple[Phase, float | None]] = []
    wanted = options(tmp_path / "a b 100%h %q{HOME} %p 'q' \"d\" Ünïcødé-模型", *RANGE, output_to_stderr=True)
    result = profile(wanted, nsys, lambda phase, share: seen.append((phase, share)))
    exported = [share for phase, share in seen if phase is Phase.EXPORTING and share is not None]
    assert exported == sorted(exported)
    assert exported[-1] == 1.0
    assert (result.exit_code, result.notes) == (4, ("The program ended with exit code 4",))
    assert holds_range(result.export, "one range")
    assert not holds_range(result.export, "one ran")
    with opened(result.export) as export:
        assert command_words(export) == RANGE
    for path in (result.report, result.export):
        assert b"a long sentence" not in path.read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, 137), *more((signal.SIGSEGV, 139))])
def test_a_program_that_a_signal_kills_leaves_a_capture(
    nsys: Nsys, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Its exit code is 128 + n; data that nsys has not yet collected may be lost, but not the capture.

    The program runs for half a second. If it dies at once, nsys sometimes loses the connection and reports a bug.
    """
    program = f"sleep 0.5; kill -{int(number)} $$"
    result = profile(options(tmp_path / "result", "sh", "-c", program, traces=("nvtx",)), nsys)
    assert (result.exit_code, result.export.exists()) == (code, True)


def test_a_step_during_which_the_recording_ends_is_open(nsys: Nsys, tmp_path: Path) -> None:
    """Nsys 2023.4.4 sets its end to the end of the session. The program ends when the report is written."""
    program = (
        "import nvtx\nwith nvtx.annotate('step 0'): pass\nbegun()\n"
        "with nvtx.annotate('step 1'): wait_for_nsys('Generated')\n"
    )
    result = recorded_in_part(nsys, tmp_path, program)
    ranges = load_export(result.export).frames["ranges"]
    assert ranges["text"].astype(str).to_list() == ["step 0", "step 1"]
    assert ranges["open"].to_list() == [False, True]


def recorded_in_part(nsys: Nsys, folder: Path, program: str, *, hidden: bool = False) -> CaptureResult:
    """Return the capture of a program whose recording ends after it has begun; on a busy machine it begins later.

    The program has two functions: ``begun`` says that what must be recorded has been done, and ``wait_for_nsys`` waits
    for a word of nsys: until it has collected what was recorded, where no other word is given.
    """
    for duration_s in limits(1.0):
        result, begun = folder / f"{duration_s:g}", folder / f"{duration_s:g}.begun"
        command = python(f"{IN_PART}{program}", str(begun), str(result / ".run" / "temporary" / "stop.log"))
        wanted = options(result, *command, traces=("nvtx",), duration_s=duration_s, hide_environment=hidden)
        found = profile(wanted, nsys)
        if float(begun.read_text()) < duration_s:
            break
    return found


@pytest.mark.usefixtures("nsys")
def test_a_time_out_keeps_the_recorded_data(driven: Driven, tmp_path: Path) -> None:
    """SIGTERM kills Python at once, so the recording is stopped before; only later ranges are missing."""
    program = (
        "import nvtx, sys, time\nturns, began = open(sys.argv[1], 'ab', buffering=0), time.monotonic()\nwhile True:\n"
        "    with nvtx.annotate('turn'): time.sleep(0.002)\n"
        "    if time.monotonic() - began < 0.5: turns.write(b'x')"
    )
    for timeout_s in limits(2.0):
        (tmp_path / "turns").unlink(missing_ok=True)
        run = driven(*python(program, str(tmp_path / "turns")), traces=["nvtx"], timeout_s=timeout_s)
        assert run.finish() == 143
        if (tmp_path / "turns").exists() and (tmp_path / "turns").stat().st_size > 50:
            break
    export = run.result_path.parent / "result" / "capture.sqlite"
    with closing(sqlite3.connect(export)) as database:
        (found,) = database.execute("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59").fetchone()
    assert found >= (tmp_path / "turns").stat().st_size > 50


@pytest.mark.usefixtures("nsys")
def test_a_second_ctrl_c_leaves_no_process_of_nsys_or_the_program(driven: Driven, marker: str) -> None:
    """This includes processes that the program started in another session, and nsys's agent."""
    run = driven(*python(DEAF, marker), traces=["nvtx"])
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    agents = set(living(f"profile-{pid_of_nsys(run.process.pid)}"))
    run.send(signal.SIGTERM)
    assert run.finish() in {130, 143}
    until(lambda: not [pid for pid in living(marker) if pid != run.process.pid], "all processes gone")
    until(lambda: not agents & set(living("nsys")), "the agent gone")


@pytest.mark.usefixtures("nsys")
def test_an_nsys_that_is_killed_leaves_no_agent(driven: Driven) -> None:
    """Its agent would hold the terminal, or the pipe of a CI job that reads our output to its end."""
    run = driven(*python("import time; print('ready', flush=True); time.sleep(1)"), traces=["nvtx"])
    run.wait_for_output("ready")
    nsys = pid_of_nsys(run.process.pid)
    words = Path(f"/proc/{nsys}/cmdline").read_text(encoding="utf-8").split("\0")
    (session,) = (word.partition("=")[2] for word in words if word.startswith("--session-new="))
    assert len(living(f"--session-name={session}")) == 1
    os.kill(nsys, signal.SIGKILL)
    run.finish()
    assert living(session) == []


@pytest.mark.parametrize("hidden", [False, True])
def test_a_program_that_kills_its_parent_leaves_a_capture(nsys: Nsys, tmp_path: Path, *, hidden: bool) -> None:
    """Without its launcher nsys does not notice the program's end, and waits for ever."""
    if hidden:
        namespaces_or_skip()
    program = "import nvtx, os\nos.kill(os.getppid(), 9)\nwith nvtx.annotate('after'): pass\nraise SystemExit(4)"
    began = time.monotonic()
    wanted = options(tmp_path / "result", *python(program), traces=("nvtx",), hide_environment=hidden)
    result = profile(wanted, nsys)
    assert time.monotonic() - began < 60  # without help it takes ten minutes
    assert holds_range(result.export, "after")
    # In a namespace of its own the program becomes the child of another process.
    assert result.exit_code == (125 if hidden else 4)
    assert "nsys did not notice the end of the program" in result.notes[0]


def pid_of_nsys(driver: int) -> int:
    """Return the process id of nsys below a driver."""
    children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    return int(children[0])


def test_a_daemon_does_not_delay_the_report(nsys: Nsys, tmp_path: Path, marker: str) -> None:
    """By default nsys would wait until the daemon ends."""
    program = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]], start_new_session=True)"
    )
    result = profile(options(tmp_path / "result", *python(program, marker), traces=("nvtx",)), nsys)
    assert result.exit_code == 0
    assert len(living(marker)) == 1


@pytest.mark.parametrize(("after_s", "hidden"), [(0.2, True), (3.0, False)])
def test_recording_may_end_before_the_program(nsys: Nsys, tmp_path: Path, after_s: float, *, hidden: bool) -> None:
    """The program continues while nsys writes its report or longer, and its exit code is kept."""
    if hidden:
        namespaces_or_skip()
    program = (
        "import nvtx\nwith nvtx.annotate('early'): pass\nbegun()\nwait_for_nsys()\n"
        f"with nvtx.annotate('late'): pass\ntime.sleep({after_s})\nraise SystemExit(6)"
    )
    result = recorded_in_part(nsys, tmp_path, program, hidden=hidden)
    assert result.exit_code == 6
    assert result.wall_ns > 1_000_000_000
    assert holds_range(result.export, "early")
    assert not holds_range(result.export, "late")


@pytest.mark.usefixtures("nsys")
def test_a_hidden_program_can_be_stopped_too(driven: Driven) -> None:
    """Nsys stop runs inside the program's process namespace."""
    namespaces_or_skip()
    run = driven(*python(SLEEPER), traces=["nvtx"], hide_environment=True)
    run.wait_for_output("ready")
    run.send(signal.SIGINT)
    assert run.finish() in INTERRUPTED
    assert "interrupted" in run.output
    assert holds_range(run.result_path.parent / "result" / "capture.sqlite", "before the end")


def test_only_the_capture_range_is_recorded(nsys: Nsys, tmp_path: Path) -> None:
    """The program continues after it."""
    program = python(
        "import nvtx\nfor name in ('before', 'wanted', 'after'):\n"
        "    with nvtx.annotate(name):\n        with nvtx.annotate(f'in {name}'): pass\nraise SystemExit(2)"
    )
    result = profile(options(tmp_path / "result", *program, traces=("nvtx",), capture_range="wanted"), nsys)
    assert result.exit_code == 2
    assert holds_range(result.export, "in wanted")
    assert not holds_range(result.export, "in before")
    assert not holds_range(result.export, "in after")


def test_a_capture_range_that_never_starts_is_named(nsys: Nsys, tmp_path: Path) -> None:
    """There is no report then, and nsys prints nothing."""
    with pytest.raises(CaptureError, match="the program ended with code 4, and no such range never started"):
        profile(options(tmp_path / "result", *RANGE, traces=("nvtx",), capture_range="no such range"), nsys)
    assert not (tmp_path / "result").exists()


def test_a_hidden_environment_is_not_in_the_capture(
    nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture has no secret and no other processes of the machine, but it has the ranges."""
    namespaces_or_skip()
    monkeypatch.setenv("SOME_API_KEY", "s3cret-of-the-test")
    result = profile(options(tmp_path / "result", *RANGE, hide_environment=True), nsys)
    assert result.exit_code == 4
    assert holds_range(result.export, "one range")
    assert b"s3cret-of-the-test" not in result.export.read_bytes()
    assert b"s3cret-of-the-test" not in result.report.read_bytes()
    assert all(pid < 1000 for pid in processes(result.export))


def test_the_program_owns_the_terminal(nsys: Nsys, tmp_path: Path) -> None:
    """All three standard streams are a terminal, and the program reads the typed answer."""
    script = (
        "from pathlib import Path\nimport sys\nfrom capture_fixtures import options\n"
        "from nsyswrap.capture.locate import Nsys\nfrom nsyswrap.capture.nsys import profile\n"
        "program = \"import os; print([os.isatty(i) for i in (0, 1, 2)]); print('hello', input('name? '))\"\n"
        f"nsys = Nsys(Path({str(nsys.path)!r}), {nsys.version!r}, 'test')\n"
        f"wanted = options(Path({str(tmp_path / 'result')!r}), sys.executable, '-c', program, traces=('nvtx',))\n"
        "sys.exit(profile(wanted, nsys).exit_code)\n"
    )
    shown, status = in_terminal([sys.executable, "-c", script], {"name? ": "ada\n"})
    assert os.waitstatus_to_exitcode(status) == 0, shown
    assert shown.split() == ["[True,", "True,", "True]", "name?", "ada", "hello", "ada"]


def test_ctrl_c_in_a_terminal_reaches_the_program(nsys: Nsys, tmp_path: Path) -> None:
    """The test types it: the terminal signals its foreground group, and nsys is not in that group."""
    script = (
        "from pathlib import Path\nimport sys\nfrom capture_fixtures import options\n"
        "from nsyswrap.capture.locate import Nsys\nfrom nsyswrap.capture.nsys import profile\n"
        f"nsys = Nsys(Path({str(nsys.path)!r}), {nsys.version!r}, 'test')\n"
        f"wanted = options(Path({str(tmp_path / 'result')!r}), sys.executable, '-c', {SLEEPER!r}, traces=('nvtx',))\n"
        "sys.exit(profile(wanted, nsys).exit_code)\n"
    )
    shown, status = in_terminal([sys.executable, "-c", script], {"ready": "\x03"})
    assert os.waitstatus_to_exitcode(status) in INTERRUPTED, shown
    assert "interrupted" in shown
    assert "Generating" not in shown
    assert holds_range(tmp_path / "result" / "capture.sqlite", "before the end")


def in_terminal(argv: list[str], answers: dict[str, str], timeout_s: float = 120) -> tuple[str, int]:
    """Run a command in a new terminal, and type each answer when its question appears; kill it after the time-out.

    The terminal is read until the command ends, and not until its end, which a process that is left would put off.
    """
    import pty  # noqa: PLC0415 - it exists only on Linux and macOS, and only this needs it

    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the child becomes the command
        os.chdir(Path(__file__).parents[1] / "support")
        os.execv(argv[0], argv)  # noqa: S606 - no shell is wanted
    shown, ended, deadline = b"", 0, time.monotonic() + timeout_s
    while not ended:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, os.WNOHANG)
        while select.select([terminal], [], [], 0.05)[0] and (piece := read_from(terminal)):
            shown += piece
            for question in [text for text in answers if text.encode() in shown]:
                os.write(terminal, answers.pop(question).encode())
    os.close(terminal)
    return shown.decode(), status


def read_from(terminal: int) -> bytes:
    """Return what a terminal shows; nothing if no process has it any more."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        time.sleep(0.05)
        return b""
