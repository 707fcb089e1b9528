"""The plan as all outputs show it: the step now, the step after each change, and what limits the run then."""

from typing import NamedTuple

from nsyswrap import units
from nsyswrap.model import PlannedChange, Report
from nsyswrap.render import page_findings
from nsyswrap.verdict import IF_FIXED

TITLE = "Plan"
NOW = "now"


class PlanRow(NamedTuple):
    """One row of the plan.

    Attributes:
        label: What is different, such as "with a fused optimizer"; "now" in the first row.
        time: The time of a step, such as "2.46 ms to 2.61 ms".
        low: Its lower bound as a share of the step now, in per cent.
        high: Its upper bound, in per cent.
        anchor: Anchor of the first finding that the change fixes; empty where there is none.
    """

    label: str
    time: str
    low: str
    high: str
    anchor: str


class PlanView(NamedTuple):
    """The plan.

    Attributes:
        measure: Which time of a step it shows.
        rows: The step now, then the step after each change; empty where there is no plan.
        notes: What limits the run after the changes, or why there is no plan.
    """

    measure: str
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...]


def plan(report: Report) -> PlanView:
    """Return the plan of a report."""
    found = report.plan
    if found.step_ns is None or not found.changes:
        return PlanView("", (), found.notes)
    now = PlanRow(NOW, units.duration(found.step_ns), "100.00", "100.00", "")
    rows = tuple(_row(report, found.step_ns, each) for each in found.changes)
    return PlanView(
        f"{'mean' if found.is_mean else 'median'} step, each change with those before it", (now, *rows), found.notes
    )


def _row(report: Report, now_ns: int, change: PlannedChange) -> PlanRow:
    rules = {finding.rule for finding in report.findings}
    low, high = (f"{100 * bound / max(now_ns, 1):.2f}" for bound in (change.step_low_ns, change.step_high_ns))
    return PlanRow(
        label=IF_FIXED.get(change.rule, "if fixed"),
        time=interval(change.step_low_ns, change.step_high_ns),
        low=low,
        high=high,
        anchor=page_findings.anchor(change.rule) if change.rule in rules else "",
    )


def interval(low_ns: int, high_ns: int) -> str:
    """Return two times as an interval; one time where both have the same text."""
    low, high = units.duration(low_ns), units.duration(high_ns)
    return low if low == high else f"{low} to {high}"
