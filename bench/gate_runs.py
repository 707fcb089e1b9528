# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Profile an unchanged loop many times, and the same loop with more work in between: the runs behind docs/gate.md.

    nice python bench/gate_runs.py FOLDER            48 unchanged runs; 12 each with 3, 5 and 10 % more work
    nice python bench/gate_runs.py FOLDER -15        the same, the loop alone with this priority, which needs root
    python bench/gate_table.py FOLDER...             the table of docs/gate.md

Each run is a process of its own under the real nsys. FOLDER keeps each run's report.json, and runs.json with the order,
the work and the load of the machine at the start of each run. A run that is there is not repeated.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOP = ROOT / "bench" / "gate_loop.py"
ROUNDS = 12
UNCHANGED, PLANTED = 100, (103, 105, 110)
UNCHANGED_IN_A_ROUND = 4
LIMIT_S = 120.0
# nsys itself fails now and then where several run at once on a busy machine.
TRIES = 3
SEED = 15


def order() -> list[int]:
    """Return the work of each run, in per cent; planted runs lie between unchanged ones, so both meet the same load."""
    generator = random.Random(SEED)  # noqa: S311 - an order, not a secret
    rounds = []
    for _ in range(ROUNDS):
        one = [*([UNCHANGED] * UNCHANGED_IN_A_ROUND), *PLANTED]
        generator.shuffle(one)
        rounds += one
    return rounds


def record(folder: Path, work: int, priority: str) -> None:
    """Profile the loop once, and keep its report.json only; a priority is that of `nice`, empty for ours."""
    command = [sys.executable, "-m", "nsyswrap", "profile", "-q", "--force", "--no-profiler-cost", "--trace", "nvtx"]
    loop = [*(["nice", "-n", priority] if priority else []), sys.executable, str(LOOP), str(work)]
    whole = folder.with_name(f"{folder.name}-whole")
    for _ in range(TRIES):
        done = subprocess.run(  # noqa: S603 - ourselves
            [*command, "-o", str(whole), "--", *loop],
            timeout=LIMIT_S, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not done.returncode:
            break
        print(f"a run failed with {done.returncode}: {done.stderr}", file=sys.stderr, flush=True)
    else:
        raise SystemExit(1)
    folder.mkdir()
    shutil.copy(whole / "report.json", folder)
    shutil.rmtree(whole)


def main(target: Path, priority: str) -> None:
    """Make the runs that are missing."""
    target.mkdir(parents=True, exist_ok=True)
    notes = target / "runs.json"
    runs = json.loads(notes.read_text()) if notes.is_file() else []
    for number, work in enumerate(order()):
        if number < len(runs):
            continue
        load, began = os.getloadavg()[0], time.time()
        record(target / f"run-{number:03d}", work, priority)
        runs.append({"run": number, "work": work, "load": round(load, 2), "started": round(began, 1)})
        notes.write_text(json.dumps(runs, indent=1) + "\n")
        print(f"run {number}: {work} %, load {load:.1f}, {time.time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")  # noqa: PLR2004 - a second argument
