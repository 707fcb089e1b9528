"""The plan as all outputs show it: the step now, the step after each change, and what limits the run then.

The first changes say what to do: the advice, the line of Python where it was sampled, and the change as code.
"""

import shlex
from collections.abc import Iterable
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Finding, PlannedChange, Report
from nsyswrap.render import page_findings, summary_model
from nsyswrap.render.escape import elide, visible
from nsyswrap.rules import code_changes, rule_of
from nsyswrap.rules.code import CodeChange
from nsyswrap.what_if.fixed_step import is_known

TITLE = "Plan"
NOW, UNKNOWN = "now", "unknown"
# So many changes say what to do; the findings say it for the rest. Source: ours, so that the plan fits on a screen.
MOST_ACTIONS = 3
# Stands for the folder of the report in the command that checks the plan.
FOLDER = "FOLDER"
TRY = "Or let nsyswrap make such changes from outside, and measure what each brings:"
CHECK = f"Check the change: profile it and compare it with this plan. {FOLDER} is the folder of this report."
NO_LINES = "Where in your code: Python was not sampled. Profile with --python-sampling to see the line here."
_LINE_WIDTH = 200


class Action(NamedTuple):
    """What to do for one change of the plan.

    Attributes:
        advice: The change to make, in words.
        line: Where it is in the program, in words; empty if unknown.
        code: The change as code, for PyTorch and for other training loops; empty where no few lines make it.
    """

    advice: str
    line: str
    code: tuple[CodeChange, ...]


class PlanRow(NamedTuple):
    """One row of the plan.

    Attributes:
        label: What is different, such as "with a fused optimizer"; "now" in the first row.
        time: The time of a step, such as "2.46 to 2.61 ms"; "unknown" where the range says nothing.
        low: Its lower bound as a share of the step now, in per cent.
        high: Its upper bound, in per cent.
        anchor: Anchor of the first finding that the change fixes; empty where there is none.
        speed: Steps in the same time, such as "1.97 to 2.34 times as fast"; empty in the first row.
        saving: What a step then saves, such as "saves 2.79 to 3.26 ms"; empty in the first row.
        action: What to do; None in the first row, after the first changes, and where no finding tells.
    """

    label: str
    time: str
    low: str
    high: str
    anchor: str
    speed: str = ""
    saving: str = ""
    action: Action | None = None


class PlanView(NamedTuple):
    """The plan.

    Attributes:
        measure: Which time of a step it shows.
        rows: The step now, then the step after each change; empty where there is no plan.
        notes: What limits the run after the changes, or why there is no plan.
        check: The command that profiles the changed program and compares it with the plan; empty without a plan.
        lines: How to see lines of Python in the first change; empty where Python was sampled.
        check_words: What the command does.
        instead: What the first finding says to do, with its anchor, where there is no plan but a finding; else None.
        attempt: The command that makes changes from outside; empty without a plan, or for no program of PyTorch.
        attempt_words: What that command does.
        most_actions: So many rows are in sight.
    """

    measure: str
    rows: tuple[PlanRow, ...]
    notes: tuple[str, ...]
    check: str = ""
    lines: str = ""
    check_words: str = CHECK
    attempt: str = ""
    attempt_words: str = TRY
    instead: tuple[str, Action] | None = None
    most_actions: int = MOST_ACTIONS


def plan(report: Report) -> PlanView:
    """Return the plan of a report."""
    found = report.plan
    if found.step_ns is None or not found.changes:
        return PlanView("", (), found.notes, lines=_lines(report), instead=_instead(report))
    now = PlanRow(NOW, units.duration(found.step_ns), "100.00", "100.00", "")
    rows = tuple(
        _row(report, found.step_ns, each, with_action=number < MOST_ACTIONS)
        for number, each in enumerate(found.changes)
    )
    measure = "mean step; do these in order, each row includes those above"
    attempt = _command(report, f"try --run {FOLDER}") if report.program_kind.is_pytorch else ""
    check = _command(report, f"profile --then {FOLDER}")
    return PlanView(measure, (now, *rows), found.notes, check, _lines(report), attempt=attempt)


def _instead(report: Report) -> tuple[str, Action] | None:
    """Return the advice of the finding that the verdict names, for a report without a plan."""
    first = next((each for each in report.findings if each.rule == report.verdict_rule), None)
    return None if first is None else (page_findings.anchor(first.rule), _action(report, first))


def said_by(shown: PlanView, findings: Iterable[page_findings.FindingView]) -> dict[str, str]:
    """Return the label of the change of the plan that gives the advice of a finding, by the finding's anchor."""
    labels = {row.action.advice: row.label for row in reversed(shown.rows) if row.action is not None}
    return {each.anchor: labels[each.advice] for each in findings if each.advice in labels}


def _row(report: Report, now_ns: int, change: PlannedChange, *, with_action: bool) -> PlanRow:
    finding = next((each for each in report.findings if each.rule == change.rule), None)
    low, high = (f"{100 * bound / max(now_ns, 1):.2f}" for bound in change.step.ends)
    known = is_known(change.step)
    return PlanRow(
        label=report.program_kind.fitted(rule_of(change.rule).fixed),
        time=units.duration_range(*change.step.ends) if known else UNKNOWN,
        low=low,
        high=high,
        anchor=page_findings.anchor(change.rule) if finding else "",
        speed=_speed(now_ns, change) if known else "",
        saving=f"saves {units.duration_range(*change.saving(now_ns).ends)}" if known else "",
        action=_action(report, finding) if finding and with_action else None,
    )


def _action(report: Report, finding: Finding) -> Action:
    code = code_changes(finding.rule, finding.advice, report.program_kind)
    return Action(visible(finding.advice), elide(summary_model.code_line(finding), _LINE_WIDTH), code)


def _speed(now_ns: int, change: PlannedChange) -> str:
    """Return how many times as fast a step is with a change and those before it; empty where that is not known."""
    if change.step.low <= 0:
        return ""
    slow, fast = map(units.factor, change.step.map(lambda ns: now_ns / ns).ends)
    return f"{slow if slow == fast else f'{slow} to {fast}'} times as fast"


def _lines(report: Report) -> str:
    section = report.section("python_lines")
    is_known = (section is not None and bool(section.tables)) or any(each.lines for each in report.findings)
    return NO_LINES if report.program_kind.may_be_python and not is_known else ""


def _command(report: Report, words: str) -> str:
    """Return a command of nsyswrap for the program of a report."""
    command = report.session.command
    program = f"-- {shlex.join(command)}" if command else "-- PROGRAM"
    return visible(f"nsyswrap {words} {program}")
