"""Reports as runs of the gate: their step times, parts and whether they can be compared."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.compare.comparability import between_runs, find_issues
from nsyswrap.compare.comparison import ComparabilityIssue, ComparisonOptions, IssueKind, RunMachine, Side
from nsyswrap.compare.step_times import LEDGER_ROWS, MeasuredSteps, step_count
from nsyswrap.gate.decision import judge, withheld
from nsyswrap.gate.timed_runs import Gate, GateOptions, TimedRun, part_words
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

    With GPU work these are the rows of the ledger, idle time by rule and waits by late rank, each the mean over GPUs,
    and they add up to the time per step. Without GPU work they are the phases on the CPU.
    """
    if not report.window.is_of_steps or not count:
        return {}
    devices, idle, waits, phases = (
        report.rows(*place)
        for place in (("ledger", "devices"), ("idle", "attribution"), ("communication", "waits"), ("phases", "phases"))
    )
    found: list[tuple[str, float]] = []
    if devices is not None:
        # Idle time and waits have rows of their own where their parts are known.
        replaced = {name for name, table in ((IDLE, idle), (WAIT, waits)) if table is not None}
        rows = [row for row in LEDGER_ROWS if row in devices and row not in replaced]
        found += [(part_words("ledger", row), float(devices[row].sum())) for row in rows]
        for row in _records(idle):
            found.append((part_words("idle", str(row["phase"]), str(row["rule"])), float(row["idle_ns"])))
        for row in _records(waits):
            found.append((part_words("wait", str(row["late_rank"]), str(row["rule"] or "")), float(row["wait_ns"])))
    else:
        found += [(part_words("phase", str(row["phase"])), float(row["host_ns"])) for row in _records(phases)]
    parts: dict[str, float] = {}
    for words, amount in found:
        parts[words] = parts.get(words, 0.0) + amount / (count * (1 if devices is None else len(devices)))
    return parts


def _records(table: "pd.DataFrame | None") -> list[dict[Any, Any]]:
    return [] if table is None else table.to_dict("records")


def _given_twice(earlier: Sequence[NamedReport], new: Sequence[NamedReport]) -> Iterator[ComparabilityIssue]:
    known = {_identity(one.report): one.name for one in earlier}
    for one in new:
        identity = _identity(one.report)
        if identity[0].started_utc and identity in known:
            words = f"{one.name} is a new run and an earlier one."
            yield ComparabilityIssue(IssueKind.SAME, words, blocks=True, hint="give each run once")


def _identity(report: Report) -> tuple[Session, int]:
    return report.session, report.capture.bytes
