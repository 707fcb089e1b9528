"""Let `nsyswrap try` make changes to programs, and compare what they bring with the edited program and the prediction.

    python tools/judge_try.py [--out rows.json] [--seconds 250] [--planted] [--profile DIR] [NAME ...]
    python tools/judge_try.py --again rows.json --profile DIR

``FAULTS`` says which programs of workloads/faults a switch from outside can fix, and by which change; it was written
before the first run. ``EDITED`` are the programs of tools/edited_programs.py, and ``HEALTHY`` some of
tools/overhead_programs.py. Each program runs under `try`; then it and its edited form, with `--fixed`, are timed in
processes of their own, in turns. The edited form of a healthy program has what was recommended. With --planted only the
change that belongs to a program is tried, which takes a tenth of the time.

A fault counts as fixed where `try` recommends its change, and saves at least 80 % of what the edited program saves.
What `try` saves is equal to the edit where the interval meets the range of the edit, or lies beside it by less than two
runs of one program differ. With --profile, the program is profiled afterwards, unless DIR has its result: its report
predicts the saving.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.baseline import SIGNALED
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.cli.compare import report_at
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.outcome import Trial, TriedChange, trial_from
from nsyswrap.experiments.request import Answer, Request, run_request
from nsyswrap.experiments.search import try_changes
from nsyswrap.experiments.tried.experiment import parts_of
from nsyswrap.experiments.tried.turns import FASTER, SAME, SLOWER
from nsyswrap.experiments.tried_section import tried_section
from nsyswrap.experiments.try_runs import TryOptions, ending_of
from nsyswrap.what_if.fixed_step import RUNS_DIFFER

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from forked_programs import ForkedPrograms  # noqa: E402 - not installed

WORKLOADS = ROOT / "workloads"
PATHS = [str(ROOT), str(ROOT / "tools"), str(WORKLOADS), *filter(None, [os.environ.get("PYTHONPATH")])]
FAULTS = {
    "optimizer_kernels": "fused",
    "no_tensor_cores": "tf32",
    "channels_first": "channels_last",
    "depthwise_channels_first": "channels_last",
    "collected_each_step": "gc",
    "activation_by_hand": "compile=default",
    "norms_by_hand": "compile=default",
    "layer_norms_by_hand": "compile=default",
    "workers_started_each_epoch": "persistent",
    "few_workers": "workers",
    "loading_in_the_training_process": "workers",
    "short_epochs": "persistent",
    "unpinned_columns": "pin_memory",
    "recurrent_cells": "cuda_graphs",
}
"""The programs with a fault that a switch can fix, and the change that should fix it: compile compiles modules only.

Not among them: layouts_of_timm, whose kernels take 9.2 ms with one layout and 9.4 ms with the other on an H100.
"""
EDITED = {
    "cuda_graphs": "cuda_graphs",
    "compiled": "compile=reduce-overhead",
    "attention": "attention",
    "pin_memory": "pin_memory",
    "threads": "threads",
    "prefetch": "prefetch",
    "zero_grad": "zero_grad",
    "non_blocking": "non_blocking",
    "cudnn_benchmark": "cudnn_benchmark",
}
HEALTHY = ("healthy_bert", "healthy_gpt", "healthy_vit", "healthy_llama", "healthy_resnet")
SWITCHES: dict[str, str] = {**FAULTS, **EDITED, **dict.fromkeys(HEALTHY, "")}
# Of the time that the edited program saves. Source: ours, as the noise of two runs.
ENOUGH_SHARE = 0.8
# Seconds for `try` with the change of the fault alone, for that in processes of their own, and for all changes.
PLANTED_S, PROCESSES_S, ALL_S = 18.0, 60.0, 80.0
# More steps than any budget takes; steps of a profile.
STEPS, PROFILED_STEPS = "100000", "30"
ROUNDS, TIMED_S, LONGEST_S = 2, 1.5, 90.0


class Runs:
    """Runs programs in processes that are forked after the import of torch, which would take most of the time."""

    def __init__(self) -> None:
        # Without this variable, torch may begin to use the GPU before the processes are forked.
        self._programs = ForkedPrograms({"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "PYTHONPATH": os.pathsep.join(PATHS)})
        self.events: list[dict[str, Any]] = []

    def run(self, request: Request, options: CaptureOptions) -> Answer:
        answer = run_request(request, options, self._exit_code)
        self.events += answer.events
        return answer

    def _exit_code(self, options: CaptureOptions) -> int:
        _python, _m, module, *arguments = options.command
        code = self._programs.run(
            module=module, arguments=arguments, cwd=str(options.cwd), output="/dev/stderr",
            environment=dict(options.environment),
        )  # fmt: skip
        return code if code >= 0 else SIGNALED - code


def command_of(name: str, *words: str) -> list[str]:
    """Return the command of a program, without its steps."""
    module = f"faults.{name}" if name in FAULTS else "edited_programs" if name in EDITED else "overhead_programs"
    return [sys.executable, "-m", module, *(() if name in FAULTS else (name,)), *words]


def options_of(name: str, *words: str) -> CaptureOptions:
    command = (*command_of(name, *words), "--steps", STEPS)
    return CaptureOptions(command=command, folder=ROOT / "build" / "try", cwd=WORKLOADS, output_to_stderr=True)


def step_ns(runs: Runs, name: str, words: Sequence[str] = (), base: tuple[str, ...] = ()) -> float | None:
    """Return the mean step of a program that runs once, with some changes; None where it has none."""
    request = Request(timed_s=TIMED_S, base=base, allow_writes=True, budget_s=30.0)
    answer = runs.run(request, options_of(name, *words))
    if answer.step_ns is None:
        print(f"{name} {' '.join(words)}: {ending_of(answer)}", flush=True)
    return answer.step_ns


def saved_by_hand(runs: Runs, name: str, kept: Sequence[str]) -> list[float]:
    """Return the share of a step that the edited program saves: least, mean and most; none where one has no steps."""
    # An edited program takes the value that was found, such as the number of threads.
    values = [parts_of(each)[1] for each in kept] if name in EDITED else []
    edited: dict[str, Any] = {"words": ["--fixed", *filter(None, values)]}
    if name in HEALTHY:
        edited = {"base": tuple(kept)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(ROUNDS):
        for fixed in (bool(number % 2), not number % 2):
            found = step_ns(runs, name, **(edited if fixed else {}))
            if found is None:
                return []
            times[fixed].append(found)
    before, after = times[False], times[True]
    return [1 - max(after) / min(before), 1 - fmean(after) / fmean(before), 1 - min(after) / max(before)]


def row_of(runs: Runs, name: str, *, planted: bool) -> dict[str, Any]:
    """Let `try` change one program, and return what came of it."""
    wanted = SWITCHES[name]
    runs.events.clear()
    is_alone = planted and wanted
    usual = PLANTED_S if is_alone and experiments()[parts_of(wanted)[0]].is_in_turns else PROCESSES_S
    # max-autotune takes minutes to tune the kernels of a large model.
    every = [each for each in experiments() if each != "compile"] + ["compile=default", "compile=reduce-overhead"]
    settings = TryOptions(
        order=[wanted] if is_alone else every, budget_s=usual if is_alone else ALL_S, allow_writes=True
    )
    try:
        trial = try_changes(settings, options_of(name), runs.run)
    except NsyswrapError as error:
        return {"program": name, "wanted": wanted, "fixed": False, "words": error.message}
    pairs = [each for each in runs.events if each["event"] == "pairs"]
    kept = [each.spec for each in trial.kept]
    by_hand = saved_by_hand(runs, name, kept) if kept or wanted else []
    found = outcome_of(trial, wanted)
    row: dict[str, Any] = {"program": name, "wanted": wanted, "kept": kept, "by_hand": by_hand, "fixed": False}
    row |= {"trial": trial.tree(), "pairs": pairs}
    if found is not None and found.interval is not None:
        saved = [1 - found.high, 1 - found.ratio, 1 - found.low]
        row |= {"verdict": found.verdict, "saved": saved}
        if by_hand:
            row |= judged(found.verdict, saved, by_hand)
            is_kept = any(each.startswith(wanted) for each in kept)
            row["fixed"] = is_kept and saved[1] >= ENOUGH_SHARE * by_hand[1]
    return row


def outcome_of(trial: Trial, wanted: str) -> TriedChange | None:
    """Return the outcome to compare: of all changes to make, or else of the one that belongs to the program."""
    timed = [each for each in trial.outcomes if each.pairs and each.spec.startswith(wanted)]
    return trial.together if trial.kept else min(timed, key=lambda each: each.ratio, default=None)


def judged(verdict: str, saved: Sequence[float], by_hand: Sequence[float]) -> dict[str, bool]:
    """Return whether a saving is that of the edited program, and whether its sign is right where it claims to know."""
    least, _, most = by_hand
    is_equal = saved[0] <= most + RUNS_DIFFER and saved[2] >= least - RUNS_DIFFER
    wrong = {FASTER: most < 0, SLOWER: least > 0, SAME: least > RUNS_DIFFER or most < -RUNS_DIFFER}
    return {"equal": is_equal, "sign": not wrong.get(verdict, False)}


def predict(row: dict[str, Any], folder: Path) -> None:
    """Add to a row what the report of the program predicts for its change; profile it where there is no report."""
    result = folder / row["program"]
    if not result.is_dir():
        words = ["profile", "-o", str(result), "--steps", PROFILED_STEPS, "--stop-after", "-f", "--no-alternatives"]
        command = [sys.executable, "-m", "nsyswrap", *words, "--cwd", str(WORKLOADS), "--"]
        command += [*command_of(row["program"]), "--steps", "400"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, check=False, timeout=LONGEST_S, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603 - its own
    try:
        report = report_at(result, ReadOptions())
    except NsyswrapError as error:
        print(f"{row['program']}: {error.message}", flush=True)
        return
    section = tried_section(report, trial_from(row["trial"]), "")
    table = section.tables["changes"]
    row["predicted"] = json.loads(table[table["predicted_low_share"].notna()].to_json(orient="records"))
    row["held"] = {each.label: each.value for each in section.facts}


def table(rows: list[dict[str, Any]]) -> str:
    heads = ("program", "change", "result", "saved by try", "by hand", "equal", "sign", "predicted", "holds", "fixed")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in rows:
        change = ", ".join(each.get("kept", ())) or each["wanted"] or "-"
        held, predicted = each.get("held", {}), each.get("predicted", ())
        ranges = [_percent([one["predicted_low_share"], one["predicted_high_share"]]) for one in predicted]
        cells = (
            f"`{each['program']}`",
            change,
            each.get("verdict") or each.get("words") or words_of(each),
            *(_percent(each.get(name, ())) for name in ("saved", "by_hand")),
            *(str(each.get(name, "-")) for name in ("equal", "sign")),
            ", ".join(ranges) or "-",
            f"{held['predictions_held']} of {held['predictions_checked']}" if predicted else "-",
            str(each["fixed"]) if each["program"] in FAULTS else "-",
        )
        lines.append(f"| {' | '.join(cells)} |")
    faults = [each for each in rows if each["program"] in FAULTS]
    return "\n".join([*lines, "", f"{fixed(faults)} of {len(faults)} faults are fixed by try alone."])


def words_of(row: dict[str, Any]) -> str:
    """Return why the change of a program was not timed."""
    found = (each for each in row["trial"]["outcomes"] if each["spec"].startswith(row["wanted"]) and row["wanted"])
    return next((f"{each['verdict']}: {each['words']}" for each in found), "nothing")


def _percent(shares: Sequence[float]) -> str:
    """Return a share with its range, such as "34 % (31 to 36)", or a range alone."""
    if not shares:
        return "-"
    texts = [f"{100 * each:.1f}" for each in shares]
    return f"{texts[1]} % ({texts[0]} to {texts[2]})" if len(texts) > 2 else " to ".join(texts) + " %"  # noqa: PLR2004


def fixed(rows: Sequence[dict[str, Any]]) -> int:
    """Return how many faults are fixed."""
    return sum(bool(each["fixed"]) for each in rows)


def main() -> int:
    """Judge the programs, print a table, and return an exit code: 1 where less than nine of ten are fixed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="some programs; all by default")
    parser.add_argument("--out", type=Path, help="write the rows with all numbers to this file")
    parser.add_argument("--again", type=Path, metavar="ROWS", help="run nothing, and judge the rows of this file")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="predict with profiles in this folder")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no program after so many seconds")
    parser.add_argument("--planted", action="store_true", help="try the change of each program alone")
    chosen = parser.parse_args()
    began = time.monotonic()
    rows: list[dict[str, Any]] = json.loads(chosen.again.read_text(encoding="utf-8")) if chosen.again else []

    def keep(words: str) -> None:
        print(f"{time.monotonic() - began:.0f} s {words}", flush=True)
        if chosen.out is not None:
            chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    runs = None if chosen.again else Runs()
    for name in () if runs is None else chosen.names or SWITCHES:
        if runs is not None and time.monotonic() - began < chosen.seconds:
            rows.append(row_of(runs, name, planted=chosen.planted))
            keep(f"{name}: {rows[-1].get('kept')}")
    for row in rows if chosen.profile is not None else ():
        if "trial" in row and time.monotonic() - began < chosen.seconds:
            predict(row, chosen.profile)
            keep(f"{row['program']}: predicted")
    print(table(rows))
    faults = [each for each in rows if each["program"] in FAULTS]
    return 0 if fixed(faults) >= 0.9 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
