"""Profile programs with several faults, fix them one after another, and check each plan by what was measured.

It needs a GPU. Each program of workloads/combined is profiled with every set of its faults fixed, one profile after
another with nothing beside it, in several rounds. Of the runs of one set, the one counts whose mean step is in the
middle. The capture with all faults goes, redacted, cut and packed, into tests/captures/plans, with the times of a step
of all sets in steps.json. `tools/judge_faults.py --again` then writes the table of docs/faults.md, without a GPU.
"""

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import fault_captures
import plan_table
from judge_faults import WORKLOADS, gpu_count
from plan_table import CAPTURES, Program, find_programs

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.locate import find_nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.options import CaptureOptions

NO_GPU = "plans: this needs an NVIDIA GPU; `--again` judges the exports in --whole"
LONGEST_S = 120
PACKERS = 8
PACKED = ".sqlite.xz"


class Run(NamedTuple):
    """One run of a program with a set of its faults fixed.

    Attributes:
        steps: The number of its measured steps, and their median and mean time in ns.
    """

    steps: dict[str, int]
    packed: Path


def record(program: Program, fixed: frozenset[str], steps: int, folder: Path) -> Path:
    """Profile so many steps of a program with some of its faults fixed; return the export."""
    switches = [word for each in sorted(fixed) for word in ("--fix", each)]
    command = (sys.executable, "-m", f"combined.{program.name}", "--steps", str(steps), *switches)
    options = CaptureOptions(command=command, folder=folder, cwd=WORKLOADS, timeout_s=LONGEST_S, output_to_stderr=True)
    began = time.monotonic()
    result = profile(options, find_nsys())
    print(f"{plan_table.label(program.name, fixed)}: {time.monotonic() - began:.1f} s", flush=True)
    if result.exit_code:
        raise NsyswrapError(f"{plan_table.label(program.name, fixed)}: exit code {result.exit_code}")
    return result.export


def record_all(programs: Sequence[Program], folder: Path, chosen: argparse.Namespace) -> list[str]:
    """Profile all programs with every set of faults fixed, those with few faults first; return what went wrong.

    Other processes on the machine delay the host by milliseconds at times, so nothing runs beside a profile, and a
    profile has some seconds of steps. The pace of a machine changes over minutes, so one round goes over all sets
    before the next one begins.
    """
    wrong, began = [], time.monotonic()
    in_turn = sorted(programs, key=lambda each: (len(each.faults), each.name))
    for number in range(1, chosen.rounds + 1):
        for program, fixed in ((each, fixed) for each in in_turn for fixed in each.sets):
            name = f"{plan_table.label(program.name, fixed)}.{number}"
            if time.monotonic() - began > chosen.seconds:
                wrong.append(f"{name}: left out, {chosen.seconds:g} s are over")
                continue
            try:
                record(program, fixed, chosen.steps, folder / name).rename(folder / f"{name}.sqlite")
            except NsyswrapError as error:
                wrong.append(f"{name}: {error.message}")
            shutil.rmtree(folder / name, ignore_errors=True)
    return wrong


def keep_whole(export: Path, folder: Path) -> None:
    """Write an export, redacted and packed, to a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        redacted = Path(temporary) / export.name
        words = [sys.executable, "-m", "nsyswrap", "redact", str(export), "-o", str(redacted)]
        subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - nsyswrap itself
        (folder / f"{export.name}.xz").write_bytes(lzma.compress(redacted.read_bytes(), preset=6))


def keep_steps(folder: Path, captures: Path) -> list[str]:
    """Write the steps of all captures of a folder into steps.json, and pack those with all faults.

    Returns:
        What went wrong.
    """
    wrong = []
    known = captures / plan_table.STEPS
    steps = json.loads(known.read_text()) if known.exists() else {}
    for name, run in middle_runs(folder).items():
        steps[name] = run.steps
        if plan_table.SEPARATOR in name:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            try:
                export = fault_captures.unpack(run.packed, Path(temporary))
                fault_captures.pack(export, captures / f"{name}{PACKED}", plan_table.MOST_BYTES)
            except ValueError as error:
                wrong.append(f"{name}: {error}")
    known.write_text(json.dumps(steps, indent=1, sort_keys=True) + "\n")
    return wrong


def middle_runs(folder: Path) -> dict[str, Run]:
    """Return, by label, the run whose mean step is in the middle of all runs with the same faults fixed."""
    runs: dict[str, list[Run]] = {}
    for packed in sorted(folder.glob(f"*{PACKED}")):
        name, _, _ = packed.name.removesuffix(PACKED).rpartition(".")
        with tempfile.TemporaryDirectory() as temporary:
            steps = plan_table.measured(fault_captures.unpack(packed, Path(temporary)))
        runs.setdefault(name, []).append(Run(steps, packed))
    for name, every in runs.items():
        every.sort(key=lambda each: each.steps["mean_ns"])
        print(name, *(f"{each.steps['mean_ns'] / 1e6:.2f}" for each in every), "ms a step", flush=True)
    return {name: every[len(every) // 2] for name, every in runs.items()}


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs of workloads/combined (all)")
    parser.add_argument("--captures", type=Path, default=CAPTURES, metavar="DIR", help="where captures and steps go")
    parser.add_argument("--whole", type=Path, metavar="DIR", help="keep the whole redacted exports here")
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="how many steps each profile has (150)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each set is profiled (3)")
    parser.add_argument("--seconds", type=float, default=3600.0, metavar="S", help="begin no profile after S seconds")
    parser.add_argument("--again", action="store_true", help="profile nothing: read the exports of --whole")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Profile, pack and judge; 0 where every profile worked, 3 where there is no GPU."""
    chosen = options().parse_args(arguments)
    if not chosen.again and not gpu_count():
        print(NO_GPU, file=sys.stderr)
        return 3
    programs = [each for each in find_programs(WORKLOADS / "combined") if each.name in chosen.names or not chosen.names]
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        whole = chosen.whole or Path(temporary) / "whole"
        for each in (whole, chosen.captures):
            each.mkdir(parents=True, exist_ok=True)
        if not chosen.again:
            wrong = record_all(programs, Path(temporary), chosen)
            with ProcessPoolExecutor(PACKERS) as pool:
                exports = sorted(Path(temporary).glob("*.sqlite"))
                list(pool.map(keep_whole, exports, [whole] * len(exports)))
        wrong += keep_steps(whole, chosen.captures)
    print("\n".join(plan_table.section(chosen.captures)))
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
