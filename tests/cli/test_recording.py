"""`nsyswrap profile --record`: the result of a run is in the history, and a run is not lost where that fails."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys

from nsyswrap.cli.recording import record_result, recorded_run
from nsyswrap.errors import CaptureError
from nsyswrap.runs.history import open_history

__all__ = ["fake_nsys"]

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "reports" / "samples" / "mnist-1-worker"
# The command line, with a capture whose report is that of a real one: the fake nsys records no GPU work.
PROFILE = """
import sys
from pathlib import Path
import nsyswrap.cli.profile
from nsyswrap.cli import cli
from nsyswrap.render.json_reader import read_report
sys.modules["nsyswrap.cli.profile"].report_of_capture = lambda *_, **__: read_report(Path(sys.argv[1]))
cli(sys.argv[2:])
"""
LONGEST_S = 120


def profile(folder: Path, database: Path) -> "subprocess.CompletedProcess[str]":
    """Run `nsyswrap profile --record` with the fake nsys."""
    words = ["profile", "-q", "--no-profiler-cost", "--record", "-o", "out", "--", "sh", "-c", "exit 3"]
    return subprocess.run(
        [sys.executable, "-c", PROFILE, str(SAMPLE / "report.json"), *words],
        cwd=folder,
        env={**os.environ, "NSYSWRAP_DB": str(database), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )


@pytest.mark.usefixtures("fake_nsys")
def test_a_profiled_run_is_in_the_history(tmp_path: Path) -> None:
    """With the exit code of the program, which stays that of the command."""
    done = profile(tmp_path, tmp_path / "history.sqlite")
    assert done.returncode == 3, done.stderr
    (row,) = open_history(str(tmp_path / "history.sqlite")).runs()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (row.program, row.arguments, row.exit_code) == ("sh", "-c 'exit 3'", 3)
    assert (row.host, row.nsyswrap) == (record["host"], record["versions"]["nsyswrap"])


@pytest.mark.usefixtures("fake_nsys")
def test_a_history_that_cannot_be_opened_is_found_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database\n" * 100)
    done = profile(tmp_path, tmp_path / "notes.txt")
    assert (done.returncode, "not a database" in done.stderr) == (125, True)
    assert not (tmp_path / "out").exists()


def test_a_run_that_cannot_be_added_is_complete_and_can_be_added_later(tmp_path: Path) -> None:
    history = open_history(str(tmp_path / "history.sqlite"))
    shutil.copytree(SAMPLE, tmp_path / "out", ignore=shutil.ignore_patterns("capture.*"))
    with history.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TRIGGER full BEFORE INSERT ON facts BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(CaptureError, match="the run is not in the history") as caught:
        record_result(history, tmp_path / "out")
    assert caught.value.exit_code == 125
    assert caught.value.hint == f"add it later: nsyswrap history add {tmp_path / 'out'}"
    assert history.count() == 0
    with history.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    record_result(history, tmp_path / "out")
    assert history.find(recorded_run(tmp_path / "out").row.run_id).step_count == 58


def test_without_a_history_nothing_is_recorded(tmp_path: Path) -> None:
    record_result(None, tmp_path / "missing")
