"""Let `nsyswrap try` fix planted faults, and compare what it brings with the edited program.

    python tools/judge_try.py [--out rows.json] [--seconds 250] [--planted] [NAME ...]

``SWITCHES`` says which programs of workloads/faults a switch from outside can fix, and by which change; it was written
before the first run. Each program runs under `try`; then it and its `--fixed` form are timed in processes of their own,
in turns. With --planted only the change of the fault is tried, which takes a tenth of the time. A fault counts as fixed
where `try` recommends its change, and saves at least 80 % of what the edited program saves.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.baseline import SIGNALED
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.experiments.changes import experiments
from nsyswrap.experiments.request import Answer, Request, run_request
from nsyswrap.experiments.search import try_changes
from nsyswrap.experiments.try_runs import TryOptions, ending_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from forked_programs import ForkedPrograms  # noqa: E402 - not installed

WORKLOADS = ROOT / "workloads"
SWITCHES = {
    "optimizer_kernels": "fused",
    "no_tensor_cores": "tf32",
    "channels_first": "channels_last",
    "depthwise_channels_first": "channels_last",
    "collected_each_step": "gc",
    "activation_by_hand": "compile=default",
    "workers_started_each_epoch": "persistent",
    "few_workers": "workers",
    "loading_in_the_training_process": "workers",
    "layouts_of_timm": "channels_last",
    "norms_by_hand": "compile=default",
    "layer_norms_by_hand": "compile=default",
}
"""The programs with a fault that a switch can fix, and the change that should fix it: compile compiles modules only."""
# Of the time that the edited program saves. Source: ours, as the noise of two runs.
ENOUGH_SHARE = 0.8
# Seconds for `try` with the change of the fault alone, and with all of them; loaders take up to eight runs.
PLANTED_S, LOADER_S, ALL_S = 10.0, 60.0, 240.0
# More steps than any budget takes.
STEPS = "100000"
ROUNDS, TIMED_S = 1, 2.0


class Runs:
    """Runs programs in processes that are forked after the import of torch, which would take most of the time."""

    def __init__(self) -> None:
        # Without this variable, torch may begin to use the GPU before the processes are forked.
        self._programs = ForkedPrograms({"PYTORCH_NVML_BASED_CUDA_CHECK": "1"})
        self.events: list[dict[str, Any]] = []

    def run(self, request: Request, options: CaptureOptions) -> Answer:
        """Run a program once with what it is to try."""
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


def options_of(name: str, *words: str) -> CaptureOptions:
    """Return how a program runs."""
    command = (sys.executable, "-m", f"faults.{name}", "--steps", STEPS, *words)
    return CaptureOptions(command=command, folder=ROOT / "build" / "try", cwd=WORKLOADS, output_to_stderr=True)


def step_ns(runs: Runs, name: str, *words: str) -> float | None:
    """Return the mean step of a program that runs once; None where it has none."""
    answer = runs.run(Request(timed_s=TIMED_S, allow_writes=True, budget_s=30.0), options_of(name, *words))
    if answer.step_ns is None:
        print(f"{name} {' '.join(words)}: {ending_of(answer)}", flush=True)
    return answer.step_ns


def saved_by_hand(runs: Runs, name: str) -> float | None:
    """Return the share of a step that the edited program saves; None where one of the runs has no steps."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(ROUNDS):
        for fixed in (bool(number % 2), not number % 2):
            found = step_ns(runs, name, *(["--fixed"] if fixed else []))
            if found is None:
                return None
            times[fixed].append(found)
    return 1 - fmean(times[True]) / fmean(times[False])


def row_of(runs: Runs, name: str, *, planted: bool) -> dict[str, Any]:
    """Let `try` fix one program, and return what came of it."""
    wanted = SWITCHES[name]
    runs.events.clear()
    usual = LOADER_S if wanted in {"workers", "persistent"} else PLANTED_S
    settings = TryOptions(
        order=[wanted] if planted else list(experiments()), budget_s=usual if planted else ALL_S, allow_writes=True
    )
    try:
        trial = try_changes(settings, options_of(name), runs.run)
    except NsyswrapError as error:
        return {"program": name, "wanted": wanted, "fixed": False, "words": error.message}
    pairs = [each for each in runs.events if each["event"] == "pairs"]
    by_hand, best = saved_by_hand(runs, name), trial.together
    saved = 0.0 if best is None else 1 - best.ratio
    kept = [each.spec for each in trial.kept]
    is_fixed = any(each.startswith(wanted) for each in kept) and by_hand is not None
    return {
        "program": name,
        "wanted": wanted,
        "kept": kept,
        "saved": saved,
        "by_hand": by_hand,
        "fixed": is_fixed and saved >= ENOUGH_SHARE * (by_hand or 0.0),
        "trial": trial.tree(),
        "pairs": pairs,
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| program | switch | recommended | saved by try | by hand | fixed |", "|---|---|---|---|---|---|"]
    for each in rows:
        shares = [f"{100 * each[name]:.1f} %" if each.get(name) is not None else "-" for name in ("saved", "by_hand")]
        kept = ", ".join(each.get("kept", ())) or each.get("words") or "nothing"
        lines.append(f"| `{each['program']}` | {each['wanted']} | {kept} | {' | '.join(shares)} | {each['fixed']} |")
    fixed = sum(bool(each["fixed"]) for each in rows)
    return "\n".join([*lines, "", f"{fixed} of {len(rows)} faults are fixed by try alone."])


def main() -> int:
    """Judge the programs, print a table, and return an exit code: 1 where less than nine of ten are fixed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="some programs; all of SWITCHES by default")
    parser.add_argument("--out", type=Path, help="write the rows with all numbers to this file")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no program after so many seconds")
    parser.add_argument("--planted", action="store_true", help="try the change of the fault alone")
    chosen = parser.parse_args()
    began, rows, runs = time.monotonic(), list[dict[str, Any]](), Runs()
    for name in chosen.names or SWITCHES:
        if time.monotonic() - began > chosen.seconds:
            print(f"{name}: left out, {chosen.seconds:g} s are over", flush=True)
            continue
        rows.append(row_of(runs, name, planted=chosen.planted))
        print(f"{time.monotonic() - began:.0f} s {name}: {rows[-1].get('kept')}", flush=True)
        if chosen.out is not None:
            chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    return 0 if sum(bool(each["fixed"]) for each in rows) >= 0.9 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
