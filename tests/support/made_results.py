"""Results of each kind that takes several forms: whole ones, empty ones, and ones in which each text is hostile."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import hand_made
import made_comparisons
from hand_made import HOSTILE
from made_runs import IDENTITY
from made_runs import made_run as run_of_history
from made_sums import made_sums
from made_sweeps import failed_run, gpus_sweep, keys_of, made_run, spec_of, workers_sweep

from nsyswrap.compare.comparison import ComparabilityIssue, IssueKind
from nsyswrap.experiments.loader_search import LoaderPoint
from nsyswrap.experiments.outcome import Trial, TriedChange
from nsyswrap.experiments.verify import Verification, VerifyOptions, decided
from nsyswrap.experiments.verify_checks import WorkCheck, WorkOutcome
from nsyswrap.experiments.verify_runs import ProgramTime
from nsyswrap.gate.decision import judge
from nsyswrap.gate.timed_runs import Gate, GateOptions, TimedRun
from nsyswrap.gate.trends import Trend, trend_of_runs
from nsyswrap.many.capture_sums import FindingSum, KernelSum
from nsyswrap.many.totals import ManyCaptures, totals_of
from nsyswrap.render.history_document import HistoryPage
from nsyswrap.runs.run import ListedProgram, Program, in_series
from nsyswrap.sweep.results import Sweep, sweep_of

LONG_NAME = Program(
    "a/very/long/folder/without/any/space/train_with_a_long_name.py", "--batch-size 256", "", 0, 1, "", ""
)
NOISE = (0.0, 0.3, -0.1, 0.1, -0.2, 0.2, 0.4, -0.4)


def captures() -> ManyCaptures:
    """Return ten captures, one of them slow, one repeated, and one that failed."""
    every = [
        made_sums(100 + number % 3, host="host-1" if number == 1 else "host-aa", day=f"2026-11-0{number}")
        for number in range(1, 10)
    ]
    rows = [*((f"c{number}", sums) for number, sums in enumerate(every)), ("slow", made_sums(180))]
    return totals_of([*rows, ("bad", "it is empty")], [("again", "c1")])


def hostile_captures() -> ManyCaptures:
    """Return captures in which each text that a program or a user can choose is hostile."""
    one = made_sums(
        program=HOSTILE,
        arguments=HOSTILE,
        gpus=(HOSTILE,),
        host=HOSTILE,
        started_utc=HOSTILE,
        verdict=HOSTILE,
        idle={HOSTILE: made_sums().ledger["idle_ns"]},
        findings=(FindingSum(HOSTILE, "problem", 5, None),),
        kernels=(KernelSum(HOSTILE, 1, 5),),
    )
    return totals_of([(HOSTILE, one), (f"{HOSTILE} 2", HOSTILE)], [(HOSTILE, HOSTILE)])


def captures_without_gpu() -> ManyCaptures:
    none = dict.fromkeys(made_sums().ledger, 0)
    return totals_of([("a", made_sums(gpus=(), ledger=none, idle={}, findings=(), kernels=(), step_ns=None))])


def hostile_sweep() -> Sweep:
    """Return a sweep in which each text that a user or a program can choose is hostile."""
    quoted = json.dumps(HOSTILE)
    text = f"name = {quoted}\ncommand = ['a', '{{x}}']\n[axes]\nx = [{quoted}, 'b', 'c']\n"
    one, other, _ = keys_of(text)
    run = replace(made_run(one, 10, loader_ms=4), verdict=HOSTILE, rule=HOSTILE, machine={"GPU": HOSTILE})
    return sweep_of(spec_of(text), 1, [run, failed_run(other, reason=HOSTILE)])


def sweep_without_gpu() -> Sweep:
    """Return a sweep with one measured cell, without GPU work."""
    return sweep_of(spec_of(), 1, [replace(made_run("workers-0_batch-64", 5), parts=())])


def timed_runs(factors: list[float], name: str = "run") -> list[TimedRun]:
    """Return runs of 10 ms a step times a factor, that wait for rank 3."""
    parts = [{"compute": 6e6, "wait for rank 3 (data loader wait)": 1e7 * one - 6e6} for one in factors]
    return [
        TimedRun(f"{name} {at}", 1e7 * one, 1e7 * one, part, commit="0123456789abcdef")
        for at, (one, part) in enumerate(zip(factors, parts, strict=True))
    ]


def regressed(name: str = "run", count: int = 20) -> Gate:
    """Return a result in which new runs take 10 % longer."""
    issue = ComparabilityIssue(IssueKind.COMMAND, f"Other arguments: {name}.", blocks=False)
    earlier = [1 + 0.001 * (at % 3) for at in range(count)]
    return judge(timed_runs(earlier, name), timed_runs([1.1, 1.11, 1.1], f"new {name}"), GateOptions(), [issue])


def trend(levels_ms: tuple[float, ...], program: Program = IDENTITY, runs: int = 16, commits: int = 4) -> Trend:
    made = []
    for at in range(len(levels_ms) * runs):
        ms = levels_ms[at // runs] * (1 + NOISE[at * 5 % 8] / 100)
        made.append(in_series(run_of_history(at, ms, f"{at // commits:040x}" if commits else "", at)))
    return trend_of_runs(program, len(made), made)


def history(*trends: Trend, others: tuple[ListedProgram, ...] = ()) -> HistoryPage:
    return HistoryPage(trends, {}, others, sum(one.run_count for one in trends))


def hostile_history() -> HistoryPage:
    program = Program("<script>alert(1)</script>\u202e.py", '"><img src=x>', "<b>", 1, 1, "", "")
    return history(trend((10.0, 10.5), program), others=(ListedProgram(program, 3, "<i>"),))


def verification(name: str = "fast.py", work: WorkOutcome = WorkOutcome.SAME, new_ms: float = 8.0) -> Verification:
    """Return a result for two programs, with a difference in the losses unless the work is the same."""
    words = f"In step 3, NEW of {name} has 2.31, BASE 2.29; rounding explains 1.2e-05."
    checks = (
        WorkCheck("optimizer steps", "8 optimizer steps", "8 optimizer steps", WorkOutcome.SAME, "Both make 8."),
        WorkCheck("losses", name, name, work, words, is_value=True),
    )
    times = [[ProgramTime(ms * 1e6 * factor, 1e9) for factor in (1, 1.01, 0.99)] for ms in (10.0, new_ms)]
    timing = decided(times[0], times[1], 0.05, 0.95) if work is WorkOutcome.SAME else None
    return Verification("train.py", name, work, checks, timing, (f"{name} was timed earlier.",), VerifyOptions())


def trial(words: str = "ValueError: no") -> Trial:
    """Return what came of trying some changes; one failed with some words."""
    timed: dict[str, Any] = {"pairs": 9, "before_ns": 20e6}
    return Trial(
        command=("train.py",),
        outcomes=(
            TriedChange(spec="gc", verdict="does not apply", words="the program has turned off automatic collection"),
            TriedChange(spec="threads=1", verdict="failed", words=words, alters="rounding"),
            TriedChange(
                spec="fused=AdamW", verdict="faster", low=0.68, ratio=0.7, high=0.72, after_ns=14e6, kept=True, **timed
            ),
            TriedChange(
                spec="compile=default", verdict="faster", low=0.7, ratio=0.75, high=0.8, after_ns=15e6, start_ns=2e9,
                kept=True, **timed,
            ),
            TriedChange(spec="all", verdict="faster", low=0.4, ratio=0.5, high=0.6, after_ns=10e6, kept=True, **timed),
        ),
        points=(LoaderPoint(0, 40e6, 1.0, 0), LoaderPoint(4, 20e6, 4.2, 900_000_000)),
        notes=(words,),
    )  # fmt: skip


MADE: Mapping[tuple[str, str], Callable[[], Any]] = {
    **{("comparison", name): make for name, make in made_comparisons.ALL.items()},
    ("report", "full"): hand_made.full_report,
    ("report", "two GPUs"): hand_made.two_gpu_report,
    ("report", "no GPU"): hand_made.no_gpu_report,
    ("report", "bare"): hand_made.empty_report,
    ("report", "hostile"): hand_made.hostile_report,
    ("many", "full"): captures,
    ("many", "no GPU"): captures_without_gpu,
    ("many", "bare"): lambda: totals_of([]),
    ("many", "hostile"): hostile_captures,
    ("sweep", "full"): lambda: workers_sweep(3),
    ("sweep", "GPUs"): gpus_sweep,
    ("sweep", "no GPU"): sweep_without_gpu,
    ("sweep", "bare"): lambda: sweep_of(spec_of(), 1, ()),
    ("sweep", "hostile"): hostile_sweep,
    ("gate", "full"): regressed,
    ("gate", "long"): lambda: regressed(count=200),
    ("gate", "bare"): lambda: judge(timed_runs([1.0, 1.0]), timed_runs([2.0])),
    ("gate", "hostile"): lambda: regressed(HOSTILE),
    ("verification", "full"): verification,
    ("verification", "other"): lambda: verification(work=WorkOutcome.OTHER),
    ("verification", "bare"): lambda: Verification("a", "b", WorkOutcome.SAME, (), None, (), VerifyOptions()),
    ("verification", "hostile"): lambda: verification(HOSTILE, WorkOutcome.OTHER),
    ("try", "full"): trial,
    ("try", "bare"): lambda: Trial(command=("train.py",), outcomes=()),
    ("try", "hostile"): lambda: trial(HOSTILE),
    ("history", "full"): lambda: history(trend((10.0, 10.5))),
    ("history", "bare"): history,
    ("history", "hostile"): hostile_history,
}
"""Functions that make results, by kind and name."""
