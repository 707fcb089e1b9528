"""The page of each case: its committed report.json with the verdict and the page of today, at most 60 kB.

A report.json has no events, so its numbers and findings stay those of the day on which it was written. What follows
from them alone is made again, in the report.json and in the page: the order of findings and the verdict.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gallery_results import GALLERY, REPORT, Result, written

from nsyswrap.model import Report
from nsyswrap.render import html_writer, report_document
from nsyswrap.render.json_reader import parse_report
from nsyswrap.sections import program
from nsyswrap.verdict import find_verdict, in_order

SLIM = "page.html"
CAPTURE = "capture.nsys-rep"


def judge_again(found: list[Result], folder: Path = GALLERY) -> list[Result]:
    """Write each report.json again with the order of findings and the verdict of today; return the results with them.

    A report that is of today already keeps its bytes.
    """
    judged_results = [replace(result, report=of_today(result.report)) for result in found]
    for before, after in zip(found, judged_results, strict=True):
        if before.report != after.report:
            (folder / after.case.name / REPORT).write_text(written(after.report), encoding="utf-8")
    return judged_results


def of_today(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report.json with the order of findings and the verdict that follow from it today."""
    today = judged(parse_report(json.dumps(report), REPORT))
    place = {(each.rule, each.device_id): at for at, each in enumerate(today.findings)}
    findings = sorted(report["findings"], key=lambda each: place[each["rule"], each["device_id"]])
    return {**report, "verdict": today.verdict, "verdict_rule": today.verdict_rule, "findings": findings}


def write_pages(found: list[Result], folder: Path = GALLERY) -> None:
    """Write the page of each case beside its report.json."""
    for result in found:
        text = json.dumps(result.report)
        (folder / result.case.name / SLIM).write_text(slim_page(result.case.name, text, folder), encoding="utf-8")


def slim_page(case: str, text: str, folder: Path = GALLERY) -> str:
    document = report_document.document(judged(parse_report(text, REPORT)))
    return html_writer.write(replace(document, page_title=case, closing=" ".join(_closing(folder / case))), form="slim")


def judged(report: Report) -> Report:
    """Return a report with what the rules of today make of its numbers, and a note on what is older."""
    if report.section(program.SECTION.key) is None:
        # The plan of an older report is about the steps as recorded, so all of its page is.
        report = replace(report, step=replace(report.step, alone=None, alone_source=None))
    findings = in_order(report.sections, report.findings, report.plan)
    verdict, rule = find_verdict(
        report.sections, findings, report.window, report.step, report.program_kind, report.plan
    )
    notes = (*report.notes, _history(report))
    return replace(report, findings=findings, verdict=verdict, verdict_rule=rule, notes=notes)


def _history(report: Report) -> str:
    """Return what is of the day of the capture, and what of today."""
    day, nsys = report.session.started_utc[:10], report.session.nsys_version
    return (
        f"Captured on {day} with nsys {nsys}. Numbers and findings are those that nsyswrap found then; the order of "
        "the findings, the verdict and this page are of today's rules."
    )


def _closing(folder: Path) -> Iterator[str]:
    """Yield how to get more than the page has."""
    yield f"This is the short form of {REPORT}, which is cut to its first rows."
    if (folder / CAPTURE).exists():
        yield f"The capture is beside it: nsyswrap report {CAPTURE} writes the whole page, with the timeline."
