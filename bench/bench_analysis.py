# ruff: noqa: INP001, S608, T201 - a program for the terminal; its SQL is made of the names above
"""Time the analysis of a large export against nsys's own reports of the same tables, in one run.

    python bench/bench_analysis.py [--copies 100] [--captures tests/captures]

It repeats the events of the committed BERT capture (100 times: 2.3 million kernels, 4.9 million CUDA calls, 8.2
million OS calls), runs nsys's nine reports and `nsyswrap analyze`, each as its own process, and prints the seconds,
the peak memory and the ratio. The ratio is what counts: seconds differ from machine to machine.
"""

import argparse
import lzma
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from nsyswrap.capture.locate import find_nsys

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests" / "captures" / "bench_source.sqlite.xz"

STATS = (
    "cuda_gpu_kern_sum",
    "cuda_api_sum",
    "cuda_gpu_mem_time_sum",
    "nvtx_sum",
    "nvtx_kern_sum",
    "nvtx_gpu_proj_sum",
    "osrt_sum",
)
RULES = ("gpu_gaps", "gpu_time_util")

# Events with the columns that move from one repetition to the next.
EVENTS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    "OSRT_API",
)
BOUND = 0.1


def enlarge(export: Path, copies: int) -> None:
    """Append the events of an export `copies` - 1 times, each time later, with correlation ids of their own."""
    with sqlite3.connect(export) as db:
        db.execute("pragma journal_mode = off")
        db.execute("pragma synchronous = off")
        span = db.execute("select max(end) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0] + 10**9
        ids = db.execute("select max(correlationId) from CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0] + 1
        moved = {"start": span, "end": span, "correlationId": ids}
        for table in EVENTS:
            columns = [row[1] for row in db.execute(f'pragma table_info("{table}")')]
            values = ", ".join(f'"{c}" + ? * {moved[c]}' if c in moved else f'"{c}"' for c in columns)
            rows = db.execute(f'select max(rowid) from "{table}"').fetchone()[0]
            shifts = sum(c in moved for c in columns)
            append = f'insert into "{table}" select {values} from "{table}" where rowid <= {rows}'
            for copy in range(1, copies):
                db.execute(append, [copy] * shifts)
        # Diagnostics count the events of one repetition; without them the copy counts as complete.
        db.execute("delete from DIAGNOSTIC_EVENT")


def measured(name: str, argv: list[str]) -> tuple[float, float]:
    """Run a command and return its wall seconds and its peak memory in GB."""
    began = time.perf_counter()
    process = os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)],
    )
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    if status:
        sys.exit(f"{name} failed with status {os.waitstatus_to_exitcode(status)}: {' '.join(argv)}")
    memory = usage.ru_maxrss * 1024 / 1e9
    print(f"{name:<24} {seconds:8.2f} s {memory:8.2f} GB", flush=True)
    return seconds, memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=100, help="how often the events are repeated")
    parser.add_argument("--folder", type=Path, help="where the large export is made and kept; else a temporary folder")
    options = parser.parse_args()
    nsys = find_nsys()
    with tempfile.TemporaryDirectory() as temporary:
        export = (options.folder or Path(temporary)) / f"large-{options.copies}.sqlite"
        if not export.exists():
            with lzma.open(SOURCE) as packed, export.open("wb") as target:
                shutil.copyfileobj(packed, target)
            enlarge(export, options.copies)
        print(f"{export.stat().st_size / 1e6:.0f} MB, nsys {nsys.version_text}, {os.cpu_count()} processors")
        theirs = [
            measured(f"nsys {report}", [str(nsys.path), "stats", "--report", report, "--format", "csv", str(export)])
            for report in STATS
        ]
        theirs += [
            measured(f"nsys {rule}", [str(nsys.path), "analyze", "--rule", rule, "--format", "csv", str(export)])
            for rule in RULES
        ]
        json = str(Path(temporary) / "report.json")
        command = [sys.executable, "-m", "nsyswrap", "analyze", str(export), "--format", "json", "-o", json]
        ours, memory = measured("nsyswrap analyze", command)
    total = sum(seconds for seconds, _ in theirs)
    print(f"nsys in all {total:.2f} s, nsyswrap {ours:.2f} s: ratio {ours / total:.3f} (bound {BOUND})")
    print(f"peak memory of nsyswrap {memory:.2f} GB (bound 2.50)")


if __name__ == "__main__":
    main()
