"""Reports as runs of the gate: their step times, parts and whether they can be compared."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.compare.comparability import between_runs, find_issues
from nsyswrap.compare.comparison import ComparabilityIssue, ComparisonOptions, IssueKind, RunMachine, Side
from nsyswrap.compare.step_times import MeasuredSteps, step_count
from nsyswrap.gate.decision import judge, withheld
from nsyswrap.gate.timed_runs import Gate, GateOptions, TimedRun, parts_of_accounts
from nsyswrap.model import Report, Session
from nsyswrap.runs.from_report import accounts_of

BASE, NEW = "BASE", "NEW"


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
        sides = (
            tuple(TimedRun(one.name, 0, 0, commit=one.commit) for one in runs) for runs in (in_order(earlier), new)
        )
        return withheld(next(sides), next(sides), chosen, own)
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
    before_runs = tuple(map(timed_run, usable, before.runs if before else ()))
    return judge(before_runs, tuple(map(timed_run, new, now.runs)), chosen, issues, left_out)


def _side(name: str, runs: Sequence[NamedReport]) -> Side:
    return Side.of(name, [one.report for one in runs], [one.origin for one in runs])


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

    With GPU work these are the accounts of a run. Without GPU work they are the phases on the CPU.
    """
    if not report.window.is_of_steps or not count:
        return {}
    devices, phases = report.rows("ledger", "devices"), report.rows("phases", "phases")
    if devices is not None:
        steps = count * len(devices)
        return parts_of_accounts(each._replace(step_ns=each.total_ns / steps) for each in accounts_of(report))
    if phases is None:
        return {}
    return {f"phase {phase} on the CPU": ns / count for phase, ns in phases.groupby("phase")["host_ns"].sum().items()}


def _given_twice(earlier: Sequence[NamedReport], new: Sequence[NamedReport]) -> Iterator[ComparabilityIssue]:
    known = {_identity(one.report): one.name for one in earlier}
    for one in new:
        identity = _identity(one.report)
        if identity[0].started_utc and identity in known:
            words = f"{one.name} is a new run and an earlier one."
            yield ComparabilityIssue(IssueKind.SAME, words, blocks=True, hint="give each run once")


def _identity(report: Report) -> tuple[Session, int]:
    return report.session, report.capture.bytes
