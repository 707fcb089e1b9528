# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Let programs take turns with themselves under `nsyswrap profile`, and compare their steps with the simulated.

This is `make overhead`; it needs a GPU. Each program of tools/overhead_programs.py runs alone and under `nsyswrap
profile` at the same time, and the two make their steps in turns (tools/overhead_turns.py). The first profile measures
what nsys adds to each call, as on any machine. Some programs also take turns under nsys with one option added or left
out. The results go into reports/overhead.json, and a page into docs/overhead.md. With --again the page alone is written
from the results that are there: that needs no GPU.
"""

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import overhead_page
import overhead_turns

ROOT = Path(__file__).resolve().parent.parent
NSYSWRAP = (sys.executable, "-m", "nsyswrap")
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
OF_OPTIONS = ("lstm_cells", "vision_resnet", "graph_launches")
# Rounds of turns.
ROUNDS = 3
# Folder of a profile, in the folder of its round.
PROFILE = "profile"


def report_in(folder: Path) -> dict[str, Any]:
    """Return the report in a folder."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def row_of(name: str, alone_ns: Sequence[Sequence[int]], reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a program: its steps in the runs alone, without those of the warm-up, and in its reports."""
    return {
        "program": name,
        "alone_ns": [round(statistics.median(each)) for each in alone_ns],
        "steps": len(alone_ns[0]),
        "profiles": [_profile(each) for each in reports],
    }


def warm_up_of(report: dict[str, Any]) -> int:
    """Return the number of steps of the warm-up."""
    return int(report["sections"]["steps"]["facts"]["warm_up_steps"]["value"])


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


def by_turns(
    programs: Sequence[str], folder: Path, keep: Path | None, ends: float, count: int = ROUNDS
) -> Iterator[tuple[dict[str, Any], Path]]:
    """Let each program take turns with itself under `profile`; yield its row of the table and its last profile."""
    cores = overhead_turns.pairs_of_cores()
    made: dict[str, list[Path]] = {name: [] for name in programs}
    for number, name in itertools.product(range(count), programs):
        if time.monotonic() > ends:
            print(f"{name}: round {number + 1} left out, the time is over", flush=True)
            continue
        began, target = time.monotonic(), folder / f"{name}-{number}"
        target.mkdir()
        recording = [*NSYSWRAP, "profile", "--quiet", "--output", str(target / PROFILE), "--"]
        try:
            overhead_turns.take_turns(name, target, {"recorded": recording}, cores)
            made[name].append(target)
        except (OSError, TimeoutError) as error:
            print(f"{name}: {error}", flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    for name, targets in made.items():
        if not targets:
            continue
        alone, reports = zip(*(compared_in(name, target) for target in targets), strict=True)
        row = row_of(name, alone, reports)
        print(overhead_page.line(row), flush=True)
        yield row, targets[-1] / PROFILE
        if keep is not None:
            for target in targets:
                shutil.copytree(
                    target, keep / target.name, ignore=shutil.ignore_patterns("*.socket"), dirs_exist_ok=True
                )


def compared_in(name: str, folder: Path) -> tuple[list[int], dict[str, Any]]:
    """Return the steps alone without those of the warm-up, in ns, and the report."""
    report = report_in(folder / PROFILE)
    alone_ns = json.loads((folder / "alone.json").read_text("utf-8"))[name]
    skipped = warm_up_of(report)
    return alone_ns[skipped:], report


def of_options(folder: Path) -> list[dict[str, Any]]:
    """Let programs take turns with themselves under nsys with each set of options, and return their median steps."""
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - needed here alone

    nsys, found = str(find_nsys().path), []
    kinds = {f"option-{number}": label for number, label in enumerate(OPTIONS)}
    for name in OF_OPTIONS:
        target = folder / f"{name}-options"
        target.mkdir()
        recordings = {
            kind: [nsys, "profile", f"--output={target / kind}", *OPTIONS[label]] for kind, label in kinds.items()
        }
        overhead_turns.take_turns(name, target, recordings, overhead_turns.pairs_of_cores())
        runs = {
            label: _median(json.loads((target / f"{kind}.json").read_text("utf-8"))[name])
            for kind, label in {"alone": "alone", **kinds}.items()
        }
        found.append({"program": name, "runs": runs})
        print(found[-1], flush=True)
    return found


def _median(lengths: Sequence[int]) -> int:
    """Return the median of the later half of the steps, which holds no warm-up."""
    return round(statistics.median(lengths[len(lengths) // 2 :]))


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
    ends = time.monotonic() + chosen.limit
    results: dict[str, Any] = {"programs": [], "options": [], "machine": {}}
    if chosen.add:
        results |= json.loads(chosen.results.read_text(encoding="utf-8"))
    there = {row["program"] for row in results["programs"]}
    missing = [name for name in chosen.programs if name not in there]
    with tempfile.TemporaryDirectory(prefix="overhead-") as temporary:
        folder = Path(temporary)
        for row, profile in by_turns(missing, folder, chosen.keep, ends, chosen.rounds):
            results["programs"].append(row)
            results["machine"] = versions(profile)
            chosen.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        if chosen.options:
            results["options"] = of_options(folder)
            chosen.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def main() -> int:
    """Measure, or write the page again; 1 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--again", action="store_true", help="write the page from the results that are there")
    parser.add_argument("--add", action="store_true", help="run only the programs that the results lack")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="how often each program takes turns")
    parser.add_argument("--limit", type=float, default=3600, metavar="S", help="compare no program after S seconds")
    parser.add_argument("--no-options", action="store_false", dest="options", help="compare no sets of options")
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
