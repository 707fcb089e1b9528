"""Reports as runs of the gate: their step times, parts and whether they can be compared."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.compare.comparability import between_runs, find_issues
from nsyswrap.compare.comparison import ComparabilityIssue, ComparisonOptions, IssueKind, RunMachine, Side
from nsyswrap.compare.step_times import LEDGER_ROWS, MeasuredSteps, rows_of, step_count
from nsyswrap.gate.decision import judge
from nsyswrap.gate.timed_runs import Gate, GateOptions, GateOutcome, TimedRun, part_words
from nsyswrap.model import Report, Session

if TYPE_CHECKING:
    import pandas as pd

BASE, NEW = "BASE", "NEW"
IDLE, WAIT = "idle_ns", "communication_wait_ns"


class NamedReport(NamedTuple):
    """A report, its name in texts, the commit of the program, empty if unknown, and where it was made."""

    report: Report
    name: str
    commit: str = ""
    origin: RunMachine = RunMachine()


def gate_reports(
    earlier: Sequence[NamedReport], new: Sequence[NamedReport], options: GateOptions | None = None
) -> Gate:
    """Return whether the runs of new reports are slower than those of earlier ones.

    An earlier run that cannot be compared with the new ones is left out, and a note says why.

    Args:
        earlier: The reports before, at least one; they are put in order of their start where all of them know it.
        new: The newest reports, at least one.
        options: What the user wants to find.
    """
    chosen = options or GateOptions()
    settings = ComparisonOptions(accept=chosen.accept)
    now = _side(NEW, new)
    own = [one for one in find_issues(now, now, settings) if one.kind in (IssueKind.STEPS, IssueKind.INCOMPLETE)]
    own += [one for one in between_runs(now, settings) if one.blocks] + [*_given_twice(earlier, new)]
    if any(one.blocks for one in own):
        return _withheld(in_order(earlier), new, chosen, own)
    usable, reasons = [], []
    for one in in_order(earlier):
        issues = find_issues(_side(BASE, [one]), now, settings)
        block = next((each for each in issues if each.blocks), None)
        reasons += [] if block is None else [block.message.replace(f"{BASE} has", "it has").replace(BASE, "it")]
        usable += [one] if block is None else []
    left_out = [
        f"{units.counted(count, 'earlier run does', 'earlier runs do')} not count: {reason}"
        for reason, count in Counter(reasons).most_common()
    ]
    before = _side(BASE, usable) if usable else None
    issues = [one for one in find_issues(before, now, settings) if one.kind is not IssueKind.SAME] if before else []
    sides = [_timed(named, side) for named, side in ((usable, before), (new, now))]
    return judge(sides[0], sides[1], chosen, issues, left_out)


def _side(name: str, runs: Sequence[NamedReport]) -> Side:
    return Side.of(name, [one.report for one in runs], [one.origin for one in runs])


def _timed(named: Sequence[NamedReport], side: Side | None) -> tuple[TimedRun, ...]:
    return tuple(timed_run(one, steps) for one, steps in zip(named, side.runs if side else (), strict=True))


def _withheld(
    earlier: Sequence[NamedReport],
    new: Sequence[NamedReport],
    options: GateOptions,
    issues: Sequence[ComparabilityIssue],
) -> Gate:
    """Return the result for new runs that cannot be compared with any."""
    block = next(one for one in issues if one.blocks)
    sides = [tuple(TimedRun(one.name, 0.0, 0.0, commit=one.commit) for one in runs) for runs in (earlier, new)]
    verdict = f"Cannot tell: {block.message}"
    return Gate(sides[0], sides[1], options, GateOutcome.CANNOT_TELL, verdict, hint=block.hint, issues=tuple(issues))


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
        waiting_ns=steps.waiting_ns,
    )


def parts_of(report: Report, count: int) -> Mapping[str, float]:
    """Return ns a step of each part of a step, by its words; empty where the window is not made of steps.

    With GPU work these are the rows of the ledger, idle time by rule and waits by late rank, each the mean over GPUs,
    and they add up to the time per step. Without GPU work they are the phases on the CPU.
    """
    if not report.window.is_of_steps or not count:
        return {}
    devices = rows_of(report, "ledger", "devices")
    parts: dict[str, float] = {}
    if devices is None:
        for words, amount in _phases(report):
            parts[words] = parts.get(words, 0.0) + amount / count
        return parts
    for words, amount in (*_ledger(report, devices), *_idle(report), *_waits(report)):
        parts[words] = parts.get(words, 0.0) + amount / (len(devices) * count)
    return parts


def _ledger(report: Report, devices: "pd.DataFrame") -> Iterator[tuple[str, float]]:
    by_rank = rows_of(report, "communication", "waits") is not None
    by_rule = rows_of(report, "idle", "attribution") is not None
    for row in LEDGER_ROWS:
        if row in devices and not (row == WAIT and by_rank) and not (row == IDLE and by_rule):
            yield part_words("ledger", row), float(devices[row].sum())


def _idle(report: Report) -> Iterator[tuple[str, float]]:
    table = rows_of(report, "idle", "attribution")
    for row in () if table is None else table.to_dict("records"):
        yield part_words("idle", str(row["phase"]), str(row["rule"])), float(row["idle_ns"])


def _waits(report: Report) -> Iterator[tuple[str, float]]:
    table = rows_of(report, "communication", "waits")
    for row in () if table is None else table.to_dict("records"):
        yield part_words("wait", str(row["late_rank"]), str(row["rule"] or "")), float(row["wait_ns"])


def _phases(report: Report) -> Iterator[tuple[str, float]]:
    table = rows_of(report, "phases", "phases")
    for row in () if table is None else table.to_dict("records"):
        yield part_words("phase", str(row["phase"])), float(row["host_ns"])


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
