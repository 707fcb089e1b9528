"""What is left when the process that records is killed: no program, and its capture."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys, living, marker, python, until

from nsyswrap.capture.process_tree import children_by_parent, is_alive
from nsyswrap.capture.watchdog import watched

__all__ = ["fake_nsys", "marker"]

# Reports how it ends, if it may.
POLITE = """
import os, signal, sys, time
from pathlib import Path
def end(number, frame):
    Path(sys.argv[2] + ".part").write_text(f"{number} {Path(os.environ['FAKE_NSYS_LOG']).read_text()}")
    Path(sys.argv[2] + ".part").rename(sys.argv[2])
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""

WATCHED = """
import os, subprocess, sys, time
from pathlib import Path
from nsyswrap.capture.watchdog import Patience, watched
deaf = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open(sys.argv[2], 'w'); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", deaf, *sys.argv[1:]], start_new_session=True)
with watched(child.pid, Path("/dev/null"), (), dict(os.environ), Patience(grace_s=1)) as tell:
    while not Path(sys.argv[2]).exists():
        time.sleep(0.02)
    tell(child.pid)
    os._exit(0)
"""


# Runs a program under the nsys of PATH, and says when its watchdog knows the program.
RUN = """
import sys
from pathlib import Path
from nsyswrap.capture.foreground import ForegroundCall, run_in_foreground
from nsyswrap.capture.progress import silent
from nsyswrap.capture.run_dir import RunDir
import os
work = RunDir(Path(sys.argv[1]))
run_in_foreground(ForegroundCall(
    argv=("nsys", "profile", f"--output={work.folder / 'capture'}", *work.inner(sys.argv[2:])),
    run_dir=work, env=dict(os.environ), stop=lambda _pid: ("nsys", "stop", "--session=x"),
    on_start=lambda _pid: (work.folder / "known").touch()), silent)
"""


def killed_run(folder: Path, *program: str) -> None:
    """Start a run of a program, wait until it is ready, and kill the process that records."""
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", RUN, folder, *program], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        until((folder / "known").exists, "the program known")
        run.kill()


@pytest.mark.usefixtures("fake_nsys")
def test_a_killed_run_ends_its_program_and_keeps_its_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    """The recording is stopped first, then the program gets SIGTERM, and nsys writes its report."""
    log = tmp_path / "log"
    monkeypatch.setenv("FAKE_NSYS_LOG", str(log))
    killed_run(tmp_path / "w", *python(POLITE, marker, str(tmp_path / "ended")))
    until((tmp_path / "ended").exists, "SIGTERM")
    assert (tmp_path / "ended").read_text() == f"{int(signal.SIGTERM)} {log.read_text()}"
    until((tmp_path / "w" / "capture.nsys-rep").exists, "the report")
    until(lambda: not living(marker), "all processes gone")


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path, marker: str) -> None:
    subprocess.run([sys.executable, "-c", WATCHED, marker, tmp_path / "ready"], check=True)
    until(lambda: not living(marker), "the program killed")


def test_a_stop_command_that_hangs_does_not_keep_the_program(tmp_path: Path, marker: str) -> None:
    """The command itself goes on, because it may still write the report."""
    hanging = f"('sh', '-c', 'sleep 60; true', '{marker}-stop'), dict(os.environ),"
    subprocess.run(
        [
            sys.executable,
            "-c",
            WATCHED.replace("(), dict(os.environ),", hanging).replace("grace_s=1", "1, 1"),
            marker,
            tmp_path / "ready",
        ],
        check=True,
    )
    until(lambda: len(living(marker)) == 1, "the program killed")
    assert living(marker) == living(f"{marker}-stop")


def test_a_watchdog_that_is_stopped_does_not_hold_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsyswrap.capture.watchdog._END_S", 0.2)
    with watched(os.getpid(), tmp_path / "none", (), dict(os.environ)):
        (watchdog,) = (pid for pid in children_by_parent()[os.getpid()] if pid in living("born=$rest"))
        os.kill(watchdog, signal.SIGSTOP)
    assert not is_alive(watchdog)


def test_a_process_with_the_id_of_the_program_is_left_alone(tmp_path: Path, marker: str) -> None:
    """The program may have ended before, and its id may be of another process by now."""
    code = WATCHED.replace("tell(child.pid)", "watchdog.start_time = lambda _pid: '1'; tell(child.pid)")
    code = code.replace("import os, ", "from nsyswrap.capture import watchdog\nimport os, ").replace(
        ", (), dict", ", AFTER, dict"
    )
    code = code.replace("with watched", "AFTER = ('touch', sys.argv[2] + '.stopped')\nwith watched")
    done = subprocess.run([sys.executable, "-c", code, marker, tmp_path / "ready"], check=True)
    assert done.returncode == 0
    until(lambda: not living(f"{tmp_path / 'ready'}.stopped"), "the watchdog gone")
    assert len(living(marker)) == 1
    assert not (tmp_path / "ready.stopped").exists()


def test_at_the_end_of_a_run_its_program_may_go_on(tmp_path: Path, marker: str) -> None:
    code = WATCHED.replace("    os._exit(0)\n", "")
    done = subprocess.run([sys.executable, "-c", code, marker, tmp_path / "ready"], check=False)
    assert done.returncode == 0
    assert len(living(marker)) == 1
