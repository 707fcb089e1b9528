"""A sweep under the real nsys: each cell is a run of `profile` with a report, and an entry of the history."""

import json
import sys
from pathlib import Path

import commands
import pytest

import nsyswrap.runs
from nsyswrap.capture.locate import Nsys

PROGRAM = """
import os, sys, time, nvtx
if sys.argv[1] == "64":
    raise MemoryError("no room for a batch of 64")
for number in range(6):
    with nvtx.annotate(f"step {number}"):
        time.sleep(0.01 * int(os.environ["SLOWER"]))
"""
SWEEP = """
command = "{PYTHON} program.py {batch}"
profile = "--trace nvtx"
[axes]
batch = [32, 64]
slower = [2]
[environment]
SLOWER = "{slower}"
"""


@pytest.mark.thorough
def test_a_cell_is_a_run_of_profile(nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell is measured with its batch and its variable, the other one crashes with its reason."""
    assert nsys.path
    (tmp_path / ".git").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "grid.toml").write_text(SWEEP.replace("{PYTHON}", sys.executable))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NSYSWRAP_PROFILER_COST", "0")
    monkeypatch.setenv("NSYSWRAP_DB", str(tmp_path / "history.sqlite"))
    done = commands.run("sweep", "grid.toml", "-o", "out")
    assert done.exit_code == 0, done.output
    tree = json.loads((tmp_path / "out" / "sweep.json").read_text())
    measured, failed = tree["cells"]
    assert measured["step"]["mean_ns"] >= 20e6
    assert measured["samples_per_s"] <= 1600
    assert (failed["ending"], failed["reason"]) == ("out of memory", "MemoryError: no room for a batch of 64")
    (run,) = [each for each in tree["runs"] if each["ending"] == "measured"]
    history = nsyswrap.runs.open()
    assert history.find(run["run_id"]).arguments == "32"
    assert (tmp_path / "out" / run["folder"] / "report.html").is_file()
