# ruff: noqa: S608 - its SQL is made of the names above
"""Time the analysis of a large export against nsys's own reports of the same tables, in one run.

    python bench/bench_analysis.py [--copies 100] [--sizes 25 50] [--folder DIR] [--without-nsys]

It repeats the events of the committed BERT capture (100 times: 2.3 million kernels, 4.9 million CUDA calls, 8.2
million OS calls), runs nsys's nine reports and `nsyswrap analyze`, each as its own process, and prints seconds, CPU
seconds, peak memory and ratios. Ratios count: seconds differ from machine to machine. Wall seconds grow with the load
of the machine, which is printed; CPU seconds hardly do. With smaller `--sizes` it also prints how time and memory grow:
an exponent of 1 is linear.
"""

import argparse
import compileall
import lzma
import math
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
# nsys's reports must take at least so many times the time of `nsyswrap analyze`, and that at most so much memory.
WANTED_RATIO, MOST_GB = 14, 1.6


class Used(NamedTuple):
    """What a process used.

    Attributes:
        wall_s: Seconds from its start to its end.
        cpu_s: Seconds of all processors, in the program and in the kernel, of it and its children.
    """

    wall_s: float
    cpu_s: float
    memory_gb: float


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
        # A range that ends after the recording would count as open, and not as a step.
        added = span * (copies - 1)
        db.execute("update ANALYSIS_DETAILS set duration = duration + ?, stopTime = stopTime + ?", [added, added])
        # Diagnostics count the events of one repetition; without them the copy counts as complete.
        db.execute("delete from DIAGNOSTIC_EVENT")


def measured(name: str, argv: list[str]) -> Used:
    """Run a command, print what it used, and return it."""
    load, began = os.getloadavg()[0], time.perf_counter()
    process = os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)],
    )
    _, status, usage = os.wait4(process, 0)
    found = Used(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9)
    if status:
        sys.exit(f"{name} failed with status {os.waitstatus_to_exitcode(status)}: {' '.join(argv)}")
    print(
        f"{name:<24} {found.wall_s:8.2f} s {found.cpu_s:8.2f} CPU s {found.memory_gb:8.2f} GB   load {load:.1f}",
        flush=True,
    )
    return found


def large_export(folder: Path, copies: int) -> Path:
    """Return an export with the events repeated; it is made where the folder does not have it yet."""
    export = folder / f"bert-x-{copies}.sqlite"
    if not export.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with lzma.open(SOURCE) as packed, export.open("wb") as target:
            shutil.copyfileobj(packed, target)
        enlarge(export, copies)
    return export


def time_nsys(nsys: Path, export: Path) -> Used:
    """Run nsys's reports of an export and return what they used one after another."""
    reports = [("stats", "--report", name) for name in STATS] + [("analyze", "--rule", name) for name in RULES]
    used = [
        measured(f"nsys {name}", [str(nsys), command, flag, name, "--format", "csv", str(export)])
        for command, flag, name in reports
    ]
    return Used(sum(e.wall_s for e in used), sum(e.cpu_s for e in used), max(e.memory_gb for e in used))


def time_nsyswrap(export: Path, copies: int) -> Used:
    """Run `nsyswrap analyze` on an export and return what it used."""
    with tempfile.TemporaryDirectory() as temporary:
        json = str(Path(temporary) / "report.json")
        command = [sys.executable, "-m", "nsyswrap", "analyze", str(export), "--format", "json", "-o", json]
        return measured(f"nsyswrap, {copies} copies", command)


def exponents(copies: Sequence[float], used: Sequence[Used]) -> dict[str, float]:
    """Return the exponents with which what was used grows with the number of copies: slopes of its logarithm."""
    size = [math.log(each) for each in copies]
    return {
        name: statistics.linear_regression(size, [math.log(getattr(each, name)) for each in used]).slope
        for name in Used._fields
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=100, help="how often the events are repeated")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[25, 50], help="more numbers of repetitions, for growth"
    )
    parser.add_argument("--folder", type=Path, help="where the large export is made and kept; else a temporary folder")
    parser.add_argument("--without-nsys", action="store_true", help="time only nsyswrap")
    options = parser.parse_args()
    # As pip does when it installs; a checkout may have no compiled modules.
    compileall.compile_dir(ROOT / "nsyswrap", quiet=2)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        export = large_export(folder, options.copies)
        print(f"{export.stat().st_size / 1e6:.0f} MB, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        if not options.without_nsys:
            nsys = find_nsys()
            print(f"nsys {nsys.version_text}")
            theirs = time_nsys(nsys.path, export)
        sizes = sorted({*options.sizes, options.copies})
        used = [time_nsyswrap(large_export(folder, copies), copies) for copies in sizes]
    ours = used[sizes.index(options.copies)]
    if not options.without_nsys:
        print(f"nsys in all {theirs.wall_s:.2f} s, {theirs.cpu_s:.2f} CPU s")
        print(
            f"nsys takes {theirs.wall_s / ours.wall_s:.1f} times the seconds of nsyswrap, and "
            f"{theirs.cpu_s / ours.cpu_s:.1f} times the CPU seconds (wanted: {WANTED_RATIO} times the seconds, on two "
            "processors without other load)"
        )
    print(f"peak memory of nsyswrap {ours.memory_gb:.2f} GB (wanted: {MOST_GB})")
    if len(sizes) > 1:
        grows = exponents(sizes, used)
        print("growth, from " + " ".join(map(str, sizes)) + " copies: exponent of CPU seconds", end=" ")
        print(f"{grows['cpu_s']:.2f}, of memory {grows['memory_gb']:.2f} (1 is linear)")


if __name__ == "__main__":
    main()
