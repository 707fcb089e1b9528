"""Profile the programs of workloads/ranks one after another, within a time limit.

Most of the time of a profile goes into loading libraries, the export and the analysis. So the next job loads its
libraries while one is measured (``in_turn.py``), and the captures of those before are exported meanwhile.
"""

import lzma
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rank_cases import CASES, Case

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads" / "ranks"
IN_TURN = Path(__file__).resolve().with_name("in_turn.py")
# A profile may take so long, with the wait for its turn. One that begins later than ENOUGH_S before the limit would be
# cut off.
LONGEST_S, ENOUGH_S = 150, 60
BUSY_S = LONGEST_S
POLL_S = 0.1
# Three steps of warm-up, twenty that are only timed, sixteen that are recorded, up to three X-ray steps, and some more.
STEPS, RECORDED = 46, "23:39"
# The programs print this for each rank when they have done their steps.
DONE = "ms a step"
# Each capture goes on with what `profile` recorded beside it.
KEPT = ("run.json", "host.json")
# NVLink's multicast stays off.
ALWAYS = (("NCCL_NVLS_ENABLE", "0"),)


def command(case: Case, folder: Path, turn: Path, gpus: int) -> list[str]:
    """Return the command that profiles one case when a file says that it is its turn."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    launcher = ["-m", "torch.distributed.run", "--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", port]
    processes = 1 if case.in_one_process else gpus
    program = [str(IN_TURN), str(turn), f"{case.program}.py", "--fault", case.fault, "--steps", str(STEPS)]
    variables = [word for pair in (*ALWAYS, *case.variables) for word in ("--env", "=".join(pair))]
    words = [sys.executable, "-m", "nsyswrap", "profile", "-o", str(folder), "--steps", RECORDED, "--no-alternatives"]
    options = ["--timeout", str(LONGEST_S), "--cwd", str(WORKLOADS), *variables]
    return [*words, *options, "--", sys.executable, *launcher, "--nproc-per-node", str(processes), *program]


class Run(NamedTuple):
    """A profile that was started: its name, the folder of all, the process, and what the program waits for."""

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"
    turn: Path

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")

    def take_turn(self, gpus: int, *, is_first: bool) -> None:
        """Let the program go on, and wait until it has done its steps or has ended.

        The first one of a machine measures the links after its steps, so all of it is waited for.
        """
        case = CASES[self.name]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        last = {**os.environ, "CUDA_VISIBLE_DEVICES": visible.split(",")[gpus - 1]}
        busy = [sys.executable, str(WORKLOADS / "busy_gpu.py"), str(BUSY_S)]
        beside = subprocess.Popen(busy, env=last) if case.beside else None  # noqa: S603 - a program of this folder
        self.turn.touch()
        until, ranks = time.monotonic() + LONGEST_S, 1 if case.in_one_process else gpus
        while self.process.poll() is None and time.monotonic() < until:
            record = self.folder / self.name / "run.json"
            if record.is_file() if is_first else self.log.count(DONE) >= ranks:
                break
            time.sleep(POLL_S)
        if beside is not None:
            beside.terminate()
            beside.wait()


def start(name: str, folder: Path, gpus: int) -> Run:
    """Start the profile of one case, which waits for its turn before it uses a GPU."""
    turn = folder / f"{name}.turn"
    with (folder / f"{name}.log").open("wb") as out:
        words = command(CASES[name], folder / name, turn, gpus)
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)  # noqa: S603 - nsyswrap itself
    return Run(name, folder, process, turn)


def keep(run: Run, until: float, target: Path) -> str:
    """Wait for a profile, then write its redacted export and what is beside it; return what went wrong."""
    name, folder, running, said = run.name, run.folder, run.process, ""
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
        (there / "capture.sqlite.xz").write_bytes(lzma.compress(redacted.read_bytes(), preset=6))
    except (OSError, sqlite3.Error, subprocess.SubprocessError) as error:
        said += f"{name}: {error}\n"
    finally:
        if running.poll() is None:
            running.terminate()
    return said + (run.log[-2000:] if said else "")


def drop_other_processes(export: Path) -> None:
    """Drop the system calls of processes that use no GPU: those of launchers and loaders are most rows."""
    with closing(sqlite3.connect(export)) as database:
        used = "SELECT DISTINCT globalPid >> 24 FROM CUPTI_ACTIVITY_KIND_KERNEL"
        database.execute(f"DELETE FROM OSRT_API WHERE globalTid >> 24 NOT IN ({used})")  # noqa: S608 - our query
        database.commit()
        database.execute("VACUUM")


def record_all(names: Sequence[str], folder: Path, target: Path, seconds: float, gpus: int) -> list[str]:
    """Profile cases and write their redacted exports; return what went wrong."""
    began = time.monotonic()
    until, wrong, left = began + seconds, [], list(names)
    waiting: Run | None = None
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        kept: list[Future[str]] = []
        while waiting or left:
            if time.monotonic() > until - ENOUGH_S:
                wrong += [f"{name}: left out, the time is up" for name in [*([waiting.name] if waiting else ()), *left]]
                break
            run = waiting or start(left.pop(0), folder, gpus)
            # Before the first one has run, nothing is measured that the others need.
            waiting = start(left.pop(0), folder, gpus) if kept and left else None
            run.take_turn(gpus, is_first=not kept)
            steps = "; ".join(line for line in run.log.splitlines() if DONE in line)
            print(f"{time.monotonic() - began:.0f} s: {run.name}: {steps or 'no step'}", flush=True)
            kept.append(pool.submit(keep, run, until, target))
        if waiting:
            waiting.process.terminate()
        wrong += [said for each in kept if (said := each.result())]
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)
    return wrong
