# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Profile an unchanged GPU-bound loop many times, and the same loop with more work in between, in a limited time.

    python bench/gate_gpu_runs.py FOLDER [--seconds 180] [--lanes 4]
    python bench/gate_table.py FOLDER/gate_gpu_runs.json          the tables of docs/gate.md; needs no GPU

Each run is a process of its own under the real nsys, by `nsyswrap profile`. Runs use the GPU one at a time: each waits
for a lock before its first call to CUDA. The rest overlaps in LANES at once: loading torch, export and analysis.
FOLDER keeps each run's report.json, runs.json in order of their use of the GPU, and gate_gpu_runs.json with the step
times. A run that fails is left out. Rounds of nine have six unchanged runs and one each with 3, 5 and 10 % more work.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nsyswrap.capture.process import output_of

ROOT = Path(__file__).resolve().parents[1]
LOOP, TABLE = ROOT / "bench" / "gate_gpu_loop.py", ROOT / "bench" / "gate_table.py"
UNCHANGED, PLANTED = 100, (103, 105, 110)
UNCHANGED_IN_A_ROUND = 6
SEED = 15
# No run takes so long; what is left of the whole time counts, too.
LONGEST_RUN_S = 60.0


def order() -> Iterator[int]:
    """Yield the work of each run, in per cent; planted runs lie between unchanged ones, so both meet the same noise."""
    generator = random.Random(SEED)  # noqa: S311 - an order, not a secret
    while True:
        one = [*([UNCHANGED] * UNCHANGED_IN_A_ROUND), *PLANTED]
        generator.shuffle(one)
        yield from one


class Lanes:
    """Makes runs until the time is over.

    Args:
        folder: Where they are kept.
        end: Monotonic time after which no run begins.
        last: Monotonic time at which runs that are still going are ended.
    """

    def __init__(self, folder: Path, end: float, last: float) -> None:
        self.folder, self.end, self.last = folder, end, last
        self.done: list[dict[str, Any]] = []
        self._works, self._number, self._lock = order(), 0, threading.Lock()

    def work(self) -> None:
        """Make one run after the other."""
        while time.monotonic() < self.end:
            with self._lock:
                number, work = self._number, next(self._works)
                self._number += 1
            try:
                found = self._record(number, work)
            except (OSError, ValueError, TimeoutError) as error:
                print(f"run {number}: {error!r}", flush=True)
                continue
            if found is not None:
                self.done.append(found)

    def _record(self, number: int, work: int) -> dict[str, Any] | None:
        """Profile the loop once, and keep its report.json only; None where it fails."""
        began, load = time.monotonic(), os.getloadavg()[0]
        whole, note = self.folder / f"whole-{number:03d}", self.folder / f"note-{number:03d}.json"
        words = [sys.executable, "-m", "nsyswrap", "profile", "-q", "--force", "--no-profiler-cost", "-o", str(whole)]
        loop = [sys.executable, str(LOOP), str(work), str(self.folder / "lock"), str(note)]
        left = max(min(LONGEST_RUN_S, self.last - began), 1.0)
        try:
            done = output_of([*words, "--", *loop], timeout_s=left)
            if done.code:
                print(f"run {number}: exit code {done.code}: {done.stderr[-400:]}", flush=True)
                return None
            (self.folder / f"run-{number:03d}").mkdir(exist_ok=True)
            shutil.copy(whole / "report.json", self.folder / f"run-{number:03d}")
        finally:
            shutil.rmtree(whole, ignore_errors=True)
        at = json.loads(note.read_text(encoding="utf-8"))["began"]
        print(f"run {number}: {work} %, load {load:.1f}, {time.monotonic() - began:.1f} s", flush=True)
        return {"run": number, "work": work, "load": round(load, 2), "started": round(at, 2)}


def main() -> None:
    """Make runs, and write down their step times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=180, help="End after this time, all together.")
    parser.add_argument("--lanes", type=int, default=4, help="Runs at once; one of them has the GPU.")
    chosen = parser.parse_args()
    began, folder = time.monotonic(), chosen.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    # Runs that are going when the time is nearly over still have some seconds, and the table takes some.
    lanes = Lanes(folder, began + chosen.seconds * 0.85, began + chosen.seconds * 0.95)
    threads = [threading.Thread(target=lanes.work) for _ in range(chosen.lanes)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    runs = sorted(lanes.done, key=lambda one: float(one["started"]))
    (folder / "runs.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    same = sum(one["work"] == UNCHANGED for one in runs)
    print(f"{len(runs)} runs, {same} of them unchanged, in {time.monotonic() - began:.0f} s", flush=True)
    if runs:
        keep = [sys.executable, str(TABLE), "--keep", str(folder / "gate_gpu_runs.json"), str(folder)]
        subprocess.run(keep, check=True, timeout=120)  # noqa: S603 - our own program


if __name__ == "__main__":
    main()
