# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Run programs alone and under the profiler in turn, and compare their steps with the simulated: `make overhead`.

It needs a GPU. Each program of tools/overhead_programs.py runs alone and under `nsyswrap profile` in turn, some times;
some also run under nsys with one option added or left out. The results go into reports/overhead.json, and a page into
docs/overhead.md. With --again the page alone is written from the results that are there: that needs no GPU.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import overhead_page

from nsyswrap.capture.process import output_of

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tools" / "overhead_programs.py"
RESULTS = ROOT / "reports" / "overhead.json"
PAGE = ROOT / "docs" / "overhead.md"
NO_GPU = "overhead: this needs an NVIDIA GPU; `--again` writes the page from the results in reports/overhead.json"

PROGRAMS = (
    *("lstm_cells", "small_encoder", "items", "hugging_bert", "vision_resnet", "large_encoder", "looped_optimizer"),
    *("timm_mobile", "lightning_loop", "hugging_decoding", "matrix_products", "graph_launches", "middle_encoder"),
    "loaded_pictures",
)
# What is recorded, for the table of options: the arguments of nsys. The first is the default of nsyswrap.
NO_SAMPLES = ("--sample=none", "--cpuctxsw=none")
NODES = "--cuda-graph-trace=node"
OPTIONS = {
    "the default": ("--trace=cuda,nvtx,cudnn,cublas,osrt", NODES, *NO_SAMPLES),
    "--light": ("--trace=cuda,nvtx,osrt", "--cuda-graph-trace=graph", "--cuda-event-trace=false", *NO_SAMPLES),
    "cuda,nvtx,osrt": ("--trace=cuda,nvtx,osrt", NODES, *NO_SAMPLES),
    "cuda,nvtx": ("--trace=cuda,nvtx", NODES, *NO_SAMPLES),
    "cuda": ("--trace=cuda", NODES, *NO_SAMPLES),
    "the default, flushed each second": (
        *("--trace=cuda,nvtx,cudnn,cublas,osrt", NODES, "--cuda-flush-interval=1000", *NO_SAMPLES),
    ),
    "the default, CPU sampled": (
        *("--trace=cuda,nvtx,cudnn,cublas,osrt", NODES, "--sample=process-tree", "--cpuctxsw=process-tree"),
    ),
    "the default, Python sampled": (
        *("--trace=cuda,nvtx,cudnn,cublas,osrt", NODES, "--python-sampling=true", "--python-sampling-frequency=1000"),
        *NO_SAMPLES,
    ),
}
OF_OPTIONS = ("lstm_cells", "graph_launches")
LONGEST_S = 240
# How often each program is profiled. The pace of a shared machine changes by more than is to be measured; the median of
# three runs does not follow a single slow one.
PROFILES = 3


def alone(names: Sequence[str], folder: Path, prefix: Sequence[str] = ()) -> dict[str, list[int]]:
    """Run some programs in one process, and return the lengths of their steps in ns; nothing where that fails."""
    target = folder / "times.json"
    target.unlink(missing_ok=True)
    words = [*prefix, sys.executable, str(PROGRAM), *names, "--times", str(target)]
    try:
        done = output_of(words, timeout_s=LONGEST_S)  # it also ends the program and the agent of nsys
    except TimeoutError:
        print(f"{', '.join(names)}: no end after {LONGEST_S} s", flush=True)
        return {}
    if done.code or not target.is_file():
        print(f"{', '.join(names)}: exit code {done.code}: {done.stderr[-400:]}", flush=True)
        return {}
    found: dict[str, list[int]] = json.loads(target.read_text(encoding="utf-8"))
    return found


def profiled(name: str, folder: Path) -> dict[str, Any] | None:
    """Profile a program, and return its report; None where that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [sys.executable, "-m", "nsyswrap", "profile", "-q", "-o", str(folder), "--timeout", str(LONGEST_S)]
    words += ["--", sys.executable, str(PROGRAM), name]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - nsyswrap itself
    if done.returncode:
        print(f"{name}: profile: exit code {done.returncode}: {done.stderr[-400:]}", flush=True)
        return None
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def row_of(name: str, alone_ns: Sequence[Sequence[int]], reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a program: its steps in the runs alone and in its reports, without the steps of the warm-up."""
    skipped = max(int(each["sections"]["steps"]["facts"]["warm_up_steps"]["value"]) for each in reports)
    warm = [each[skipped:] for each in alone_ns]
    return {
        "program": name,
        "alone_ns": [round(statistics.median(each)) for each in warm],
        "steps": len(warm[0]),
        "profiles": [_profile(each) for each in reports],
    }


def _profile(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the row of a program keeps of one of its reports."""
    cost = report["sections"].get("profiler_cost", {}).get("tables", {}).get("calls", [])
    return {
        "step": report["step"],
        "verdict": report["verdict"],
        "verdict_rule": report["verdict_rule"],
        "error_share": report["sections"]["prediction"]["facts"]["prediction_error_share"]["value"],
        "calls": [{key: each[key] for key in ("kind", "count")} for each in cost],
    }


def compared(
    programs: Sequence[str], folder: Path, keep: Path | None, ends: float
) -> Iterator[tuple[dict[str, Any], Path]]:
    """Run each program alone and under the profiler in turn; yield a row of the table and a profile for each.

    The runs of a program follow each other, as the pace of a machine changes, and each has a process of its own.
    """
    for name in programs:
        if time.monotonic() > ends:
            print(f"{name}: left out, the time is over", flush=True)
            continue
        began = time.monotonic()
        alone_ns, reports = [alone([name], folder)], {}
        for number in range(PROFILES):
            target = folder / f"{name}-{number}"
            report = profiled(name, target)
            if report is not None:
                reports[target] = report
            alone_ns.append(alone([name], folder))
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        lengths = [each[name] for each in alone_ns if each]
        if not reports or not lengths:
            continue
        row, last = row_of(name, lengths, list(reports.values())), list(reports)[-1]
        print(overhead_page.line(row), flush=True)
        yield row, last
        if keep is not None:
            shutil.copytree(last, keep / name, dirs_exist_ok=True)


def of_options(folder: Path, nsys: str, ends: float) -> list[dict[str, Any]]:
    """Run programs alone and under nsys with each set of options, and return their median steps in ns."""
    runs = {"alone": alone(OF_OPTIONS, folder)}
    for label, options in OPTIONS.items():
        if time.monotonic() < ends:
            prefix = [nsys, "profile", "--force-overwrite=true", f"--output={folder / 'options'}", *options]
            runs[label] = alone(OF_OPTIONS, folder, prefix)
    runs["alone again"] = alone(OF_OPTIONS, folder)
    found = [
        {"program": name, "runs": {label: _median(run.get(name, ())) for label, run in runs.items()}}
        for name in OF_OPTIONS
    ]
    print(found, flush=True)
    return found


def _median(lengths: Sequence[int]) -> int | None:
    """Return the median of the later half of the steps, which holds no warm-up."""
    return round(statistics.median(lengths[len(lengths) // 2 :])) if lengths else None


def versions(report_folder: Path) -> dict[str, Any]:
    """Return the machine and the versions of a profile, and what nsys adds to each call there."""
    run = json.loads((report_folder / "run.json").read_text(encoding="utf-8"))
    report = json.loads((report_folder / "report.json").read_text(encoding="utf-8"))
    return {
        "gpus": sorted({gpu["name"] for gpu in report["gpus"]}),
        "driver": report["session"]["driver_version"],
        "nsys": run["versions"]["nsys"],
        "python": run["versions"].get("python", platform.python_version()),
        "torch": run["versions"].get("torch", ""),
        "cores": os.cpu_count(),
        "cost": run["profiler_cost"],
    }


def measured(chosen: argparse.Namespace) -> dict[str, Any]:
    """Run the programs, and return all results; they are written after each program, as a run may be ended early."""
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - needed here alone

    ends = time.monotonic() + chosen.limit
    results: dict[str, Any] = {"programs": [], "options": [], "machine": {}}
    if chosen.add:
        results |= json.loads(chosen.results.read_text(encoding="utf-8"))
    there = {row["program"] for row in results["programs"]}
    missing = [name for name in chosen.programs if name not in there]
    with tempfile.TemporaryDirectory(prefix="overhead-") as temporary:
        folder = Path(temporary)
        for row, profile in compared(missing, folder, chosen.keep, ends):
            results["programs"].append(row)
            results["machine"] = versions(profile)
            chosen.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        if chosen.options:
            results["options"] = of_options(folder, str(find_nsys().path), ends + chosen.options)
            chosen.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def main() -> int:
    """Measure, or write the page again; 1 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--again", action="store_true", help="write the page from the results that are there")
    parser.add_argument("--add", action="store_true", help="run only the programs that the results lack")
    parser.add_argument("--limit", type=float, default=3600, metavar="S", help="compare no program after S seconds")
    parser.add_argument(
        "--options", type=float, default=600, metavar="S", help="then try options for S seconds; 0: none"
    )
    parser.add_argument("--keep", type=Path, help="keep the profiles in this folder")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    chosen = parser.parse_args()
    if not chosen.again and not Path("/proc/driver/nvidia/version").exists():
        print(NO_GPU, file=sys.stderr)
        return 1
    results = json.loads(chosen.results.read_text(encoding="utf-8")) if chosen.again else measured(chosen)
    chosen.page.write_text(overhead_page.page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
