"""The table of phases: GPU busy and idle time of each phase, and why the GPUs were idle in it."""

from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, summary_model
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.vocabulary import rule_name

_MOST_RULES = 2
_NAME_WIDTH = 40
_COLUMNS = frozenset({"phase", "host_ns", "gpu_ns", "idle_ns", "count", "kernel_count"})


class PhaseBar(NamedTuple):
    """One phase.

    Attributes:
        phase: The phase.
        name: The same, cut, and whether it is inferred.
        busy: Position and width of its busy part, in per cent of all phases together.
        idle: The same for its idle part, which follows.
        numbers: Text and raw value of count, CPU time, GPU busy time, idle time and kernels.
        reasons: Why the GPUs were idle, largest first.
    """

    phase: str
    name: str
    busy: charts.Segment
    idle: charts.Segment
    numbers: tuple[tuple[str, int], ...]
    reasons: str


def phases(report: Report) -> tuple[PhaseBar, ...]:
    """Return the phases in the order of the section; empty where its table lacks a column."""
    rows = [row for row in summary_model.rows(report.section("phases"), "phases") if row.keys() >= _COLUMNS]
    whole = int(sum(row["gpu_ns"] + row["idle_ns"] for row in rows)) or 1
    reasons = _reasons(report)
    return tuple(_bar(row, whole, reasons.get(str(row["phase"]), [])) for row in rows)


def _bar(row: summary_model.Row, whole: int, reasons: list[tuple[str, int]]) -> PhaseBar:
    busy, idle = int(row["gpu_ns"]), int(row["idle_ns"])
    first, second, _ = charts.bar([busy, idle, whole - busy - idle])
    times = [(units.duration(row[name]), int(row[name])) for name in ("host_ns", "gpu_ns", "idle_ns")]
    counts = [(units.count(int(row[name])), int(row[name])) for name in ("count", "kernel_count")]
    shown = [f"{visible(rule_name(rule))} {units.duration(ns)}" for rule, ns in reasons[:_MOST_RULES]]
    more = [f"{len(reasons) - _MOST_RULES} more"] if len(reasons) > _MOST_RULES else []
    name = f"{row['phase']} (inferred)" if row.get("inferred") else str(row["phase"])
    numbers = (counts[0], *times, counts[1])
    phase = visible(str(row["phase"]))
    return PhaseBar(phase, elide(name, _NAME_WIDTH), first, second, numbers, ", ".join(shown + more))


def _reasons(report: Report) -> dict[str, list[tuple[str, int]]]:
    """Return the rules that the idle time of each phase belongs to, with their ns over all GPUs, largest first."""
    found: dict[str, dict[str, int]] = {}
    for one in summary_model.idle_by_phase(report):
        mine = found.setdefault(one.phase, {})
        mine[one.rule] = mine.get(one.rule, 0) + one.ns
    return {phase: sorted(mine.items(), key=lambda pair: (-pair[1], pair[0])) for phase, mine in found.items()}
