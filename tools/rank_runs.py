# ruff: noqa: INP001, T201 - a part of tools/judge_ranks.py, not a package
"""Profile the programs of workloads/ranks one after another, within a time limit.

Most of the time of a profile goes into starting libraries and into the export. So the next program starts when the one
before it has ended, while that one's capture is still being exported and analyzed.
"""

import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from rank_cases import CASES, Case

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads" / "ranks"
# A profile may take so long: four ranks take a minute to start. One that begins later than ENOUGH_S before the limit
# would be cut off.
LONGEST_S, ENOUGH_S = 150, 60
BUSY_S = LONGEST_S
POLL_S = 0.2
# Three steps of warm-up, twenty that are only timed, sixteen that are recorded, the X-ray step, and two after it.
STEPS, RECORDED = 42, "23:39"
# The programs print this for each rank when they have done their steps.
DONE = "ms a step"
# Each capture goes on with what `profile` recorded beside it, and with its report.
KEPT = ("run.json", "host.json", "report.json")
# NVLink's multicast stays off.
ALWAYS = (("NCCL_NVLS_ENABLE", "0"),)


def command(case: Case, folder: Path, port: int, gpus: int) -> list[str]:
    """Return the command that profiles one case."""
    launcher = [
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "1",
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        str(port),
    ]
    processes = 1 if case.in_one_process else gpus
    ranks = ["--nproc-per-node", str(processes), f"{case.program}.py", "--fault", case.fault, "--steps", str(STEPS)]
    variables = [word for pair in (*ALWAYS, *case.variables) for word in ("--env", "=".join(pair))]
    words = [sys.executable, "-m", "nsyswrap", "profile", "-o", str(folder), "--steps", RECORDED]
    options = ["--timeout", str(LONGEST_S), "--cwd", str(WORKLOADS), *variables]
    return [*words, *options, "--", sys.executable, *launcher, *ranks]


def start(name: str, folder: Path, port: int, gpus: int) -> tuple["subprocess.Popen[bytes]", Path]:
    """Start the profile of one case, and wait until its program has done its steps or has ended; return its log."""
    case, log = CASES[name], folder / f"{name}.log"
    busy = [sys.executable, str(WORKLOADS / "busy_gpu.py"), str(BUSY_S)]
    last = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpus - 1)}
    beside = subprocess.Popen(busy, env=last) if case.beside else None  # noqa: S603 - a program of this folder
    with log.open("wb") as out:
        running = subprocess.Popen(  # noqa: S603 - nsyswrap itself
            command(case, folder / name, port, gpus), stdout=out, stderr=subprocess.STDOUT
        )
    until = time.monotonic() + LONGEST_S
    while running.poll() is None and time.monotonic() < until:
        if log.read_text(errors="replace").count(DONE) >= (1 if case.in_one_process else gpus):
            break
        time.sleep(POLL_S)
    if beside is not None:
        beside.terminate()
        beside.wait()
    return running, log


def keep(name: str, folder: Path, running: "subprocess.Popen[bytes]", until: float, target: Path) -> str:
    """Wait for a profile, then write its redacted export and what is beside it; return what went wrong."""
    said = ""
    try:
        code = running.wait(max(until - time.monotonic(), 1))
        said = f"{name}: exit code {code}\n" if code else ""
        there = target / name
        there.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"{name}.log", there / "log.txt")
        for each in KEPT:
            if (folder / name / each).is_file():
                shutil.copyfile(folder / name / each, there / each)
        redacted = folder / f"{name}.sqlite"
        words = ["-m", "nsyswrap", "redact", str(folder / name / "capture.sqlite"), "--force", "-o", str(redacted)]
        left = max(until - time.monotonic(), 1)
        subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=left)  # noqa: S603 - ours
        drop_other_processes(redacted)
        (there / "capture.sqlite.xz").write_bytes(lzma.compress(redacted.read_bytes(), preset=1))
    except (OSError, sqlite3.Error, subprocess.SubprocessError) as error:
        said += f"{name}: {error}\n"
    finally:
        if running.poll() is None:
            running.terminate()
    return said + ((folder / f"{name}.log").read_text(errors="replace")[-2000:] if said else "")


def drop_other_processes(export: Path) -> None:
    """Drop the system calls of processes that use no GPU: those of launchers and loaders are most rows."""
    with closing(sqlite3.connect(export)) as database:
        used = "SELECT DISTINCT globalPid >> 24 FROM CUPTI_ACTIVITY_KIND_KERNEL"
        database.execute(f"DELETE FROM OSRT_API WHERE globalTid >> 24 NOT IN ({used})")  # noqa: S608 - our query
        database.commit()
        database.execute("VACUUM")


def record_all(names: Sequence[str], folder: Path, target: Path, seconds: float, gpus: int) -> list[str]:
    """Profile cases and write their redacted exports; return what went wrong.

    Args:
        names: The cases, the most important first: those that do not begin in time are left out.
        folder: An empty folder for the results.
        target: Where a folder for each case goes.
        seconds: The limit for all.
        gpus: The ranks of each job.
    """
    began = time.monotonic()
    until, wrong = began + seconds, []
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        kept = []
        for number, name in enumerate(names):
            if time.monotonic() > until - ENOUGH_S:
                wrong.append(f"{name}: left out, the time is up")
                continue
            running, log = start(name, folder, 29600 + number, gpus)
            steps = "; ".join(line for line in log.read_text(errors="replace").splitlines() if DONE in line)
            print(f"{time.monotonic() - began:.0f} s: {name}: {steps or 'no step'}", flush=True)
            kept.append(pool.submit(keep, name, folder, running, until, target))
        wrong += [said for each in kept if (said := each.result())]
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)
    return wrong
