# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""The page of each case: its committed report.json with the verdict and the page of today, at most 60 kB.

A report.json has no events, so its numbers and findings stay those of the day on which it was written. What follows
from them alone is made again: the order of findings, the verdict, and the first change of a plan.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gallery_results import GALLERY, REPORT, Result

from nsyswrap.fixed_step import typical
from nsyswrap.model import NO_PLAN, Finding, Plan, PlannedChange, Report
from nsyswrap.render.html_report import render_slim
from nsyswrap.render.json_reader import parse_report
from nsyswrap.verdict import find_verdict

SLIM = "page.html"
CAPTURE = "capture.nsys-rep"
# Findings that the rule of today would not have made, by case. Today a change of layout counts only where a kernel
# makes one for a convolution, and not where it concatenates or belongs to a complex product.
WITHDRAWN = dict.fromkeys(
    ("bert-amp", "bert-amp-fused", "cifar-packed", "cifar-normalized-on-gpu"), "tensor_cores/layout"
)
PLAN_NOTE = "Made from the first finding alone: this report was written before reports had a plan."


def write_pages(found: list[Result], folder: Path = GALLERY) -> None:
    """Write the page of each case beside its report.json."""
    for result in found:
        text = json.dumps(result.report)
        (folder / result.case.name / SLIM).write_text(slim_page(result.case.name, text, folder), encoding="utf-8")


def slim_page(case: str, text: str, folder: Path = GALLERY) -> str:
    """Return the page of a case.

    Args:
        case: Its name, which is the title of the page.
        text: Its report.json.
        folder: The folder of the gallery.
    """
    report = judged(parse_report(text, REPORT), case)
    return render_slim(report, title=case, closing=" ".join(_closing(folder / case)))


def judged(report: Report, case: str) -> Report:
    """Return a report with what the rules of today make of its numbers, and notes on what is older."""
    withdrawn = WITHDRAWN.get(case)
    kept = (each for each in report.findings if each.rule != withdrawn)
    findings = tuple(sorted(kept, key=lambda finding: finding.order))
    verdict, rule = find_verdict(report.sections, findings, report.window, report.step)
    first = next((each for each in findings if each.rule == rule), None)
    return replace(
        report,
        findings=findings,
        verdict=verdict,
        verdict_rule=rule,
        plan=report.plan if report.plan.changes else _first_change(report, first),
        notes=(*report.notes, *_history(report, withdrawn)),
    )


def _first_change(report: Report, first: Finding | None) -> Plan:
    """Return the plan that follows from the first finding: the step with its saving."""
    now = typical(report.step, report.window, first.rule) if first else None
    if first is None or now is None or first.saving_low_ns is None or not first.saving_high_ns:
        return NO_PLAN
    change = PlannedChange(first.rule, now.after(first.saving_high_ns), now.after(first.saving_low_ns))
    return Plan(now.length_ns, now.is_mean, (change,), (PLAN_NOTE,))


def _history(report: Report, withdrawn: str | None) -> Iterator[str]:
    """Yield notes: what was found on the day of the capture, and what the rules of today add."""
    day, nsys = report.session.started_utc[:10], report.session.nsys_version
    yield (
        f"Captured on {day} with nsys {nsys}. Numbers and findings are those that nsyswrap found then; the order of "
        "the findings, the verdict and this page are of today's rules."
    )
    if withdrawn:
        yield "A note of that day on kernels that change the layout is left out: today's rule does not count them."


def _closing(folder: Path) -> Iterator[str]:
    """Yield how to get more than the page has."""
    yield f"This is the short form of {REPORT}, which is cut to its first rows."
    if (folder / CAPTURE).exists():
        yield f"The capture is beside it: nsyswrap report {CAPTURE} writes the whole page, with the timeline."
