"""The findings of a report as cards: those of the plan first, in its order, then what is left.

A card of the plan says what a step takes with its change and those before it; any other card, with its change alone.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path

import numpy as np

from nsyswrap.base import units
from nsyswrap.model import Finding, PlannedChange, Report
from nsyswrap.render import summary_model
from nsyswrap.render.document import Effect, Entry, Evidence, Span
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.step_scale import NO_ESTIMATE, UNKNOWN, StepScale, step_scale
from nsyswrap.render.vocabulary import rule_name
from nsyswrap.rules import code_changes, rule_of
from nsyswrap.rules.ranks import LATE

CHECK = "Check a change: profile it and compare it with this report:"
TRY = "Let nsyswrap make changes from outside, in turns, and measure what each brings:"
SHARE = "Share the capture without environment, host, user and home folder. This page names none of them."
NO_LINE = "Line not recorded. This records it:"
_ANCHOR_WIDTH = 60
_LINE_WIDTH = 200
_MOST_SPANS = 20
# GPUs of one finding that are listed. Ours.
_MOST_GPUS = 8
_MOST_EVIDENCE = 4
_MEASURED = {"measured": "Measured with nsyswrap try", "benchmarked": "Benchmarked on this GPU"}


def cards(report: Report) -> tuple[Entry, ...]:
    """Return the cards, in the order of the findings; a finding on several GPUs is one card."""
    groups, scale = summary_model.finding_groups(report), step_scale(report)
    anchors, planned = _anchors([group[0].rule for group in groups]), _planned(report, scale)
    found = []
    for group, name in zip(groups, anchors, strict=True):
        # Of several cards of one rule, the first has the change, which fixes all of them.
        change = planned.pop(group[0].rule, None)
        first = group[0]
        where = summary_model.place(first) if len(report.gpus) > 1 else ""
        effect = None if scale is None else _effect(report, scale, first, change)
        rest = len(group) - _MOST_GPUS
        listed = ((summary_model.place(one), _lost(report, scale, one)) for one in group[1:_MOST_GPUS])
        found.append(
            Entry(
                first.severity.value,
                note=where,
                headline=visible(first.headline),
                advice=visible(first.advice),
                severity=first.severity.value,
                evidence=tuple(
                    line for one in group[:_MOST_GPUS] for line in _evidence(report, one, alone=len(group) == 1)
                ),
                anchor=name,
                rule=visible(rule_name(first.rule)),
                effect=effect,
                cost=tuple(_cost(report, scale, first)),
                also=(*listed, *([(f"{rest} more GPUs", "in report.json")] if rest > 0 else [])),
                measured="" if scale is None or change is None else _measured(scale, first, effect),
                place=elide(summary_model.code_line(first), _LINE_WIDTH),
                code=code_changes(first.rule, first.advice, report.program_kind),
                span=next(iter(_gaps(report, first, 1)), None) or _longest_kernel(report, first),
                source=_source(report, first),
            )
        )
    return tuple(found)


def written(card: Entry) -> Entry:
    """Return a card for a text: its times in lines."""
    effect, numbers = card.effect, [f"{label} {value}" for label, value in card.cost]
    if effect is not None and effect.saving:
        of_range = f" ({effect.range.rpartition(' ')[0]})" if effect.range else ""
        numbers = [f"{effect.after}{of_range} {effect.label}; {effect.saving}, {effect.how}"]
    lines = (*(", ".join(numbers),), card.measured, *(f"{where}: {times}" for where, times in card.also), card.place)
    return card._replace(lines=tuple(filter(None, lines)), evidence=card.evidence[:_MOST_EVIDENCE])


def anchor(rule: str) -> str:
    """Return the anchor of a finding, the same in every report: ``idle/data_wait`` is ``finding-idle-data-wait``."""
    slug = re.sub(r"[^a-z0-9]+", "-", rule.lower()).strip("-")
    return f"finding-{slug[:_ANCHOR_WIDTH] or 'other'}"


def verdict_anchor(report: Report) -> str:
    """Return the anchor of the finding that the verdict states; empty where it states none."""
    rules = {finding.rule for finding in report.findings}
    return anchor(report.verdict_rule) if report.verdict_rule in rules and report.verdict_rule else ""


def check(report: Report) -> str:
    """Return the command that profiles the changed program and compares it with the plan."""
    return f"nsyswrap profile --then {_folder(report)} {_program(report)}"


def attempt(report: Report) -> str:
    """Return the command that makes changes from outside; empty for a program that is not one of PyTorch."""
    return f"nsyswrap try --run {_folder(report)} {_program(report)}" if report.program_kind.is_pytorch else ""


def share(report: Report) -> str:
    """Return the command that removes from the capture what must not be shared; empty for several captures."""
    path = _path(report)
    return f"nsyswrap redact {path} -o shared.sqlite" if path else ""


def page_command(report: Report) -> str:
    """Return the end of a sentence about the page: the command that writes it, or a point for several captures."""
    path = _path(report)
    return f": nsyswrap report {path}" if path else "."


def _path(report: Report) -> str:
    """Return the capture as a word of a command; empty for the captures of several ranks."""
    path = Path(report.capture.folder, report.capture.name)
    return visible(shlex.quote(str(path))) if path.suffix else ""


def _folder(report: Report) -> str:
    return visible(shlex.quote(report.capture.folder))


def line_command(report: Report) -> str:
    """Return the command that records lines of Python; empty where they were recorded, or there are none."""
    section = report.section("python_lines")
    known = (section is not None and bool(section.tables)) or any(each.lines for each in report.findings)
    return "" if known or not report.program_kind.may_be_python else _sampling(report)


def _sampling(report: Report) -> str:
    return f"nsyswrap profile --python-sampling {_program(report)}"


def _program(report: Report) -> str:
    return visible(f"-- {shlex.join(report.session.command)}" if report.session.command else "-- PROGRAM")


def _planned(report: Report, scale: StepScale | None) -> dict[str, tuple[int, PlannedChange]]:
    """Return each change of the plan by its rule, with the time of the step before it, in ns."""
    changes = report.plan.changes if scale else ()
    before = (scale.now_ns if scale else 0, *(each.step.point for each in changes))
    return {each.rule: (ns, each) for ns, each in zip(before, changes, strict=False)}


def _anchors(rules: Sequence[str]) -> Iterator[str]:
    """Yield an anchor for each rule; the second finding of one rule ends in ``-2``."""
    seen: dict[str, int] = {}
    for rule in rules:
        found = anchor(rule)
        seen[found] = seen.get(found, 0) + 1
        yield found if seen[found] == 1 else f"{found}-{seen[found]}"


def _effect(
    report: Report, scale: StepScale, finding: Finding, change: tuple[int, PlannedChange] | None
) -> Effect | None:
    """Return what the change does to a step; None where the finding is not about time."""
    label = report.program_kind.fitted(rule_of(finding.rule).fixed)
    if change is not None:
        before_ns, planned = change
        return scale.effect(before_ns, planned.step, label, planned.source)
    if finding.saving is None:
        return Effect(UNKNOWN, label, why=NO_ESTIMATE) if finding.lost_ns > 0 else None
    if finding.saving.high <= 0:
        return None
    return scale.effect(
        scale.now_ns, scale.now.after(finding.saving), label, f"{finding.saving_method or 'estimated'}, alone"
    )


def _measured(scale: StepScale, finding: Finding, shown: Effect | None) -> str:
    """Return what a finding of the plan saves by itself where that was measured, and is not what the card shows."""
    if finding.saving is None or finding.saving_method not in _MEASURED:
        return ""
    effect = scale.effect(scale.now_ns, scale.now.after(finding.saving), "", "")
    if shown is not None and (shown.after, shown.saving, shown.range) == (effect.after, effect.saving, effect.range):
        return ""
    words = ", ".join(filter(None, (f"{effect.after} a step", effect.saving, effect.range)))
    return f"{_MEASURED[finding.saving_method]}, alone: {words}."


def _cost(report: Report, scale: StepScale | None, finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the time lost, of a step where there are steps, and the saving where there are none."""
    if lost := _lost(report, scale, finding):
        yield "time lost", lost
    if scale is None and finding.saving is not None and finding.saving.high > 0:
        yield "predicted saving", units.saving(finding.saving)


def _lost(report: Report, scale: StepScale | None, finding: Finding) -> str:
    """Return the time lost with its share; empty where none is lost."""
    share = finding.lost_ns / finding.window.length_ns
    if share <= 0:
        return ""
    time = units.duration(finding.lost_ns)
    if scale is not None and share <= 1:
        time = f"{scale.text(share * scale.now_ns)} a step"
    return ", ".join(filter(None, (time, _share(report, finding))))


def _share(report: Report, finding: Finding) -> str:
    """Return the time lost as a share of its window; the heading of the breakdown names its own."""
    share, ledger = visible(summary_model.finding_share(finding)), report.section("ledger")
    window = report.window if ledger is None else ledger.window
    return share.removesuffix(f" of {visible(summary_model.short(window))}")


def _evidence(report: Report, finding: Finding, *, alone: bool) -> Iterator[Evidence]:
    spans = _spans(report, finding)
    for line in finding.evidence:
        if line in finding.lines[:1] and alone:  # beside the advice
            continue
        shown = line if alone else f"{summary_model.place(finding)}: {line}"
        yield Evidence(visible(shown), next((one for point, one in spans.items() if f" at {point}:" in line), None))


def _spans(report: Report, finding: Finding) -> Mapping[str, Span]:
    """Return the longest gaps that belong to a finding, by the point in time that its evidence names."""
    if not any(" at " in line for line in finding.evidence):
        return {}
    return {units.point(span.start_ns): span for span in _gaps(report, finding, _MOST_SPANS)}


def _gaps(report: Report, finding: Finding, most: int) -> tuple[Span, ...]:
    """Return the longest gaps that belong to a finding."""
    gaps = report.rows("idle", "gaps")
    if gaps is None:
        return ()
    mine = gaps[(gaps["rule"] == finding.rule) & (gaps["device_id"] == finding.device_id)]
    longest = mine.loc[(mine["end_ns"] - mine["start_ns"]).nlargest(most).index]
    return tuple(starmap(Span, zip(longest["start_ns"].tolist(), longest["end_ns"].tolist(), strict=True)))


def _longest_kernel(report: Report, finding: Finding) -> Span | None:
    """Return the longest kernel on the timeline that the evidence of a finding names."""
    data = report.timeline
    if data is None:
        return None
    names = [at for at, each in enumerate(data.kernels) if any(each.name in line for line in finding.evidence)]
    found = None
    for row in data.rows if names else ():
        if row.kind != "stream" or finding.device_id not in {None, row.device_id} or "name" not in row.items.details:
            continue
        mine = np.flatnonzero(np.isin(row.items.details["name"], names))
        if len(mine):
            at = mine[np.argmax((row.items.end - row.items.start)[mine])]
            span = Span(int(row.items.start[at]), int(row.items.end[at]))
            found = max(filter(None, (found, span)), key=lambda each: each.end_ns - each.start_ns)
    return found


def _source(report: Report, finding: Finding) -> tuple[str, str]:
    """Return anchor and title of the part of the page that holds a finding's numbers; empty for none."""
    ranks = report.section("ranks")
    if finding.rule == LATE.key and ranks is not None and ranks.tables:
        return ("ranks", visible(ranks.title))
    section = next((one for one in report.sections if finding in one.findings), None)
    section = section or report.section(finding.rule.partition("/")[0])
    if section is None:
        return ("", "")
    if section.key in ("ledger", "idle"):
        return ("ledger", "GPU time breakdown")
    return (f"section-{section.key}", visible(section.title))
