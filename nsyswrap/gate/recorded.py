"""Runs of the history as runs of the gate: which of them can be compared, and the result."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.compare.comparability import FEWEST_STEPS, accepted, few_steps, incomplete, other
from nsyswrap.compare.comparison import ComparabilityIssue, IssueKind
from nsyswrap.compare.step_times import WAITS_FOR_CORE
from nsyswrap.gate.decision import judge, withheld
from nsyswrap.gate.timed_runs import Gate, GateOptions, TimedRun, parts_of_accounts
from nsyswrap.rules import capture
from nsyswrap.runs.run import RunRow, SeriesRun

INCOMPLETE = capture.INCOMPLETE.key
"""The rule of a report whose capture lost events."""
SAMPLED = ("machine", "cpu_time_ns")
"""Section and label of the fact that says whether waits for a CPU core were sampled."""
# As many of a run's id as `history list` shows, and of its commit.
_ID_DIGITS, _COMMIT_DIGITS = 10, 8


class KnownOfRuns(NamedTuple):
    """What the gate has to know of runs beside their series.

    Attributes:
        incomplete: Ids of the runs whose capture lost events.
        sampled_ns: CPU time that was sampled, by id; missing or 0 where waits for a core are unknown.
        elsewhere: Sentences about runs of the program that do not belong to the series.
    """

    incomplete: frozenset[str] = frozenset()
    sampled_ns: Mapping[str, float | None] = {}
    elsewhere: tuple[str, ...] = ()


def gate_runs(
    earlier: Sequence[SeriesRun],
    new: Sequence[SeriesRun],
    options: GateOptions | None = None,
    known: KnownOfRuns | None = None,
) -> Gate:
    """Return whether new runs are slower than the runs of a series.

    Args:
        earlier: The series, in order. A run with too few steps or an incomplete capture is left out, which a note says.
        new: The newest runs of the same program on the same machine, at least one.
        options: What the user wants to find.
        known: What else is known of the runs.
    """
    chosen, facts = options or GateOptions(), known or KnownOfRuns()
    usable = [one for one in earlier if one.row.step_count >= FEWEST_STEPS and one.row.run_id not in facts.incomplete]
    issues = [*_of_new(new, facts, chosen), *_others(usable, new)]
    before, now = (tuple(_timed(one, facts) for one in side) for side in (usable, new))
    if not all(one.row.has_steps for one in new):
        return withheld(before, now, chosen, issues)
    left_out, reasons = len(earlier) - len(usable), list(facts.elsewhere)
    if left_out:
        runs = units.counted(left_out, "earlier run does", "earlier runs do")
        reasons.insert(0, f"{runs} not count: fewer than {FEWEST_STEPS} measured steps, or an incomplete capture.")
    return judge(before, now, chosen, issues, reasons)


def _timed(one: SeriesRun, known: KnownOfRuns) -> TimedRun:
    row = one.row
    return TimedRun(
        name=run_name(row),
        mean_ns=row.mean_ns or 0.0,
        median_ns=row.median_ns or 0.0,
        parts=parts_of_accounts(one.accounts),
        commit=row.commit and row.commit + ("+changes" if row.is_dirty else ""),
        waiting_ns=_waiting(one, known),
    )


def run_name(row: RunRow) -> str:
    """Return the name of a run in texts: the first digits of its id and of its commit."""
    commit = row.commit[:_COMMIT_DIGITS]
    return f"{row.run_id[:_ID_DIGITS]} at {commit}" if commit else row.run_id[:_ID_DIGITS]


def _waiting(one: SeriesRun, known: KnownOfRuns) -> float | None:
    """Return ns a step that the loop waits for a CPU core; None where it was not sampled, or without a GPU."""
    if not known.sampled_ns.get(one.row.run_id) or not one.row.gpu_count or not one.row.has_steps:
        return None
    idle = (each.step_ns for each in one.accounts if each.kind == "idle" and each.rule == WAITS_FOR_CORE)
    return sum(each for each in idle if each is not None)


def _of_new(new: Sequence[SeriesRun], known: KnownOfRuns, options: GateOptions) -> list[ComparabilityIssue]:
    """Return what keeps new runs from being compared."""
    found = []
    if len({one.row.run_id for one in new}) < len(new):
        words = "One capture is given twice as a new run."
        found.append(ComparabilityIssue(IssueKind.SAME, words, blocks=True, hint="give each run once"))
    for one in new:
        found += few_steps(run_name(one.row), one.row.step_count)
        found += [incomplete(run_name(one.row))] if one.row.run_id in known.incomplete else []
    return accepted(found, options.accept)


def _others(earlier: Sequence[SeriesRun], new: Sequence[SeriesRun]) -> Iterator[ComparabilityIssue]:
    """Yield what differs between the last earlier run and the newest one: machine, GPUs, versions, arguments."""
    if earlier and new:
        for kind, words in differences(earlier[-1].row, new[-1].row):
            yield ComparabilityIssue(kind, words, blocks=False)


def differences(before: RunRow, after: RunRow) -> Iterator[tuple[IssueKind, str]]:
    """Yield what differs between two runs, each with a sentence: ``Other torch: 2.11 against 2.10.``, after first."""
    for label, name, kind in _COMPARED:
        values = getattr(after, name), getattr(before, name)
        if values[0] != values[1] and (kind is not IssueKind.MACHINE or all(values)):
            yield kind, other(label, *map(str, values))


_COMPARED = (
    ("machine", "host", IssueKind.MACHINE),
    ("GPU", "gpu", IssueKind.GPU),
    ("torch", "torch", IssueKind.VERSIONS),
    ("driver", "driver", IssueKind.VERSIONS),
    ("CUDA", "cuda", IssueKind.VERSIONS),
    ("nsys", "nsys", IssueKind.VERSIONS),
    ("arguments", "arguments", IssueKind.COMMAND),
)
