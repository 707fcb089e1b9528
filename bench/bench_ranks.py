"""Time `nsyswrap ranks` on a generated job of many ranks: CPU time of all processes, wall time and peak memory.

python bench/bench_ranks.py 1024
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from rank_generator import Clock, Job, exports  # noqa: E402 - beside the tests

# Each step of the generated job has this many collectives, and this many kernels of compute and of the optimizer.
BUCKETS = 4
LATE_NS = 400_000


def made(ranks: int, steps: int, folder: Path) -> None:
    """Write the exports of a job in which one rank is late by 0.4 ms a step, on hosts of eight ranks each."""
    late = ranks // 3
    hosts = [Clock((rank // 8) * 10_000, recording_ns=-1_000_000 - 1000 * rank) for rank in range(ranks)]
    delays = [[LATE_NS if rank == late else 0] * steps for rank in range(ranks)]
    exports(Job(delays, clocks=hosts, buckets=BUCKETS, jitter=5_000), folder)


def timed(folder: Path) -> tuple[float, float, float]:
    """Return wall time and CPU time in s, and the peak memory of the largest process in MB, of one report."""
    command = [sys.executable, "-m", "nsyswrap", "ranks", str(folder), "-o", str(folder / "job.json"), "-f"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})  # noqa: S603 - our own program
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, after.ru_maxrss / 1024


def main() -> None:
    """Make the job and print what its report takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int, nargs="?", default=1024)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--folder", type=Path, help="Use this job, and make it where it is not there.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "job"
        if not folder.is_dir():
            made(options.ranks, options.steps, folder)
        wall, cpu, peak = timed(folder)
    print(f"{options.ranks} ranks, {options.steps} steps: {wall:.1f} s, {cpu:.1f} s of CPU time, peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
