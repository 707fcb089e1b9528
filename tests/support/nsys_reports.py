"""Run the reports of the real nsys on an export, in a folder of the test."""

import csv
import subprocess
from pathlib import Path

STATS = (
    "cuda_gpu_kern_sum",
    "cuda_api_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "nvtx_sum",
    "nvtx_kern_sum",
    "nvtx_gpu_proj_sum",
    "osrt_sum",
)
RULES = ("gpu_gaps:gap=0:rows=-1", "gpu_time_util")
LONGEST_S = 120

Rows = list[dict[str, str]]


def reports_of(nsys: Path, export: Path, folder: Path) -> dict[str, Rows]:
    """Run nsys's reports and rules on a copy of an export.

    Args:
        nsys: The program.
        export: A ``.sqlite`` export; it is only read.
        folder: An empty folder; the copy and the reports are written there.

    Returns:
        The rows of each report by its name; no rows where nsys found no data for it.
    """
    copy = folder / "copy.sqlite"
    copy.write_bytes(export.read_bytes())
    for command, names, flag in (("stats", STATS, "--report"), ("analyze", RULES, "--rule")):
        wanted = [argument for name in names for argument in (flag, name)]
        program = [str(nsys), command, *wanted, "--format", "csv", "--output", str(folder / "said"), str(copy)]
        subprocess.run(program, cwd=folder, capture_output=True, check=True, timeout=LONGEST_S)
    return {name: _rows(folder, name) for name in (*STATS, *RULES)}


def _rows(folder: Path, name: str) -> Rows:
    path = folder / f"said_{name.replace(':', '_')}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
