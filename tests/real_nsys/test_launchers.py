"""Ranks under torchrun, mpirun and a stand-in for srun, with the real nsys: each script of docs/ranks.md runs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from capture_fixtures import executable, living, until
from real_captures import more

from nsyswrap.capture.locate import Nsys

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RUNS = "<!-- runs in tests/real_nsys/test_launchers.py -->"
SCRIPTS = re.findall(rf"{RUNS}\n```bash\n(.*?)```", (ROOT / "docs" / "ranks.md").read_text(), re.DOTALL)

# A job on the CPU with a range for each step. It says whether nsys records it. Its ranks wait for one another in the
# working folder, and not with PyTorch, whose import takes seconds under nsys.
TRAIN = """
import os, time, nvtx
names = {"RANK": ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID"), "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")}
for name, others in names.items():
    os.environ.setdefault(name, next((os.environ[each] for each in others if each in os.environ), ""))
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
open(f"here-{rank}", "w").close()
end = time.monotonic() + 60
while not all(os.path.exists(f"here-{each}") for each in range(size)):
    if time.monotonic() > end:
        raise SystemExit("another rank did not come")
    time.sleep(0.01)
for step in range(3):
    with nvtx.annotate(f"step {step}"):
        time.sleep(0.001)
open(f"ended-{rank}", "w").write(str("NSYS_PROFILING_SESSION_ID" in os.environ))
"""

# Rank 0 ends in its own way on SIGTERM; rank 1 ignores it, until all are killed.
STUBBORN = """
import os, signal, sys, time, nvtx
rank = int(os.environ["SLURM_PROCID"])
signal.signal(signal.SIGTERM, (lambda *_: sys.exit(7)) if rank == 0 else signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *_: open(f"saved-{rank}", "a").write("once"))
with nvtx.annotate("before the end"): pass
open(f"ready-{rank}", "w")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def place(nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with train.py, where python, torchrun, nsyswrap and srun are those of this checkout."""
    tools = tmp_path / "tools"
    python = f'exec "{sys.executable}"'
    fake_srun = Path(__file__).parents[1] / "support" / "fake_srun.py"
    for name, line in {
        "python": python,
        "nsyswrap": f"{python} -m nsyswrap",
        "torchrun": f"{python} -m torch.distributed.run",
        "srun": f'{python} "{fake_srun}" 2',
    }.items():
        executable(tools / name, f'#!/bin/sh\n{line} "$@"\n')
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("NSYSWRAP_NSYS", str(nsys.path))
    # mpirun refuses root, and more ranks than cores, without these.
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    monkeypatch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")
    monkeypatch.delenv("RANK", raising=False)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path / "job")
    return tmp_path / "job"


def script_of(launcher: str) -> str:
    """Return the script of docs/ranks.md for a launcher; skip the test if there is no such launcher here."""
    if launcher == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun here: install Debian's openmpi-bin")
    return next(str(script) for script in SCRIPTS if launcher in script)


@pytest.mark.parametrize(
    ("launcher", "options", "recorded"),
    [
        ("torchrun", "--trace nvtx,osrt", {0, 1}),
        *more(("srun", "--ranks all --trace nvtx,osrt", {0, 1})),
        ("mpirun", "--ranks 1 --trace nvtx,osrt", {1}),
    ],
)
def test_the_script_of_a_launcher(place: Path, launcher: str, options: str, recorded: set[int]) -> None:
    """Each recorded rank has its folder, and the last one to end makes the joint report; the others run alone."""
    script = script_of(launcher).replace(" -o ", f" -q {options} --no-profiler-cost -o ")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [(place / f"ended-{rank}").read_text() for rank in (0, 1)] == [str(rank in recorded) for rank in (0, 1)]
    job = next((place / "reports").iterdir())
    for rank in recorded:
        record = json.loads((job / f"rank-{rank}" / "run.json").read_text())
        assert (record["launch"]["rank"], record["launch"]["recorded"]) == (rank, sorted(recorded))
        assert (job / f"rank-{rank}" / "report.html").exists()
    expected = {f"rank-{rank}" for rank in recorded} | ({"report.html", "report.json"} if len(recorded) > 1 else set())
    assert {path.name for path in job.iterdir()} == expected
    named = re.findall(r"^captures? +(\S+)", done.stderr, re.MULTILINE)
    assert named == ([str(job.relative_to(place) / "rank-*" / "capture.nsys-rep")] if len(recorded) > 1 else named[:1])
    assert all(list(place.glob(each)) for each in named)


@contextmanager
def step(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the tasks of a step, wait until both programs run, and kill what is left at the end."""
    words = ("profile", "-q", "--no-profiler-cost", "--trace", "nvtx", "-o", "out")
    command = ["srun", "nsyswrap", *words, "--", "python", "-c", STUBBORN]
    with (place / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            until(lambda: all((place / f"ready-{rank}").exists() for rank in (0, 1)), "both ranks")
            process.send_signal(signal.SIGUSR1)  # nsyswrap passes it on, once it knows the program
            until(lambda: all((place / f"saved-{rank}").exists() for rank in (0, 1)), "SIGUSR1 in both programs")
            yield process
        finally:
            process.send_signal(signal.SIGALRM)


def collected(run: Path) -> bool:
    """Return whether nsys has written the report of a run, whose program goes on."""
    log = run / ".run" / "temporary" / "stop.log"
    return log.exists() and b"Generated:" in log.read_bytes()


def test_a_time_limit_of_slurm_leaves_the_captures_of_all_ranks(place: Path) -> None:
    """The programs get SIGUSR1 once. After SIGTERM and SIGKILL each rank has a capture; resume finishes the job."""
    with step(place) as srun:
        ranks = tasks_of(srun.pid)
        srun.send_signal(signal.SIGTERM)
        until(lambda: not is_rank(ranks[0], srun.pid), "the end of the rank that ends")
        assert (place / "out" / "rank-0" / "report.html").exists()
        until(lambda: collected(place / "out" / "rank-1"), "the capture of the rank that does not end")
        srun.send_signal(signal.SIGTERM)  # launchers may repeat it
        srun.send_signal(signal.SIGALRM)
        assert srun.wait(300) == 137, (place / "log").read_text()
    assert json.loads((place / "out" / "rank-0" / "run.json").read_text())["exit_code"] == 7
    assert [(place / f"saved-{rank}").read_text() for rank in (0, 1)] == ["once", "once"]
    assert not (place / "out" / "rank-1" / "capture.sqlite").exists()
    done = subprocess.run(["nsyswrap", "resume", "-q", "out"], check=False)
    assert done.returncode == 0
    names = {path.name for path in (place / "out" / "rank-1").iterdir()}
    assert {"capture.nsys-rep", "capture.sqlite", "report.json", "report.html"} <= names


def test_a_rank_that_is_killed_leaves_the_others_alone(place: Path) -> None:
    """Its own recording is finished by nsys, and its program ended, since both outlive a SIGKILL for one process."""
    with step(place) as srun:
        ranks = tasks_of(srun.pid)
        os.kill(ranks[1], signal.SIGKILL)
        until((place / "out" / "rank-1" / ".run" / "capture.nsys-rep").exists, "the report of the killed rank")
        os.kill(ranks[0], signal.SIGTERM)
        until((place / "out" / "rank-0" / "report.html").exists, "the report of the other rank")


def tasks_of(srun: int) -> dict[int, int]:
    """Return the process id of each rank of a step."""
    return {number_of(pid): pid for pid in living("nsyswrap") if is_rank(pid, srun)}


def is_rank(pid: int, srun: int) -> bool:
    """Return whether a process is a task of the step."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == srun
    except OSError:
        return False


def number_of(pid: int) -> int:
    """Return the rank of a task."""
    found = re.search(rb"SLURM_PROCID=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
    return int(found[1]) if found else -1
