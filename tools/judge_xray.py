"""Compare operators, modules and lines of the X-ray step with torch.profiler and FlopCounterMode, on a GPU.

    python tools/judge_xray.py --out FOLDER [--limit 400] [--lanes 4] [NAME ...]
    python tools/judge_xray.py --out FOLDER --sampled [NAME ...]      lines against sampled stacks of the same run
    python tools/judge_xray.py --out FOLDER --turns 8 [NAME ...]      measured steps with and without an X-ray step
    python tools/judge_xray.py --captures CAPTURE ...                 shares of kept captures, without a GPU

Each program of tools/xray_programs.py runs once under `nsyswrap profile` and once under PyTorch's own tools. A row says
how much kernel time has an operator, is in a module, is of an optimizer and has a line, which is its owner if nothing
else is; for how much of it torch.profiler names the same operator; and how many floating-point operations a step has by
both. docs/xray.md has the table.

With --sampled, Python stacks are sampled in the recording. A sample inside a call that launches something has a line,
and so has what is launched, from the X-ray step.

With --turns, each program runs up to so many times with an X-ray step and without one, in turns: with it, without,
without, with it, and so on. The medians of their recorded steps are compared in pairs, as ratios, with the interval of
Student's t; and so are the medians as shares of the steps that the same process took before the recording. Half of the
cores are for the program that has the GPU. The next one starts on the others, and waits for a lock before it uses the
GPU; what comes after a recording runs there, too.
"""

import argparse
import ctypes
import json
import math
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nsyswrap.base.intervals import Spans, containing
from nsyswrap.capture_file import with_recorded
from nsyswrap.compare.bootstrap import student_limit
from nsyswrap.loop.context import NO_SETTINGS, TraceContext, find_context
from nsyswrap.operators.fused_names import fused_operators
from nsyswrap.operators.join import find_launchers
from nsyswrap.operators.observed_calls import BACKWARD, RECOMPUTED
from nsyswrap.report import report_of
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import array, coded

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tools" / "xray_programs.py"
# Enough for the steps before the recording, at most 100, and for the recording.
LONGEST_S, STEPS, RECORDED = 180, 400, 20
# Programs that start, run and are analyzed at once in turns; one of them has the GPU.
IN_TURNS, RECORDED_IN_TURNS, CONFIDENCE = 3, "60", 0.95
HEADS = (
    "program",
    "operator",
    "module",
    "optimizer",
    "owner and line",
    "same operator",
    "FLOPs of a step",
    "by PyTorch",
)
# torch.profiler leaves longer names as they are. Source: libkineto/src/Demangle.cpp.
LONGEST_DEMANGLED = 1024
# What the profiler itself does is no operator.
NO_OPERATORS = frozenset({"Activity Buffer Request"})


def names_of_programs() -> list[str]:
    """Return the names of all programs, the compiled ones last."""
    sys.path.append(str(ROOT / "workloads"))
    import xray_programs  # noqa: PLC0415 - it imports torch

    return [*xray_programs.NAMES, *(f"{name}{xray_programs.COMPILED}" for name in xray_programs.BOTH)]


def profile(name: str, folder: Path, *options: str, more: Sequence[str] = ()) -> dict[str, Any]:
    """Run a program under `nsyswrap profile` and return its report."""
    words = (
        "--output",
        str(folder),
        "--force",
        "--steps",
        str(RECORDED),
        "--stop-after",
        "--no-alternatives",
        "--quiet",
    )
    program = (sys.executable, str(PROGRAMS), name, "--steps", str(STEPS), *more)
    run("-m", "nsyswrap", "profile", *words, *options, "--", *program)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def run(*words: str) -> None:
    """Run Python."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'workloads'}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(  # noqa: S603 - words of ours
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    if done.returncode:
        raise OSError(f"{words}: {(done.stdout + done.stderr)[-900:]}")


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Run a program both ways and return its row."""
    section = profile(name, folder / name)["sections"]["operators"]
    answers = folder / f"{name}.json"
    run(str(PROGRAMS), name, "--profiler", str(answers))
    facts = {label: fact["value"] for label, fact in section["facts"].items()}
    said = json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}
    names = names_by_pytorch(folder / name / "capture.sqlite")
    same = same_operator(section["tables"]["kernels"], said.get("kernels", {}), names)
    return {"program": name, "notes": section["notes"], **facts, **same, "by_pytorch": said.get("operations")}


def of_capture(capture: Path) -> dict[str, Any]:
    """Return the row of a kept capture; nothing in it is by PyTorch."""
    trace, settings = with_recorded(load_export(capture), capture, NO_SETTINGS)
    section = report_of(find_context(trace, settings)).section("operators")
    if section is None:
        raise KeyError(f"{capture} has no operators")
    facts = {fact.label: fact.value for fact in section.facts}
    return {"program": capture.parent.name, **facts, "same_operator": None, "by_pytorch": None}


def names_by_pytorch(capture: Path) -> dict[str, str]:
    """Return the name that torch.profiler gives each kernel, by that of nsys: they read a mangled name differently."""
    demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    with closing(sqlite3.connect(capture)) as database:
        pairs = database.execute(
            "SELECT DISTINCT ours.value, mangled.value FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "JOIN StringIds ours ON ours.id = demangledName JOIN StringIds mangled ON mangled.id = mangledName"
        ).fetchall()
    found = {}
    for ours, mangled in pairs:
        short = len(mangled) <= LONGEST_DEMANGLED
        text = demangle(mangled.encode(), None, None, ctypes.byref(ctypes.c_int())) if short else None
        found[ours] = (ctypes.string_at(text) if text else mangled.encode()).decode()
    return found


def same_operator(
    rows: Sequence[Mapping[str, Any]], kernels: Mapping[str, Mapping[str, float]], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the share of kernel time for which both name the same operator.

    Args:
        rows: Our kernels by operator, with their time.
        kernels: Those of torch.profiler: kernel -> operator -> time. A kernel that both know is compared by how its
            time is divided among operators. Of a kernel of Inductor, torch.profiler has its name as the operator.
        names: The name of a kernel in ``kernels``, by ours.

    Returns:
        same_operator: The share; None where nothing can be compared. compared: The share of kernel time that is
        compared. differing: The kernels that differ most, with the share of time, and operators by both.
    """
    ours: dict[str, Counter[str]] = {}
    for row in rows:
        ours.setdefault(names.get(row["name"], row["name"]), Counter())[row["operator"]] += row["total_ns"]
    whole = sum(each.total() for each in ours.values())
    compared, differing = 0.0, []
    for name, operators in ours.items():
        theirs: dict[str, float] = {}
        for operator, us in kernels.get(name, {}).items():
            if operator not in NO_OPERATORS:
                known = " + ".join(fused_operators(operator)) or operator
                theirs[known] = theirs.get(known, 0) + us
        total, of_them = operators.total(), sum(theirs.values())
        if of_them:
            compared += total
            same = sum(min(ns / total, theirs.get(each, 0) / of_them) for each, ns in operators.items())
            differing.append(((1 - same) * total / whole, name, dict(operators), theirs))
    differing.sort(key=lambda each: -each[0])
    return {
        "same_operator": 1 - sum(each[0] for each in differing) * whole / compared if compared else None,
        "compared": compared / whole if whole else None,
        "differing": differing[:5],
    }


def same_lines(context: TraceContext) -> tuple[int, int, Counter[tuple[str, str]]]:
    """Return for how many samples inside of launches the line is that of the X-ray step, and how many both know.

    Backward passes run in a thread without Python: their lines are those of their forward operators.

    Returns:
        Equal ones, all, and the pairs that differ: sampled, of the X-ray step.
    """
    found, operations, samples = find_launchers(context), context.operations, context.trace[tables.SAMPLES]
    of_call = {
        int(operations.call[row]): found.calls[call].line
        for row, call in enumerate(found.call.tolist())
        if call >= 0 and operations.call[row] >= 0 and found.calls[call].role not in {BACKWARD, RECOMPUTED}
    }
    calls, equal, differing = context.trace[tables.CALLS], 0, Counter[tuple[str, str]]()
    rows = np.array(sorted(each for each, line in of_call.items() if line), np.intp)
    thread, start, end = coded(calls, "thread")[rows], array(calls, "start")[rows], array(calls, "end")[rows]
    for each in np.unique(thread).tolist():
        mine, of_thread = np.flatnonzero(thread == each), np.flatnonzero(array(samples, "thread") == each)
        order = mine[np.argsort(start[mine], kind="stable")]
        inside = containing(Spans(start[order], end[order]), array(samples, "start")[of_thread])
        for sample, at in zip(of_thread[inside >= 0].tolist(), inside[inside >= 0].tolist(), strict=True):
            stack = context.lines.stacks[int(array(samples, "stack")[sample])]
            frame = next((one for one in stack if one.line and not one.file.startswith(("torch/", "triton/"))), None)
            if frame is not None:
                pair = (f"{frame.file}:{frame.line}", of_call[int(rows[order[at]])])
                equal += pair[0] == pair[1]
                differing.update([pair] if pair[0] != pair[1] else [])
    return equal, equal + differing.total(), differing


def judge_lines(name: str, folder: Path) -> str:
    """Run a program with sampled stacks, and return a row of the table of lines."""
    profile(name, folder / name, "--python-sampling")
    capture = folder / name / "capture.sqlite"
    trace, settings = with_recorded(load_export(capture), capture, NO_SETTINGS)
    equal, both, differing = same_lines(find_context(trace, settings))
    print(*differing.most_common(3), sep="\n")
    return f"| {name} | {both} | {f'{equal / both:.1%}' if both else ''} |"


def judge_turns(name: str, folder: Path, turns: int, limit_s: float) -> str:
    """Run a program with and without an X-ray step in turns, and return a row of the table of times."""
    cores, ends = sorted(os.sched_getaffinity(0), key=_core), time.monotonic() + limit_s
    own, others = cores[: len(cores) // 2] or cores, cores[len(cores) // 2 :]
    gate = ("--gate", str(folder / "gate"), "--cores", ",".join(map(str, own)))

    def one(number: int, option: str) -> tuple[float, float] | None:
        """Return the medians of the recorded steps and of those before, in ms; None for no run."""
        where = folder / f"{name}-{number}"
        try:
            if time.monotonic() > ends:
                return None
            options = (option, "--no-profiler-cost", "--steps", RECORDED_IN_TURNS)
            recorded = profile(name, where, *options, more=gate)["step"]["recorded_ns"]
            alone = json.loads((where / "steps_alone.json").read_text(encoding="utf-8"))["processes"][0]["host_ns"]
        except (OSError, KeyError, subprocess.TimeoutExpired) as error:
            print(f"{name} {option}: {error!r}", flush=True)
            return None
        found = recorded / 1e6, statistics.median(alone) / 1e6
        print(f"{name} {option}: {found[0]:.3f} ms, before the recording {found[1]:.3f} ms", flush=True)
        return found

    os.sched_setaffinity(0, others)
    with ThreadPoolExecutor(IN_TURNS) as pool:
        runs: list[tuple[str, Future[tuple[float, float] | None]]] = []
        for turn in range(turns):
            for option in ("--xray", "--no-xray")[:: -1 if turn % 2 else 1]:
                runs.append((option, pool.submit(one, len(runs), option)))
        pairs: list[dict[str, tuple[float, float]]] = []
        for first, second in zip(runs[::2], runs[1::2], strict=True):
            found = {option: each for option, run in (first, second) if (each := run.result()) is not None}
            if len(found) == len((first, second)):
                pairs.append(found)
                print(turns_row(name, pairs), flush=True)
    os.sched_setaffinity(0, cores)
    return turns_row(name, pairs)


def turns_row(name: str, pairs: Sequence[Mapping[str, tuple[float, float]]]) -> str:
    """Return a row of the table of times."""
    medians = (statistics.median(pair[option][0] for pair in pairs) for option in ("--xray", "--no-xray") if pairs)
    plain = [math.log(pair["--xray"][0] / pair["--no-xray"][0]) for pair in pairs]
    against = [
        each - math.log(pair["--xray"][1] / pair["--no-xray"][1]) for each, pair in zip(plain, pairs, strict=True)
    ]
    cells = (*(f"{each:.3f}" for each in medians), _differ(plain), _differ(against))
    return f"| {name} | {len(pairs)} | {' | '.join(cells)} |"


def _differ(logs: Sequence[float]) -> str:
    """Return by how much times differ, from logarithms of ratios, with its interval."""
    if len(logs) < 2:  # noqa: PLR2004 - a spread
        return ""
    limit = student_limit((1 + CONFIDENCE) / 2, len(logs) - 1)
    mean, reach = statistics.fmean(logs), limit * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.expm1(mean):+.2%} ({math.expm1(mean - reach):+.2%} to {math.expm1(mean + reach):+.2%})"


def _core(cpu: int) -> tuple[int, int]:
    """Return what sorts the threads of a core beside one another."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return int(re.split(r"[,-]", path.read_text(encoding="utf-8"))[0]), cpu
    except (OSError, ValueError):
        return cpu, cpu


def line(row: dict[str, Any]) -> str:
    shares = (row[f"{each}_share"] for each in ("joined", "module", "optimizer", "line"))
    numbers = (row["step_operations"], row["by_pytorch"])
    cells = [row["program"].replace("_", " ")]
    cells += ["" if each is None else f"{each:.1%}" for each in (*shares, row["same_operator"])]
    cells += ["" if each is None else f"{each:.4g}" for each in numbers]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure all programs, or those that are named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("xray"))
    parser.add_argument("--captures", action="store_true", help="the names are captures that were kept")
    parser.add_argument("--limit", type=float, default=400, metavar="S", help="begin no program after S seconds")
    parser.add_argument("--lanes", type=int, default=4, help="how many programs run beside one another")
    parser.add_argument("--sampled", action="store_true", help="compare lines with sampled stacks")
    parser.add_argument(
        "--turns", type=int, default=0, metavar="N", help="compare up to N runs with as many without it"
    )
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    ends = time.monotonic() + chosen.limit
    if chosen.captures:
        print("| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|", sep="\n", flush=True)
        for each in chosen.names:
            print(line(of_capture(Path(each))), flush=True)
        return 0
    chosen.out.mkdir(parents=True, exist_ok=True)

    def one(name: str) -> None:
        if time.monotonic() > ends:
            print(f"{name}: left out, the time is over", flush=True)
            return
        try:
            if chosen.sampled or chosen.turns:
                left = (ends - time.monotonic()) / (len(names) - names.index(name))
                ways = (
                    judge_turns(name, chosen.out, chosen.turns, left) if chosen.turns else judge_lines(name, chosen.out)
                )
                print(ways, flush=True)
                return
            rows.append(measure(name, chosen.out))
        except (OSError, KeyError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error!r}", flush=True)
            return
        print(line(rows[-1]), *rows[-1]["differing"], flush=True, sep="\n")
        (chosen.out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    heads: tuple[str, ...] = HEADS
    names = chosen.names or names_of_programs()
    if chosen.turns:
        heads = ("program", "pairs", "step with it, ms", "without it, ms", "differ by", "against the steps before")
    elif chosen.sampled:
        heads = ("program", "samples that both know", "same line")
    print("| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", sep="\n", flush=True)
    with ThreadPoolExecutor(1 if chosen.turns else chosen.lanes) as lanes:
        list(lanes.map(one, names))
    if rows:
        print("", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *map(line, rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
