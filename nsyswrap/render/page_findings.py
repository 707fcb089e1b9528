"""Findings as the page prints them: a ranked list, each with links to its section and to the timeline."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from nsyswrap.base import units
from nsyswrap.model import Finding, Report
from nsyswrap.render import summary_model
from nsyswrap.render.document import Span
from nsyswrap.render.escape import shorten, visible
from nsyswrap.render.vocabulary import rule_name
from nsyswrap.rules.ranks import LATE

_ANCHOR_WIDTH = 60
_LINE_WIDTH = 200
_MOST_SPANS = 20
# GPUs of one finding that are listed. Ours.
_MOST_GPUS = 8


class EvidenceLine(NamedTuple):
    """One line of evidence; ``whole`` is the full text where it is cut, ``span`` the gap that it names."""

    text: str
    whole: str
    span: Span | None


class FindingView(NamedTuple):
    """A finding as it is printed; the same finding on further GPUs takes one line each.

    Attributes:
        number: Its place among the findings, from 1.
        anchor: Its anchor on the page, such as ``finding-idle-data-wait``.
        severity: "problem", "warning" or "note".
        rule: Name of the rule.
        headline: The problem in one sentence.
        where: Which GPU, or the whole capture.
        lost: Time lost to it; empty where none is lost.
        lost_share: Time lost as a share of its window, which is named where it is not that of the breakdown.
        bar: Time lost as the width of a bar, in per cent; empty for no bar.
        saving: What fixing it saves; empty where it is not about time.
        step: The saving as the time of a step; None where there are no steps.
        also: Place and times of the same finding on other GPUs.
        advice: What to try.
        place: Module and line that launch its kernels; empty where that is not known.
        planned: The change of the plan that says the same; empty where none does.
        evidence: The numbers that support it.
        section: Anchor and title of the section it comes from; None where the page has none.
    """

    number: int
    anchor: str
    severity: str
    rule: str
    headline: str
    where: str
    lost: str
    lost_share: str
    bar: str
    saving: str
    step: summary_model.StepIfFixed | None
    also: tuple[tuple[str, str], ...]
    advice: str
    evidence: tuple[EvidenceLine, ...]
    section: tuple[str, str] | None
    place: str = ""
    planned: str = ""


def findings(report: Report) -> tuple[FindingView, ...]:
    """Return the findings in the order of the report."""
    groups = summary_model.finding_groups(report)
    anchors = _anchors([group[0].rule for group in groups])
    return tuple(
        _finding(report, group, number, anchor)
        for number, (group, anchor) in enumerate(zip(groups, anchors, strict=True), 1)
    )


def anchor(rule: str) -> str:
    """Return the anchor of a finding, the same in every report: ``idle/data_wait`` is ``finding-idle-data-wait``."""
    slug = re.sub(r"[^a-z0-9]+", "-", rule.lower()).strip("-")
    return f"finding-{slug[:_ANCHOR_WIDTH] or 'other'}"


def verdict_anchor(report: Report) -> str:
    """Return the anchor of the finding that the verdict states; empty where it states none."""
    rules = {finding.rule for finding in report.findings}
    return anchor(report.verdict_rule) if report.verdict_rule in rules and report.verdict_rule else ""


def _anchors(rules: Sequence[str]) -> Iterator[str]:
    """Yield an anchor for each rule; the second finding of one rule ends in ``-2``."""
    seen: dict[str, int] = {}
    for rule in rules:
        found = anchor(rule)
        seen[found] = seen.get(found, 0) + 1
        yield found if seen[found] == 1 else f"{found}-{seen[found]}"


def _finding(report: Report, group: tuple[Finding, ...], number: int, name: str) -> FindingView:
    first = group[0]
    share = first.lost_ns / first.window.length_ns
    return FindingView(
        number=number,
        anchor=name,
        severity=first.severity.value,
        rule=visible(rule_name(first.rule)),
        headline=visible(first.headline),
        where=summary_model.place(first),
        lost=units.duration(first.lost_ns) if first.lost_ns > 0 else "",
        lost_share=_lost_share(report, first),
        bar=f"{100 * share:.2f}" if 0 < share <= 1 else "",
        saving=summary_model.predicted_saving(first),
        step=summary_model.step_if_fixed(report, first),
        also=_also(report, group),
        advice=visible(first.advice),
        evidence=tuple(line for one in group[:_MOST_GPUS] for line in _lines(report, one, alone=len(group) == 1)),
        section=_section(report, first),
        place=visible(summary_model.code_line(first)),
    )


def _lost_share(report: Report, finding: Finding) -> str:
    """Return the time lost as a share of its window; the heading of the findings names that of the breakdown."""
    share, ledger = visible(summary_model.finding_share(finding)), report.section("ledger")
    window = report.window if ledger is None else ledger.window
    return share.removesuffix(f" of {visible(summary_model.short(window))}")


def _also(report: Report, group: tuple[Finding, ...]) -> tuple[tuple[str, str], ...]:
    """Return time lost and saving on each further GPU; of many, the first few and their number."""
    rest = len(group) - _MOST_GPUS
    listed = (
        (summary_model.place(one), visible(summary_model.lost_and_saved(report, one))) for one in group[1:_MOST_GPUS]
    )
    return (*listed, *([(f"{rest} more GPUs", "in report.json")] if rest > 0 else []))


def _lines(report: Report, finding: Finding, *, alone: bool) -> Iterator[EvidenceLine]:
    spans = _spans(report, finding)
    for line in finding.evidence:
        if line in finding.lines[:1] and alone:  # beside the headline
            continue
        shown = line if alone else f"{summary_model.place(finding)}: {line}"
        span = next((one for point, one in spans.items() if f" at {point}:" in line), None)
        brief = shorten(shown, _LINE_WIDTH)
        whole = visible(shown)
        yield EvidenceLine(brief, "" if brief == whole else whole, span)


def _spans(report: Report, finding: Finding) -> dict[str, Span]:
    """Return the longest gaps that belong to a finding, by the point in time that its evidence names."""
    section = report.section("idle")
    names_points = any(" at " in line for line in finding.evidence)
    if not names_points or section is None or "gaps" not in section.tables or section.tables["gaps"].empty:
        return {}
    table = section.tables["gaps"]
    mine = table[(table["rule"] == finding.rule) & (table["device_id"] == finding.device_id)]
    longest = mine.loc[_longest(mine)]
    pairs = zip(longest["start_ns"].tolist(), longest["end_ns"].tolist(), strict=True)
    return {units.point(start): Span(start, end) for start, end in pairs}


def _longest(gaps: pd.DataFrame) -> pd.Index:
    return (gaps["end_ns"] - gaps["start_ns"]).nlargest(_MOST_SPANS).index


def _section(report: Report, finding: Finding) -> tuple[str, str] | None:
    """Return anchor and title of the part of the page that holds a finding's numbers."""
    ranks = report.section("ranks")
    if finding.rule == LATE.key and ranks is not None and ranks.tables:
        return ("ranks", visible(ranks.title))
    section = next((one for one in report.sections if finding in one.findings), None)
    section = section or report.section(finding.rule.partition("/")[0])
    if section is None:
        return None
    if section.key in ("ledger", "idle"):
        return ("ledger", "GPU time breakdown")
    return (f"section-{section.key}", visible(section.title))
