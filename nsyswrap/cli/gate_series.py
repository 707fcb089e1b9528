"""Finds the runs of the history that a gate compares: those of a range of commits or of one, and the new ones."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.errors import UsageError
from nsyswrap.capture.git_history import commits_in
from nsyswrap.cli.recording import history_of, recorded_run
from nsyswrap.gate.noise import FEWEST
from nsyswrap.gate.recorded import INCOMPLETE, SAMPLED, KnownOfRuns, differences, gate_runs
from nsyswrap.gate.timed_runs import Gate, GateOptions
from nsyswrap.runs.history import History
from nsyswrap.runs.run import Program, SeriesRun, in_series

# Earlier runs that are read: change points in more take longer than a second. Ours.
MOST_EARLIER = 200
_LISTED = 4
HEAD = "HEAD"


class SeriesQuery(NamedTuple):
    """What the user asks the history for.

    Attributes:
        revisions: A range of commits, or one commit by any name that git knows.
        program: The program, with or without its arguments; empty for that of the new runs.
        url: The address of the history; None for the default one.
        series: The name that the runs were added with; empty for those of the same program, arguments and machine.
    """

    revisions: str
    program: str = ""
    url: str | None = None
    series: str = ""

    @property
    def is_range(self) -> bool:
        """Return whether it is a range, and not one commit."""
        return ".." in self.revisions

    @property
    def for_git(self) -> str:
        """Return the range for git; a commit is the range of itself without its parents."""
        return self.revisions if self.is_range else f"{self.revisions}^!"


def revisions_in(words: Sequence[Path]) -> str:
    """Return the commits that ``--against`` names; empty where it names paths.

    Raises:
        UsageError: It names both, or several ranges.
    """
    others = [str(word) for word in words if not word.exists()]
    if not others:
        return ""
    if len(words) == 1:
        return others[0]
    hint = "give paths of runs, or one range of commits such as main~10.."
    raise UsageError(f"there is no run at {others[0]}", hint=hint)


def gate_of_history(wanted: SeriesQuery, new: Sequence[Path], options: GateOptions) -> Gate:
    """Return the result of the gate for the runs of the history.

    Args:
        wanted: The earlier runs.
        new: Reports of the new runs; none for the runs of the checked-out commit.
        options: What the user wants to find.
    """
    try:
        commits_in(wanted.for_git, Path())
    except UsageError as error:  # the word may be a mistyped path
        hint = "give reports, folders written by profile, or commits that git knows, such as main~10.."
        raise UsageError(f"there is no run at {wanted.revisions}, and {error.message}", hint=hint) from error
    kept = history_of(wanted.url, create=False)
    now, known = _reported(new, wanted.series) if new else (_checked_out(kept, wanted), KnownOfRuns())
    identity = _one_program([one.row.identity for one in now], any_machine=bool(wanted.series))
    # Runs on an unknown machine are compared with those of all machines.
    program = identity._replace(host=identity.host or None)
    series = kept.series(program, wanted.for_git, limit=MOST_EARLIER)
    ids, states = {one.row.run_id for one in now}, {_state(one) for one in now}
    earlier = [one for one in series if one.row.run_id not in ids and not (wanted.is_range and _state(one) in states)]
    rows = [one.row for one in (*earlier, *now)]
    incomplete = known.incomplete | kept.with_finding(rows, INCOMPLETE)
    elsewhere = _elsewhere(kept, wanted, now, series) if len(earlier) < FEWEST else ()
    whole = KnownOfRuns(incomplete, {**kept.values(rows, *SAMPLED), **known.sampled_ns}, elsewhere)
    return gate_runs(earlier, now, options, whole)


def _elsewhere(
    kept: History, wanted: SeriesQuery, now: Sequence[SeriesRun], series: Sequence[SeriesRun]
) -> tuple[str, ...]:
    """Return sentences about runs of the same program that are not compared: how many, and in what they differ."""
    known = {one.row.run_id for one in (*series, *now)}
    program = Program(now[-1].row.program)
    every = [row for row in kept.runs(program) if row.run_id not in known]
    inside = {one.row.run_id for one in kept.series(program, wanted.for_git, limit=MOST_EARLIER)}
    reasons: Counter[str] = Counter()
    for row in every:
        of_series = [words for kind, words in differences(row, now[-1].row) if kind is not kind.VERSIONS]
        outside = "" if row.run_id in inside else f"Their commit is not in {wanted.revisions}."
        reasons[of_series[0] if of_series else outside or "Other number of GPUs or ranks."] += 1
    return tuple(
        f"{units.counted(count, 'run')} of {program.program} {'does' if count == 1 else 'do'} not count. {words}"
        for words, count in reasons.most_common(_LISTED)
    )


def _state(one: SeriesRun) -> object:
    """Return the state of the program in a run; a run of an unknown commit has one of its own."""
    return (one.row.commit, one.row.is_dirty) if one.row.commit else one.row.run_id


def _reported(paths: Sequence[Path], series: str) -> tuple[list[SeriesRun], KnownOfRuns]:
    """Return the runs of reports, which need not be in the history, and what is known of them."""
    runs = [recorded_run(path, series) for path in paths]
    incomplete = frozenset(run.row.run_id for run in runs if any(each.rule == INCOMPLETE for each in run.findings))
    sampled = {run.row.run_id: fact.value for run in runs for fact in run.facts if fact[:2] == SAMPLED}
    return [in_series(run) for run in runs], KnownOfRuns(incomplete, sampled)


def _checked_out(kept: History, wanted: SeriesQuery) -> list[SeriesRun]:
    """Return the newest runs of the checked-out commit: those with changes, or those without."""
    found = kept.series(Program(wanted.series or wanted.program.partition(" ")[0]), f"{HEAD}^!", limit=MOST_EARLIER)
    of_program = [one for one in found if " " not in wanted.program or _words(one.row.identity) == wanted.program]
    if not of_program:
        name = wanted.series or wanted.program
        what = f" of {name}" if name else ""
        hint = (
            "run the program with 'nsyswrap profile --record', or give its reports: nsyswrap gate NEW --against RANGE"
        )
        raise UsageError(f"the history has no run{what} at the commit that is checked out", hint=hint)
    newest = max(of_program, key=lambda one: one.row.started_utc)
    return [one for one in of_program if one.row.is_dirty == newest.row.is_dirty]


def _one_program(programs: Sequence[Program], *, any_machine: bool) -> Program:
    """Return the one program that ran."""
    different = list(dict.fromkeys(one._replace(host="") if any_machine else one for one in programs))
    if len(different) == 1:
        return different[0]
    names = list(dict.fromkeys(map(_words, different)))
    if len(names) == 1:
        raise UsageError(
            f"the new runs of {names[0]} are of different GPUs, ranks or machines",
            hint="give the reports of one of them",
        )
    listed = "; ".join(names[:_LISTED]) + (f"; {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    raise UsageError(
        f"the new runs are of several programs: {listed}", hint=f"name one: --program {shlex.quote(names[0])}"
    )


def _words(program: Program) -> str:
    return f"{program.program} {program.arguments or ''}".strip()
