"""Use nsyswrap for a long time as a busy machine does, and print what fails, grows or is left: `make soak`.

It runs rounds of five tasks beside a load on each core: profile and compare a program, write the report of a real
capture, end a run with a random signal and finish it, write to a full disk. A process that opens captures through the
library lives through all rounds. Ctrl-C ends early. The exit code is 1 if a check failed.
"""

import argparse
import hashlib
import json
import lzma
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nsyswrap.capture.process_tree import with_variable  # noqa: E402
from nsyswrap.capture.result_folder import LOCK_NAME, UNFINISHED_NAME, is_interrupted  # noqa: E402 - of this checkout

CAPTURE = ROOT / "tests" / "captures" / "mnist_counters_python.sqlite.xz"
# Every process of a soak has this variable, so that none is missed.
MARK = "NSYSWRAP_SOAK"
COMMAND = (sys.executable, "-m", "nsyswrap")
PROGRAM = """
import os, sys, time, nvtx
sys.stderr = open(os.devnull, "w")  # its own traceback at Ctrl-C is none of nsyswrap
for number in range(int(sys.argv[1])):
    with nvtx.annotate(f"step {number}"):
        with nvtx.annotate("data"): time.sleep(0.002)
        with nvtx.annotate("forward"): sum(range(20_000))
"""
READER = """
import gc, pathlib, sys
import nsyswrap
for line in sys.stdin:
    with_report = nsyswrap.open(line.strip()).report
    del with_report
    gc.collect()
    print(pathlib.Path("/proc/self/statm").read_text().split()[1], flush=True)
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
# A run that was killed ends its program after at most ten seconds; a busy machine needs longer.
END_S = 90.0
# nsys makes it in the temporary folder of each call, as `nsys --version` is one, and keeps it.
NSYS_FOLDER = "nvidia"
PAGE_BYTES = resource.getpagesize()


class CheckFailedError(Exception):
    """A check did not hold."""


def check(*, holds: bool, what: str) -> None:
    if not holds:
        raise CheckFailedError(what)


@dataclass(slots=True)
class Soak:
    """One soak.

    Attributes:
        chance: Draws the signals and their times.
        peaks: Peak memory of each command in bytes, by task.
        resident: Memory of the long-lived reader after each capture, in bytes.
        result: The digest of the report of the real capture.
        lasting: The processes that live through the soak.
    """

    folder: Path
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    peaks: dict[str, list[int]] = field(default_factory=dict)
    resident: list[int] = field(default_factory=list)
    result: str = ""
    lasting: tuple[int, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of every process of the soak."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            MARK: str(self.folder),
        }

    def run(self, task: str, *words: str, codes: tuple[int, ...] = (0,), first: str = "") -> str:
        """Run a command of nsyswrap, check its exit code, and return what it printed."""
        argv = ["sh", "-c", f'{first}; exec "$@"', "sh", *COMMAND, *words] if first else [*COMMAND, *words]
        with tempfile.TemporaryFile(dir=self.folder) as out, tempfile.TemporaryFile(dir=self.folder) as err:
            process = subprocess.Popen(argv, stdout=out, stderr=err, env=self.environment, cwd=self.folder)  # noqa: S603
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.peaks.setdefault(task, []).append(usage.ru_maxrss * 1024)
            err.seek(0)
            said = err.read().decode(errors="replace")
            check(holds="Traceback" not in said, what=f"{task}: traceback: {said[-300:]}")
            check(holds=process.returncode in codes, what=f"{task}: exit code {process.returncode}: {said[-300:]}")
            out.seek(0)
            return out.read().decode()

    def profiled(self, number: int) -> None:
        """Profile a program, read the result twice, and compare it with the one before."""
        new, old = self.folder / f"run-{number}", self.folder / f"run-{number - 1}"
        program = (sys.executable, str(self.folder / "train.py"), "100")
        self.run("profile", "profile", "-q", "-o", str(new), "--", *program)
        first = self.run("analyze", "analyze", str(new / "capture.sqlite"), "--format", "json")
        check(holds=first == self.run("analyze", "analyze", str(new / "capture.sqlite"), "--format", "json"),
              what="analyze: two results of one capture")  # fmt: skip
        steps = json.loads(first)["sections"]
        check(holds=bool(steps), what="analyze: no sections")
        if old.is_dir():
            # 3: beside this load it may be uncertain whether a step became faster or slower.
            self.run("compare", "compare", str(old / "report.json"), str(new / "report.json"), codes=(0, 3))

    def reported(self, _number: int) -> None:
        """Write the page of a real capture and its report: the same bytes each time."""
        target = self.folder / "page.json"
        self.run("report", "report", str(self.folder / "real.sqlite"), "-o", str(self.folder / "page.html"), "-f")
        self.run("report", "analyze", str(self.folder / "real.sqlite"), "--format", "json", "-o", str(target), "-f")
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        self.result = self.result or digest
        check(holds=self.result == digest, what="report: two results of one capture")

    def ended(self, number: int) -> None:
        """End a run with a signal at a random time; afterwards it is whole, absent, or can be finished."""
        target = self.folder / f"ended-{number}"
        kind, delay = self.chance.choice(SIGNALS), self.chance.uniform(0.0, 6.0)
        program = (sys.executable, str(self.folder / "train.py"), "1000")
        argv = [*COMMAND, "profile", "-q", "-o", str(target), "--", *program]
        process = subprocess.Popen(  # noqa: S603 - our own program
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment, cwd=self.folder
        )
        time.sleep(delay)
        process.send_signal(kind)
        _, said = process.communicate(timeout=END_S)
        what = f"ended by {kind.name} after {delay:.2f} s"
        check(holds=b"Traceback" not in said, what=f"{what}: traceback: {said[-300:]!r}")
        self.wait_for_the_end(what)
        if is_interrupted(target):
            check(holds=self.finished(target), what=f"{what}: resume failed")
        left = {path.name for path in target.glob("*")}
        # What SIGKILL leaves: the lock, which the next run takes over, and data that nsys cannot make a report from.
        rest = left - {LOCK_NAME, UNFINISHED_NAME} if kind == signal.SIGKILL else left
        check(holds="report.json" in left or not rest, what=f"{what}: left {sorted(left)}")

    def finished(self, target: Path) -> bool:
        """Finish an interrupted run; return whether it is whole, or nothing was recorded and it says so."""
        argv = [*COMMAND, "resume", "-q", str(target)]
        done = subprocess.run(  # noqa: S603 - our own program
            argv, capture_output=True, env=self.environment, cwd=self.folder, check=False, timeout=END_S
        )
        return done.returncode == 0 or (b"hint:" in done.stderr and b"Traceback" not in done.stderr)

    def filled(self, _number: int) -> None:
        """Write to a file system without space, as a limit on the size of files: an error, and no part of a file."""
        target = self.folder / "full.html"
        self.run(
            "full disk", "report", "real.sqlite", "-o", str(target), codes=(1,), first="trap '' XFSZ; ulimit -f 64"
        )
        check(holds=not target.exists(), what="full disk: a part of the page is left")

    def wait_for_the_end(self, what: str) -> None:
        """Wait until no process of the soak runs but those that live through it."""
        until = time.monotonic() + END_S
        while left := self.strangers():
            shown = [Path(f"/proc/{pid}/cmdline").read_bytes()[:100] for pid in left if Path(f"/proc/{pid}").exists()]
            check(holds=time.monotonic() < until, what=f"{what}: processes are left: {shown}")
            time.sleep(0.2)

    def strangers(self) -> list[int]:
        """Return the processes of the soak's commands."""
        every = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
        return [pid for pid in with_variable(MARK, str(self.folder), every) if pid not in self.lasting]

    def clear(self, number: int) -> None:
        """Check that no temporary file is left, and remove results that are not needed any more."""
        left = [path for path in (self.folder / "tmp").iterdir() if path.name != NSYS_FOLDER and not is_probe(path)]
        for path in (self.folder / "tmp").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for old in (self.folder / f"run-{number - 1}", self.folder / f"ended-{number}"):
            shutil.rmtree(old, ignore_errors=True)
        check(holds=not left, what=f"temporary files are left: {[path.name for path in left]}")


def is_probe(path: Path) -> bool:
    """Return whether Python left a file: it writes one to find its temporary folder, and a kill may come just then."""
    return path.is_file() and path.read_bytes() in {b"", b"blat"} and len(path.name) == len("iyhiapo0")


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep each core busy with a process of its own until the end of the block."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def soak(state: Soak, minutes: float) -> None:
    """Run rounds until the time is over or Ctrl-C is pressed."""
    for name in ("tmp", "cache"):
        (state.folder / name).mkdir()
    (state.folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    (state.folder / "real.sqlite").write_bytes(lzma.decompress(CAPTURE.read_bytes()))
    reader = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=state.environment,
    )
    state.lasting = (reader.pid,)
    over, number = time.monotonic() + 60 * minutes, 0
    try:
        with busy(os.cpu_count() or 1):
            while time.monotonic() < over:
                number += 1
                _round(state, number, reader)
                print(f"round {number}: {sum(state.failed.values())} failed", flush=True)
    except KeyboardInterrupt:
        print()
    finally:
        reader.kill()
        reader.wait()


def _round(state: Soak, number: int, reader: "subprocess.Popen[str]") -> None:
    """Run each task once; a check that fails ends its task only."""
    tasks: tuple[Callable[[int], None], ...] = (state.profiled, state.reported, state.ended, state.filled, state.clear)
    for task in tasks:
        try:
            task(number)
            state.done[task.__name__] += 1
        except (CheckFailedError, subprocess.TimeoutExpired) as error:
            state.failed[str(error)] += 1
            print(f"round {number}: {error}", flush=True)
    if reader.stdin is not None and reader.stdout is not None:
        print(state.folder / "real.sqlite", file=reader.stdin, flush=True)
        state.resident.append(int(reader.stdout.readline()) * PAGE_BYTES)


def summary(state: Soak, minutes: float) -> str:
    """Return what was done, what failed, and how memory changed from the first to the last quarter."""
    lines = [f"{minutes:.1f} min, {os.cpu_count()} cores, each with a busy process beside it"]
    lines += [f"{name}: {count} times" for name, count in state.done.items()]
    peaks = {**state.peaks, "library, one process": state.resident}
    for name, values in peaks.items():
        if not values:
            continue
        quarter = max(len(values) // 4, 1)
        first, last = (statistics.median(part) / 2**20 for part in (values[:quarter], values[-quarter:]))
        lines.append(f"memory of {name}: {first:.1f} MiB in the first quarter, {last:.1f} MiB in the last")
    lines += [f"failed {count} times: {what}" for what, count in state.failed.items()]
    return "\n".join([*lines, f"{sum(state.failed.values())} checks failed"])


def main() -> int:
    """Soak for the given time, print the summary, and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Use nsyswrap for a long time, and print what fails, grows or is left."
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    # Behind `&` a shell has SIGINT ignored, and SIGTERM would leave the load running.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="nsyswrap-soak-") as folder:
        state, began = Soak(Path(folder), random.Random(given.seed)), time.monotonic()  # noqa: S311 - no secret
        soak(state, given.minutes)
        print(summary(state, (time.monotonic() - began) / 60))
    return 1 if state.failed else 0


if __name__ == "__main__":
    sys.exit(main())
