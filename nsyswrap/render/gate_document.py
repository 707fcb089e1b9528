"""The result of the gate: its verdict, the step times, what takes longer, and the runs."""

import math
from collections.abc import Sequence

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree, list_of, record_of
from nsyswrap.gate.timed_runs import Gate, GateOutcome, Measure, TimedRun, noise_words
from nsyswrap.render.document import Column, Document, DocumentSection, Hero, Lines, Table, Tone, shown
from nsyswrap.render.issues import ISSUES, issue_entries
from nsyswrap.render.measured_hero import MeasuredTime, hero

SCHEMA = "nsyswrap.gate/2"
MARKER = "<!-- nsyswrap gate -->"
"""The first line of the Markdown: a job finds its earlier comment by it."""
_MOST_RUNS = 40
_TONES: dict[GateOutcome, Tone] = {
    GateOutcome.PASSES: "good",
    GateOutcome.REGRESSED: "bad",
    GateOutcome.CANNOT_TELL: "unsure",
}


def document(gate: Gate) -> Document:
    """Return the result as a document."""
    count = f"{units.counted(len(gate.new), 'new run')} against {len(gate.earlier)}"
    hint = (f"What helps: {gate.hint}.",) if gate.hint else ()
    return Document(
        command="gate",
        title=count,
        outcome=gate.outcome.value,
        tone=_TONES[gate.outcome],
        verdict=gate.verdict,
        marker=MARKER,
        lead=(*_hero(gate.measures[:1]), Lines(hint), issue_entries(gate.issues), Lines(gate.notes, "notes")),
        sections=(
            DocumentSection("step-time", "Step time", "", (_measures(gate.measures),)),
            DocumentSection("longer", "What takes longer", "", (_blame(gate),)),
            DocumentSection("runs", "Runs", count, (_runs(gate),) if gate.measures else ()),
        ),
    )


def _hero(measures: Sequence[Measure]) -> tuple[Hero, ...]:
    """Return the step of the earlier and of the new runs on one scale, by the first measure."""
    sure = f"measured, {measures[0].label}" if measures else ""
    times = (time for each in measures for time in (("earlier runs", each.earlier_ns), ("new runs", each.new_ns)))
    return hero(*(MeasuredTime(*each) for each in times), sure=sure)


def _measures(measures: Sequence[Measure]) -> Table:
    return Table(
        "step-time",
        "Step time",
        (
            Column("label", "measure", "text", [one.label for one in measures]),
            Column("earlier_ns", "earlier", "ns", [one.earlier_ns for one in measures]),
            Column("new_ns", "new", "ns", [one.new_ns for one in measures]),
            shown("change", "change", "share", [one.change for one in measures], units.change),
            shown("noise", "noise", "share", [one.limit for one in measures], noise_words),
            Column("result", "result", "text", [one.outcome.value for one in measures]),
        ),
    )


def _blame(gate: Gate) -> Table:
    return Table(
        "longer",
        "What takes longer",
        (
            Column("part", "part of a step", "text", [one.words for one in gate.blame]),
            shown("delta_ns", "a step", "ns", [one.delta_ns for one in gate.blame], _difference),
            shown("step_share", "of a step", "share", [one.share for one in gate.blame], units.change),
        ),
    )


def _difference(ns: float) -> str:
    return units.difference(ns, "ns")


def _runs(gate: Gate) -> Table:
    """Return the new runs and the last earlier ones."""
    runs = [*((run, "earlier") for run in gate.earlier[-_MOST_RUNS:]), *((run, "new") for run in gate.new)]
    left = len(gate.earlier) - _MOST_RUNS
    return Table(
        "runs",
        "Runs",
        (
            Column("run", "run", "text", [run.name for run, _ in runs]),
            Column("commit", "commit", "text", [run.commit[:10] for run, _ in runs]),
            Column("side", "side", "text", [side for _, side in runs]),
            Column("mean_ns", "time per step", "ns", [run.mean_ns for run, _ in runs]),
        ),
        most={"text": 0, "markdown": len(runs)},
        cut=f"{left} more earlier runs" if left > 0 else "",
        folded=frozenset({"markdown"}),
        of_programs=True,
    )


def tree(gate: Gate) -> Tree:
    """Return the result as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "outcome": gate.outcome.value,
        "verdict": gate.verdict,
        "hint": gate.hint,
        "more_runs": gate.more_runs,
        "find_share": gate.options.find,
        "false_alarms_share": gate.options.false_alarms,
        "accepted": sorted(one.value for one in gate.options.accept),
        "step_time": [
            {
                "label": one.label,
                "earlier_ns": one.earlier_ns,
                "new_ns": one.new_ns,
                "change_share": one.change,
                "noise_share": one.limit if math.isfinite(one.limit) else None,
                "outcome": one.outcome.value,
            }
            for one in gate.measures
        ],
        "blame": [{"part": one.words, "delta_ns": one.delta_ns, "step_share": one.share} for one in gate.blame],
        "notes": list(gate.notes),
        "issues": ISSUES.write(gate.issues),
        "earlier": _RUNS.write(gate.earlier),
        "new": _RUNS.write(gate.new),
    }


_RUNS = list_of(record_of(TimedRun, "name commit mean_ns median_ns"))
