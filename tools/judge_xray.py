# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Compare operators, modules and lines of the X-ray step with torch.profiler and FlopCounterMode, on a GPU.

    python tools/judge_xray.py --out FOLDER [--limit 400] [--lanes 4] [NAME ...]

Each program of tools/xray_programs.py runs once under `nsyswrap profile` and once under PyTorch's own tools. A row says
how much kernel time has an operator, a module and a line; for how much of it torch.profiler names the same operator;
and how many floating-point operations a step has by both. docs/xray.md has the table.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tools" / "xray_programs.py"
# Enough for the steps before the recording, at most 100, and for the recording.
LONGEST_S, STEPS, RECORDED = 180, 400, 20
HEADS = ("program", "operator", "module", "line", "same operator", "FLOPs of a step", "by PyTorch")


def names_of_programs() -> list[str]:
    """Return the names of all programs, the compiled ones last."""
    sys.path.append(str(ROOT / "workloads"))
    import xray_programs  # noqa: PLC0415 - it imports torch

    return [*xray_programs.NAMES, *(f"{name}{xray_programs.COMPILED}" for name in xray_programs.BOTH)]


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Run a program both ways and return its row.

    Raises:
        OSError: A run has failed; with the end of its output.
    """
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'workloads'}:{os.environ.get('PYTHONPATH', '')}"}
    profile = ("profile", "--output", str(folder / name), "--steps", str(RECORDED), "--stop-after", "--quiet", "--")
    answers = folder / f"{name}.json"
    for words in (
        ("-m", "nsyswrap", *profile, sys.executable, str(PROGRAMS), name, "--steps", str(STEPS)),
        (str(PROGRAMS), name, "--profiler", str(answers)),
    ):
        run = subprocess.run(  # noqa: S603 - words of ours
            [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
        if run.returncode:
            raise OSError(f"{words}: {(run.stdout + run.stderr)[-900:]}")
    report = json.loads((folder / name / "report.json").read_text(encoding="utf-8"))
    section = report["sections"]["operators"]
    facts = {label: fact["value"] for label, fact in section["facts"].items()}
    said = json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}
    same = same_operator(section["tables"]["kernels"], said.get("kernels", {}))
    return {
        "program": name,
        "notes": section["notes"],
        **facts,
        "same_operator": same,
        "by_pytorch": said.get("operations"),
    }


def same_operator(rows: list[dict[str, Any]], kernels: dict[str, dict[str, float]]) -> float | None:
    """Return the share of kernel time for which both name the same operator; None where nothing can be compared.

    Args:
        rows: Our kernels by operator, with their time.
        kernels: Those of torch.profiler: kernel -> operator -> time. A kernel that both know is compared by how its
            time is divided among operators.
    """
    ours: dict[str, Counter[str]] = {}
    for row in rows:
        ours.setdefault(row["name"], Counter())[row["operator"]] += row["total_ns"]
    compared = equal = 0.0
    for name, operators in ours.items():
        theirs = kernels.get(name, {})
        total, whole = sum(operators.values()), sum(theirs.values())
        if whole:
            compared += total
            equal += total * sum(min(ns / total, theirs.get(each, 0) / whole) for each, ns in operators.items())
    return equal / compared if compared else None


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    shares = (row["joined_share"], row["module_share"], row["line_share"], row["same_operator"])
    numbers = (row["step_operations"], row["by_pytorch"])
    cells = [row["program"].replace("_", " ")]
    cells += ["" if each is None else f"{each:.1%}" for each in shares]
    cells += ["" if each is None else f"{each:.4g}" for each in numbers]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure all programs, or those that are named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=400, metavar="S", help="begin no program after S seconds")
    parser.add_argument("--lanes", type=int, default=4, help="how many programs run beside one another")
    chosen = parser.parse_args()
    ends, rows = time.monotonic() + chosen.limit, []
    chosen.out.mkdir(parents=True, exist_ok=True)

    def one(name: str) -> None:
        if time.monotonic() > ends:
            print(f"{name}: left out, the time is over", flush=True)
            return
        try:
            rows.append(measure(name, chosen.out))
        except (OSError, KeyError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error!r}", flush=True)
            return
        print(line(rows[-1]), *rows[-1]["notes"], sep="\n", flush=True)
        (chosen.out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    with ThreadPoolExecutor(chosen.lanes) as lanes:
        list(lanes.map(one, chosen.names or names_of_programs()))
    print("\n| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|", *map(line, rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
