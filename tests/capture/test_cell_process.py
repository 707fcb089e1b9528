"""The process of a cell: its output, its limit, and that it is found again after its sweep was killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsyswrap.capture import cell_process
from nsyswrap.capture.cell_process import run_cell, wait_for_earlier

FOR_EVER = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(1)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{FOR_EVER}"


def ended(program: str, folder: Path, limit_s: float = 60.0) -> cell_process.CellExit:
    """Run a Python program as a cell."""
    argv = [sys.executable, "-S", "-c", program]
    return run_cell(argv, {**os.environ, "GIVEN": "yes"}, folder / "out.txt", folder / "lock", limit_s)


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    """Both streams go to one file; a signal is 128 and its number, as in a shell."""
    program = "import os, sys; print(os.environ['GIVEN'], flush=True); sys.stderr.write('no\\n'); sys.exit(3)"
    assert ended(program, tmp_path)[::2] == (3, False)
    assert (tmp_path / "out.txt").read_text() == "yes\nno\n"
    assert ended("import os; os.kill(os.getpid(), 9)", tmp_path).code == 137
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize(("program", "code"), [(FOR_EVER, 143), (DEAF, 137)], ids=["ends", "deaf"])
def test_a_run_ends_at_its_limit(program: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ignores SIGTERM is killed. One that has not begun when the limit comes ends like any other."""
    monkeypatch.setattr(cell_process, "_END_S", 1.0)
    found = ended(program, tmp_path, limit_s=1.0)
    has_begun = (tmp_path / "out.txt").read_text() == "begun\n"
    assert found.timed_out
    assert found.code == code or not has_begun


def test_a_run_of_an_earlier_sweep_is_waited_for(tmp_path: Path) -> None:
    """The lock is its own: it holds after the process that started it has ended, and until its end."""
    lock, gate = tmp_path / "lock", tmp_path / "gate"
    waiting = f"import os, time\nfor _ in range(600):\n  if os.path.exists({str(gate)!r}): break\n  time.sleep(0.1)"
    starting = (
        "import os, sys; from pathlib import Path; from nsyswrap.capture import cell_process as c\n"
        "c._waited = lambda process, limit_s: os._exit(0)\n"
        f"c.run_cell([sys.executable, '-S', '-c', {waiting!r}], os.environ, Path('out.txt'), Path('lock'), 1)"
    )
    subprocess.run([sys.executable, "-c", starting], cwd=tmp_path, check=True, timeout=120)
    assert not wait_for_earlier(lock, 0.0)
    gate.touch()
    assert wait_for_earlier(lock, 100.0)
    assert not lock.exists()


def test_a_lock_that_nobody_holds_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert wait_for_earlier(tmp_path / "lock", 0.0)
    assert wait_for_earlier(tmp_path / "none", 0.0)
    assert list(tmp_path.iterdir()) == []
