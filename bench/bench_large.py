# ruff: noqa: INP001, T201 - a program for the terminal
"""Time the analysis of exports of some ten million operations with a bound on memory, and how time and memory grow.

    python bench/bench_large.py [--millions 10 25 50] [--memory 4GB] [--folder DIR]

Each export holds the events of the committed BERT capture, repeated until it has so many GPU operations: 50 million
have 98 million CUDA calls, 164 million OS calls and 17 GB. It is removed when it was timed. The program prints seconds,
CPU seconds, peak memory, what was read in detail, and the exponents of growth: 1 is linear.
"""

import argparse
import compileall
import json
import lzma
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from bench_analysis import EVENTS, ROOT, SOURCE, Used, exponents, measured
from export_pages import repeat

# GPU operations of the source, and bytes of an export for each of them, with some room.
OPERATIONS, BYTES = 24_889, 500


def large_export(folder: Path, millions: float) -> Path:
    """Make an export with so many million operations, and return it."""
    copies = max(round(millions * 1e6 / OPERATIONS), 1)
    export = folder / f"bert-{millions:g}-million.sqlite"
    with lzma.open(SOURCE) as packed, export.open("wb") as target:
        shutil.copyfileobj(packed, target)
    with sqlite3.connect(export) as db:
        span = db.execute("select max(end) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0] + 10**9
        ids = db.execute("select max(correlationId) from CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0] + 1
        added = span * (copies - 1)
        # Later ranges would count as open, and diagnostics count the events of one repetition.
        db.execute("update ANALYSIS_DETAILS set duration = duration + ?, stopTime = stopTime + ?", [added, added])
        db.execute("delete from DIAGNOSTIC_EVENT")
    repeat(export, EVENTS, {"start": span, "end": span, "correlationId": ids}, copies)
    return export


def has_room(folder: Path, millions: float) -> bool:
    """Return whether a folder has room for an export of so many million operations; say so where it has not."""
    needed, free = millions * 1e6 * BYTES, shutil.disk_usage(folder).free
    if needed > free:
        print(
            f"{millions:g} million operations are left out: they need {needed / 1e9:.0f} GB, {free / 1e9:.0f} are free"
        )
    return needed <= free


def timed(folder: Path, millions: float, memory: str) -> Used:
    """Time the analysis of an export, and print what it read."""
    export, report = large_export(folder, millions), folder / "report.json"
    print(f"{millions:g} million operations, {export.stat().st_size / 1e9:.1f} GB", flush=True)
    command = [sys.executable, "-m", "nsyswrap", "analyze", str(export), "--memory", memory]
    used = measured("  analyze", [*command, "--format", "json", "-o", str(report), "--force"])
    export.unlink()
    for note in json.loads(report.read_text(encoding="utf-8"))["notes"]:
        print(f"  {note}")
    return used


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, nargs="+", default=[10, 25, 50], help="millions of GPU operations")
    parser.add_argument("--memory", default="4GB", help="what the analysis may take")
    parser.add_argument("--folder", type=Path, help="where the exports are made; else a temporary folder")
    options = parser.parse_args()
    # As pip does when it installs; a checkout may have no compiled modules.
    compileall.compile_dir(ROOT / "nsyswrap", quiet=2)
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        sizes = [each for each in options.millions if has_room(Path(folder), each)]
        used = [timed(Path(folder), millions, options.memory) for millions in sizes]
    if len(used) > 1:
        grows = exponents(sizes, used)
        print(
            f"growth, exponents (1 is linear): seconds {grows['wall_s']:.2f}, CPU seconds {grows['cpu_s']:.2f}, "
            f"memory {grows['memory_gb']:.2f}"
        )


if __name__ == "__main__":
    main()
