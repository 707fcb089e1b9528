"""Findings as the page prints them: a ranked list, each with its place in the page and in the timeline."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from nsyswrap import units
from nsyswrap.model import Finding, Report
from nsyswrap.render import summary_model
from nsyswrap.render.escape import shorten, visible
from nsyswrap.render.page_tables import Span

_ANCHOR_WIDTH = 60
_LINE_WIDTH = 200
_MOST_SPANS = 20


class Line(NamedTuple):
    """One line of evidence; ``whole`` where the text is cut, ``span`` where it names a gap of the capture."""

    text: str
    whole: str
    span: Span | None


class FindingView(NamedTuple):
    """A finding as it is printed; the same matter on further GPUs is one line each.

    Attributes:
        anchor: What follows the # of a link to it: ``finding-idle-input-wait``.
        severity: "problem", "warning" or "note".
        rule: Key of the rule.
        headline: What is the matter.
        where: Which GPU, or the whole capture.
        cost: What it costs; empty where it costs no time.
        cost_share: The same as a share of its window.
        bar: The same as the width of a bar, in per cent; empty where it has none.
        gain: What mending it gains; empty where it is not about time.
        also: Place and words of the same matter elsewhere.
        advice: The change to make.
        evidence: What it rests on.
        section: Anchor and title of the section it comes from; None where the page has none.
    """

    anchor: str
    severity: str
    rule: str
    headline: str
    where: str
    cost: str
    cost_share: str
    bar: str
    gain: str
    also: tuple[tuple[str, str], ...]
    advice: str
    evidence: tuple[Line, ...]
    section: tuple[str, str] | None


def findings(report: Report) -> tuple[FindingView, ...]:
    """Return the findings in the order of the report."""
    groups = summary_model.finding_groups(report)
    anchors = _anchors([group[0].rule for group in groups])
    return tuple(_finding(report, group, anchor) for group, anchor in zip(groups, anchors, strict=True))


def anchor(rule: str) -> str:
    """Return the anchor of a finding, the same in every report: ``idle/data_wait`` is ``finding-idle-input-wait``."""
    slug = re.sub(r"[^a-z0-9]+", "-", rule.lower()).strip("-")
    return f"finding-{slug[:_ANCHOR_WIDTH] or 'other'}"


def _anchors(rules: Sequence[str]) -> Iterator[str]:
    """Yield an anchor each; the second finding of one rule is ``...-2``."""
    seen: dict[str, int] = {}
    for rule in rules:
        found = anchor(rule)
        seen[found] = seen.get(found, 0) + 1
        yield found if seen[found] == 1 else f"{found}-{seen[found]}"


def _finding(report: Report, group: tuple[Finding, ...], name: str) -> FindingView:
    first = group[0]
    share = first.lost_ns / first.window.length_ns
    return FindingView(
        anchor=name,
        severity=first.severity.value,
        rule=visible(first.rule),
        headline=visible(first.headline),
        where=summary_model.place(first),
        cost=units.duration(first.lost_ns) if first.lost_ns > 0 else "",
        cost_share=visible(summary_model.finding_share(first)),
        bar=f"{100 * share:.2f}" if 0 < share <= 1 else "",
        gain=units.gain(first.saving_low_ns, first.saving_high_ns) if first.lost_ns > 0 or first.saving_high_ns else "",
        also=tuple((summary_model.place(one), visible(summary_model.cost_and_gain(one))) for one in group[1:]),
        advice=visible(first.advice),
        evidence=tuple(line for one in group for line in _lines(report, one, alone=len(group) == 1)),
        section=_section(report, first.rule),
    )


def _lines(report: Report, finding: Finding, *, alone: bool) -> Iterator[Line]:
    spans = _spans(report, finding)
    for line in finding.evidence:
        shown = line if alone else f"{summary_model.place(finding)}: {line}"
        span = next((one for point, one in spans.items() if f" at {point}:" in line), None)
        brief = shorten(shown, _LINE_WIDTH)
        whole = visible(shown)
        yield Line(brief, "" if brief == whole else whole, span)


def _spans(report: Report, finding: Finding) -> dict[str, Span]:
    """Return the longest gaps that a finding about a cause speaks of, by the point in time that names each."""
    section, cause = report.section("idle"), finding.rule.removeprefix("idle/")
    if section is None or cause == finding.rule or "gaps" not in section.tables:
        return {}
    table = section.tables["gaps"]
    mine = table[(table["cause"] == cause) & (table["device_id"] == finding.device_id)]
    longest = mine.loc[_longest(mine)]
    pairs = zip(longest["start_ns"].tolist(), longest["end_ns"].tolist(), strict=True)
    return {units.point(start): Span(start, end) for start, end in pairs}


def _longest(gaps: pd.DataFrame) -> pd.Index:
    return (gaps["end_ns"] - gaps["start_ns"]).nlargest(_MOST_SPANS).index


def _section(report: Report, rule: str) -> tuple[str, str] | None:
    key = rule.partition("/")[0]
    section = report.section(key)
    if section is None:
        return None
    return ("ledger", "the ledger") if key in ("ledger", "idle") else (f"section-{key}", visible(section.title))
