"""Time the analysis of exports of some ten million operations with a bound on memory, and how time and memory grow.

    python bench/bench_large.py [--millions 10 25 50] [--memory 4GB] [--folder DIR]

Each export holds the events of the committed BERT capture, repeated until it has so many GPU operations: 50 million
have 98 million CUDA calls, 164 million OS calls and 17 GB. SQLite needs some minutes to write it. It is removed when it
was timed. The program prints seconds, CPU seconds, peak memory, what was read in detail, and the exponents of growth: 1
is linear.
"""

import argparse
import compileall
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench_analysis import ROOT, Used, exponents, large_export, measured

# GPU operations of the source, and bytes of an export for each of them, with some room.
OPERATIONS, BYTES = 24_889, 500


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
    export, report = large_export(folder, max(round(millions * 1e6 / OPERATIONS), 1)), folder / "report.json"
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
