"""Reports as runs of the gate: their step times, parts and whether they can be compared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nsyswrap.compare import ComparabilityIssue, ComparisonOptions, IssueKind, Side
from nsyswrap.compare.comparability import find_issues
from nsyswrap.compare.step_times import LEDGER_ROWS, MeasuredSteps, step_count
from nsyswrap.gate.decision import judge
from nsyswrap.gate.timed_runs import Gate, GateOptions, GateOutcome, TimedRun, part_words
from nsyswrap.model import Report, Session
from nsyswrap.rules.idle import OFF_CPU

if TYPE_CHECKING:
    import pandas as pd

EARLIER, NEW = "OLD", "NEW"
IDLE, WAIT = "idle_ns", "communication_wait_ns"
WAITS_FOR_CORE = OFF_CPU.key


class NamedReport(NamedTuple):
    """A report, its name in texts, and the commit of the program; empty if unknown."""

    report: Report
    name: str
    commit: str = ""


def gate_reports(
    earlier: Sequence[NamedReport], new: Sequence[NamedReport], options: GateOptions | None = None
) -> Gate:
    """Return whether the runs of new reports are slower than those of earlier ones.

    Args:
        earlier: The reports before, at least one; they are put in order of their start where all of them know it.
        new: The newest reports, at least one.
        options: What the user wants to find.
    """
    chosen = options or GateOptions()
    before = in_order(earlier)
    sides = [Side.of(name, [one.report for one in runs]) for name, runs in ((EARLIER, before), (NEW, new))]
    issues = [*find_issues(sides[0], sides[1], ComparisonOptions(accept=chosen.accept)), *_given_twice(before, new)]
    issues.sort(key=lambda one: not one.blocks)
    if any(one.kind is IssueKind.STEPS for one in issues):
        block = next(one for one in issues if one.kind is IssueKind.STEPS)
        old, newest = (
            tuple(TimedRun(one.name, 0.0, 0.0, commit=one.commit) for one in named) for named in (before, new)
        )
        verdict = f"Cannot tell: {block.message}"
        return Gate(old, newest, chosen, GateOutcome.CANNOT_TELL, verdict, hint=block.hint, issues=tuple(issues))
    runs = [
        tuple(timed_run(one, steps) for one, steps in zip(named, side.runs, strict=True))
        for named, side in zip((before, new), sides, strict=True)
    ]
    return judge(runs[0], runs[1], chosen, issues)


def in_order(runs: Sequence[NamedReport]) -> tuple[NamedReport, ...]:
    """Return runs in order of their start; as they were given where one does not know it."""
    if all(one.report.session.started_utc for one in runs):
        return tuple(sorted(runs, key=lambda one: one.report.session.started_utc))
    return tuple(runs)


def timed_run(named: NamedReport, steps: MeasuredSteps) -> TimedRun:
    """Return a report as a run of the gate; it has at least one step."""
    count = step_count(named.report, steps)
    return TimedRun(
        name=named.name,
        mean_ns=float(steps.period.mean()),
        median_ns=float(np.median(steps.length)),
        parts=parts_of(named.report, count),
        commit=named.commit,
        waiting_ns=waiting_of(named.report, count),
    )


def waiting_of(report: Report, count: int) -> float | None:
    """Return ns a step that the loop waits for a CPU core; None where the machine was not sampled.

    With GPU work it is the idle time that these waits explain, as the mean over GPUs; without, the wait of the thread
    that waits longest.
    """
    machine = report.section("machine")
    sampled = machine.fact("cpu_time_ns") if machine is not None else None
    if sampled is None or not sampled.value or not count or not report.window.is_of_steps:
        return None
    devices, idle = _rows(report, "ledger", "devices"), _rows(report, "idle", "attribution")
    if devices is not None:
        waits = 0.0 if idle is None else float(idle.loc[idle["rule"] == WAITS_FOR_CORE, "idle_ns"].sum())
        return waits / (len(devices) * count)
    threads = _rows(report, "machine", "host")
    if threads is None:
        return 0.0
    waiting = threads.loc[threads["rule"] == WAITS_FOR_CORE].groupby("thread_id")["total_ns"].sum()
    return float(waiting.max()) / count if len(waiting) else 0.0


def parts_of(report: Report, count: int) -> Mapping[str, float]:
    """Return ns a step of each part of a step, by its words; empty where the window is not made of steps.

    With GPU work these are the rows of the ledger, idle time by rule and waits by late rank, each the mean over GPUs,
    and they add up to the time per step. Without GPU work they are the phases on the CPU.
    """
    if not report.window.is_of_steps or not count:
        return {}
    devices = _rows(report, "ledger", "devices")
    parts: dict[str, float] = {}
    if devices is None:
        for words, amount in _phases(report):
            parts[words] = parts.get(words, 0.0) + amount / count
        return parts
    for words, amount in (*_ledger(report, devices), *_idle(report), *_waits(report)):
        parts[words] = parts.get(words, 0.0) + amount / (len(devices) * count)
    return parts


def _ledger(report: Report, devices: "pd.DataFrame") -> Iterator[tuple[str, float]]:
    by_rank = _rows(report, "communication", "waits") is not None
    by_rule = _rows(report, "idle", "attribution") is not None
    for row in LEDGER_ROWS:
        if row in devices and not (row == WAIT and by_rank) and not (row == IDLE and by_rule):
            yield part_words("ledger", row), float(devices[row].sum())


def _idle(report: Report) -> Iterator[tuple[str, float]]:
    table = _rows(report, "idle", "attribution")
    for row in () if table is None else table.to_dict("records"):
        yield part_words("idle", str(row["phase"]), str(row["rule"])), float(row["idle_ns"])


def _waits(report: Report) -> Iterator[tuple[str, float]]:
    table = _rows(report, "communication", "waits")
    for row in () if table is None else table.to_dict("records"):
        yield part_words("wait", str(row["late_rank"]), str(row["rule"] or "")), float(row["wait_ns"])


def _phases(report: Report) -> Iterator[tuple[str, float]]:
    table = _rows(report, "phases", "phases")
    for row in () if table is None else table.to_dict("records"):
        yield part_words("phase", str(row["phase"])), float(row["host_ns"])


def _rows(report: Report, section: str, table: str) -> "pd.DataFrame | None":
    its_section = report.section(section)
    rows = its_section.tables.get(table) if its_section is not None else None
    return rows if rows is not None and len(rows) else None


def _given_twice(earlier: Sequence[NamedReport], new: Sequence[NamedReport]) -> Iterator[ComparabilityIssue]:
    """Yield an issue for each new run that is also an earlier one."""
    known = {_identity(one.report): one.name for one in earlier}
    for one in new:
        identity = _identity(one.report)
        if identity[0].started_utc and identity in known:
            words = f"{one.name} is a new run and an earlier one."
            yield ComparabilityIssue(IssueKind.SAME, words, blocks=True, hint="give each run once")


def _identity(report: Report) -> tuple[Session, int]:
    return report.session, report.capture.bytes
