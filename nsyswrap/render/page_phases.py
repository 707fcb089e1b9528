"""Phases by ledger: what the GPUs did with the operations of each phase, and why they were idle while it was open."""

from typing import NamedTuple

from nsyswrap import units
from nsyswrap.model import Report
from nsyswrap.render import charts, summary_model
from nsyswrap.render.escape import elide, visible

_MOST_CAUSES = 2
_NAME_WIDTH = 40
_COLUMNS = frozenset({"phase", "host_ns", "gpu_ns", "idle_ns", "count", "kernel_count"})


class PhaseBar(NamedTuple):
    """One phase.

    Attributes:
        name: The phase.
        busy: Place and width of its busy part, per cent of the longest phase.
        idle: The same of its idle part, which follows.
        numbers: Text and raw value of count, host time, GPU busy, idle and kernels.
        causes: Why the GPUs were idle, dearest first.
    """

    name: str
    busy: charts.Segment
    idle: charts.Segment
    numbers: tuple[tuple[str, int], ...]
    causes: str


def phases(report: Report) -> tuple[PhaseBar, ...]:
    """Return the phases in the order of the section; nothing where its table has not the columns it should."""
    rows = [row for row in summary_model.rows(report.section("phases"), "phases") if row.keys() >= _COLUMNS]
    most = max((row["gpu_ns"] + row["idle_ns"] for row in rows), default=0) or 1
    causes = _causes(report)
    return tuple(_bar(row, most, causes.get(str(row["phase"]), [])) for row in rows)


def _bar(row: summary_model.Row, most: int, causes: list[tuple[str, int]]) -> PhaseBar:
    busy, idle = int(row["gpu_ns"]), int(row["idle_ns"])
    first, second, _ = charts.bar([busy, idle, most - busy - idle])
    times = [(units.duration(row[name]), int(row[name])) for name in ("host_ns", "gpu_ns", "idle_ns")]
    counts = [(units.count(int(row[name])), int(row[name])) for name in ("count", "kernel_count")]
    shown = [f"{visible(cause)} {units.duration(ns)}" for cause, ns in causes[:_MOST_CAUSES]]
    more = [f"{len(causes) - _MOST_CAUSES} more"] if len(causes) > _MOST_CAUSES else []
    return PhaseBar(
        elide(str(row["phase"]), _NAME_WIDTH), first, second, (counts[0], *times, counts[1]), ", ".join(shown + more)
    )


def _causes(report: Report) -> dict[str, list[tuple[str, int]]]:
    """Return the causes of idle time of each phase with their ns over all GPUs, dearest first."""
    found: dict[str, dict[str, int]] = {}
    for row in summary_model.rows(report.section("idle"), "causes"):
        mine = found.setdefault(str(row["phase"]), {})
        mine[str(row["cause"])] = mine.get(str(row["cause"]), 0) + int(row["idle_ns"])
    return {phase: sorted(mine.items(), key=lambda pair: (-pair[1], pair[0])) for phase, mine in found.items()}
