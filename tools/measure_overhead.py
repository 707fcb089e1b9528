"""Compare the numbers in reports about programs without the profiler with those programs without the profiler.

This is `make overhead`; it needs a GPU. Each program with planted faults, each with its faults fixed, and programs
without a planted fault run alone and under `nsyswrap profile`, in turns (tools/overhead_turns.py). For each report the
step without the profiler is compared with the steps alone, the first changes of its plan with the steps alone of the
fixed program, and what limits the run with the share of time in which the GPU is busy alone. The results go into
reports/overhead.json after each program; those that are there are not measured again. A page goes into
docs/overhead.md. With --again the page alone is written: that needs no GPU. With --again --keep, the exports that a
measurement has kept are analyzed again first.
"""

import argparse
import json
import lzma
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fault_programs
import judge_faults
import overhead_page
import overhead_turns
import plan_table

from nsyswrap.capture.result_folder import HOST_NAME

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "workloads"
NSYSWRAP = (sys.executable, "-m", "nsyswrap")
RESULTS = ROOT / "reports" / "overhead.json"
PAGE = ROOT / "docs" / "overhead.md"
NO_GPU = "overhead: this needs an NVIDIA GPU; `--again` writes the page from the results in reports/overhead.json"

# Programs of tools/overhead_programs.py, those of libraries first.
UNPLANTED = (
    *("hugging_bert", "timm_mobile", "vision_resnet", "lightning_loop", "hugging_decoding"),
    *("lstm_cells", "small_encoder", "items", "large_encoder", "looped_optimizer", "matrix_products"),
    *("graph_launches", "middle_encoder", "loaded_pictures"),
    *("healthy_bert", "healthy_gpt", "healthy_llama", "healthy_vit", "healthy_resnet", "healthy_opt"),
    *("healthy_roberta", "healthy_qwen", "healthy_convnext", "healthy_patches", "healthy_lightning"),
)
# These faults lie in which cores the program gets; in the turns all programs get the same.
OF_CORES = ("host/cpu_quota", "idle/off_cpu")
# Enough for the turns of a run alone, and for a recording with its warm-up and the steps alone before it.
STEPS, RECORDED = 200, 40
FAULT, FIX, PROFILED = "fault", "fix", " profiled"
KEPT = {FAULT: "{}.sqlite.xz", FIX: "{}-fixed.sqlite.xz"}
CORES_OF_A_LANE = 2
SIBLINGS = Path("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list")


@dataclass(frozen=True, slots=True)
class Case:
    """A program to measure.

    Attributes:
        name: The words that run it, after those of Python.
        rules: The rules of its planted faults.
    """

    name: str
    rules: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()


def find_cases() -> list[Case]:
    """Return all programs: one for each planted fault, those with several, those without, then the other faults."""
    single = [
        each
        for each in fault_programs.find_programs(WORKLOADS / "faults")
        if each.gpus <= 1 and each.rule not in OF_CORES
    ]
    first = {each.rule: each.name for each in reversed(single) if not each.module}
    faults = [Case(each.words, (each.rule,), ("--fixed",)) for each in single]
    combined = [
        Case(
            f"combined.{each.name}",
            tuple(each.faults.values()),
            tuple(word for name in each.faults for word in ("--fix", name)),
        )
        for each in plan_table.find_programs(WORKLOADS / "combined")
    ]
    unplanted = [Case(f"overhead_programs {name}") for name in UNPLANTED]
    of_each_rule = [each for each in faults if each.name.split(".")[-1] in first.values()]
    return [*of_each_rule, *combined, *unplanted, *(each for each in faults if each not in of_each_rule)]


def measure(
    case: Case, folder: Path, cores: Sequence[int], place: threading.Lock, chosen: argparse.Namespace
) -> dict[str, Any]:
    """Run a program and its fix alone and profiled, in turns, and return its row of the results.

    The last turns are alone, some seconds after the first: the pace of a machine changes.
    """
    kinds = (FAULT, FIX) if case.fix else (FAULT,)
    runs: dict[str, overhead_turns.Run] = {}
    for kind in kinds:
        words = [*case.name.split(), "--steps", str(STEPS), *chosen.program_arg, *(case.fix if kind is FIX else ())]
        program = (sys.executable, str(Path(overhead_turns.__file__)), "SOCKET")
        # The programs that wait for their turns use the GPU, so no alternative can be measured.
        options = ("--steps", str(RECORDED), "--stop-after", "--quiet", "--no-alternatives")
        profiled = [
            *NSYSWRAP,
            "profile",
            "--output",
            str(folder / kind),
            *options,
            "--",
            *program,
            overhead_turns.ONCE,
            *words,
        ]
        runs[kind] = overhead_turns.Run([*program, *words])
        runs[kind + PROFILED] = overhead_turns.Run(profiled, is_late=True)
    order = [*kinds, *(each for kind in kinds for each in (kind + PROFILED, kind)), *kinds]
    turns = overhead_turns.take_turns(runs, order, cores, place)
    row: dict[str, Any] = {"program": case.name.replace(" ", "."), "rules": case.rules}
    for kind in kinds:
        row[kind] = _alone(turns[kind]) | {
            "report": _kept(json.loads((folder / kind / "report.json").read_text(encoding="utf-8")))
        }
    return row


def _alone(turns: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the step alone in ns: the median over turns of the median step and of the mean step."""
    if not turns:
        raise OSError("the program has made too few steps for a turn")
    times = {"median_ns": statistics.median, "mean_ns": statistics.mean}
    alone = {name: round(statistics.median(of(each) for each in turns)) for name, of in times.items()}
    return {**alone, "turns_ns": [round(statistics.median(each)) for each in turns]}


def _kept(report: dict[str, Any]) -> dict[str, Any]:
    findings = [{key: each[key] for key in ("rule", "saving")} for each in report["findings"]]
    kept = {key: report[key] for key in ("step", "plan", "verdict", "verdict_rule")}
    step, ledger = report["step"], report["sections"].get("ledger")
    busy = ledger and step["count"] and ledger["facts"]["busy_share"]["value"] * step["total_ns"] / step["count"]
    return kept | {"findings": findings, "busy_ns": busy and round(busy)}


def measure_all(cases: Sequence[Case], results: dict[str, Any], chosen: argparse.Namespace) -> None:
    """Measure programs beside one another, except for their turns, and write each result when it is there.

    The first one is alone: its profile measures what nsys adds to each call on this machine.
    """
    ends = time.monotonic() + chosen.limit
    cores = sorted(os.sched_getaffinity(0))
    # The last cores take the turns: the first ones often serve the devices. All else runs on the others, and no two
    # threads of one core are divided: each slows the other down.
    cores.sort(key=_physical)
    half = next((at for at in range(len(cores) // 2, 0, -1) if _physical(cores[at - 1]) != _physical(cores[at])), 0)
    of_turns, others = cores[half:], cores[:half] or cores
    os.sched_setaffinity(0, others)
    place, writing = threading.Lock(), threading.Lock()

    def one(case: Case) -> None:
        if time.monotonic() > ends:
            print(f"{case.name}: left out, the time is over", flush=True)
            return
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
            try:
                row = measure(case, Path(folder), of_turns, place, chosen)
                machine = _machine(Path(folder) / FAULT)
                if chosen.keep is not None:
                    _keep(case, Path(folder), chosen.keep)
            except (OSError, TimeoutError, KeyError, subprocess.CalledProcessError) as error:
                print(f"{case.name}: {error!r}", flush=True)
                return
        with writing:
            results["programs"].append(row | {"gpu": next(iter(machine["gpus"]), "")})
            results["machine"] = machine
            chosen.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"{case.name}: {time.monotonic() - began:.0f} s", *overhead_page.lines([row]), sep="\n", flush=True)

    if cases:
        one(cases[0])
    with ThreadPoolExecutor(chosen.lanes or max(len(others) // CORES_OF_A_LANE, 1)) as lanes:
        list(lanes.map(one, cases[1:]))


def _physical(core: int) -> int:
    """Return the number of the physical core of a core: the first of its threads."""
    try:
        text = Path(str(SIBLINGS).format(core)).read_text(encoding="ascii")
    except OSError:
        return core
    return int(re.split("[,-]", text)[0])


def _keep(case: Case, folder: Path, kept: Path) -> None:
    """Write the profiles of a program, redacted and packed, with their X-ray steps, and the samples of the host."""
    kept.mkdir(parents=True, exist_ok=True)
    for kind in (FAULT, FIX) if case.fix else (FAULT,):
        redacted = folder / f"{kind}.sqlite"
        judge_faults.redact(folder / kind, redacted)
        packed = lzma.compress(redacted.read_bytes(), preset=2)
        target = kept / KEPT[kind].format(case.name.replace(" ", "."))
        target.write_bytes(packed)
        if (samples := folder / kind / HOST_NAME).exists():
            shutil.copyfile(samples, target.with_suffix("").with_suffix(".json"))


def analyze_again(rows: Sequence[Mapping[str, Any]], kept: Path) -> None:
    """Replace the reports of rows with those that the kept exports of the same GPU have now."""

    def one(run: dict[str, Any], gpu: str, packed: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
            capture, report = Path(folder, "capture.sqlite"), Path(folder, "report.json")
            capture.write_bytes(lzma.decompress(packed.read_bytes()))
            if (samples := packed.with_suffix("").with_suffix(".json")).exists():
                shutil.copyfile(samples, capture.with_name(HOST_NAME))
            words = [*NSYSWRAP, "analyze", str(capture), "--format", "json", "-o", str(report)]
            subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - nsyswrap itself
            found = json.loads(report.read_text(encoding="utf-8"))
        if gpu in {"", *(each["name"] for each in found["gpus"])}:
            run["report"] = _kept(found)

    files = [
        (row[kind], row.get("gpu", ""), kept / name.format(row["program"]))
        for row in rows
        for kind, name in KEPT.items()
        if kind in row
    ]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as lanes:
        list(lanes.map(lambda each: one(*each), [each for each in files if each[2].exists()]))


def _machine(report_folder: Path) -> dict[str, Any]:
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


def main() -> int:
    """Measure, or write the page again; 1 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of programs, in their order (all)")
    parser.add_argument("--again", action="store_true", help="write the page from the results that are there")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="measure every Nth program from the Kth on")
    parser.add_argument("--limit", type=float, default=3600, metavar="S", help="begin no program after S seconds")
    parser.add_argument("--lanes", type=int, metavar="N", help="how many programs start beside one another")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the redacted exports here, or read them")
    parser.add_argument("--program-arg", action="append", default=[], metavar="WORD", help="one more for each program")
    parser.add_argument("--without-gpu", action="store_true", help="try this program where there is no GPU")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    chosen = parser.parse_args()
    if not chosen.again and not chosen.without_gpu and not Path("/proc/driver/nvidia/version").exists():
        print(NO_GPU, file=sys.stderr)
        return 1
    results: dict[str, Any] = {"programs": [], "machine": {}}
    if chosen.results.exists():
        results |= json.loads(chosen.results.read_text(encoding="utf-8"))
    if not chosen.again:
        part, parts = map(int, chosen.part.split("/"))
        there = {row["program"] for row in results["programs"]}
        wanted = [each for each in find_cases() if not chosen.names or any(name in each.name for name in chosen.names)]
        wanted.sort(key=lambda each: next((at for at, name in enumerate(chosen.names) if name in each.name), 0))
        missing = [each for each in wanted[part - 1 :: parts] if each.name.replace(" ", ".") not in there]
        measure_all(missing, results, chosen)
    elif chosen.keep is not None:
        analyze_again(results["programs"], chosen.keep)
        chosen.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    chosen.page.write_text(overhead_page.page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
